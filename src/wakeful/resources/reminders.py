"""Reminders: add, list, move and cancel. Each reminder is a schedule with one occurrence; the run that sends it has the result."""

from __future__ import annotations

from collections.abc import Awaitable
from datetime import datetime
from typing import Annotated, Any, NotRequired, cast

from pydantic_core import from_json
from typing_extensions import TypedDict

from wakeful.clock import to_text
from wakeful.errors import ConfigError, IdempotencyConflict, InvalidTime, NotFound, TooLate, did_you_mean
from wakeful.model import FINAL_RUN_STATES, ReminderState
from wakeful.resources.apps import names
from wakeful.resources.declare import Column, Listing, Page, Resource, Show, Verb
from wakeful.resources.desk import Desk, Row
from wakeful.resources.fields import About, InPlace, Made, Moment, MomentOrNone
from wakeful.resources.parameters import LONGEST_PAGE, After, Limit, OfApp, Param
from wakeful.resources.refusals import Ambiguous, Refused
from wakeful.resources.words import Line, line, moment, now, plain, plain_lines
from wakeful.stores.reads import LAST_CHARACTER, cursor_of
from wakeful.triggers import reminders as keeping
from wakeful.triggers.calendar_words import in_words
from wakeful.triggers.zones import zone_named

# The reminder's state for each schedule's state; for a done schedule, its run decides.
STORED: dict[ReminderState, str] = {"pending": "live", "paused": "paused", "cancelled": "removed"}
SHORTEST = 4  # shortest prefix of an id: r- and two characters
NEEDED = f"must be text of 1 to {keeping.LONGEST_TEXT:,} characters"


class ReminderChange(TypedDict):
    """A change of a reminder."""

    verb: str
    by: str
    note: str | None
    due_at: Annotated[MomentOrNone, About("When it is sent, from this change on")]
    at: Moment


class Reminder(TypedDict):
    """A message sent to a channel at a set time, unless an awaited event arrives first."""

    id: str
    app: str
    state: ReminderState
    text: str
    to: Annotated[str, About("The channel")]
    unless: str | None
    where: str | None
    due_at: Annotated[Moment, About("When it is sent")]
    zone: str
    made_at: Moment
    made_by: str
    changed_at: Moment
    changed_by: str
    told_at: MomentOrNone
    late: Annotated[str | None, About("How late it was sent, if it was late")]
    run: Annotated[str | None, About("The run that sends it")]
    reason: Annotated[str | None, About("Why it was not sent")]
    history: NotRequired[Annotated[list[Annotated[ReminderChange, InPlace()]], Made(), About("Detail only")]]


When = Annotated[
    str,
    Param(
        "a time in words, such as in 20 minutes, tomorrow 9am, 24 dec 18:00",
        positional=True,
        metavar="WHEN",
        missing=NEEDED,
    ),
]
Zone = Annotated[str | None, Param("time zone of that time, such as Europe/London", metavar="ZONE")]

# reading


async def reminders(
    desk: Desk,
    *,
    app: OfApp = None,
    state: Annotated[ReminderState | None, Param("only reminders in this state")] = None,
    limit: Limit = 50,
    after: After = None,
) -> Page[Reminder]:
    """A page of reminders, newest first."""
    stored, before = None if state is None else STORED.get(state, "done"), cursor_of(after)
    most = min(limit, LONGEST_PAGE)
    size = LONGEST_PAGE if stored == "done" else most + 1
    found: list[tuple[int, Reminder]] = []
    while rows := await desk.reads.fetch("page_of_reminders", app, stored, before, size):
        shown = [(row[0], reminder_of(row)) for row in rows]
        found += [one for one in shown if state in {None, one[1]["state"]}]
        before = rows[-1][0]
        if len(found) > most:
            return Page([one for _, one in found[:most]], str(found[most - 1][0]))
        if len(rows) < size:
            break
    return Page([one for _, one in found], None)


async def find(desk: Desk, identifier: str) -> Reminder | None:
    """One reminder by its id or a prefix of it. Raises NotFound if several match."""
    upper = identifier + (LAST_CHARACTER if len(identifier) >= SHORTEST else "\x01")
    rows = await desk.reads.fetch("find_reminders", identifier, upper)
    exact = next((row for row in rows if row[2] == identifier), None)
    if exact is None and len(rows) > 1:
        message = f"{identifier} matches more than one reminder: give more characters"
        raise NotFound(message)
    found = exact or (rows[0] if rows else None)
    if found is None:
        return None
    changes = await desk.reads.fetch("changes_of_schedule", found[0], LONGEST_PAGE)
    return {**reminder_of(found), "history": [change_of(one) for one in reversed(changes)]}


