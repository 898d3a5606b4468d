"""`python -m wakeful.demo --seconds 20`."""

from __future__ import annotations

import argparse
import math
import sys

from wakeful.demo import main


def positive(text: str) -> float:
    """A number of seconds from the command line."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return value


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="python -m wakeful.demo", description="See Wakeful at work, and a worker die."
    )
    parser.add_argument("--seconds", type=positive, help="end by itself after so many; without it Ctrl-C ends it")
    parser.add_argument("--keep", action="store_true", help="keep the temporary folder with the store and the logs")
    given = parser.parse_args()
    sys.exit(main(given.seconds, keep=given.keep))
