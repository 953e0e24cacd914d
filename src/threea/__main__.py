"""`python -m threea`, and the command `threea`: the command line, interrupted cleanly from its first moment on."""

from __future__ import annotations

import sys

from threea import interrupts


def main() -> None:
    """Load the command line, and run it."""
    with interrupts.noted() as interrupted:
        try:
            from threea import cli

            interrupts.check()
        except KeyboardInterrupt:
            sys.stderr.write("interrupted: nothing was done\n")
            sys.exit(interrupts.code_of(interrupted))
        cli.main()


if __name__ == "__main__":
    main()