async def missing(desk: Desk, identifier: str) -> str:
    guess = did_you_mean(identifier, [one["id"] for one in (await reminders(desk, limit=100)).items])
    hint = guess if "Did" in guess else ""
    return f'there is no reminder "{plain(identifier)}": see `wakeful reminders`.{hint}'


async def none(desk: Desk, **_: Any) -> str:
    if (await reminders(desk, limit=1)).items:
        return "no matching reminders"
    return 'no reminders yet. Add one: wakeful remind "in 20 minutes" "call the bank"'


async def told(desk: Desk, one: Reminder) -> list[Line]:
    told = None if desk.story is None else await desk.story(desk.reads, one["id"])
    return [line(plain_lines(sentence)) for sentence in (told or {"story": []})["story"]]


# verbs


async def make(
    desk: Desk,
    *,
    when: When,
    text: Annotated[str, Param("text of the reminder", positional=True, metavar="TEXT", missing=NEEDED)],
    to: Annotated[str | None, Param("channel that it is sent to", metavar="CHANNEL")] = None,
    unless: Annotated[
        str | None,
        Param("do not send it if an event of this type arrives first", flag="--unless-event", metavar="TYPE"),
    ] = None,
    where: Annotated[str | None, Param("CEL condition that the event must meet", metavar="CEL")] = None,
    tz: Zone = None,
    id: Annotated[  # noqa: A002 the field's own name
        str | None, Param("an id of your own; repeating the request adds no second reminder", metavar="ID")
    ] = None,
) -> Reminder | None:
    kept = kept_by(desk, await the_app(desk) if desk.code is None else "")
    wish = {"to": to, "unless": unless, "where": where, "tz": tz, "id": id}
    return await changed(desk, kept.make(when, text, **wish, by=desk.by))


async def move(desk: Desk, one: Reminder, *, when: When, tz: Zone = None) -> Reminder | None:
    kept = kept_by(desk, one["app"])
    return await changed(desk, kept.move(one["id"], when, tz=tz, by=desk.by, note=desk.note))


async def cancel(desk: Desk, one: Reminder) -> Reminder | None:
    return await changed(desk, kept_by(desk, one["app"]).cancel(one["id"], by=desk.by, note=desk.note))


def kept_by(desk: Desk, app: str) -> Any:
    """Adds and changes reminders: through the app's code if it is loaded, which knows its channels; else by the app's name."""
    own = None if desk.code is None else desk.code.reminders
    return keeping.Reminders(app, desk.database_store) if own is None else own


async def the_app(desk: Desk) -> str:
    """The only app of this store. A reminder needs none of its code. Raises if there is not exactly one app."""
    known = await names(desk)
    if len(known) != 1:
        apps = f"several apps ({', '.join(map(plain, known))})" if known else "no app yet"
        message = f"the reminder needs an app, and this store has {apps}"
        raise Ambiguous(message, "app")
    return known[0]


async def changed(desk: Desk, doing: Awaitable[keeping.Reminder]) -> Reminder | None:
    """The changed reminder. Raises Refused with the reason if the change is not possible."""
    try:
        made = await doing
    except InvalidTime as error:
        raise unfit(
            error, kind="invalid-time", title="The time is past, ambiguous or unreadable", field="when"
        ) from None
    except IdempotencyConflict as error:
        raise unfit(error, kind="id-in-use", title="Another reminder has that id", field="id") from None
    except ConfigError as error:
        raise unfit(error, kind="invalid-reminder", title="This reminder is not possible") from None
    except TooLate as error:
        raise Refused(str(error), kind="too-late", title="The reminder was sent or cancelled") from None
    return await find(desk, made.id)


def unfit(error: Exception, *, kind: str, title: str, field: str | None = None) -> Refused:
    return Refused(str(error), kind=kind, title=title, status=422, field=field, wrong_call=False)


# rows


