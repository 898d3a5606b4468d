"""All that is recorded: which files there are, and of which commands."""

from __future__ import annotations

from golden.mistakes import MISTAKES
from golden.reads import NO_JSON, READS
from golden.requests import CHANGING, GATE, READING
from golden.verbs import VERBS
from wakeful.cli import COMMANDS

WORDS = [*READS.values(), *VERBS.values()]
EXPECTED = {
    *(f"{name}.txt" for name in READS),
    *(f"{name}.json" for name in READS if name not in NO_JSON),
    *(f"verbs/{name}.{form}" for name in VERBS for form in ("txt", "json")),
    *(f"http/{name}.json" for name in READING),
    *(f"http/changes/{name}.json" for name in CHANGING),
    *(f"http/gate/{name}.json" for name in GATE),
    *(f"mistakes/{command}.txt" for command in MISTAKES),
    *(f"help/{command}.txt" for command in COMMANDS),
    "help/overview.txt",
    "doctor/store.txt",
    "doctor/store.json",
}
