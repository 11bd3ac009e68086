"""What `sluice send` makes of the answers to its exports."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]

from chassis.errors import StartupError
from sluice.sample_export import SPANS, send

Reply = tuple[int, dict[str, str], bytes]
TAKEN: Reply = (200, {}, b"")
LIMIT = Status(code=8, message="The project key is over its rate.").SerializeToString()


@contextmanager
def answering(*replies: Reply) -> Iterator[str]:
    """Answers exports of spans with these, the last for ever, and takes every log record; the URL."""
    left = list(replies)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            spans = self.path == "/v1/traces"
            status, headers, body = (left.pop(0) if len(left) > 1 else left[0]) if spans else TAKEN
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_arguments: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("status", [429, 503])
def test_an_export_that_the_sdk_retries_successfully_counts_as_sent(status: int) -> None:
    with answering((status, {"Retry-After": "1"}, b""), TAKEN) as url:
        assert send(url, "key").spans == SPANS


@pytest.mark.parametrize(
    ("reply", "sentence"),
    [
        (
            (429, {"Retry-After": "60"}, LIMIT),
            "429, The project key is over its rate. Try again in 60 s. `sluice limits` shows and sets quota and rates.",
        ),
        (
            (429, {"Retry-After": "300"}, b"slow down"),
            "429, Too Many Requests. Try again in 5 min. `sluice limits` shows and sets quota and rates.",
        ),
        ((401, {}, b""), "Failed to export spans batch code: 401, reason: Unauthorized"),
    ],
    ids=["rate", "somebody else's", "key"],
)
def test_the_rejection_reason_is_reported(reply: Reply, sentence: str) -> None:
    with answering(reply) as url, pytest.raises(StartupError) as caught:
        send(url, "key")
    assert str(caught.value).startswith(f"{url} did not accept the export: {sentence}")
