"""The demonstration: an app at work on one SQLite file, a worker that is killed in mid-run, and a check that counts.

director (this process) ──events──► SQLite file ◄──claims, steps── worker (a child, killed with SIGKILL)
      │                                ▲    │                         │    │
      ├── reads what became of them ◄──│────┘                         │    └──► bank (a child): bank.log, its book
      ├── types what nobody else does ─┘                              └──► steps.log: each body writes a line
      └── compares the three: did a finished step run again, was anything paid twice?
"""

from __future__ import annotations


def main(seconds: float | None = None, *, keep: bool = False) -> int:
    """Run it for so many seconds, or until Ctrl-C; 0 if every promise held, 1 if one did not."""
    try:
        from wakeful.demo.director import direct  # the worker imports this package too, and needs none of that

        return direct(seconds, keep=keep)
    except KeyboardInterrupt:  # before or after the part that ends cleanly on it
        return 130
