"""`sluice open`: the first owner gets into the page without a password."""

import json
from pathlib import Path
from urllib.parse import urlsplit

from tests.e2e.product import Service, call

from .conftest import refusal, sluice


def test_the_link_logs_in_as_an_owner_once(tmp_path: Path) -> None:
    service = Service("up", tmp_path / "data", tmp_path / "log", {"SLUICE_GRPC_PORT": ""})
    service.start()
    try:
        done = sluice("open", "--print", SLUICE_DATA=str(tmp_path / "data"))
        assert done.returncode == 0, done.stderr
        link = urlsplit(done.stdout.strip())
        assert (f"{link.scheme}://{link.netloc}", link.path) == (service.url, "/ui/")
        body = json.dumps({"code": link.fragment.removeprefix("code=")}).encode()
        headers = {"Content-Type": "application/json"}
        answers = [call("POST", f"{service.url}/auth/exchange", body, headers) for _ in range(2)]
        assert [answer.status for answer in answers] == [200, 401]
        token = answers[0].json()["tokens"]["accessToken"]
        me = call("GET", f"{service.url}/auth/whoami", None, {"Authorization": f"Bearer {token}"}).json()
        assert (me["role"], me["organization"]["slug"], me["passwordSet"]) == ("OWNER", "default", False)
        code = sluice("open", "--print", "--org", "other", SLUICE_DATA=str(tmp_path / "data"))
        assert refusal(code, 1) == "There is no organization other."
    finally:
        service.stop()
    gone = refusal(sluice("open", "--print", SLUICE_DATA=str(tmp_path / "data")), 1)
    assert gone.startswith(f"There is no page at {service.url}/ui/ (")
