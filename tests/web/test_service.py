"""The service of the page: headers, caches, compression; without a database, and without the other services."""

import gzip
import re
from pathlib import Path

import pytest

from tests.chassis.conftest import Serve
from web.app import CONTENT_SECURITY_POLICY, WebHandlers
from web.assets import PageNotBuilt, load_assets

FIRST_ROUTE_BYTES = 60_000  # compressed
FIRST_ROUTE_MODULES = 12
WHOLE_PAGE_BYTES = 200_000


async def test_every_path_of_the_page_is_the_same_document(serve: Serve) -> None:
    served = await serve(WebHandlers(load_assets()).routes())
    status, headers, body = await served.get("/", allow_redirects=False)
    assert (status, headers["Location"]) == (302, "/ui/")
    status, headers, body = await served.get("/ui/")
    assert status == 200
    assert headers["Content-Security-Policy"] == CONTENT_SECURITY_POLICY
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cross-Origin-Opener-Policy"] == headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert headers["Cache-Control"] == "no-cache"
    for path in ("/ui/acme/shop/explore?q=x", "/ui/acme/shop/trace/0af7651916cd43dd8448eb211c80319c"):
        assert (await served.get(path))[2] == body
    for view in ("settings", "approvals"):  # of an organization that is called like the folder of the files
        assert (await served.get(f"/ui/assets/{view}"))[2] == body
    assert (await served.get("/ui/assets/none.js"))[0] == 404
    _, headers, end = await served.get("/sso/complete")
    assert (end, headers["Content-Security-Policy"]) == (body, CONTENT_SECURITY_POLICY)
    status, again, nothing = await served.get("/ui/", headers={"If-None-Match": headers["ETag"]})
    assert (status, nothing, again["ETag"]) == (304, b"", headers["ETag"])


async def test_files_are_kept_by_browsers_and_compressed(serve: Serve) -> None:
    served = await serve(WebHandlers(load_assets()).routes())
    _, _, document = await served.get("/ui/")
    named = re.findall(r'(?:src|href)="(/ui/assets/[^"]+)"', document.decode())
    assert len(named) > 3
    for path in named:
        status, headers, body = await served.get(path, headers={"Accept-Encoding": "identity"})
        assert (status, headers["Cache-Control"]) == (200, "public, max-age=31536000, immutable")
        if len(body) > 2_000:
            _, headers, compressed = await served.get(path, headers={"Accept-Encoding": "gzip"})
            assert headers["Content-Encoding"] == "gzip"
            assert gzip.decompress(compressed) == body
    for path in ("/ui/assets/none.js", "/ui/assets/..%2findex.html"):
        assert (await served.get(path))[0] == 404


def test_the_page_is_small() -> None:
    """The first route: the document, what it names, and what the overview imports, whole; nothing is asked twice."""
    assets = load_assets()
    sizes = {name: len(asset.compressed or asset.body) for name, asset in assets.files.items()}
    (overview,) = [name for name in sizes if name.startswith("overview-")]
    first = imported({name for name in sizes if name in assets.shell.body.decode()} | {overview})
    document = len(assets.shell.compressed or assets.shell.body)
    assert any(name.startswith("main-") for name in first)
    assert any(name.endswith(".css") for name in first)
    assert document + sum(sizes[name] for name in first) <= FIRST_ROUTE_BYTES
    assert len([name for name in first if name.endswith(".js")]) <= FIRST_ROUTE_MODULES
    assert document + sum(sizes.values()) <= WHOLE_PAGE_BYTES


def imported(names: set[str]) -> set[str]:
    """These files, and those that they import before they run: not those that they may load later."""
    found, left = set[str](), set(names)
    while left:
        name = left.pop()
        found.add(name)
        if name.endswith(".js"):
            source = load_assets().files[name].body.decode()
            left |= set(re.findall(r'(?:from|import)"\./([^"]+\.js)"', source)) - found
    return found


def test_nothing_in_the_document_is_script_or_style_of_its_own() -> None:
    document = load_assets().shell.body.decode()
    assert re.findall(r"<script(?![^>]* src=)", document) == []
    assert "<style" not in document
    assert not re.search(r'\bon\w+="|style="|https?://', document)


async def test_a_checkout_whose_page_was_not_built_says_so(serve: Serve, tmp_path: Path) -> None:
    with pytest.raises(PageNotBuilt):
        load_assets(tmp_path)
    served = await serve(WebHandlers(None).routes())
    status, _, body = await served.get("/ui/")
    assert status == 503
    assert b"make setup" in body
    assert (await served.get("/ui/assets/main.js"))[0] == 404
    assert (await served.get("/sso/complete"))[0] == 404  # control has a plain one
