"""The path of a span goes down through the parts of the gateway, and never climbs back up."""

from tests.test_house import folder_imports

PATH = ("app", "http", "grpc", "export", "admission", "ingest", "inserts", "journal")


def test_each_part_imports_only_what_comes_later_on_the_path() -> None:
    imports = folder_imports("gateway")["gateway"]
    assert set(PATH) - {"journal"} <= imports.keys(), "a part was renamed"
    assert [
        (part, earlier) for at, part in enumerate(PATH) for earlier in PATH[:at] if earlier in imports.get(part, ())
    ] == []
