"""Once per business key: a later event with the same key joins the run that has it, instead of starting another.

The key's row is taken in the transaction that stores the event, so of any number of concurrent events, in any number of processes, one
begins a run. The key stays with that run until it expires, however the run ends: a person can replay the run, and the key exists to
prevent a second one.
"""

from __future__ import annotations

from collections.abc import Sequence

from wakeful.stores.lanes import Lane
from wakeful.stores.transaction import Transaction
from wakeful.stores.verbs.entry import Entry


def take_once(now: int | None, entries: Sequence[Entry]) -> Transaction[list[Entry]]:
    """The entries that begin a run. The others join the run of their key."""
    wanted: dict[Lane, list[Entry]] = {}
    for entry in entries:
        if entry.flow.once is not None:
            wanted.setdefault((entry.app, entry.agent, entry.flow.once), []).append(entry)
    if not wanted:
        return list(entries)
    # In the same order everywhere, so that two processes cannot deadlock.
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
    """The reason of a joined event: its run and that run's state at this moment, because the text is stored."""
    standing = {
        None: ", which is no longer stored",
        "dead": ", which is dead: replay that one",
        "denied": ", which was denied",
        "cancelled": ", which was cancelled: replay that one",
    }.get(state, "")
    return f'once: key "{entry.flow.once}" has run {run}{standing}'
