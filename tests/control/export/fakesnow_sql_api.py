"""Snowflake's SQL API over fakesnow: `python fakesnow_sql_api.py DIRECTORY`, with a Python that has fakesnow.

Prints the port. Statements run in DuckDB; the stage LAKE is the directory. One with a known request id is not run
again.

    POST /api/v2/statements    as docs.snowflake.com, "Snowflake SQL API reference"
    POST /rows                 the rows of a SELECT, for tests
"""

import json
import sys
import warnings
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import fakesnow  # type: ignore[import-not-found]  # it has an environment of its own
import snowflake.connector  # type: ignore[import-not-found]  # the same
from snowflake.connector.errors import ProgrammingError  # type: ignore[import-not-found]  # the same

warnings.simplefilter("ignore")
DONE: dict[str, tuple[int, dict[str, Any]]] = {}


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        url = urlsplit(self.path)
        if url.path == "/rows":
            return self.answer(200, [list(map(str, row)) for row in run(body)])
        (request_id,) = parse_qs(url.query)["requestId"]
        if request_id not in DONE:
            try:
                run(body["statement"])
                DONE[request_id] = 200, {"code": "090001", "statementHandle": request_id}
            except ProgrammingError as error:
                sys.stderr.write(f"{body['statement']}: {error}\n")
                DONE[request_id] = 422, {"code": f"{error.errno:06}", "message": str(error)}
        return self.answer(*DONE[request_id])

    def answer(self, status: int, body: object) -> None:
        encoded = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(encoded)))
        self.end_headers()
        self.wfile.write(encoded)

    def log_message(self, *_: object) -> None:
        """Nothing."""


def run(statement: str) -> list[Any]:
    return list(connection.cursor().execute(statement).fetchall())


with fakesnow.patch():
    connection = snowflake.connector.connect(database="ANALYTICS", schema="SLUICE")
    run(f"CREATE STAGE lake URL = 'file://{sys.argv[1]}/'")
    server = HTTPServer(("127.0.0.1", 0), Handler)
    sys.stdout.write(f"{server.server_port}\n")
    sys.stdout.flush()
    server.serve_forever()
