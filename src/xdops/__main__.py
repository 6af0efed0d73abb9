"""`python -m xdops` is `xdops`."""

import sys

from xdops.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
