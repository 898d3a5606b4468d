"""Policy wherever it is asked: each answer for each risk and place, events that close a loop or are fed, schedules, and processes that
only take events in.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest

from support.apps import NewApp, go, pass_time, the_run, working
from support.stores import query
from wakeful import App, Operation, Run, action, on
from wakeful.clock import VirtualClock
from wakeful.model import Decision
from wakeful.operations.declared import Declared
from wakeful.operations.feeding import Feeding, feed_events, plan_feed
from wakeful.policy.decide import DEFAULT_RULES
from wakeful.policy.text import read_policy
from wakeful.runtime import Runtime
from wakeful.stores.request import Actor
from wakeful.stores.verbs.approvals import AnswerApproval
from wakeful.stores.verbs.policies import ApplyPolicy
from wakeful.triggers.every import every

ADA = Actor("ada", "code")
# An event that comes back to agent crawl.
BACK: dict[str, Any] = {"chaindepth": 2, "chainpath": "app/crawl", "chainid": "root"}


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    return tmp_path / "policy.yaml"


def write(path: Path, text: str) -> None:
    path.write_text(text)


def rules(*lines: str) -> str:
    return "policy: 1\nrules:\n" + "".join(f"  - {{{line}}}\n" for line in lines)


async def put_in_force(runtime: Runtime, text: str, *, app: str | None = None, version: str | None = None) -> None:
    """`version`: of a text that cannot be read here."""
    texts = [("policy.yaml", text)]
    await runtime.store.do(ApplyPolicy(app or runtime.app.name, version or read_policy(texts).version, texts, by=ADA))


async def open_approvals(runtime: Runtime) -> list[dict[str, Any]]:
    return [dict(one) for one in (await runtime.reader.approvals(state="open"))["approvals"]]


async def agree(runtime: Runtime) -> None:
    for one in await open_approvals(runtime):
        await runtime.store.do(AnswerApproval(one["id"], "true", one["run"], by=ADA))
    await runtime.drain()


async def open_alarms(runtime: Runtime) -> list[dict[str, Any]]:
    return [dict(one) for one in (await runtime.reader.alarms())["alarms"] if one["state"] != "resolved"]


async def decided(store_url: str) -> list[tuple[Any, ...]]:
    rows = await query(store_url, "select place, answer, rule, mode from wakeful_decision order by seq")
    return [tuple(row) for row in rows]


# the table: answers × risk × place

EFFECT = {"allow": "done", "ask": "waiting", "hold": "held", "deny": "denied"}
ADMISSION = {"allow": "done", "ask": "held", "hold": "held", "deny": None}
BY_RISK = {"low": "done", "medium": "done", "high": "denied"}


@pytest.mark.parametrize(("answer", "risk"), list(product([*EFFECT, None], BY_RISK)))
async def test_each_answer_about_an_effect_of_each_risk(
    new_app: NewApp, policy: Path, store_url: str, answer: str | None, risk: Any
):
    """`None`: no rule applies."""
    write(policy, rules(f"id: mine, action: {'post' if answer else 'p*x'}, answer: {answer or 'deny'}", PAX))
    app, calls = new_app(policy=policy), []

    @action(risk=risk)
    async def post(_: Operation) -> str:
        calls.append(risk)
        return "posted"

    @app.agent(on("go"), attempts=1)
    async def agent(run: Run) -> str:
        return await run.act(post)

    async with working(app) as runtime:
        run = await go(runtime)
        expected = BY_RISK[risk] if answer is None else EFFECT[answer]
        assert run["state"] == expected
        assert calls == ([risk] if expected == "done" else [])
        effects = [(one["state"], one["rule"]) for one in run["effects"]]
        waits = {"done": "confirmed", "waiting": "waiting", "held": "held"}
        rule = "default" if answer is None else "mine"
        assert effects == ([] if expected == "denied" else [(waits[expected], rule)])
        asked = await open_approvals(runtime)
        assert [one["kind"] for one in asked] == (["effect"] if answer == "ask" else [])
        if answer == "ask":
            await agree(runtime)
            assert ((await runtime.reader.run(run["id"])) or {})["state"] == "done"
            assert calls == [risk]
    denied_by = "high_risk" if answer is None else "mine"
    stored = [] if expected == "done" else [("effect", answer or "deny", denied_by, None)]
    assert await decided(store_url) == stored


@action
async def pax(_: Operation) -> None: ...


PAX = "id: other, action: pax, answer: allow"


@pytest.mark.parametrize("answer", ADMISSION)
@pytest.mark.parametrize("chain", [{}, BACK], ids=["plain", "closes a loop"])
async def test_each_answer_at_admission(
    new_app: NewApp, policy: Path, store_url: str, answer: str, chain: dict[str, Any]
):
    write(policy, rules(f"id: mine, at: admission, type: found, answer: {answer}, reason: look first"))
    app = new_app(policy=policy)

    @app.agent(on("found"))
    async def crawl(run: Run) -> None: ...

    async with working(app) as runtime:
        receipt = await app.emit("found", **chain)
        await runtime.drain()
        expected = ADMISSION[answer]
        assert bool(receipt.runs) is (expected is not None)
        if expected is not None:
            assert (await the_run(runtime, receipt))["state"] == expected
        asked = await open_approvals(runtime)
        assert [(one["kind"], one["rule"]) for one in asked] == ([("run", "mine")] if expected == "held" else [])
        if expected == "held":
            assert (asked[0]["due_at"] is None) is (answer == "hold")
            await agree(runtime)
            assert (await the_run(runtime, receipt))["state"] == "done"
    assert await decided(store_url) == ([] if answer == "allow" else [("admission", answer, "mine", None)])


def planner(app: App) -> None:
    @app.agent()
    async def other(run: Run) -> None: ...

    @app.agent(on("go"), attempts=1)
    async def plans(run: Run) -> None:
        await run.schedule("theirs" if run.event.data else "mine", every("1h"), agent=other if run.event.data else None)


@pytest.mark.parametrize(
    ("answer", "theirs", "expected"),
    [
        ("allow", True, "done"),
        ("allow", False, "done"),
        ("deny", True, "denied"),
        ("deny", False, "denied"),
        (None, True, "denied"),
        (None, False, "done"),
    ],
)
async def test_each_answer_at_a_schedule(
    new_app: NewApp, policy: Path, answer: str | None, theirs: bool, expected: str
):
    target = "arguments.target == agent" if answer is None else 'arguments.verb == "add"'
    mode = "watch" if answer is None else "enforce"
    write(
        policy,
        rules(f"id: mine, at: schedule, agent: plans, when: '{target}', answer: {answer or 'deny'}, mode: {mode}"),
    )
    app = new_app(policy=policy)
    planner(app)
    async with working(app) as runtime:
        assert (await go(runtime, theirs))["state"] == expected


# schedules


async def test_a_rule_that_watches_schedules_is_recorded(new_app: NewApp, policy: Path, store_url: str):
    write(
        policy,
        rules(
            "id: look, at: schedule, answer: deny, mode: watch", "id: nope, at: schedule, agent: other, answer: deny"
        ),
    )
    app = new_app(policy=policy)
    planner(app)
    async with working(app) as runtime:
        assert (await go(runtime, False))["state"] == "done"
        assert await decided(store_url) == [("schedule", "deny", "look", "watch")]
        assert (await go(runtime, True))["state"] == "denied"
    assert (await decided(store_url))[1:] == [("schedule", "deny", "look", "watch"), ("schedule", "deny", "none", None)]


async def test_a_rule_that_breaks_on_a_schedule_denies_and_alarms(new_app: NewApp):
    def broken(_: Any) -> Decision | None:
        raise ValueError("cannot tell")

    def only_schedules(facts: Any) -> Decision | None:
        return broken(facts) if hasattr(facts, "schedule") else None

    app = new_app(rules=(only_schedules, *DEFAULT_RULES))
    planner(app)
    async with working(app) as runtime:
        assert (await go(runtime, False))["state"] == "denied"
        await runtime.trouble.stored()
        await runtime.drain()
        assert [one["key"] for one in await open_alarms(runtime)] == ["rule/app/only_schedules"]


# counts at admission


def crawler(app: App, seen: list[Any], **flow: Any) -> None:
    @app.agent(on("found"), owner="desk", **flow)
    async def crawl(run: Run) -> None:
        seen.append([one.data for one in run.events])


@pytest.mark.parametrize("chain", [{}, BACK], ids=["plain", "closes a loop"])
async def test_a_rule_counts_events(new_app: NewApp, policy: Path, store_url: str, chain: dict[str, Any]):
    write(
        policy,
        rules(
            "id: many, at: admission, over: 1/h, answer: deny, reason: too many",
            "id: look, at: admission, over: 1/h, answer: deny, mode: watch",
            "id: see, at: admission, answer: hold, mode: watch",
        ),
    )
    app, seen = new_app(policy=policy), []
    crawler(app, seen)
    async with working(app) as runtime:
        first, second = await app.emit("found", 1, **chain), await app.emit("found", 2, **chain)
        await runtime.drain()
        assert (len(first.runs), len(second.runs), seen) == (1, 0, [[1]])
    assert await decided(store_url) == [
        ("admission", "hold", "see", "watch"),
        ("admission", "hold", "see", "watch"),
        ("admission", "deny", "look", "watch"),
        ("admission", "deny", "many", None),
    ]


@pytest.mark.parametrize("chain", [{}, BACK], ids=["plain", "closes a loop"])
async def test_an_event_that_is_asked_about_and_counted_is_decided_once(
    new_app: NewApp, policy: Path, store_url: str, chain: dict[str, Any]
):
    write(
        policy, rules("id: strangers, at: admission, answer: ask", "id: many, at: admission, over: 5/h, answer: deny")
    )
    app, seen = new_app(policy=policy), []
    crawler(app, seen)
    async with working(app) as runtime:
        await app.emit("found", 1, **chain)
        await agree(runtime)
    assert seen == [[1]]
    assert await decided(store_url) == [("admission", "ask", "strangers", None)]


async def test_an_event_that_is_held_by_its_count_gathers_with_no_other(new_app: NewApp, policy: Path):
    write(policy, rules("id: many, at: admission, over: 1/h, answer: hold"))
    app, seen = new_app(policy=policy), []
    crawler(app, seen, batch=(3, "10s"))
    async with working(app) as runtime:
        for number in (1, 2, 3):
            await app.emit("found", number)
        await pass_time(runtime, "20s")
        assert seen == [[1]]
        assert len(await open_approvals(runtime)) == 2
        assert {one["owner"] for one in await open_alarms(runtime)} == {"desk"}
        await agree(runtime)
        await pass_time(runtime, "20s")
    assert sorted(seen) == [[1], [2], [3]]


# feeding stored events


async def feed(runtime: Runtime, app: App) -> int:
    feeding = Feeding("found", 0, 10**16, "late", "app")
    plan = await plan_feed(runtime.reader, feeding)
    judge = await Declared(app).judge("late", runtime.database, now=runtime.clock.now())
    done = await feed_events(runtime.store, runtime.reader, feeding, plan, by=ADA, judge=judge)
    await runtime.drain()
    return done


async def stored_events(app: App, count: int) -> None:
    async with working(app):
        for number in range(1, count + 1):
            await app.emit("found", number)


def late(app: App, seen: list[Any]) -> None:
    @app.agent()
    async def late(run: Run) -> None:
        seen.append(run.event.data)


@pytest.mark.parametrize(("answer", "runs"), [("deny", ["done"]), ("ask", ["done", "held", "held"])])
async def test_fed_events_are_counted(new_app: NewApp, policy: Path, store_url: str, answer: str, runs: list[str]):
    write(
        policy,
        rules(
            f"id: many, at: admission, agent: late, over: 1/h, answer: {answer}, reason: too many",
            "id: look, at: admission, agent: late, answer: deny, mode: watch",
        ),
    )
    app, seen = new_app(policy=policy), []
    late(app, seen)
    await stored_events(app, 3)
    async with working(app) as runtime:
        assert await feed(runtime, app) == len(runs)
        assert sorted(one["state"] for one in (await runtime.reader.runs(agent="late"))["runs"]) == runs
        assert seen == [1]
        assert await feed(runtime, app) == 0
    stored = sorted(await decided(store_url), key=str)
    assert stored == sorted(
        [("admission", "deny", "look", "watch")] * 3 + [("admission", answer, "many", None)] * 2, key=str
    )


async def test_a_rule_that_breaks_while_events_are_fed_alarms(new_app: NewApp):
    def broken(facts: Any) -> Decision | None:
        raise ValueError("cannot tell")

    app, seen = new_app(rules=(broken, *DEFAULT_RULES)), []
    late(app, seen)
    await stored_events(app, 2)
    async with working(app) as runtime:
        assert await feed(runtime, app) == 0
        assert [one["key"] for one in await open_alarms(runtime)] == ["rule/app/broken"]
    assert seen == []


# a process that only takes events in


async def test_a_process_that_only_takes_events_in_follows_within_a_second(
    new_app: NewApp, policy: Path, clock: VirtualClock
):
    worker, sender = new_app(), new_app()
    crawler(worker, [])
    crawler(sender, [])
    async with working(worker) as runtime, working(sender, worker=False) as only:
        moment = 0.0
        only.policies._now = lambda: moment
        assert (await sender.emit("found")).runs
        await put_in_force(runtime, rules("id: nope, at: admission, answer: deny"))
        moment = only.policies._looked_at + 1.01
        assert not (await sender.emit("found")).runs
