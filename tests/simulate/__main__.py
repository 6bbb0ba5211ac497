"""``python -m tests.simulate step ratio --draws 10000``: print tables of docs/methods.md."""

from __future__ import annotations

import argparse
import sys

import numpy as np

from osmef.analysis import change_points
from tests.simulate.tables import TABLES


def main(arguments: list[str]) -> None:
    """Print a row for each case of the tables: how many of the draws came out so, in percent."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulate", description=__doc__)
    parser.add_argument("tables", nargs="*", metavar="TABLE", help=", ".join(TABLES))
    parser.add_argument("--draws", type=int, default=10_000)
    given = parser.parse_args(arguments)
    change_points._ORDERS = change_points._FIRST_ORDERS  # as good at 5 %, and ten times as fast
    for name in given.tables or TABLES:
        tell(f"\n{name}: {(TABLES[name].__doc__ or '').strip()} Draws: {given.draws}\n")
        for number, (case, came_out) in enumerate(TABLES[name]()):
            chance = np.random.default_rng((20261123, number))
            many = getattr(came_out, "many", None)
            rate = np.mean(
                [came_out(chance) for _ in range(given.draws)]
                if many is None
                else many(chance, given.draws)
            )
            tell(f"| {case} | {100 * rate:.1f} |")


def tell(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
