"""Verbs for a run whose output is held, because it did not pass its checks.

release   publish it although it failed, or an edited one that passes
return    give it back with a remark: the handler runs again
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from wakeful.clock import SystemClock
from wakeful.errors import Persistent
from wakeful.operations.editing import DidNotPass, check_edited, run_to_check
from wakeful.operations.redo import what_leaves
from wakeful.resources.declare import Verb
from wakeful.resources.desk import Desk
from wakeful.resources.parameters import UNSET, Param
from wakeful.resources.refusals import Refused, Unfit
from wakeful.resources.run_reading import row_of
from wakeful.resources.run_views import Released, ReturnedRun, RunDetail
from wakeful.resources.words import number
from wakeful.stores.verbs.commit import ReleaseRun
from wakeful.stores.verbs.editing import EditedOutput
from wakeful.stores.verbs.effects import effect_of
from wakeful.stores.verbs.returning import ReturnRun

LONGEST_REMARK = 2_000

Output = Annotated[
    Any,
    Param(
        "publish this output instead, if it passes its checks: JSON, @file or -",
        about="the edited output: it is published instead, if it passes the type and all checks of the agent",
        metavar="JSON",
        nullable=True,
    ),
]
RemarkText = Annotated[
    str,
    Param(
        "what is wrong with the output; the handler reads it as run.remarks",
        about="what is wrong with the output: the handler reads it as `run.remarks`",
        metavar="TEXT",
    ),
]


async def release(desk: Desk, run: RunDetail, *, output: Output = UNSET) -> Released | None:
    edited = None if output is UNSET else await passed(desk, run, output)
    done = await desk.store.do(ReleaseRun(run["id"], edited, by=desk.by, note=desk.note))
    if done is None:
        return None
    if done.refused is not None:
        raise Refused(f"run {run['id']} {done.refused}", kind="not-held", title="This run cannot be released")
    leaving = what_leaves({**run})
    answer = Released(run=run["id"], was=done.was, deliveries=leaving["deliveries"], effects=leaving["effects"])
    if edited is not None:
        answer["edited"] = True
    return answer


async def passed(desk: Desk, run: RunDetail, output: Any) -> EditedOutput:
    """The edited output, checked with the code of the app. Raises Refused if it does not pass, or if the code is not there."""
    app, agent = run["app"], run["agent"]
    row = await row_of(desk, run["id"])
    if run["state"] != "held" or run["outcome"] is None or row is None:
        words = f"run {run['id']} is {run['state']}: only a held output can be edited and released"
        raise Refused(words, kind="not-held", title="This run cannot be released")
    code = desk.code
    if code is None or code.agents.name != app or agent not in code.agents.all:
        where = "name it with --app APP" if desk.by.way == "cli" else f"a server of app {app} has it"
        words = f"an edited output is checked with the code of agent {agent} of app {app}: {where}"
        raise Refused(words, kind="code-needed", title="The code of the app is needed")
    of_run = {one["id"] for one in run["effects"] if one["run"] == run["id"]}
    effects = [effect_of(one) for one in await desk.reads.fetch("load_effects", run["root"])]
    # What an earlier run of its family did is found and not done again, so it counts for this run too.
    known = [one for one in effects if one.undoes is None and (one.id in of_run or one.state == "confirmed")]
    clock = code.agents.clock or SystemClock()
    about = run_to_check(row["envelope"], row["data"], known, app, clock.now())
    try:
        return await check_edited(code.agents.all[agent], output, about, run["token"])
    except (DidNotPass, Persistent) as error:
        title = "The edited output did not pass"
        words = f"the edited output did not pass, and nothing was changed: {error}"
        raise Refused(
            words, kind="output-does-not-pass", title=title, status=422, field="output", wrong_call=False
        ) from None


def released(one: Released) -> str:
    deliveries, effects = number(one["deliveries"], "delivery"), number(one["effects"], "staged effect")
    word = "released with the edited output, and" if one.get("edited") else "released, with"
    return f"run {one['run']}: {word} {deliveries} and {effects}"


async def give_back(desk: Desk, run: RunDetail, *, remark: RemarkText) -> ReturnedRun | None:
    text = remark.strip()
    if not 0 < len(text) <= LONGEST_REMARK:
        words = f"a remark has 1 to {LONGEST_REMARK:,} characters"
        raise Unfit(words, "remark", typed=f"--remark: {words}")
    done = await desk.store.do(ReturnRun(run["id"], text, by=desk.by))
    if done is None:
        return None
    if done.refused is not None:
        raise Refused(f"run {run['id']} {done.refused}", kind="not-held", title="This run cannot be returned")
    return ReturnedRun(run=run["id"], was=done.was, returns=done.number)


def returned(one: ReturnedRun, _: RunDetail, __: Mapping[str, Any]) -> str:
    times = "" if one["returns"] == 1 else f" (return {one['returns']})"
    return f"run {one['run']}: returned{times}; its handler runs again and reads the remark as run.remarks"


RELEASE = Verb(
    name="release",
    run=release,
    summary="publish a held output, as it is or edited",
    says=released,
    person="release an output",
    danger="some",
    code="check the edited output",
    reads_code_for="output",
    statuses=("422",),
    example={"output": {"text": "Hello"}, "note": "made shorter"},
    more="`wakeful runs --held` lists runs that wait for a person; `wakeful trace RUN` shows the output.",
)
RETURN = Verb(
    name="return",
    run=give_back,
    summary="give a held output back with a remark: the handler runs again",
    says=returned,
    person="return an output",
    note=False,
    example={"remark": "name the customer"},
    more="Steps run again. Effects that were done are found and not repeated; prepared deliveries and staged effects are dropped.",
)
