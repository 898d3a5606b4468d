"""Resources: everything that users see of a noun, one file each.

HTTP paths, the OpenAPI document, commands with their help, completion and the reference in docs are generated from the table
below. To add a noun:

1. `resources/NOUN.py`: a view (a TypedDict of typing_extensions; its fields are the columns of its query, in their order),
   `async def NOUNS(desk, *, …)` that reads it with `desk.reads.rows(View, "query", …)`, and `RESOURCE = Resource(…)`.
   Keyword-only parameters, `Annotated[…, Param(…)]`, are the filters of a listing and the fields of a verb.
2. A verb is an async function `verb(desk, one, *, …)` that asks `desk.store.do(Request(…, by=desk.by, note=desk.note))`.
   It raises `Refused` or `Ambiguous`, or returns None if the item does not exist.
3. Its name here, in `NOUNS`, and its line of help in `cli/__init__.py` (`COMMANDS`), with `TABLE` as its module.
4. Its requests in `stores/verbs/`, with their places in `stores/verbs/table.py`; its queries in `stores/sql/`. CONTRIBUTING.md lists
   all files.
5. `make reference` writes `docs/reference/resources.md` anew; `tests/surface` walks the table.

Not in these files: SQL, Starlette, argparse, rich, transactions, loops over many things (`operations/`).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wakeful.resources.declare import Alias, Resource

# The command of each noun, which is mostly its plural and its path too, and the module in this package that declares it.
NOUNS: dict[str, str] = {
    "alarms": "alarms",
    "approvals": "approvals",
    "apps": "apps",
    "reminders": "reminders",
    "expectations": "expectations",
    "circuits": "circuits",
    "decisions": "decisions",
    "deliveries": "deliveries",
    "effects": "effects",
    "events": "events",
    "grants": "grants",
    "halts": "halts",
    "locks": "locks",
    "pauses": "pauses",
    "people": "people",
    "policy": "policies",
    "quarantine": "quarantine",
    "review": "review",
    "runs": "runs",
    "dead": "dead",
    "schedules": "schedules",
    "sources": "sources",
    "state": "states",
    "heartbeat": "checks",
}
# Commands that are verbs of a noun, and the module that declares them as `ALIASES`.
ALIAS_HOMES: dict[str, str] = {
    "backfill": "schedules",
    "pause": "pauses",
    "resume": "pauses",
    "halt": "halts",
    "cancel": "runs",
    "release": "runs",
    "return": "runs",
    "fork": "runs",
    "replay": "runs",
}


def resource_of(command: str) -> Resource:
    """The resource of this command, imported on first use."""
    found: Resource = import_module(f"wakeful.resources.{NOUNS[command]}").RESOURCE
    return found


def all_resources() -> list[Resource]:
    return [resource_of(command) for command in NOUNS]


def alias_of(command: str) -> Alias | None:
    """The alias behind a command; None if the command is not an alias."""
    home = ALIAS_HOMES.get(command)
    if home is None:
        return None
    found: Alias = import_module(f"wakeful.resources.{home}").ALIASES[command]
    return found
