"""The kinds of channels: `build_..._request` converts a message into the platform's format, `interpret_..._reply` the
response into a result. `webhooks` has the kinds whose response is its status.

Both are pure: values and bytes in, values and bytes out. Texts are truncated to the platform's limits and escaped for
it, so that nothing that people typed becomes a link, a mention or a header. Only `transports.send` and `email.send` use
the network.
"""
