"""The kernel of the codec, if it was built: the decoder that docs/codec.md specifies, and a reader of OTLP/JSON."""

from proto.otlp.kernel._kernel import NamedKeys, build_blocks, count_objects, decode, decode_json, to_protobuf

__all__ = ["NamedKeys", "build_blocks", "count_objects", "decode", "decode_json", "to_protobuf"]
