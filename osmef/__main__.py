"""The ``osmef`` command, also as ``python -m osmef``."""

import atexit
import gc
import os
import signal
import sys

# Most of what a command makes while it loads stays: looking for garbage there takes a tenth of a
# short run's time.
_OBJECTS_BETWEEN_LOOKS = 200_000

_NO_DOCSTRINGS = (
    "note: Python runs with -OO (PYTHONOPTIMIZE=2), which is not supported: help and lists have no"
    " descriptions\n"
)


def _interrupt(number: int, _frame: object) -> None:
    """Raise what Ctrl-C raises, so that no command leaves a draft behind."""
    raise KeyboardInterrupt(signal.Signals(number).name)


def main() -> None:
    """Run the command line; Ctrl-C during the imports exits without a traceback."""
    gc.set_threshold(_OBJECTS_BETWEEN_LOOKS)
    atexit.register(gc.freeze)  # nor is it worth a look when all goes
    try:
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) == signal.SIG_DFL:  # nohup(1) ignores one
                signal.signal(number, _interrupt)
        from osmef.cli.streams import set_up_streams  # noqa: PLC0415 - here it can be interrupted

        set_up_streams()  # before a file is opened, or something said
        if sys.flags.optimize > 1 and "_OSMEF_COMPLETE" not in os.environ:
            sys.stderr.write(_NO_DOCSTRINGS)
        from osmef.cli.main import load  # noqa: PLC0415 - the same

        run = load(sys.argv[1:])
    except KeyboardInterrupt:
        # As Interrupted.exit_code. At once: Python's own exit can turn it into a death by signal.
        os._exit(4)
    try:
        run()
    finally:
        # Forgets an interrupt that went through exec(), which dataclasses use: for that one Python
        # would end ``python -m`` by SIGINT, whatever the exit code.
        exec("")  # noqa: S102 - nothing


if __name__ == "__main__":
    main()
