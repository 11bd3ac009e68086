"""The codec's kernel, when it was built: what docs/codec.md asks of a decoder, and a reader of JSON."""

from proto.otlp.kernel._kernel import NamedKeys, build_blocks, count_objects, decode, decode_json, to_protobuf

__all__ = ["NamedKeys", "build_blocks", "count_objects", "decode", "decode_json", "to_protobuf"]
