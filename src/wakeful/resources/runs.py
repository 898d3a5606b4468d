"""Runs: one agent's work on one event, and the verbs that operators use on runs.

replay    resume a run that is over; also many dead runs, and stored events (`resources.redo`)
discard   give up a dead run for good
cancel    stop a run at its next step and undo its effects
release   publish a held output as it is, or an edited one; return gives it back with a remark (`resources.held_outputs`)
fork      start a new run of the same family from a given step
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

from wakeful.errors import InvalidData
from wakeful.model import RunState
from wakeful.operations.cancelling import MEANS
from wakeful.operations.forking import plan_fork
from wakeful.resources import redo
from wakeful.resources.declare import Alias, Column, Listing, Page, Printed, Resource, Show, Verb
from wakeful.resources.desk import Desk
from wakeful.resources.effects import effects as list_effects
from wakeful.resources.held_outputs import RELEASE, RETURN
from wakeful.resources.parameters import LONGEST_PAGE, UNSET, After, FromFile, Limit, Param
from wakeful.resources.refusals import Refused, Unfit
from wakeful.resources.run_reading import find_run, page_of_runs
from wakeful.resources.run_views import CancelledRun, ForkedRun, ForkPlan, Run, RunDetail
from wakeful.resources.run_words import show_run
from wakeful.resources.times import A_TIME, moment_of
from wakeful.resources.words import Line, Look, line, number, plain, took, whole_json
from wakeful.stores.known import count_runs
from wakeful.stores.reads import SHORTEST_PREFIX
from wakeful.stores.run_filters import RunFilter
from wakeful.stores.tampered import effect_to_settle, held_for_tampering, how_to_go_on
from wakeful.stores.verbs.cancel import CancelRun
from wakeful.values import arguments_of

WIDE = 100
NARROW = 70

# looking


async def runs(
    desk: Desk,
    *,
    agent: Annotated[str | None, Param("only runs of this agent", metavar="NAME")] = None,
    state: Annotated[RunState | None, Param("only runs in this state", metavar="STATE")] = None,
    held: Annotated[bool, Param("only runs that wait for a person, with the reason")] = False,
    event: Annotated[
        str | None,
        Param(
            "only runs of this event, by its id or key",
            about="only runs of this event, by its key or its CloudEvents id",
            metavar="ID",
        ),
    ] = None,
    subject: Annotated[
        str | None,
        Param(
            "only runs of events with this subject, such as an order number",
            about="only runs of events with this subject",
            metavar="TEXT",
        ),
    ] = None,
    action: Annotated[str | None, Param("only runs with an effect of this action", metavar="NAME")] = None,
    trace: Annotated[
        str | None,
        Param(
            "only runs of this trace: its id, a prefix of at least 6 characters, or a traceparent",
            about="only runs of this trace: its id, a prefix of it, or a traceparent",
            metavar="ID",
        ),
    ] = None,
    since: Annotated[
        str | None,
        Param(
            "only runs created at or after this time, such as 2h or yesterday",
            about=f"only runs created at or after this time: {A_TIME}",
            metavar="TIME",
        ),
    ] = None,
    until: Annotated[
        str | None,
        Param(
            "only runs created before this time", about=f"only runs created before this time: {A_TIME}", metavar="TIME"
        ),
    ] = None,
    limit: Limit = 50,
    after: After = None,
) -> Page[Run]:
    if held and state not in {None, "held"}:
        typed = f"--held is --state held, and this is --state {state}: give one of them"
        raise Unfit(f"held is state=held, and this is state={state}: give one of them", "held", typed=typed)
    wanted = RunFilter(
        agent,
        "held" if held else state,
        event,
        subject,
        action,
        trace,
        await moment_of(desk, since, "since", command="runs"),
        await moment_of(desk, until, "until", command="runs"),
    )
    return await page_of_runs(desk, wanted, limit=limit, after=after)


async def find(desk: Desk, key: str) -> RunDetail | None:
    """One run by its id or an unambiguous prefix of it."""
    return await find_run(desk, key)


async def missing(_: Desk, key: str) -> str:
    return no_run(key)


def no_run(identifier: str) -> str:
    """The command line's message for an unknown run."""
    more = f"; give {SHORTEST_PREFIX} characters of its id or more" if len(identifier) < SHORTEST_PREFIX else ""
    more += "; a delivery is replayed by `wakeful deliveries replay ID`" if "-" in identifier else ""
    return f'there is no run "{plain(identifier)}": see `wakeful runs`{more}'


async def none(desk: Desk, **_: Any) -> str:
    if sum((await count_runs(desk.reads)).values()):
        return "no matching runs"
    return "no runs yet. Send an event with `wakeful emit APP TYPE`, or run an agent with `wakeful run APP AGENT`."


def note_of(run: Run) -> str:
    """Why the run is in its state, after its number of crashes."""
    crashed = f"{run['crashes']} crashed; " if run["crashes"] else ""
    return plain(f"{crashed}{run['reason'] or ''}".removesuffix("; "))


