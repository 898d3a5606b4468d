"""Sources: where events come from, the health of each source, and the process that reads it."""

from __future__ import annotations

from typing import Annotated, Any, NotRequired

from typing_extensions import TypedDict

from wakeful.clock import SECOND, Microseconds, readable, to_text
from wakeful.errors import NotFound, did_you_mean
from wakeful.model import ShownSourceState
from wakeful.resources.alarms import Alarm, alarms
from wakeful.resources.declare import Column, Listing, Printed, Resource, Show, Verb
from wakeful.resources.desk import NOW, Desk, Row, picked
from wakeful.resources.fields import About, AsJson, Count, Flag, InPlace, Made, Moment, MomentOrNone, SecondsOrNone
from wakeful.resources.parameters import Param
from wakeful.resources.refusals import Refused
from wakeful.resources.words import Look, line, moment, number, plain
from wakeful.size import in_bytes
from wakeful.stores.alarm import NOT_READ, absence_alarm, source_alarm
from wakeful.stores.verbs.sources import ForgetSource

# A process that reads a source reports every half minute, with or without new events.
SILENT_AFTER: Microseconds = 180 * SECOND


class SourceReader(TypedDict):
    """The process that reads a source; of a process that ended long ago, only the id is known."""

    process: str
    host: str | None
    pid: int | None
    alive: Flag


class SourceServer(SourceReader):
    """A process that serves a webhook, or served it until it died."""

    since: MomentOrNone
    until: Annotated[MomentOrNone, About("When its lease expires or expired")]


class SourceCut(TypedDict):
    """Unverified inputs of a source that were removed."""

    count: Count
    bytes: Count
    since: Annotated[Moment, About("When the first one was removed")]
    last_at: Moment


class Source(TypedDict):
    """A source of events."""

    app: str
    name: Annotated[str, About("Webhook: its path. Files: their pattern", example="/hooks/form")]
    kind: str
    state: ShownSourceState
    reason: Annotated[str | None, About("Why it fails or is paused, and what to do")]
    since: Moment
    lag: Annotated[SecondsOrNone, About("Age of the last read item when it was read, in seconds")]
    behind: Annotated[int | None, About("Items known to wait at the other end")]
    event_at: Annotated[MomentOrNone, About("When the last event arrived")]
    read_at: Annotated[MomentOrNone, About("When it was last read")]
    taken: Annotated[Count, About("Events that arrived")]
    repeated: Annotated[Count, About("Of these, duplicates")]
    refused: Annotated[Count, About("Rejected: wrong signature, too large, or too fast")]
    quarantined: Annotated[Count, About("Inputs that could not be verified or read, in total")]
    kept: Annotated[Count, Made(), About("Of these, inputs that wait for a person now")]
    agents: Annotated[list[str], AsJson(), About("Agents that it wakes")]
    holder: Annotated[Annotated[SourceReader, InPlace()] | None, Made(), About("The process that reads it")]
    # NotRequired: an older server behind the same address does not send these.
    servers: NotRequired[
        Annotated[
            list[Annotated[SourceServer, InPlace()]],
            Made(),
            About("Webhook: processes that serve it, or served it until they died"),
        ]
    ]
    cut: NotRequired[
        Annotated[
            Annotated[SourceCut, InPlace()] | None,
            Made(),
            About("Unverified inputs that were removed to stay below the limit"),
        ]
    ]
    unread: Annotated[str | None, Made(), About("Why no process reads it, if none does")]


class SourceDetail(Source):
    """A source with its cursor and its alarms."""

    cursor: Annotated[str | None, About("The reader's cursor, in the reader's own format")]
    token: Annotated[Count, About("Increases with each process that takes it over")]
    items: Annotated[Count, Made(), About("Items it has seen that still exist")]
    alarms: Annotated[list[Alarm], Made()]


class SourceForgotten(TypedDict):
    """A source that was forgotten, with its cursor and its seen items."""

    source: str
    app: str
    forgotten: bool


class SourceRow(SourceDetail):
    """A row of `list_sources`, with the columns that the view shows in another form."""

    process: str | None
    host: str | None
    pid: int | None
    alive: Flag


class ServerRow(SourceServer):
    """A row of `servers_of_sources`."""

    app: str
    source: str


OfSource = Annotated[
    str | None,
    Param(
        "name of the app, if the store has several",
        about="name of the app, if the store has several",
        flag="--of",
        metavar="NAME",
    ),
]

# reading


async def sources(
    desk: Desk,
    *,
    app: OfSource = None,
    state: Annotated[ShownSourceState | None, Param("only sources in this state")] = None,
) -> list[Source]:
    """All sources, sorted by app and name."""
    found = [picked(Source, one) for one in await rows(desk, app=app)]
    return [one for one in found if state in {None, one["state"]}]


