"""Files of checks, kept in force: what is written there becomes schedules, and so do edits, as they are made.

    HEARTBEAT.md ──► read ──► add, edit, remove schedules      the row of each has its section, so that an occurrence needs no file
                       └────► cannot be read: an alarm, and what was read before stays

Every process reads its own copy, at its start and when that changes. Where copies differ, what was read last is in force.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from pydantic_core import from_json, to_json

from wakeful.errors import ConfigError
from wakeful.service import Service
from wakeful.stores.alarm import Alarm, heartbeat_alarm
from wakeful.stores.request import Actor, Doer
from wakeful.stores.timing import StoredSchedule
from wakeful.stores.verbs.heartbeat import ReportHeartbeat
from wakeful.triggers.heartbeat import LARGEST_FILE, Heartbeat, HeartbeatFile, Section, data_of
from wakeful.triggers.schedules import Schedules

LOOK_EVERY = 1.0


@dataclass(slots=True)
class _Watched:
    """A file; `seen` is what it held at the last look, `applied` what was acted upon: bytes, or why there were none."""

    heartbeat: Heartbeat
    seen: bytes | str | None = None
    applied: bytes | str | None = None


@dataclass(slots=True)
class _Changes:
    added: list[str] = field(default_factory=list)
    edited: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    forgotten: list[str] = field(default_factory=list)  # edited, and in another session


class Heartbeats(Service):
    """Keeps the files of one app in force."""

    name = "heartbeats"

    def __init__(
        self, app: str, declared: Sequence[Heartbeat], schedules: Schedules, store: Doer, *, probes: Collection[str]
    ) -> None:
        super().__init__()
        self._app = app
        self._watched = [_Watched(one) for one in declared]
        self._schedules = schedules
        self._store = store
        self._probes = probes
        self._noted = False

    async def run_once(self) -> float | None:
        """Look at each file, and put what is new in force."""
        if not self._noted:
            await self._note_undeclared()
            self._noted = True
        for watched in self._watched:
            await self._look(watched)
        return LOOK_EVERY if self._watched else None

    async def _note_undeclared(self) -> None:
        """Checks of a heartbeat that was renamed or removed in the code would never run again, and nobody would know."""
        declared = {watched.heartbeat.name for watched in self._watched}
        left: dict[str, list[str]] = {}
        owners: dict[str, str | None] = {}
        for stored in await self._schedules.all():
            if stored.origin == "heartbeat" and stored.agent not in declared:
                left.setdefault(stored.agent, []).extend([stored.name] if is_there(stored) else [])
                owners[stored.agent] = stored.owner
        for name, checks in left.items():
            key = heartbeat_alarm(self._app, name)
            text = (
                f"heartbeat {name} has {len(checks)} check(s) in the store, and app {self._app} does not declare it here: was it "
                f"renamed or removed? Give it its name back, or remove {', '.join(checks)}: `wakeful schedules remove NAME`"
            )
            alarms = [Alarm(self._app, key, text, name, owners[name])] if checks else []
            await self._store.do(ReportHeartbeat(alarms, [] if checks else [key]))

    async def _look(self, watched: _Watched) -> None:
        """An editor may be half-way through: what differs is acted upon once two looks find the same."""
        content = await asyncio.to_thread(content_of, watched.heartbeat)
        unchanged = watched.seen is None or content == watched.seen
        watched.seen = content
        if unchanged and content != watched.applied:
            await self._apply(watched.heartbeat, content)
            watched.applied = content

    async def _apply(self, heartbeat: Heartbeat, content: bytes | str) -> None:
        key = heartbeat_alarm(self._app, heartbeat.name)
        try:
            if isinstance(content, str):
                raise ConfigError(f"{heartbeat.shown} cannot be read: {content}")
            file = heartbeat.understood(content, self._probes)
            changes = await self._put_in_force(heartbeat, file)
        except ConfigError as error:
            await self._complain(heartbeat, key, str(error))
            return
        # A check that begins without a memory knows nothing of an alarm either.
        over = [heartbeat_alarm(self._app, name) for name in changes.forgotten]
        await self._store.do(ReportHeartbeat(resolved=[key, *over]))
        if not file.sections:
            self.log.warning("the heartbeat has no checks: it does nothing", file=heartbeat.shown)
        else:
            self.log.info(
                "heartbeat read",
                file=heartbeat.shown,
                checks=len(file.sections),
                added=changes.added,
                edited=changes.edited,
                removed=changes.removed,
            )

    async def _complain(self, heartbeat: Heartbeat, key: str, words: str) -> None:
        known = any(is_there(one) and is_of(one, heartbeat) for one in await self._schedules.all())
        what = "Its checks stay as they were read before"
        meanwhile = what if known else "It has no checks, and does nothing, until the file can be read"
        text = f"heartbeat {heartbeat.name}: {words}. {meanwhile}"
        self.log.error("alarm", key=key, text=text)
        await self._store.do(ReportHeartbeat([Alarm(self._app, key, text, heartbeat.name, heartbeat.owner)]))

    async def _put_in_force(self, heartbeat: Heartbeat, file: HeartbeatFile) -> _Changes:
        """1. What is new or different. 2. What is not there any more."""
        changes = _Changes()
        operator = heartbeat.path.name
        stored = {one.name: one for one in await self._schedules.all()}
        wanted = {f"{heartbeat.name}/{section.name}": section for section in file.sections}
        for name, section in wanted.items():
            refuse_taken(heartbeat, section, stored.get(name))
        for name, section in wanted.items():
            if not is_there(stored.get(name)):
                await self._add(heartbeat, name, section, file)
                changes.added.append(name)
            elif await self._edit(heartbeat, name, section, file, stored[name]):
                changes.edited.append(name)
                if session_of(stored[name]) != section.session:
                    changes.forgotten.append(name)
        for name, known in stored.items():
            if name not in wanted and is_there(known) and is_of(known, heartbeat):
                await self._remove(name, operator)
                changes.removed.append(name)
        return changes

    async def _add(self, heartbeat: Heartbeat, name: str, section: Section, file: HeartbeatFile) -> None:
        try:
            await self._schedules.add(
                name,
                section.schedule,
                heartbeat.name,
                data=data_of(file, section),
                origin="heartbeat",
                owner=heartbeat.owner,
                by=Actor(heartbeat.path.name, "code"),
                note=f"line {section.line}",
            )
        except ConfigError:
            known = await self._schedules.find(name)
            refuse_taken(heartbeat, section, known)
            if known is None or not is_there(known):
                raise
            await self._edit(heartbeat, name, section, file, known)  # another process was first

    async def _edit(
        self, heartbeat: Heartbeat, name: str, section: Section, file: HeartbeatFile, known: StoredSchedule
    ) -> bool:
        """Only what differs is an edit: several processes read the same file, and each of them starts now and then."""
        data = data_of(file, section)
        definition = from_json(to_json(section.schedule.definition()))
        stored = None if known.data is None else from_json(known.data)
        if (from_json(known.definition), stored, known.owner) == (definition, data, heartbeat.owner):
            return False
        await self._schedules.edit(
            name,
            section.schedule,
            data=data,
            owner=heartbeat.owner,
            by=Actor(heartbeat.path.name, "code"),
            note=f"line {section.line}",
        )
        return True

    async def _remove(self, name: str, operator: str) -> None:
        try:
            await self._schedules.remove(name, by=Actor(operator, "code"), note="the file does not have it any more")
        except ConfigError:
            if is_there(await self._schedules.find(name)):
                raise


def refuse_taken(heartbeat: Heartbeat, section: Section, known: StoredSchedule | None) -> None:
    """Somebody made a schedule of that name for something else."""
    if known is not None and is_there(known) and not is_of(known, heartbeat):
        raise ConfigError(
            f'{heartbeat.shown}:{section.line}: there is a schedule "{known.name}" of agent {known.agent} already, which is '
            "none of this heartbeat: give the section another title"
        )


def is_there(known: StoredSchedule | None) -> bool:
    return known is not None and known.state in {"live", "paused"}


def session_of(known: StoredSchedule) -> str | None:
    """The session whose state has what its check remembers."""
    data = None if known.data is None else from_json(known.data)
    return data.get("session") if isinstance(data, dict) else None


def is_of(known: StoredSchedule, heartbeat: Heartbeat) -> bool:
    return known.origin == "heartbeat" and known.agent == heartbeat.name


def content_of(heartbeat: Heartbeat) -> bytes | str:
    """What the file holds, or why that cannot be told. Without waiting: a pipe in its place would keep the thread for ever."""
    try:
        descriptor = os.open(heartbeat.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return "it is not a regular file"
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                return file.read(LARGEST_FILE + 1)  # however large it is: it is read every second
        finally:
            os.close(descriptor)
    except OSError as error:
        return error.strerror or str(error)
