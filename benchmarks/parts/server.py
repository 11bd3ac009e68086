"""`sluice`, which counts the parts of its tables twice a second: `python -m benchmarks.parts.server up ...`."""

import sys

from gateway.inserts import store_state
from sluice.main import main

store_state.PARTS_CHECK_S = 0.5  # type: ignore[misc]  # a constant of the product, which looks twice a minute

if __name__ == "__main__":
    sys.exit(main())
