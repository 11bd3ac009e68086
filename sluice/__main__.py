"""`python -m sluice`: runs the `sluice` command."""

import sys

from sluice.main import main

if __name__ == "__main__":
    sys.exit(main())
