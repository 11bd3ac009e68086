"""The codec's kernel, when it was built: `decode` and `assemble`, as proto/otlp/policy.py and docs/codec.md have them."""

from proto.otlp.kernel._kernel import assemble, decode

__all__ = ["assemble", "decode"]
