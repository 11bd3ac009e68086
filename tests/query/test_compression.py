"""Large answers of explore are compressed for clients that accept it: the same bytes, made once for all of them."""

import asyncio
import gzip

import pytest

from chassis.http.compression import gzip_body
from tests.query.conftest import ONE_ENGINE, PATH, Explore, Loader, span


async def asked(explore: Explore, encoding: str, limit: int = 200) -> tuple[dict[str, str], bytes]:
    headers = {"Authorization": "Bearer mine", "Accept-Encoding": encoding}
    path = f"{PATH}/spans?limit={limit}"
    async with explore.client.get(path, headers=headers, auto_decompress=False) as answer:
        assert answer.status == 200
        return dict(answer.headers), await answer.read()


@ONE_ENGINE
async def test_clients_that_accept_gzip_get_the_same_bytes_compressed(
    loader: Loader, explore: Explore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await loader.spans(*(span(number) for number in range(1, 201)))
    compressed, compress = list[int](), gzip_body

    async def counted(body: bytes) -> bytes:
        compressed.append(len(body))
        return await compress(body)

    monkeypatch.setattr("query.send_buffer.gzip_body", counted)
    plain_headers, plain = await asked(explore, "identity")
    assert "Content-Encoding" not in plain_headers
    answers = await asyncio.gather(*(asked(explore, "gzip") for _ in range(5)))
    for headers, body in answers:
        assert (headers["Content-Encoding"], headers["Vary"]) == ("gzip", "Accept-Encoding")
        assert (headers["Content-Type"], headers["Cache-Control"]) == ("application/json", "no-store")
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert gzip.decompress(body) == plain
        assert len(body) < len(plain) / 5
    assert len(compressed) < len(answers), "equal requests at once share one answer"
    assert plain_headers["Vary"] == "Accept-Encoding"
    small, _ = await asked(explore, "gzip", limit=1)
    assert "Content-Encoding" not in small
