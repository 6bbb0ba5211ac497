"""The ``osmef`` command, also as ``python -m osmef``."""

import os
import sys


def main() -> None:
    """Run the command line. Ctrl-C while it loads has nothing to clean up, and no traceback."""
    try:
        from osmef.cli.streams import set_up_streams  # noqa: PLC0415 - here it can be interrupted

        set_up_streams()  # before a file is opened, or something said
        from osmef.cli.main import load  # noqa: PLC0415 - the same

        run = load(sys.argv[1:])
    except KeyboardInterrupt:
        # As Interrupted.exit_code. At once: Python's own exit can turn it into a death by signal.
        os._exit(4)
    run()


if __name__ == "__main__":
    main()