async def find(desk: Desk, name: str, *, app: OfSource = None) -> SourceDetail | None:
    found = await rows(desk, app=app, name=name)
    if len(found) > 1:
        apps = ", ".join(plain(one["app"]) for one in found)
        message = f"source {plain(name)} is in several apps ({apps}): choose one with --of NAME"
        raise NotFound(message)
    if not found:
        return None
    one = picked(SourceDetail, found[0])
    of = one["app"]
    keys = {source_alarm(of, name), absence_alarm(of, name, NOT_READ), f"lag/{of}/{name}"}
    one["items"] = (await desk.reads.fetch("count_items", of, name))[0][0]
    one["alarms"] = [alarm for alarm in await alarms(desk) if alarm["key"] in keys]
    return one


async def rows(desk: Desk, *, app: str | None, name: str | None = None) -> list[SourceRow]:
    """The sources without their items and alarms."""
    found = await desk.reads.rows(SourceRow, "list_sources", NOW, app, name)
    living = {row[0]: row[1] for row in await desk.reads.fetch("living_apps", NOW)}
    kept: dict[tuple[str, str], int] = {}
    for row in await desk.reads.fetch("waiting_inputs"):
        kept[row[0], row[1]] = kept.get((row[0], row[1]), 0) + row[3]
    cut: dict[tuple[str, str], list[Row]] = {}
    for row in await desk.reads.fetch("list_cut"):
        cut.setdefault((row[0], row[1]), []).append(row)
    servers: dict[tuple[str, str], list[SourceServer]] = {}
    for server in await desk.reads.rows(ServerRow, "servers_of_sources", NOW, app, name):
        servers.setdefault((server["app"], server["source"]), []).append(picked(SourceServer, server))
    present = await desk.reads.time()
    for one in found:
        key = (one["app"], one["name"])
        one["kept"] = kept.get(key, 0)
        one["agents"] = one["agents"] or []
        one["holder"] = None if one["process"] is None else picked(SourceReader, one)
        one["servers"] = servers.get(key, [])
        one["cut"] = cut_of(cut.get(key, []))
        one["unread"] = unread(one, living.get(one["app"], 0), present)
        if one["servers"] and not any(server["alive"] for server in one["servers"]):
            tell_unserved(one, one["servers"][0], present)
    return found


def cut_of(found: list[Row]) -> SourceCut | None:
    """The sum of one source's rows of `list_cut`; None if there are none."""
    if not found:
        return None
    first, last = to_text(min(row[5] for row in found)), to_text(max(row[6] for row in found))
    return SourceCut(
        count=sum(row[3] for row in found), bytes=sum(row[4] for row in found), since=first or "", last_at=last or ""
    )


def unread(one: SourceRow, living: int, now: Microseconds) -> str | None:
    """Why no process reads the source, as far as known; None while one reads or tries to, and for sources that push."""
    looked, holder = moment(one["read_at"]), one["holder"]
    silent = None if looked is None else now - looked
    if holder is not None and holder["alive"]:
        if one["state"] in {"reading", "idle"} and silent is not None and silent > SILENT_AFTER:
            return f"{named(holder)} owns it but has not read it for {readable(silent)}: see its log, or restart it"
        return None
    if not living:
        return f"not read: no worker of app {one['app']} is alive"
    if holder is not None:
        return f"not read: {named(holder)} owned it and is dead; a worker with its trigger takes it over"
    if one["state"] == "failing" and silent is not None and silent <= SILENT_AFTER:
        return None  # released between two tries: another process may be able to read it
    if one["token"]:
        return (
            f"not read: no worker of app {one['app']} that is alive has its trigger. "
            f"If it was removed from the code: `wakeful sources forget {one['name']}`"
        )
    if (
        one["state"] == "reading" and silent is not None and silent > SILENT_AFTER
    ):  # several processes may read it, and each reports
        return (
            f"no process has reported reading it for {readable(silent)}: its readers are dead. Start a server or a worker that "
            f"has its trigger, or, if that was removed from the code, `wakeful sources forget {one['name']}`"
        )
    return None


def tell_unserved(one: Source, last: SourceServer, now: Microseconds) -> None:
    """Why a webhook is not served: all its servers are dead. `last` is the server whose lease expired last."""
    present = to_text(now) or ""
    until = last["until"]
    one["state"] = "unserved"
    one["since"] = until if until is not None and until <= present else present
    one["unread"] = (
        f"no server answers its requests: {named(last)} did, and is dead. "
        "Start `wakeful serve APP` again; senders get no answer until then"
    )


def named(process: SourceReader) -> str:
    return f"process {process['process']}" if process["pid"] is None else f"pid {process['pid']} on {process['host']}"


async def missing(desk: Desk, name: str, *, app: str | None = None) -> str:
    names = [one["name"] for one in await sources(desk, app=app)]
    where = f"app {plain(app)} has" if app is not None else "there is"
    return f'{where} no source "{plain(name)}".{did_you_mean(name, names)}'


