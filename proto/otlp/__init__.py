"""The OTLP codec: pure functions from export requests to ClickHouse insert blocks (docs/codec.md).

`codec.decode` decodes a protobuf request into columns under a `policy.Policy`, and accepts each item or rejects the
item for one reason. `codec.decode_json` does the same for OTLP/JSON: the kernel converts a request to protobuf, and
`json.to_protobuf` converts the parts that the kernel does not read. `codec.build_blocks` builds the insert blocks of a
batch of decoded requests. `responses` builds the response to the client. The decoder is `kernel` if the kernel was
built, otherwise `reference`.
"""