def reminder_of(row: Row) -> Reminder:
    """A row of `page_of_reminders`."""
    _, app, name, stored, definition, data, fired_at, created_at, changed_at, changed_by, run, *of_run = row
    run_state, output, error, *reasons = of_run
    rule, memo = from_json(definition)["rule"], from_json(data or "{}")
    became = from_json(output) if output else {}
    trouble = from_json(error).get("message") if error else reasons[0] or reasons[1]
    state = state_of(stored, run, run_state, became)
    shown: Any = {
        "id": name,
        "app": app,
        "state": state,
        "text": memo.get("text"),
        "to": memo.get("to"),
        "unless": memo.get("unless"),
        "where": memo.get("where"),
        "due_at": to_text(rule["moment"]),
        "zone": rule["zone"],
        "made_at": to_text(created_at),
        "made_by": memo.get("by"),
        "changed_at": to_text(changed_at),
        "changed_by": changed_by,
        "told_at": to_text(fired_at) if state == "told" else None,
        "late": became.get("late"),
        "run": run,
        "reason": reason_of(state, changed_by, became, trouble),
    }
    return cast("Reminder", shown)


def state_of(stored: str, run: str | None, run_state: str | None, became: Any) -> ReminderState:
    match stored:
        case "live":
            return "pending"
        case "paused":
            return "paused"
        case "removed":
            return "cancelled"
    if run is None:
        return "failed"  # no run was made: policy denied it
    if run_state is None:
        return "over"  # its run was removed when its retention time was over
    if run_state not in FINAL_RUN_STATES:
        return "telling"
    if run_state != "done":
        return "failed"
    return "told" if became.get("told") else "unneeded"


def reason_of(state: ReminderState, changed_by: str, became: Any, trouble: str | None) -> str | None:
    match state:
        case "unneeded":
            return str(became.get("because"))
        case "failed":
            return trouble
        case "cancelled":
            return f"cancelled by {changed_by}"
        case _:
            return None


def change_of(row: Row) -> ReminderChange:
    """A row of `changes_of_schedule`: who made a change, and the time from then on."""
    _, verb, operator, note, definition, changed_at = row
    due = None if definition is None else to_text(from_json(definition)["rule"]["moment"])
    change = {"verb": verb, "by": operator, "note": note, "due_at": due, "at": to_text(changed_at)}
    return cast("ReminderChange", change)


# messages


def spoken(one: Reminder) -> str:
    zone = zone_named(one["zone"], where=f"reminder {one['id']}")
    return in_words(moment(one["due_at"]) or 0, zone).removeprefix("on ")


def text_of(one: Reminder) -> str:
    return plain(one["text"]) + (f" ({plain(one['reason'])})" if one["reason"] else "")


def understood(one: Reminder) -> str:
    """The reminder as understood: its text and its time."""
    due = datetime.fromisoformat(one["due_at"]).astimezone(zone_named(one["zone"], where=f"reminder {one['id']}"))
    made = keeping.Reminder(one["id"], one["app"], one["text"], one["to"], due, one["unless"], one["where"])
    return plain(made.describe(now()))


RESOURCE = Resource(
    noun="reminder",
    plural="reminders",
    view=Reminder,
    example="r-7kq3xm",
    missing=missing,
    listing=Listing(
        read=reminders,
        summary="list reminders, newest first",
        none=none,
        columns=(
            Column("reminder", "id"),
            Column("state"),
            Column("due", show=lambda one, _: spoken(one)),
            Column("", "due_at"),
            Column("to"),
            Column("text", show=lambda one, _: text_of(one), flexible=True),
        ),
    ),
    show=Show(find=find, summary="show one reminder with its history", told=told),
    verbs=(
        Verb(
            name="make",
            run=make,
            summary="add a reminder",
            says=understood,
            of_one=False,
            http="POST ",
            statuses=("422",),
            needs_app="if named",
            note=False,
        ),
        Verb(
            name="move",
            run=move,
            summary="change the time of a reminder that is not yet sent or cancelled",
            says=understood,
            http="PATCH /{key}",
            statuses=("422",),
        ),
        Verb(
            name="cancel",
            run=cancel,
            summary="cancel a reminder that is not yet sent",
            says=lambda one: f"reminder {one['id']} is cancelled: {plain(one['text'])}",
            http="DELETE /{key}",
            statuses=("422",),
        ),
    ),
    more='WHEN is a time in words: "in 20 minutes", "at 3pm", "tomorrow 9:30", "friday 10:00", "24 dec 18:00". The time as '
    "understood is printed; a past or ambiguous time is refused.",
    takes='reminders takes list, show ID, move ID WHEN or cancel ID, like: wakeful reminders move r-7kq3xm "tomorrow 9am"',
)
