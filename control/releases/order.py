from collections.abc import Collection


class ReleaseOrder:
    def __init__(self, at=None):
        self.at = at or {}

    def is_later(self, a: str, b: str) -> bool | None:
        x, y = self.at.get(a), self.at.get(b)
        return None if x is None or y is None else x > y


async def load_order(connection, project_id: int, versions: Collection[str]) -> ReleaseOrder:
    return ReleaseOrder()
