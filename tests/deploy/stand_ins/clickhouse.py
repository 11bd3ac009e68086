"""ClickHouse's HTTP interface over the embedded engine, in a container: users, passwords and profiles are those of the
file that compose.yaml mounts. Grants are not modelled, nor is the server's own configuration.
"""

import asyncio
import os
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Final

from tests.engine.__main__ import serve
from tests.engine.embedded import Embedded
from tests.engine.server import User

USERS: Final = Path("/etc/clickhouse-server/users.d/sluice.xml")
DATA: Final = Path("/var/lib/clickhouse")
PORT: Final = 8123
OF_A_SERVER: Final = frozenset({"constraints", "max_concurrent_queries_for_user"})  # the engine has one user


def users() -> dict[str, User]:
    """By name."""
    root = ET.parse(USERS).getroot()  # noqa: S314 - ours
    found: dict[str, User] = {}
    for user in root.find("users") or ():
        password = user.find("password")
        if password is None:  # removed
            continue
        profile = root.find(f"profiles/{user.findtext('profile')}")
        settings = {each.tag: each.text or "" for each in (() if profile is None else profile)}
        kept = {name: value for name, value in settings.items() if name not in OF_A_SERVER}
        found[user.tag] = User(os.environ[password.attrib["from_env"]], kept)
    return found


def main() -> None:
    """Serve until SIGTERM."""
    engine = Embedded(DATA / "engine")
    try:
        asyncio.run(serve(engine, users(), PORT, 10.0, host="0.0.0.0"))  # noqa: S104 - of the container
    finally:
        engine.close()


if __name__ == "__main__":
    main()
