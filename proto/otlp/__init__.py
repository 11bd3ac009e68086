"""The OTLP codec: pure functions from export requests to ClickHouse insert blocks (docs/codec.md).

`codec.decode` decodes a protobuf request into columns under a `policy.Policy`, and accepts each item or rejects it for
one reason. `codec.decode_json` does the same for OTLP/JSON: the kernel converts it to protobuf, and `json.to_protobuf`
converts what the kernel does not read. `codec.build_blocks` builds the insert blocks of a batch of decoded requests.
`responses` builds the response to the client. The decoder is `kernel` if it was built, otherwise `reference`.
"""
