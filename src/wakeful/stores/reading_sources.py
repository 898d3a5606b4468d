"""The read side of sources: how each is, who reads it, and whether anybody does, as JSON objects."""

from __future__ import annotations

from typing import Any, Protocol

from pydantic_core import from_json

from wakeful.clock import SECOND, Microseconds, readable, seconds, to_text
from wakeful.errors import NotFound, did_you_mean
from wakeful.stores.transaction import Row
from wakeful.stores.verbs.sources import StoredSource, source_of

# Whoever reads says so every half minute, whether something came or not.
SILENT_AFTER: Microseconds = 180 * SECOND
COLUMNS = 18  # of a source, before those of its process

Shown = dict[str, Any]


class Fetching(Protocol):
    """What this needs of a database."""

    async def fetch(self, name: str, *parameters: Any) -> list[Row]: ...
    def read_clock(self) -> Microseconds | None: ...


class SourceReader:
    """Answers questions about sources."""

    def __init__(self, database: Fetching) -> None:
        self._database = database

    async def all(self, *, app: str | None = None, name: str | None = None) -> list[Shown]:
        """Every source, by app and name."""
        clock = self._database.read_clock()
        rows = await self._database.fetch("list_sources", clock, app, name)
        living = {row[0]: row[1] for row in await self._database.fetch("living_apps", clock)}
        kept: dict[tuple[str, str], int] = {}
        for one in await self._database.fetch("waiting_inputs"):
            kept[one[0], one[1]] = kept.get((one[0], one[1]), 0) + one[3]
        cut: dict[tuple[str, str], list[Row]] = {}
        for one in await self._database.fetch("list_cut"):
            cut.setdefault((one[0], one[1]), []).append(one)
        present = (await self._database.fetch("read_time", clock))[0][0]
        servers: dict[tuple[str, str], list[Shown]] = {}
        for row in await self._database.fetch("servers_of_sources", clock, app, name):
            servers.setdefault((row[0], row[1]), []).append(server_summary(row[2:], present))
        found = []
        for row in rows:
            stored = source_of(row[:COLUMNS])
            holder = holder_summary(stored.holder, row[COLUMNS:])
            shown = source_summary(stored, holder, kept.get((stored.app, stored.name), 0))
            serving = shown["servers"] = servers.get((stored.app, stored.name), [])
            shown["cut"] = cut_summary(cut.get((stored.app, stored.name), []))
            shown["unread"] = unread(stored, holder, living.get(stored.app, 0), present)
            if serving and not any(one["alive"] for one in serving):
                shown |= unserved(serving, present)
            found.append(shown)
        return found

    async def one(self, name: str, app: str | None = None) -> Shown | None:
        """Everything about one source. NotFound if several apps have one of that name, and none is named."""
        found = await self.all(app=app, name=name)
        if len(found) > 1:
            apps = ", ".join(one["app"] for one in found)
            message = f"source {name} is in several apps ({apps}): say which with --of NAME"
            raise NotFound(message)
        if not found:
            return None
        (shown,) = found
        stored = source_of((await self._database.fetch("find_source", shown["app"], name))[0])
        items = (await self._database.fetch("count_items", shown["app"], name))[0][0]
        return {**shown, "cursor": stored.cursor, "token": stored.token, "items": items}

    async def refusal(self, name: str, app: str | None = None) -> NotFound:
        """There is no source of that name; is another one meant?"""
        names = [one["name"] for one in await self.all(app=app)]
        where = f"app {app} has" if app is not None else "there is"
        return NotFound(f'{where} no source "{name}".{did_you_mean(name, names)}')


# what is shown


def source_summary(stored: StoredSource, holder: Shown | None, kept: int) -> Shown:
    """A source as every listing shows it. Times that pass are in seconds."""
    return {
        "app": stored.app,
        "name": stored.name,
        "kind": stored.kind,
        "state": stored.state,
        "reason": stored.error,
        "since": to_text(stored.since),
        "lag": None if stored.lag is None else seconds(stored.lag),
        "behind": stored.behind,
        "event_at": to_text(stored.event_at),
        "read_at": to_text(stored.read_at),
        "taken": stored.taken,
        "repeated": stored.repeated,
        "refused": stored.refused,
        "quarantined": stored.quarantined,
        "kept": kept,
        "agents": [] if stored.agents is None else from_json(stored.agents),
        "holder": holder,
    }


def cut_summary(rows: list[Row]) -> Shown | None:
    """What was removed of its unverified inputs, so that they stay below their ceiling; None if nothing was."""
    if not rows:
        return None
    return {
        "count": sum(row[3] for row in rows),
        "bytes": sum(row[4] for row in rows),
        "since": to_text(min(row[5] for row in rows)),
        "last_at": to_text(max(row[6] for row in rows)),
    }


def holder_summary(process: str | None, row: Row) -> Shown | None:
    """The process that reads it; of one that is gone for long, only its id is known."""
    if process is None:
        return None
    host, pid, state, left = row
    return {"process": process, "host": host, "pid": pid, "alive": state == "alive" and left > 0}


def server_summary(row: Row, now: Microseconds) -> Shown:
    """A process that answers the requests to a webhook, or did when it died. `until` is when its lease ended, or will."""
    process, host, pid, state, left, since = row
    return {
        "process": process,
        "host": host,
        "pid": pid,
        "alive": state == "alive" and left > 0,
        "since": to_text(since),
        "until": None if left is None else to_text(now + left),
    }


def unserved(servers: list[Shown], now: Microseconds) -> Shown:
    """What is told of a webhook whose servers are all dead: nobody takes its requests."""
    last = servers[0]  # the one whose lease ended last
    since = last["until"] if last["until"] is not None and last["until"] <= (to_text(now) or "") else to_text(now)
    words = (
        f"no server answers its requests: {named(last)} did and is dead. "
        "Start `wakeful serve APP` again; its senders hear nothing until then"
    )
    return {"state": "unserved", "since": since, "unread": words}


def unread(stored: StoredSource, holder: Shown | None, living: int, now: Microseconds) -> str | None:
    """Why nobody reads it, as far as that can be told; None while somebody does, or tries to, or calls here."""
    silent = None if stored.read_at is None else now - stored.read_at
    if holder is not None and holder["alive"]:
        if stored.state in {"reading", "idle"} and silent is not None and silent > SILENT_AFTER:
            return f"{named(holder)} has it, and has not looked for {readable(silent)}: see its log, or start it anew"
        return None
    if not living:
        return f"nobody reads it: no worker of app {stored.app} is alive"
    if holder is not None:
        return f"nobody reads it: {named(holder)} had it and is dead; a worker that has its trigger takes it over"
    if stored.state == "failing" and silent is not None and silent <= SILENT_AFTER:
        return None  # between two tries it is let go: another process may be able to read it
    if stored.token:
        return (
            f"nobody reads it: no worker of app {stored.app} that is alive has its trigger. "
            f"If it was removed from the code: `wakeful sources forget {stored.name}`"
        )
    if stored.state == "reading" and silent is not None and silent > SILENT_AFTER:  # many may read it, and each says so
        return (
            f"nobody has said for {readable(silent)} that it is read: whoever did is dead. Start a server or a worker that "
            f"has its trigger, or, if that was removed from the code, `wakeful sources forget {stored.name}`"
        )
    return None


def named(holder: Shown) -> str:
    return f"process {holder['process']}" if holder["pid"] is None else f"pid {holder['pid']} on {holder['host']}"
