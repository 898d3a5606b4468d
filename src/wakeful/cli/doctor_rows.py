"""The part of doctor that reads the rows of a store: clocks, processes, schedules, sources, deliveries, tokens, and what waits for a person."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING

from wakeful.cli.finding import Finding
from wakeful.clock import SECOND, readable
from wakeful.output.verdicts import LATE
from wakeful.resources import alarms, approvals, halts, older, pauses
from wakeful.resources import processes as known_processes
from wakeful.resources import sources as noun_of_sources
from wakeful.resources.desk import Desk
from wakeful.resources.quarantine_reading import page_of_inputs
from wakeful.shell.carrying import number
from wakeful.size import in_bytes
from wakeful.stores.guards import read_guards
from wakeful.stores.known import count_runs, retired_apps, waiting_channels, waiting_inputs

if TYPE_CHECKING:
    from wakeful.declarations import Declarations

TOLERATED_SKEW = 1 * SECOND
LATE_TO_FIRE = 60 * SECOND
MANY = 100  # approvals that are counted


async def clock(desk: Desk, *, local: bool) -> Finding:
    if local:
        return Finding("clock", "good", "this machine's own: a SQLite store has no other")
    before = time.time_ns() // 1000
    theirs = await desk.reads.time()
    ours = (before + time.time_ns() // 1000) // 2
    skew = abs(theirs - ours)
    if skew <= TOLERATED_SKEW:
        return Finding("clock", "good", f"ours and the database's agree within {readable(skew)}")
    way = "behind" if theirs > ours else "ahead of"
    text = f"ours is {readable(skew)} {way} the database's"
    return Finding("clock", "look", text, "leases and due times go by the database's clock; let NTP set both")


async def processes(desk: Desk) -> list[Finding]:
    listed = [one for one in await known_processes.processes(desk) if one["state"] == "alive"]
    alive = [one for one in listed if one["lease_left"] > 0]
    late = [one for one in listed if one["lease_left"] <= 0]
    found = []
    if alive:
        names = ", ".join(f"pid {one['pid']} on {one['host']} (lease {one['lease_left']:.0f} s)" for one in alive[:4])
        more = f" and {len(alive) - 4} more" if len(alive) > 4 else ""
        found.append(Finding("workers", "good", f"{len(alive)} alive: {names}{more}"))
    else:
        found.append(
            Finding("workers", "broken", "none alive", "start one with `wakeful serve APP` or `wakeful worker APP`")
        )
    if late:
        text = f"{len(late)} ended without a word; their runs wait to be taken back"
        found.append(Finding("leases", "look", text, "any worker that starts takes them back"))
    return found


async def schedules(desk: Desk) -> list[Finding]:
    """The schedules, and whether a live worker can fire them."""
    found = []
    present = await desk.reads.time()
    for app, count, due in await desk.reads.fetch("live_schedules"):
        behind = due is not None and present - due > LATE_TO_FIRE
        when = "none is due any more"
        if due is not None:
            when = (
                f"the first has been due for {readable(present - due)}"
                if behind
                else f"the next in {readable(due - present)}"
                if due > present
                else "the next is due now"
            )
        found.append(
            Finding(
                "schedules",
                "look" if behind else "good",
                f"{number(count, 'schedule')} of app {app}, {when}",
                "is a worker alive that has its agent? `wakeful schedules` lists them" if behind else None,
            )
        )
    return found


async def sources(desk: Desk) -> list[Finding]:
    """The sources of events, and whether they can be read."""
    found: list[Finding] = []
    retired = await retired_apps(desk.reads)
    listed = [one for one in await noun_of_sources.sources(desk) if one["app"] not in retired]
    for one in listed:
        name = f"{one['kind']} {one['name']} of app {one['app']}"
        unread = "" if one["unread"] is None else f"; {one['unread']}"
        if one["state"] == "unserved":
            found.append(Finding("sources", "broken", f"{name}: {one['unread']}", "wakeful serve APP"))
        elif one["state"] == "failing":
            words = f"{name} fails: {one['reason']}{unread}"
            found.append(Finding("sources", "look", words, f"wakeful why {one['name']}"))
        elif one["unread"] is not None:
            found.append(Finding("sources", "look", f"{name}: {one['unread']}", f"wakeful sources {one['name']}"))
    if listed and not found:
        states = Counter(one["state"] for one in listed)
        words = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
        found.append(Finding("sources", "good", words))
    return found


async def outbox(desk: Desk) -> list[Finding]:
    """The deliveries that wait for channels, and for how long."""
    waiting, present = await waiting_channels(desk.reads), await desk.reads.time()
    if not waiting:
        return [Finding("outbox", "good", "nothing waits")]
    return [
        Finding(
            "outbox",
            "look" if present - one["oldest"] > LATE else "good",
            f"{number(one['count'], 'delivery')} for channel {one['channel']} of app {one['app']}, "
            f"the oldest for {readable(max(0, present - one['oldest']))}",
            f"wakeful deliveries --channel {one['channel']} --state pending"
            if present - one["oldest"] > LATE
            else None,
        )
        for one in waiting
    ]


async def guarded(desk: Desk, app: Declarations | None) -> list[Finding]:
    """The apps that a token guards, and a warning if this app asks for approvals without one."""
    from wakeful.operations.guarding import REMEDY, unguarded
    from wakeful.stores.guards import LOCK

    names = sorted({name for name, hashed in await read_guards(desk.reads) if hashed != LOCK})
    if names:
        words = f"{', '.join(names)}: commands that decide for people need WAKEFUL_TOKEN"
        found = [Finding("token", "good", words)]
    else:
        found = []
    danger = None if app is None or app.name in names else unguarded(app)
    return found if danger is None else [*found, Finding("token", "look", danger, REMEDY)]


async def people(desk: Desk) -> list[Finding]:
    """Runs, approvals, dead letters, inputs and alarms that wait for a person."""
    counts = await count_runs(desk.reads)
    dead = counts.get("dead", 0)
    # An open approval raises an alarm too, but nothing is wrong: it is counted below.
    listed = await alarms.alarms(desk, state="open")
    open_alarms = [one for one in listed if not one["key"].startswith("ask/")]
    summary = ", ".join(f"{count} {state}" for state, count in sorted(counts.items())) or "none yet"
    found = [Finding("runs", "good", summary)]
    held, dead_deliveries = counts.get("held", 0), (await desk.reads.fetch("count_dead_deliveries"))[0][0]
    if held:
        found.append(Finding("held", "look", f"{number(held, 'run')} held for a person", "wakeful runs --held"))
    asked = (await approvals.approvals(desk, state="open", limit=MANY)).items
    if asked:
        count = f"{MANY} approvals or more" if len(asked) == MANY else number(len(asked), "approval")
        found.append(Finding("questions", "look", f"{count} open", "wakeful approvals"))
    paused = [f"{one['agent'] or 'all'} of app {one['app']}" for one in await pauses.pauses(desk) if one["paused"]]
    if paused:
        found.append(
            Finding("paused", "look", ", ".join(paused), "`wakeful pauses` lists them, `wakeful resume` ends one")
        )
    halted = [halts.words_of(one) for one in await halts.halts(desk)]
    if halted:
        found.append(
            Finding(
                "halted", "look", ", ".join(halted), "`wakeful halts` lists them, `wakeful halt … --lift` lifts one"
            )
        )
    outdated = await older.older_processes(desk, older.APPROVALS_SINCE)
    if outdated:
        words = older.words_of(outdated, "halts, policies and approvals, or not all of them")
        found.append(Finding("versions", "look", words, "stop them: they call what is halted, denied or not approved"))
    inputs = sum(one["count"] for one in await waiting_inputs(desk.reads))
    if dead or dead_deliveries or inputs:
        parts = [number(dead, "run")] if dead else []
        parts += [number(dead_deliveries, "delivery")] if dead_deliveries else []
        parts += [f"{number(inputs, 'input')} in quarantine"] if inputs else []
        found.append(Finding("dead letters", "look", " and ".join(parts), "wakeful dead list"))
    else:
        found.append(Finding("dead letters", "good", "none"))
    room = (await page_of_inputs(desk, limit=1)).more["unverified"]
    if cut := room["cut"]:
        count, size, since = (
            sum(one["count"] for one in cut),
            sum(one["bytes"] for one in cut),
            min(one["since"] for one in cut),
        )
        words = f"{number(count, 'unverified input')} ({in_bytes(size)}) removed since {since}; {in_bytes(room['held'])} kept"
        full = any(one["why"] == "bytes" for one in cut)
        found.append(Finding("quarantine", "look" if full else "good", words, "wakeful sources" if full else None))
    if open_alarms:
        found.append(Finding("alarms", "broken", f"{len(open_alarms)} open", "wakeful alarms"))
    else:
        found.append(Finding("alarms", "good", "none open"))
    return found
