"""Source maps without the process that reads them."""

import pytest

from control.code.source_maps import parser_process


@pytest.fixture
def read_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Maps are read in this process: to start another one for each takes longer than the test."""

    async def run(raw: bytes) -> parser_process._Result:
        return parser_process._result(0, parser_process.read_upload(raw), b"")

    monkeypatch.setattr(parser_process, "_run", run)
