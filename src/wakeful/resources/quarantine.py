"""Quarantine: inputs that could not be verified or read, kept unchanged until an operator decides.

show      show one input: the reason, its headers and its first bytes; --raw writes all bytes
release   after a fix: its source reads it again, and the input becomes an event; needs the app's code
discard   drop the input
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, cast

from typing_extensions import TypedDict

from wakeful.errors import NotFound, StoreUnavailable
from wakeful.operations.pace import Pace, Progress
from wakeful.operations.quarantine import Ended, discard, end_all, kept_places, release
from wakeful.redaction import redact_base64, redact_bytes
from wakeful.resources import sources
from wakeful.resources.declare import Bulk, Column, Listing, Page, Planned, Printed, Resource, Show, Verb
from wakeful.resources.desk import Desk
from wakeful.resources.parameters import After, Limit, Param
from wakeful.resources.quarantine_reading import input_of, no_inputs, page_of_inputs
from wakeful.resources.quarantine_views import EndedInput, EndedInputs, Quarantined, QuarantinedDetail, State, WithRoom
from wakeful.resources.refusals import Refused
from wakeful.resources.words import Aside, Look, clock_time, line, number, plain, plain_lines
from wakeful.stores.verbs.take_in import QuarantineKind

SHOWN_BYTES = 2_000
BYTES_A_LINE = 16


# reading


async def quarantine(
    desk: Desk,
    *,
    app: Annotated[
        str | None, Param("only inputs of this app", about="only inputs of this app", flag="--of", metavar="NAME")
    ] = None,
    source: Annotated[str | None, Param("only inputs from this source", metavar="NAME")] = None,
    kind: Annotated[QuarantineKind | None, Param("only unverified or only unreadable inputs")] = None,
    state: Annotated[State | None, Param("only inputs in this state")] = None,
    limit: Limit = 50,
    after: After = None,
) -> Page[Quarantined]:
    return await page_of_inputs(desk, app=app, source=source, kind=kind, state=state, limit=limit, after=after)


async def none(desk: Desk, **_: Any) -> str:
    return await no_inputs(desk)


async def find(desk: Desk, identifier: str) -> QuarantinedDetail | None:
    """One input by its key, a prefix of it, or its event's id. Known secrets are redacted."""
    found = await input_of(desk, identifier)
    if found is None:
        return None
    raw = None if found["raw"] is None else redact_base64(found["raw"])
    return cast("QuarantinedDetail", {name: one for name, one in found.items() if name != "received"} | {"raw": raw})


async def missing(_: Desk, key: str) -> str:
    return f'there is no input "{plain(key)}" in quarantine: see `wakeful quarantine`'


def shown(one: QuarantinedDetail, look: Look) -> Printed:
    head = f"  {one['kind']}, from {plain(one['source'])}, "
    yield line((plain(one["key"]), "bold"), head, (one["state"], "state"))
    times = "" if one["came"] == 1 else f", {one['came']:,} times in all"
    size = f", {number(one['size'], 'byte')}" if one["size"] else ""  # of a file only its name is kept
    lines = [
        one["reason"] or "no reason given",
        f"app {one['app']}, came at {clock_time(one['first_at'])}{times}{size}",
    ]
    if one["state"] != "kept":
        note = f": {one['note']}" if one["note"] else ""
        lines.append(f"{one['state']} by {one['settled_by']} at {clock_time(one['settled_at'])}{note}")
    for said in lines:
        yield line(f"  {plain(said)}", whole=look.piped)
    for name, value in (one["headers"] or {}).items():
        yield line((f"  {plain(name)}: ", "dim"), plain(value), whole=look.piped)
    if one["raw"] is None:
        yield "its bytes were removed when their retention time was over"
        return
    raw = b64decode(one["raw"])
    yield ""
    yield in_words(raw[:SHOWN_BYTES])
    if len(raw) > SHOWN_BYTES:
        more = f"{len(raw) - SHOWN_BYTES:,} more bytes"
        yield Aside(f"{more}: wakeful quarantine show {one['key']} --raw FILE writes all of them")


def in_words(raw: bytes) -> str:
    """Bytes as text, or in hexadecimal if they are not UTF-8."""
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        if error.start < len(raw) - 3:  # not merely cut in the middle of a character
            return "\n".join(raw[at : at + BYTES_A_LINE].hex(" ") for at in range(0, len(raw), BYTES_A_LINE))
        text = raw[: error.start].decode()
    return plain_lines(text)


async def raw_of(desk: Desk, one: QuarantinedDetail) -> bytes:
    found = await input_of(desk, one["key"])
    if found is None or found["raw"] is None:
        message = f"the bytes of {one['key']} were removed when their retention time was over"
        raise NotFound(message)
    came = b64decode(found["raw"])
    raw = redact_bytes(came)
    if raw is not came:
        desk.remark("a known secret was redacted in the output; the store has the original bytes")
    return raw


# one input

