"""The checks of heartbeats for people: what is written in their file, joined with what is remembered of them."""

from __future__ import annotations

from typing import Any, Protocol

from wakeful.errors import NotFound, did_you_mean
from wakeful.triggers.schedule import read_definition

Shown = dict[str, Any]


class CheckReader(Protocol):
    """What this needs of the read side."""

    async def checks(self) -> list[Shown]: ...

    async def states(self, agent: str | None = None) -> list[Shown]: ...


async def list_checks(reader: CheckReader) -> list[Shown]:
    """Every check of every heartbeat, by app and name."""
    found = await reader.checks()
    remembered: dict[tuple[str, str, str], Shown] = {}
    for heartbeat in {one["heartbeat"] for one in found}:
        for state in await reader.states(heartbeat):
            remembered[state["app"], heartbeat, state["key"]] = (state["value"] or {}).get("checks", {})
    return [shown(one, remembered.get((one["app"], one["heartbeat"], session_of(one)), {})) for one in found]


def session_of(stored: Shown) -> str:
    return str(stored["section"].get("session", stored["heartbeat"]))


def shown(stored: Shown, session: Shown) -> Shown:
    """One check for people and JSON."""
    section = stored["section"]
    memory = session.get(section.get("check"), {})
    command = section.get("command")
    return {
        "app": stored["app"],
        "heartbeat": stored["heartbeat"],
        "name": stored["name"],
        "title": section.get("title"),
        "state": stored["state"],
        "every": read_definition(stored["definition"]).describe(),
        "session": session_of(stored),
        "probe": f"$ {command}" if command is not None else section.get("probe"),
        "owner": stored["owner"],
        "last_at": memory.get("ran_at"),
        "result": memory.get("result"),
        "text": memory.get("text"),
        "told_at": memory.get("told_at"),
        "failures": memory.get("failures", 0),
        "error": memory.get("error"),
        "processed": memory.get("processed"),
        "run": memory.get("run"),
        "next_at": stored["next_at"] if stored["state"] == "live" else None,
        "read_at": stored["read_at"],
    }


def find_check(checks: list[Shown], name: str, *, app: str) -> str:
    """The whole name of a check: `heartbeat/mail`, or `mail` where only one has that name. NotFound with a suggestion."""
    own = [one["name"] for one in checks if one["app"] == app]
    if name in own:
        return name
    ending = [one for one in own if one.partition("/")[2] == name]
    if len(ending) == 1:
        return str(ending[0])
    if ending:
        message = f'"{name}" is a check of several heartbeats: write {" or ".join(ending)}'
        raise NotFound(message)
    known = did_you_mean(name, own) if own else " A worker (`wakeful serve APP`) reads them out of the file"
    if "Did" not in known and "Did" in (guess := did_you_mean(name, [one.partition("/")[2] for one in own])):
        known = guess
    message = f'app {app} has no check "{name}".{known}'
    raise NotFound(message)