def room_for_notes(found: Sequence[Run]) -> int:
    return max(WIDE, 3 * max(len(note_of(run)) for run in found))


# held runs


async def what_is_held(desk: Desk, found: Sequence[Run], given: Mapping[str, Any], look: Look) -> Printed:
    """What waits for a person, why, and how to go on: effects that may have happened, outputs that failed their checks, tampered
    payloads, and runs held for other reasons, such as changed code.
    """
    if not given.get("held") and given.get("state") != "held":
        return ()
    shown = {run["id"] for run in found}
    held = await list_effects(desk, state="held", limit=LONGEST_PAGE)
    effects = [effect for effect in held.items if effect["run"] in shown]
    waiting = {effect["run"] for effect in effects}
    tampered = [run for run in found if held_for_tampering(run["reason"])]
    others = [run for run in found if run["id"] not in waiting and run not in tampered]
    details = {run["id"]: await find(desk, run["id"]) for run in others}
    # A run that was removed meanwhile has no output.
    outputs = [run for run in others if (whole := details[run["id"]]) is not None and whole["outcome"] is not None]
    outdated = {run["id"] for run in outputs if (whole := details[run["id"]]) is not None and whole["outdated"]}
    stopped = [run for run in others if run not in outputs]
    return [
        *held_lines(effects, outputs, outdated, tampered, stopped, look),
        *ways_on(len(effects), outputs, outdated, tampered, stopped),
    ]


def held_lines(
    effects: Sequence[Mapping[str, Any]],
    outputs: Sequence[Run],
    outdated: set[str],
    tampered: Sequence[Run],
    stopped: Sequence[Run],
    look: Look,
) -> Iterator[Line]:
    for effect in effects:
        called = f"{plain(effect['action'])}{plain(arguments_of(effect['arguments']))}"
        of_run = f"{called} of run {look.short(effect['run'])}"
        yield from held_line("effect", effect["id"], of_run, effect["reason"], look)
    for run in outputs:
        late = (
            "; the agent's state has changed since, so this output cannot be released" if run["id"] in outdated else ""
        )
        because = f"{run['reason'] or ''}{late}"
        yield from held_line("output of run", look.short(run["id"]), plain(run["agent"]), because, look)
    for kind, found in (("tampering, run", tampered), ("run", stopped)):
        for run in found:
            yield from held_line(kind, look.short(run["id"]), plain(run["agent"]), run["reason"], look)


def held_line(kind: str, identifier: str, what: str, reason: str | None, look: Look) -> Iterator[Line]:
    yield line((f"{kind} ", "dim"), (plain(identifier), "bold"), f"  {what}", whole=look.piped)
    yield line(plain(reason or ""), indent=2)


def ways_on(
    effects: int, outputs: Sequence[Run], outdated: set[str], tampered: Sequence[Run], stopped: Sequence[Run]
) -> Iterator[str]:
    if effects:
        yield "Settle an effect with `wakeful effects confirm|repeat|abandon ID --note TEXT`."
        yield "With confirm, pass the call's return value as `--result JSON`."
    if effects > 1:
        yield "Settle many at once with `wakeful effects confirm|repeat|abandon --agent NAME --plan`."
    if outputs:
        release = " `wakeful release RUN` publishes it." if len(outdated) < len(outputs) else ""
        yield f"Show an output with `wakeful trace RUN`.{release}"
        yield "`wakeful return RUN --remark TEXT` runs it again and tells it the remark."
        yield "`wakeful replay RUN` runs it again, `wakeful dead discard RUN` ends it."
    if tampered:
        settles = any(effect_to_settle(run["reason"]) is not None for run in tampered)
        yield f"{how_to_go_on('RUN', 'EFFECT' if settles else None)}."
    if stopped:
        yield "`wakeful why RUN` shows why a run is held and how to go on."


# cancelling


async def cancel(desk: Desk, run: RunDetail) -> CancelledRun | None:
    done = await desk.store.do(CancelRun(run["id"], by=desk.by, note=desk.note))
    if done is None:
        return None
    answer = CancelledRun(run=done.run, was=done.was, state=done.now)
    if done.refused is not None:
        title = "This run cannot be cancelled"
        told = {**answer, "refused": done.refused}
        raise Refused(f"run {done.run} {done.refused}", kind="over", title=title, answer=told)
    return answer


def cancelled(one: CancelledRun) -> str:
    return f"run {one['run']}: {MEANS[one['state']]}; was {one['was']}"


# forking

FromStep = Annotated[
    str, Param("the first step to run again, such as fetch#2", http="from", flag="--from", metavar="STEP")
]
KeptData = Annotated[Any, Param("data for the handler, instead of the event's own", http="data", http_only=True)]
KeptSteps = Annotated[
    Any, Param("results that replace those of kept steps, by step name", http="steps", http_only=True, shape="object")
]
Edit = Annotated[
    Any,
    Param(
        "use this edited copy of the --show output; - reads standard input", metavar="FILE", shell_only=True, file=True
    ),
]


