"""`python -m wakeful.demo --seconds 20`."""

from __future__ import annotations

import argparse
import math
import sys
from contextlib import suppress

from wakeful.demo import main


def positive(text: str) -> float:
    with suppress(ValueError):
        if 0 < (value := float(text)) < math.inf:
            return value
    raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")


if __name__ == "__main__":
    parser = argparse.ArgumentParser("python -m wakeful.demo", description="See Wakeful at work, and a worker die.")
    parser.add_argument("--seconds", type=positive, help="end by itself after so many; without it Ctrl-C ends it")
    parser.add_argument("--keep", action="store_true", help="keep the temporary folder with the store and the logs")
    sys.exit(main(**vars(parser.parse_args())))
