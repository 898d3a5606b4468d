"""All columns that hold payloads, by table. Used to visit every payload: to find blobs that no row points to, or to re-encrypt.

The queries differ only in the names of tables and columns, so they are generated here and loaded together with those of the files.
"""

from __future__ import annotations

from dataclasses import dataclass

from wakeful.stores.binding import BINDINGS
from wakeful.stores.payloads import BLOB, VALUES


@dataclass(frozen=True, slots=True)
class Place:
    """A table with payloads. `walk` is the column to walk along; None: the table is small and is read in one query."""

    noun: str
    keys: tuple[str, ...]
    columns: tuple[str, ...]
    walk: str | None = "seq"

    @property
    def table(self) -> str:
        return f"wakeful_{self.noun}"


# References are searched in this order. A reference that is copied during the search goes from a run to a later run, or to a step of
# a run that waits for it, so the search finds the original or the copy.
PLACES = (
    Place("event", ("seq",), ("envelope", "reason", "content")),
    Place("run", ("seq",), ("output", "data", "state_change", "error", "reason", "cancel_note", "failed_with")),
    Place("step", ("run_seq", "key"), ("arguments", "result", "error"), walk="run_seq"),
    Place("effect", ("seq",), ("arguments", "executed", "result", "error", "reason", "note", "settlement")),
    Place("delivery", ("seq",), ("message", "error", "reason", "evidence")),
    Place("remedy", ("seq",), ("data", "error", "note")),
    Place("approval", ("seq",), ("question", "answer", "note", "arguments")),
    Place("vote", ("seq",), ("answer", "note")),
    Place("wait", ("run_seq", "key"), ("variables", "reason"), walk="run_seq"),
    Place("attempt", ("run_seq", "token"), ("error",), walk="run_seq"),
    Place("conflict", ("event_seq", "content"), ("envelope",), walk="event_seq"),
    Place("admission", ("event_seq", "agent"), ("reason",), walk="event_seq"),
    Place("decision", ("seq",), ("reason",)),
    Place("operation", ("seq",), ("detail",)),
    Place("state", ("app", "agent", "key"), ("value",), walk=None),
    Place("schedule", ("seq",), ("data",)),
    Place("occurrence", ("seq",), ("reason",)),
    Place("schedule_change", ("seq",), ("note",)),
    Place("quarantine", ("event_seq",), ("headers", "note"), walk="event_seq"),
    Place("source", ("app", "name"), ("error",), walk=None),
    Place("alarm", ("key",), ("text", "note", "ending"), walk=None),
    Place("circuit", ("app", "name"), ("error",), walk=None),
    Place("pause", ("app", "agent"), ("note",), walk=None),
    Place("halt", ("app", "agent", "action"), ("note",), walk=None),
    Place("grant", ("id",), ("note",), walk=None),
    Place("retired", ("app",), ("note",), walk=None),
)


COLUMNS = {place.noun: place.columns for place in PLACES}


def queries_of_places() -> str:
    """The generated queries, in the form of a .sql file."""
    return "\n".join(_queries(place) for place in PLACES)


def _queries(place: Place) -> str:
    named = f"{BINDINGS[place.noun].sql(place.table)}''"
    names = ", ".join((*place.keys, named, *place.columns))
    large = [column for column in place.columns if column in VALUES]
    points = " or ".join(f"substr({column}, 1, {len(BLOB)}) = '{BLOB}'" for column in large)
    window = "1 = 1" if place.walk is None else f"{place.walk} > :after and {place.walk} <= :upto"
    takes = "" if place.walk is None else "after, upto"
    key = " and ".join(f"{one} = :{one}" for one in place.keys)
    # Operations on the whole store have no app: they count as the app at work, taken from the newest event.
    app = f"coalesce({_app_of(place)}, (select app from wakeful_event order by seq desc limit 1))"
    made = [f"-- payloads_of_{place.noun}({takes}) raw --\nselect {names} from {place.table} where {window}"]
    if place.walk is not None:
        made.append(f"-- walk_of_{place.noun}() --\nselect min({place.walk}), max({place.walk}) from {place.table}")
    if large:
        made.append(
            f"-- references_of_{place.noun}({takes}) raw --\n"
            f"select {', '.join(large)} from {place.table} where {window} and ({points})"
        )
    made += [
        f"-- reseal_{place.noun}_{column}({', '.join(place.keys)}, old, new) raw --\n"
        f"update {place.table} set {column} = :new where {key} and {column} = :old"
        for column in place.columns
    ]
    made.append(f"-- app_of_{place.noun}({', '.join(place.keys)}) --\nselect {app} from {place.table} where {key}")
    return "\n\n".join(made) + "\n"


def _app_of(place: Place) -> str:
    """SQL for the app of a row: its own, or that of its run, event or schedule."""
    for owner in ("run", "event", "schedule"):
        if f"{owner}_seq" in (*place.keys, *BINDINGS[place.noun].parts) and "app" not in BINDINGS[place.noun].parts:
            return f"(select owner.app from wakeful_{owner} owner where owner.seq = {place.table}.{owner}_seq)"
    return f"{place.table}.app"