Trust = Annotated[
    bool,
    Param(
        "do not verify the sender again; you vouch for the input",
        about="do not verify the sender again",
        elsewhere="--trust is for release",
        outside=True,
    ),
]


async def release_one(desk: Desk, one: QuarantinedDetail, *, trust: Trust = False) -> EndedInput | None:
    found, releasing = await input_of(desk, one["key"]), releasing_of(desk)
    if found is None:
        return None
    return answer(await release(desk.database_store, releasing, found, by=desk.by, note=desk.note, trust=trust))


async def discard_one(desk: Desk, one: QuarantinedDetail) -> EndedInput | None:
    return answer(await discard(desk.database_store, {**one}, by=desk.by, note=desk.note))


def releasing_of(desk: Desk) -> Any:
    releasing = desk.app.releasing()
    if releasing is None:
        message = "the app is not running here"
        raise StoreUnavailable(message)
    return releasing


def answer(ended: Ended) -> EndedInput:
    if ended.wrong is not None:
        detail, title = (
            f"{ended.key} still cannot be taken in and stays in quarantine: {ended.wrong}",
            "The input still cannot be taken in",
        )
        raise Refused(detail, kind="still-wrong", title=title, status=422, wrong_call=False)
    if ended.refused is not None:
        raise Refused(ended.refused, kind="not-kept", title="This input cannot be released or discarded")
    return cast("EndedInput", ended.to_json())


async def released_apps(desk: Desk, one: QuarantinedDetail) -> list[str]:
    """The apps whose token is needed: the input's app and, on the command line, the loaded app."""
    return [*([str(desk.app.agents.name)] if desk.by.way == "cli" else []), one["app"]]


def told(one: EndedInput) -> list[str]:
    return [f"{one['key']}: {one['state']}", *map(became_of, one["events"])]


def became_of(receipt: Mapping[str, Any]) -> str:
    words = f"event {plain(receipt['id'])} from {plain(receipt['source'])}: "
    if receipt["status"] == "duplicate":
        return f"{words}duplicate of an event that arrived meanwhile; no run is started"
    return f"{words}{receipt['status']}, {number(len(receipt['runs']), 'run')}"


# all inputs of a source

OfSource = Annotated[
    str | None, Param("with --all: inputs of this source", about="inputs of this source", metavar="NAME")
]
OfKind = Annotated[QuarantineKind | None, Param("with --all: only of this kind", about="only of this kind")]
Everything = Annotated[bool, Param("all inputs of --source NAME", http="all", flag="--all")]
InApp = Annotated[
    str | None,
    Param(
        "name of the app, if the store has several",
        about="name of the app, if the store has several",
        flag="--of",
        metavar="NAME",
    ),
]
Behind = Annotated[str | None, Param("continue after this place: the `after` of the previous answer", http_only=True)]


async def plan_release(
    desk: Desk,
    *,
    source: OfSource = None,
    kind: OfKind = None,
    everything: Everything = False,
    trust: Trust = False,
    after: Behind = None,
) -> Planned:
    del everything  # `source` selects the inputs
    return await planned(desk, "release", str(desk.app.agents.name), str(source), kind, after, trust=trust)


async def plan_discard(
    desk: Desk,
    *,
    source: OfSource = None,
    kind: OfKind = None,
    app: InApp = None,
    everything: Everything = False,
    after: Behind = None,
) -> Planned:
    del everything
    found = await sources.find(desk, str(source), app=app)
    if found is None:
        raise NotFound(await sources.missing(desk, str(source), app=app))
    return await planned(desk, "discard", found["app"], str(source), kind, after)


async def planned(
    desk: Desk, verb: str, app: str, source: str, kind: str | None, after: str | None, *, trust: bool = False
) -> Planned:
    places = await kept_places(desk.reads, app, source, kind, place_of(after))
    if not places:
        where = "see `wakeful quarantine`" if desk.by.way == "cli" else "GET /v1/quarantine lists all inputs"
        message = f"no input of source {plain(source)} of app {app} is in quarantine: {where}"
        raise NotFound(message)
    return Planned(
        len(places), {"count": len(places)}, Work(verb=verb, app=app, source=source, trust=trust, places=places)
    )


class Work(TypedDict):
    """What a plan passes to its slices."""

    verb: str
    app: str
    source: str
    trust: bool
    places: list[tuple[int, str]]


def place_of(after: str | None) -> int:
    if after is None:
        return 0
    if not (after.isascii() and after.isdigit() and len(after) <= 18):
        raise Refused(
            "filter.after must be the `after` of the previous answer",
            kind="bad-body",
            title="The body is wrong",
            status=400,
            field="filter.after",
        )
    return int(after)


