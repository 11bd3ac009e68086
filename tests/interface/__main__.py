"""`python -m tests.interface`: the accepted interface anew from sluice/openapi.json, if nothing is gone or narrower.

`make interface` runs it, after it has made sluice/openapi.json.
"""

import sys

from sluice.interface import load_document
from tests import decisions
from tests.interface.accepted import FILE, Refused, read, renewed, written


def main() -> int:
    """Writes the copy, or says what stands against it."""
    try:
        accepted = renewed(read(), load_document(), decisions.allowances(decisions.read(), "Interface"))
    except Refused as refused:
        sys.stderr.write(f"{FILE.name} is not updated, because {refused}\n")
        return 1
    if accepted != read():  # in another order is not another interface
        FILE.write_bytes(written(accepted))
    return 0


if __name__ == "__main__":
    sys.exit(main())
