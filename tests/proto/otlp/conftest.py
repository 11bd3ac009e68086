"""Both decoders under one name: a rule of docs/codec.md holds for each."""

import importlib
from collections.abc import Sequence
from typing import Any

import pytest

from proto.otlp.policy import Block, DecodedPayload, Policy, Signal
from tests.proto.otlp.generate import NOW_NS
from tests.proto.otlp.native_rows import rows


class Decoder:
    """A decoder, with what tests ask of it most."""

    def __init__(self, name: str) -> None:
        self.module = importlib.import_module(f"proto.otlp.{name}")

    def decode(
        self, signal: Signal, body: bytes, policy: Policy | None = None, *, project_id: int = 7, now_ns: int = NOW_NS
    ) -> DecodedPayload:
        decoded: DecodedPayload = self.module.decode(signal, body, project_id, policy or Policy(), now_ns)
        return decoded

    def assemble(self, decoded: Sequence[DecodedPayload], batch_id: int = 1) -> list[Block]:
        blocks: list[Block] = self.module.build_blocks(decoded, batch_id)
        return blocks

    def rows(self, table: str, *decoded: DecodedPayload) -> list[dict[str, Any]]:
        return rows(self.assemble(decoded), table)


@pytest.fixture(params=["reference", "kernel"])
def decoder(request: pytest.FixtureRequest) -> Decoder:
    return Decoder(request.param)
