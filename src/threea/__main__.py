"""`python -m threea`, and the command `threea`: the command line, interrupted cleanly from its first moment on."""

from __future__ import annotations

import sys


def main() -> None:
    """Load the command line, and run it."""
    try:
        from threea import cli
    except KeyboardInterrupt:
        sys.stderr.write("interrupted: nothing was done\n")
        sys.exit(130)
    cli.main()


if __name__ == "__main__":
    main()
