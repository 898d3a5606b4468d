"""Schedules as people see them: a table of all, one with its ledger, and the instants to come."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from rich.console import Console
from rich.text import Text

from wakeful.clock import SECOND, Microseconds, readable
from wakeful.shell.carrying import number
from wakeful.shell.terminal import (
    Cell,
    ago,
    clock_time,
    is_piped,
    moment,
    now,
    plain,
    print_table,
    short,
    state,
    terminal,
    value,
)

WIDE = 140
NARROW = 90
# A real interval that is longer or shorter than the configured one by more than this part is worth a word.
WORTH_A_WORD = 0.05

Shown = dict[str, Any]
ORIGINS = {
    "code": "declared in code",
    "runtime": "made at run time",
    "reminder": "a reminder",
    "heartbeat": "of a heartbeat",
}


def wall(instant: Shown) -> str:
    """What the clock on the wall shows, and whose: Mon 16 Nov 2026 08:00 Europe/London."""
    at = datetime.fromisoformat(instant["local"])
    exact = "%H:%M:%S" if at.second else "%H:%M"
    return f"{at.strftime(f'%a %d %b %Y {exact}')} {plain(instant['zone'])}"


def span(seconds: float | None) -> str:
    return "–" if seconds is None else readable(round(seconds * SECOND))


def interval(seconds: float | None) -> str:
    """In whole seconds: no rule is finer. Those that were made up for may have come all at once."""
    if seconds is None:
        return "–"
    return readable(round(seconds) * SECOND) if round(seconds) else "less than 1 s"


# all


def print_schedules(schedules: list[Shown]) -> None:
    out, present = terminal(), now()
    columns = ["schedule", "agent", "rule", "state", "last", "next", "late", "really", "not fired", "note"]
    if len({one["app"] for one in schedules}) > 1:
        columns.insert(0, "app")
    if out.width < WIDE:
        columns = [one for one in columns if one not in {"late", "really"}]
    if out.width < NARROW:
        columns = [one for one in columns if one not in {"agent", "not fired", "note"}]
    if "note" in columns and out.width < WIDE and not any(note(one, out) for one in schedules):
        columns.remove("note")  # it would only take room
    rows = []
    for one in schedules:
        cells: dict[str, Cell] = {
            "app": plain(one["app"]),
            "schedule": plain(one["name"]),
            "agent": plain(one["agent"]),
            "rule": plain(one["rule"]),
            "state": state(one["state"]),
            "last": last(one, present),
            "next": coming(one, present, whole=out.width >= NARROW),
            "late": lateness(one["cadence"]),
            "really": really(one["cadence"]),
            "not fired": lost(one["counts"]),
            "note": Text(plain(note(one, out)), style="dim"),
        }
        rows.append([cells[column] for column in columns])
    print_table(out, columns, rows, flexible="note" if "note" in columns else "rule")


def last(one: Shown, present: Microseconds) -> str:
    fired = one["last"]
    if fired is None:
        return "–"
    return f"{ago(fired['at'], present)}, {fired['state'] or 'run removed'}"


def coming(one: Shown, present: Microseconds, *, whole: bool) -> str:
    """What the clock shows then, and in how long; where there is no room, only the latter."""
    if one["next"] is None or one["state"] != "live":
        return "–"
    due = moment(one["due_at"]) or present
    if due <= present:
        return f"due {ago(one['due_at'], present)}"
    soon = ago(one["next"]["at"], present)
    if not whole:
        return soon
    at = datetime.fromisoformat(one["next"]["local"])
    exact = "%H:%M:%S" if at.second else "%H:%M"
    return f"{at.strftime(f'%a %d %b {exact}')}, {soon}"


def lateness(cadence: Shown) -> str:
    """Of the last firing, and of most of them."""
    if cadence["late"] is None:
        return "–"
    typical = f" (mostly {span(cadence['typically_late'])})" if cadence["firings"] > 1 else ""
    return f"{span(cadence['late'])}{typical}"


def really(cadence: Shown) -> str:
    """The interval that it keeps, where that is not the configured one."""
    if cadence["real"] is None:
        return "–"
    real, configured = interval(cadence["real"]), interval(cadence["configured"])
    if abs(cadence["drift"] or 0) <= WORTH_A_WORD or real == configured:
        return f"every {real}"
    return f"every {real}, not {configured}"


def lost(counts: Shown) -> str:
    parts = [f"{counts[what]:,} {what}" for what in ("missed", "skipped", "coalesced", "superseded") if counts[what]]
    return ", ".join(parts) or "–"


def note(one: Shown, out: Console) -> str:
    """What is odd about it now."""
    if one["state"] == "paused":
        return f"paused by {one['changed_by']}"
    if one["queued"] is not None:
        return waiting(one["queued"], out)
    latest = one["latest"]
    if latest is not None and latest["state"] in {"missed", "skipped"}:
        return f"the last {latest['count']:,} {latest['state']}: {latest['reason'] or 'no reason given'}"
    return ""


def waiting(queued: Shown, out: Console) -> str:
    many = number(queued["count"], "instant")
    waits = "waits" if queued["count"] == 1 else "wait"
    if queued["waits_for"]:
        return f"{many} {waits} for run {short(queued['waits_for'], out)}"
    return f"{many} {waits} for a worker that has the agent"


# one


def print_schedule(one: Shown) -> None:
    out, present = terminal(), now()

    def line(label: str, text: str) -> None:
        out.print(Text.assemble((f"{label:<9} ", "dim"), text), soft_wrap=is_piped(out))

    head = Text.assemble(
        ("schedule ", "dim"), (plain(one["name"]), "bold"), "  ", state(one["state"]), f"  revision {one['revision']}"
    )
    out.print(head)
    owner = f", owner {plain(one['owner'])}" if one["owner"] else ""
    line("rule", plain(one["rule"]))
    line("wakes", f"agent {plain(one['agent'])} of app {plain(one['app'])}{owner}, {ORIGINS[one['origin']]}")
    line("options", plain(options(one["options"])))
    if one["data"] is not None:
        line("data", value(one["data"]))
    if one["next"] is not None:
        words = (
            "is what its rule says next, if it is resumed"
            if one["state"] == "paused"
            else ago(one["next"]["at"], present)
        )
        line("next", f"{wall(one['next'])} ({one['next']['at']}), {words}")
    if one["last"] is not None:
        fired = one["last"]
        ended = fired["state"] or "removed since"
        line("last", f"{wall(fired)}, {ago(fired['at'], present)}, run {short(fired['run'], out)} is {ended}")
    if one["cadence"]["late"] is not None:
        line("late", lateness(one["cadence"]))
    if one["cadence"]["real"] is not None:
        configured = f"configured is every {interval(one['cadence']['configured'])}"
        line(
            "really",
            f"every {interval(one['cadence']['real'])} over the last {one['cadence']['firings']} firings; {configured}",
        )
    if one["queued"] is not None:
        line("queued", f"{waiting(one['queued'], out)}, {one['queued']['from']} to {one['queued']['to']}")
    print_ledger(out, one["occurrences"])
    print_changes(out, one["changes"])
    for alarm in one["alarms"]:
        out.print(Text.assemble("alarm ", state(alarm["state"]), f"  {plain(alarm['text'])}"), soft_wrap=is_piped(out))


def options(given: Shown) -> str:
    told = []
    for name, setting in given.items():
        if setting is None or (name == "jitter" and not setting):
            continue
        words = span(setting) if isinstance(setting, float) else str(setting)
        told.append(f"{name.replace('_', ' ')} {words}")
    return ", ".join(told)


def print_ledger(out: Console, occurrences: list[Shown]) -> None:
    """What became of its instants: neighbours that became the same are one row."""
    if not occurrences:
        print("No instant has come yet.")
        return
    rows: list[list[Cell]] = []
    for one in occurrences:
        many = one["count"] > 1
        run = f"{short(one['run'], out)} {one['run_state'] or 'removed'}" if one["run"] else "–"
        redone = f"{one['redone']:,} done later" if one["redone"] else ""
        words = "; ".join(part for part in (one["reason"], redone) if part)
        rows.append(
            [
                state(one["state"]),
                clock_time(one["from"]),
                clock_time(one["to"]) if many else "",
                f"{one['count']:,}" if many else "",
                run,
                Text(plain(words), style="dim"),
            ]
        )
    print_table(out, ["became", "instant", "to", "count", "run", "why"], rows, flexible="why")


def print_changes(out: Console, changes: list[Shown]) -> None:
    rows: list[list[Cell]] = [
        [
            clock_time(one["changed_at"]),
            one["verb"],
            plain(one["operator"]),
            str(one["revision"]),
            plain(one["rule"] or "–"),
            plain(one["note"] or "–"),
        ]
        for one in changes
    ]
    if rows:
        print_table(out, ["changed", "how", "by", "revision", "rule", "note"], rows, flexible="note")


# what comes


def print_instants(found: Shown) -> None:
    out, present = terminal(), now()
    print(f"{plain(found['name'])}: {plain(found['rule'])}")
    if found["state"] == "paused":
        print("it is paused: none of these fires until it is resumed")
    if not found["next"]:
        print(f"nothing comes: it is {found['state']}")
        return
    rows: list[list[Cell]] = [[wall(one), one["at"], ago(one["at"], present), jittered(one)] for one in found["next"]]
    print_table(out, ["on the wall", "UTC", "", ""], rows, flexible="on the wall")


def jittered(instant: Shown) -> str:
    later = (moment(instant["due_at"]) or 0) - (moment(instant["at"]) or 0)
    return f"fires {readable(later)} later" if later else ""
