"""Once per business key: a later event of an agent's key joins the run that has it, instead of starting another.

The row of the key is taken in the transaction that stores the event, so of any number of events at the same time, in any
number of processes, one begins a run. Whatever became of that run, the key stays with it until it expires: a person can
replay the run, and a second one by itself is what the key is there to prevent.
"""

from __future__ import annotations

from collections.abc import Sequence

from wakeful.stores.lanes import Lane
from wakeful.stores.transaction import Transaction
from wakeful.stores.verbs.entry import Entry


def take_once(now: int | None, entries: Sequence[Entry]) -> Transaction[list[Entry]]:
    """Those of these entries that begin a run. The others have joined the run of their key, and say so."""
    wanted: dict[Lane, list[Entry]] = {}
    for entry in entries:
        if entry.flow.once is not None:
            wanted.setdefault((entry.app, entry.agent, entry.flow.once), []).append(entry)
    if not wanted:
        return list(entries)
    # In one order for everybody, so that two processes never wait for each other in a circle.
    rows = [(now, *place, wanted[place][0].run, wanted[place][0].flow.once_for) for place in sorted(wanted)]
    taken = {(row[0], row[1], row[2]) for row in (yield "take_once", rows)}
    others = sorted(wanted.keys() - taken)
    holders = {(row[0], row[1], row[2]): (row[3], row[4]) for row in ((yield "find_once", others) if others else [])}
    for place, some in wanted.items():
        run, state = holders.get(place, (some[0].run, "ready"))
        for entry in some[1:] if place in taken else some:
            entry.become("joined", reason_of(entry, run, state), run)
    return [entry for entry in entries if entry.state != "joined"]


def reason_of(entry: Entry, run: str | None, state: str | None) -> str:
    """In words, whose run it is and how that one stands. The words are stored: they tell of the moment."""
    standing = {
        None: ", which is not stored any more",
        "dead": ", which is dead: replay that one",
        "denied": ", which was denied",
        "cancelled": ", which was cancelled: replay that one",
    }.get(state, "")
    return f'once: key "{entry.flow.once}" has run {run}{standing}'
