from collections.abc import Mapping
from datetime import datetime


async def note_seen(connection, org_id: str, project_id: int, seen: Mapping[str, datetime], now: datetime) -> list[str]:
    return []


async def settle_next_release(connection, project_id, versions, now):
    return None


async def find_latest_version(connection, project_id):
    return None
