"""OTLP in, ClickHouse columns out: pure functions between bytes and values (docs/codec.md).

A request in JSON becomes protobuf (`json.to_protobuf`); `codec.decode` makes columns of it under a `policy.Policy`,
each item accepted or rejected for one reason; `codec.build_blocks` makes insert blocks of a batch of such requests.
`responses` says what the client is told. The decoder is the `kernel` where it was built, else the `reference`.
"""