async def fork(
    desk: Desk, run: RunDetail, *, step: FromStep, data: KeptData = UNSET, steps: KeptSteps = UNSET, edit: Edit = UNSET
) -> ForkedRun | None:
    plan = plan_fork({**run}, step)
    redo.stored_data(desk, run, data)
    given = {name: value for name, value in (("data", data), ("steps", steps)) if value is not UNSET}
    try:
        request = plan.request(given if edit is UNSET else edit.value, by=desk.by, note=desk.note)
    except InvalidData as error:
        raise unfit_edit(error, edit) from None
    done = await desk.store.do(request)
    if done is None:
        return None
    if done.refused is not None:
        raise Refused(f"run {run['id']} {done.refused}", kind="not-over", title="This run cannot be forked")
    return ForkedRun(run=done.run, was=done.was, kept=[one["name"] for one in plan.kept])


async def planned_fork(
    desk: Desk, run: RunDetail, *, step: FromStep, data: KeptData = UNSET, steps: KeptSteps = UNSET, edit: Edit = UNSET
) -> ForkPlan:
    del desk, data, steps, edit
    shown = plan_fork({**run}, step).shown()
    return ForkPlan(data=shown["data"], steps=shown["steps"])


def unfit_edit(error: InvalidData, edit: FromFile) -> Refused:
    detail = str(error) if edit is UNSET else f"--edit {edit.name}: {error}"
    return Refused(detail, kind="data-does-not-fit", title="The edit does not fit", status=422, field="steps")


def forked(one: ForkedRun, run: RunDetail, given: Mapping[str, Any]) -> str:
    kept = number(len(one["kept"]), "step")
    return f"run {one['run']}: forked from {run['id']} at {given['step']}; {kept} kept"


TAKES = {
    "list": "runs list takes no RUN: use runs show RUN",
    "show": "runs show takes one RUN",
    "replay": "replay takes at most one RUN",
    "discard": "runs discard takes at most one RUN",
    "cancel": "cancel takes one or more RUNs, like: wakeful cancel 22290ae6d7",
    "release": "release takes one RUN, like: wakeful release 22290ae6d7",
    "return": "return takes one RUN and --remark TEXT, like: wakeful return 22290ae6d7 --remark 'name the customer'",
    "fork": "fork takes one RUN and --from STEP, like: wakeful fork 22290ae6d7 --from fetch",
}
RESOURCE = Resource(
    noun="run",
    plural="runs",
    view=Run,
    in_place=True,
    mostly_listed=True,
    metavar="RUN",
    example="22290ae6d7",
    missing=missing,
    listing=Listing(
        read=runs,
        summary="list runs, newest first",
        none=none,
        columns=(
            Column("run", show=lambda run, look: look.short(run["id"])),
            Column("agent"),
            Column("state"),
            Column("tries", "attempts", least=NARROW),
            Column("took", show=lambda run, _: took(run["started_at"], run["finished_at"]), least=NARROW),
            Column("event", show=lambda run, _: plain(f"{run['event']['type']} {run['event']['id']}"), flexible=True),
            Column("made", "created_at"),
            Column("note", show=lambda run, _: (note_of(run), "dim")),
        ),
        below="note",
        beside=room_for_notes,
        told=what_is_held,
    ),
    show=Show(
        find=find, summary="show one run with its steps, effects, decisions, deliveries and outcome", lines=show_run
    ),
    verbs=(
        Verb(
            name="replay",
            run=redo.replay,
            plan=redo.plan_replay,
            plans=redo.would_one,
            summary="resume a run that is over",
            says=redo.replayed,
            guarded="replay",
            code=redo.CHECKS,
            statuses=("422",),
            bulk=redo.REPLAY,
            more="`wakeful dead list` groups dead letters by agent and error.",
        ),
        Verb(
            name="discard",
            run=redo.discard,
            plan=redo.plan_discard,
            plans=redo.would_one,
            summary="give up a dead letter for good",
            says=redo.discarded,
            code=redo.CHECKS,
            danger="some",
            bulk=redo.DISCARD,
        ),
        Verb(
            name="cancel",
            run=cancel,
            summary="stop a run at its next step and undo its effects",
            says=cancelled,
            several=True,
            danger="some",
            more="`wakeful why RUN` shows how far it got; `wakeful replay RUN` runs it after all.",
        ),
        RELEASE,
        RETURN,
        Verb(
            name="fork",
            run=fork,
            plan=planned_fork,
            plan_flag="--show",
            plan_help="only print what would be kept, ready to edit",
            plans=whole_json,
            summary="run again from a step on, keeping the results of earlier steps",
            says=forked,
            person="fork a run",
            statuses=("422",),
            example={"from": "judge", "steps": {"fetch": {"id": 17}}},
            more="`wakeful trace RUN` shows its steps. Confirmed effects are reused, not repeated.",
        ),
    ),
    more="`wakeful trace RUN` shows one run step by step, `wakeful why RUN` explains it.",
    takes=TAKES.get,
)
ALIASES = {name: Alias("runs", name) for name in ("replay", "cancel", "release", "return", "fork")}
