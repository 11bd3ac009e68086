"""The codec's kernel, when it was built: `decode` and `assemble`, as docs/codec.md has them."""

from proto.otlp.kernel._kernel import assemble, decode

__all__ = ["assemble", "decode"]
