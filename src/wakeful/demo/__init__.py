"""The demonstration: an app on one SQLite file, a worker that is killed in mid-run, and a check of the result.

director (this process) ──events──► SQLite file ◄──claims, steps── worker (a child, killed with SIGKILL)
      │                                ▲    │                         │    │
      ├── reads the results ◄──────────│────┘                         │    └──► bank (a child): bank.log, its book
      ├── types the operator's commands┘                              └──► steps.log: each body writes a line
      └── compares the three: did a finished step run again, was anything paid twice?
"""

from __future__ import annotations


def main(seconds: float | None = None, *, keep: bool = False) -> int:
    """Run the demonstration for `seconds`, or until Ctrl-C. Returns 0 if every promise held, else 1."""
    try:
        from wakeful.demo.director import direct  # late: the worker imports this package too, and needs none of it

        return direct(seconds, keep=keep)
    except KeyboardInterrupt:  # before or after the part that handles it
        return 130
