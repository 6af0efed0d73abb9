"""`python -m xdops` is `xdops`."""

from xdops.cli.main import main

if __name__ == "__main__":
    main()