async def settle_some(desk: Desk, plan: Planned, most: int, pace: Pace, progress: Progress) -> int:
    """Release or discard, oldest first. Inputs that are still wrong stay; they are counted by reason."""
    work: Work = plan.work
    places = work["places"][:most]
    tally = await end_all(
        desk.database_store,
        partial(input_of, desk),
        [key for _, key in places],
        releasing_of(desk) if work["verb"] == "release" else None,
        app=work["app"],
        source=work["source"],
        by=desk.by,
        note=desk.note,
        trust=work["trust"],
        pace=pace,
        progress=progress,
    )
    plan.more = {name: one for name, one in tally.to_json().items() if name != "done"}
    if desk.by.way != "cli":
        plan.more["after"] = str(places[-1][0])
    plan.failed = bool(tally.wrong)
    plan.work = {**work, "wrong": tally.wrong.most_common()}
    return tally.done


async def apps_of(_: Desk, plan: Planned) -> list[str]:
    return [plan.work["app"]]


def would(plan: Planned, _: Mapping[str, Any]) -> str:
    return f"would {plan.work['verb']} {number(plan.count, 'input')} of source {plain(plan.work['source'])}"


def became(done: int, plan: Planned, _: Look) -> Printed:
    known = f"; {number(plan.more['known'], 'event')} had arrived again meanwhile" if plan.more["known"] else ""
    ended = "released" if plan.work["verb"] == "release" else "discarded"
    yield f"{done:,} of {number(plan.count, 'input')} {ended}{known}"
    for reason, count in plan.work["wrong"]:
        yield Aside(f"{count:>7,}  stay: {plain(reason)}")


RELEASE_TAKES = (
    "quarantine release takes APP and an ID, or APP --all --source NAME, like: wakeful quarantine release app.py "
    "3f2a91c04d. Without APP, WAKEFUL_APP or an app.py in this folder is used"
)
TAKES = {
    "list": "quarantine list takes no ID: use quarantine show ID",
    "show": "quarantine show takes one ID",
    "release": RELEASE_TAKES,
    "discard": "quarantine discard takes one ID, or --all --source NAME",
}


def wrong_words(verb: str) -> Callable[[Sequence[str], Mapping[str, Any]], str | None]:
    def wrong(words: Sequence[str], given: Mapping[str, Any]) -> str | None:
        whole = bool(given.get("everything"))
        if whole and given.get("source") is None:
            return f"--all needs a source: wakeful quarantine {verb} --all --source NAME"
        if not whole and (given.get("source") or given.get("kind")):
            return f"quarantine {verb} takes an ID, or --all --source NAME"
        if verb == "release":
            if whole and len(words) > 1:
                return "quarantine release takes an ID or --all --source NAME, not both"
            return None if whole or 1 <= len(words) <= 2 else RELEASE_TAKES
        return None if len(words) == (0 if whole else 1) else TAKES["discard"]

    return wrong


def many(verb: str, plan: Any) -> Bulk:
    return Bulk(
        plan=plan,
        slice=settle_some,
        some=("source",),
        many="inputs",
        done="done",
        none=lambda _: "no matching input is in quarantine",
        words=would,
        planned=lambda planned, given, _: [would(planned, given)],
        says=became,
        view=EndedInputs,
        apps=apps_of,
        wrong=wrong_words(verb),
        reads_only=True,
        rate=None,
        summary="The same for all quarantined inputs of a source: up to 1,000 per request",
    )


RESOURCE = Resource(
    noun="quarantined",
    plural="quarantine",
    called="input",
    called_many="it",
    view=Quarantined,
    key="key",
    metavar="ID",
    example="3f2a91c04d",
    missing=missing,
    listing=Listing(
        read=quarantine,
        summary="list inputs that could not be verified or read, newest first",
        none=none,
        called="quarantined inputs",
        more=WithRoom,
        columns=(
            Column("input", show=lambda one, look: look.short(one["key"])),
            Column("source", flexible=True),
            Column("kind"),
            Column("state"),
            Column("came", "first_at"),
            Column("times", show=lambda one, _: f"{one['came']:,}"),
            Column("size", show=lambda one, _: f"{one['size']:,}" if one["size"] else "–"),
            Column("reason", style="dim", none=""),
        ),
        below="reason",
        less=("times", "size", "came", "kind"),
    ),
    show=Show(
        find=find, summary="show one input with its bytes, by its key or a prefix of it", lines=shown, raw=raw_of
    ),
    verbs=(
        Verb(
            "release",
            release_one,
            "let its source read the input again, and accept the resulting events",
            says=told,
            needs_app="yes",
            app_first=True,
            without_app=RELEASE_TAKES,
            person="release a quarantined input",
            apps=released_apps,
            statuses=("422",),
            danger="some",
            bulk=many("release", plan_release),
        ),
        Verb(
            "discard",
            discard_one,
            "discard an input; it becomes no event",
            says=told,
            danger="some",
            bulk=many("discard", plan_discard),
        ),
    ),
    more="`wakeful why ID` explains one input. Without APP, WAKEFUL_APP or app.py is used.",
    takes=TAKES.get,
    in_place=True,
)
