"""The kinds of channels. `build_..._request` converts a message into the platform's format, and `interpret_..._reply`
converts the response into a result. `webhooks` has the kinds whose response is only a status.

These functions are pure: values and bytes in, values and bytes out. Texts are truncated to the platform's limits and
escaped for the platform, so that no text typed by a person becomes a link, a mention or a header. Only
`transports.send` and `email.send` use the network.
"""
