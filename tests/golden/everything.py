"""All that is recorded: which files there are, and of which commands."""

from __future__ import annotations

from golden.reads import NO_JSON, READS

WORDS = [*READS.values()]
EXPECTED = {*(f"{name}.txt" for name in READS), *(f"{name}.json" for name in READS if name not in NO_JSON)}