async def none(desk: Desk, **_: Any) -> str:
    if await sources(desk):
        return "no matching sources"
    remedy = "An agent with a webhook or another external trigger adds one when its app starts."
    return f"no sources yet. {remedy}"


# verbs


async def forget(desk: Desk, one: SourceDetail) -> SourceForgotten | None:
    app, name = one["app"], one["name"]
    if not await desk.store.do(ForgetSource(app, name, by=desk.by, note=desk.note)):
        if await find(desk, name, app=app) is None:
            return None
        message = f"source {plain(name)} is read by a live process: remove its trigger from the code first"
        raise Refused(message, kind="source-is-read", title="A live process reads this source")
    return SourceForgotten(source=name, app=app, forgotten=True)


# on the command line


def lag(one: Source) -> str:
    return "–" if one["lag"] is None else readable(round(one["lag"] * SECOND))


def note(one: Source) -> str:
    return plain("; ".join(part for part in (one["reason"], one["unread"], cut_words(one)) if part))


def cut_words(one: Source) -> str | None:
    """A sentence about removed unverified inputs; None if none were removed."""
    told = one["cut"]
    if told is None:
        return None
    return f"{number(told['count'], 'unverified input')} ({in_bytes(told['bytes'])}) removed since {told['since']}"


def brought(one: Source) -> str:
    """10 events, 2 of them duplicates; 3 refused, 1 quarantined."""
    again = f", {one['repeated']:,} of them duplicates" if one["repeated"] else ""
    counts = {"refused": one["refused"], "quarantined": one["quarantined"]}
    rest = [f"{count:,} {what}" for what, count in counts.items() if count]
    return f"{number(one['taken'], 'event')}{again}" + (f"; {', '.join(rest)}" if rest else "")


def lines(one: SourceDetail, look: Look) -> Printed:
    of = f"  {plain(one['kind'])} of app {plain(one['app'])}, "
    yield line((plain(one["name"]), "bold"), of, (one["state"], "state"), f" since {look.ago(one['since'])}")
    holder = one["holder"]
    alive = "" if holder is None or holder["alive"] else ", which is dead"
    kept = f"{number(one['kept'], 'input')}: wakeful quarantine --source {one['name']}"
    told: list[tuple[str, str | None]] = [
        ("", one["unread"]),
        ("", one["reason"]),
        ("wakes", ", ".join(one["agents"]) or None),
        ("read by", None if holder is None else f"pid {holder['pid']} on {holder['host']}{alive}"),
        ("looked", None if one["read_at"] is None else look.ago(one["read_at"])),
        ("last event", None if one["event_at"] is None else look.ago(one["event_at"])),
        ("lag", None if one["lag"] is None else lag(one)),
        ("behind", None if one["behind"] is None else f"{one['behind']:,} items known to wait"),
        ("brought", brought(one)),
        ("kept", kept if one["kept"] else None),
        ("cut", cut_words(one)),
        ("knows", number(one["items"], "item") if one["items"] else None),
        ("cursor", one["cursor"]),
    ]
    for label, words in told:
        if words is not None:
            yield line(f"  {label:<10}  {plain(words)}" if label else f"  {plain(words)}", whole=look.piped)
    for alarm in one["alarms"]:
        if alarm["state"] != "resolved":
            yield line(f"  alarm       {plain(alarm['text'])}", style="red", whole=look.piped)


RESOURCE = Resource(
    noun="source",
    plural="sources",
    view=Source,
    key="name",
    deep=True,
    example="/hooks/form",
    missing=missing,
    bare=True,
    listing=Listing(
        read=sources,
        summary="list sources of events, by app and name",
        none=none,
        columns=(
            Column("source", "name", flexible=True),
            Column("kind"),
            Column("state"),
            Column("lag", show=lambda one, _: lag(one)),
            Column("behind", show=lambda one, _: "–" if one["behind"] is None else f"{one['behind']:,}"),
            Column("last event", "event_at"),
            Column("taken", show=lambda one, _: f"{one['taken']:,}"),
            Column("kept", show=lambda one, _: f"{one['kept']:,}"),
            Column("wakes", show=lambda one, _: plain(", ".join(one["agents"]) or "–")),
            Column("note", show=lambda one, _: note(one), style="dim"),
        ),
        less=("wakes", "behind", "kept", "lag", "taken", "last event", "kind"),
        below="note",
    ),
    show=Show(find=find, summary="show one source with its cursor and its alarms", lines=lines),
    verbs=(
        Verb(
            name="forget",
            run=forget,
            summary="remove a source that is no longer declared, with its cursor and seen items",
            says=lambda one: (
                f"source {plain(one['source'])} of app {plain(one['app'])}: forgotten, with its cursor and seen items"
            ),
            danger="some",
            across=True,
        ),
    ),
    more="`wakeful why NAME` explains one source. `wakeful quarantine` lists unreadable inputs.",
    takes="sources takes a NAME, forget NAME, or no argument to list them",
)
