"""Connections of HTTP/1.1 on sockets of our own accepting: aiohttp's protocol, held for nothing by no client."""
