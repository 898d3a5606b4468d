"""Keeps files of checks in force: their sections become schedules, at start and after each edit.

    HEARTBEAT.md ──► read ──► add, edit, remove schedules      each row stores its section, so an occurrence needs no file
                       └────► unreadable: an alarm, and the schedules read before stay

Every process reads its own copy, at start and when the copy changes. If copies differ, the one read last is in force.
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
    """A file; `seen` is its content at the last look, `applied` the content last put in force: bytes, or the read error."""

    heartbeat: Heartbeat
    seen: bytes | str | None = None
    applied: bytes | str | None = None


@dataclass(slots=True)
class _Changes:
    added: list[str] = field(default_factory=list)
    edited: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    forgotten: list[str] = field(default_factory=list)  # edited, and moved to another session


class Heartbeats(Service):
    """Keeps the heartbeat files of one app in force."""

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
        """Look at each file and put changes in force."""
        if not self._noted:
            await self._note_undeclared()
            self._noted = True
        for watched in self._watched:
            await self._look(watched)
        return LOOK_EVERY if self._watched else None

    async def _note_undeclared(self) -> None:
        """Raise an alarm for checks of a heartbeat that was renamed or removed in the code: they would silently never run."""
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
                f"heartbeat {name} has {len(checks)} check(s) in the store, but app {self._app} does not declare it here: was it "
                f"renamed or removed? Restore its name, or remove {', '.join(checks)}: `wakeful schedules remove NAME`"
            )
            alarms = [Alarm(self._app, key, text, name, owners[name])] if checks else []
            await self._store.do(ReportHeartbeat(alarms, [] if checks else [key]))

    async def _look(self, watched: _Watched) -> None:
        """Apply a change once two looks find the same content: an editor may be in the middle of saving."""
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
        # A check that starts with an empty memory cannot resolve its old alarm.
        over = [heartbeat_alarm(self._app, name) for name in changes.forgotten]
        await self._store.do(ReportHeartbeat(resolved=[key, *over]))
        if not file.sections:
            self.log.warning("the heartbeat has no checks and does nothing", file=heartbeat.shown)
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
        what = "Its checks stay as they were last read"
        meanwhile = what if known else "It has no checks until the file can be read"
        text = f"heartbeat {heartbeat.name}: {words}. {meanwhile}"
        self.log.error("alarm", key=key, text=text)
        await self._store.do(ReportHeartbeat([Alarm(self._app, key, text, heartbeat.name, heartbeat.owner)]))

    async def _put_in_force(self, heartbeat: Heartbeat, file: HeartbeatFile) -> _Changes:
        """1. Add or edit schedules of sections. 2. Remove schedules whose section is gone."""
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
        """Edit only if something differs: several processes read the same file, each at its own start."""
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
            await self._schedules.remove(name, by=Actor(operator, "code"), note="no longer in the file")
        except ConfigError:
            if is_there(await self._schedules.find(name)):
                raise


def refuse_taken(heartbeat: Heartbeat, section: Section, known: StoredSchedule | None) -> None:
    """Raise ConfigError if a schedule of that name belongs to something else."""
    if known is not None and is_there(known) and not is_of(known, heartbeat):
        raise ConfigError(
            f'{heartbeat.shown}:{section.line}: agent {known.agent} already has a schedule "{known.name}", which does not '
            "belong to this heartbeat: give the section another title"
        )


def is_there(known: StoredSchedule | None) -> bool:
    return known is not None and known.state in {"live", "paused"}


def session_of(known: StoredSchedule) -> str | None:
    """The session whose state holds the memory of this check."""
    data = None if known.data is None else from_json(known.data)
    return data.get("session") if isinstance(data, dict) else None


def is_of(known: StoredSchedule, heartbeat: Heartbeat) -> bool:
    return known.origin == "heartbeat" and known.agent == heartbeat.name


def content_of(heartbeat: Heartbeat) -> bytes | str:
    """The content of the file, or why it is unreadable. Does not block: a pipe in its place would occupy the thread forever."""
    try:
        descriptor = os.open(heartbeat.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return "it is not a regular file"
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                return file.read(LARGEST_FILE + 1)  # a limit, because it is read every second
        finally:
            os.close(descriptor)
    except OSError as error:
        return error.strerror or str(error)
