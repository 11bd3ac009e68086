"""One module per kind of channel: a message as its platform takes it (`request`), and what its answer means (`judge`).

Both are pure, bytes and values in, values out. Texts are cut to the limits of the platform and escaped for it, so that
nothing that people typed becomes a link, a mention or a header. `send` is the one place that meets the network.
"""
