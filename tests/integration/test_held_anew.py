"""Runs that are held at admission are judged anew once another policy is in force: they begin, are denied, or go on waiting for the people
that the new text wants.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, cast

import httpx2
import pytest

from integration.test_policy_places import (
    ADA,
    BACK,
    agree,
    crawler,
    decided,
    feed,
    late,
    open_alarms,
    open_approvals,
    put_in_force,
    rules,
    stored_events,
    write,
)
from support.apps import NewApp, pass_time, the_run, working
from support.stores import query
from support.tokens import TOKEN, WITH_TOKEN
from wakeful.model import Decision, Receipt
from wakeful.policy.decide import DEFAULT_RULES
from wakeful.resources.approvals import told
from wakeful.runtime import Runtime
from wakeful.stores.request import Actor
from wakeful.stores.verbs.approvals import AnswerApproval
from wakeful.stores.verbs.tending import TendApprovals

S = "id: s, at: admission, answer: ask"
BOB = Actor("bob", "code")


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "policy.yaml"
    write(path, rules(S))
    return path


async def judged_by(runtime: Runtime, *lines: str) -> None:
    """Another text is in force, and the process has looked."""
    await put_in_force(runtime, rules(*lines))
    await runtime.policy_files.run_once()
    await runtime.drain()


async def yes(runtime: Runtime, by: Actor = ADA) -> None:
    for one in await open_approvals(runtime):
        await runtime.store.do(AnswerApproval(one["id"], "true", one["run"], app="app", by=by))
    await runtime.drain()


async def state_of(runtime: Runtime, receipt: Receipt) -> tuple[str, str | None]:
    run = await the_run(runtime, receipt)
    return run["state"], run["reason"]


async def test_a_rule_that_denies_by_now_denies_it(new_app: NewApp, policy: Path, store_url: str):
    app, seen = new_app(policy=policy), []
    crawler(app, seen)
    async with working(app) as runtime:
        receipt = await app.emit("found", 1)
        await runtime.drain()
        (asked,) = await open_approvals(runtime)
        await judged_by(runtime, "id: s, at: admission, answer: deny, reason: not these")
        assert await state_of(runtime, receipt) == ("denied", "s: not these")
        assert await open_approvals(runtime) == []
        assert await open_alarms(runtime) == []
        approval = await runtime.reader.approval(asked["id"])
        assert approval is not None
        assert (approval["state"], approval["note"]) == ("withdrawn", "s: not these")
        late_yes = await runtime.store.do(AnswerApproval(asked["id"], "true", asked["run"], by=ADA))
        assert late_yes is not None
        assert not late_yes.first
    assert seen == []
    assert await decided(store_url) == [("admission", "ask", "s", None), ("admission", "deny", "s", None)]


async def test_if_no_rule_asks_any_more_it_begins(new_app: NewApp, policy: Path):
    app, seen = new_app(policy=policy), []
    crawler(app, seen)
    async with working(app) as runtime:
        receipt = await app.emit("found", 1)
        await runtime.drain()
        (asked,) = await open_approvals(runtime)
        await judged_by(runtime, "id: other, at: admission, type: lost, answer: ask")
        assert (await state_of(runtime, receipt))[0] == "done"
        assert await open_alarms(runtime) == []
        approval = await runtime.reader.approval(asked["id"])
        assert approval is not None
        assert (approval["state"], approval["note"]) == (
            "withdrawn",
            "the policy has changed, and no rule asks any more",
        )
    assert seen == [[1]]


async def test_an_approval_on_the_same_terms_stays_with_its_votes(new_app: NewApp, policy: Path):
    terms = "approve: {by: [ada, bob, eve], of: 2, within: 4h, escalate: [{after: 1h, to: [leads]}]}"
    write(policy, rules(f"{S}, {terms}", "id: t, at: admission, answer: ask"))
    people = policy.with_name("people.yaml")
    write(people, "people: {ada: {}, bob: {groups: [leads]}, eve: {}}\n")
    app, seen = new_app(policy=policy, people=people), []
    crawler(app, seen)
    async with working(app) as runtime:
        receipt = await app.emit("found", 1)
        await runtime.drain()
        before = {one["rule"]: one for one in await open_approvals(runtime)}
        proved = Actor("ada", "http", proved=True)
        await runtime.store.do(AnswerApproval(before["s"]["id"], "true", receipt.runs[0], by=proved))
        await pass_time(runtime, "2h")
        await runtime.store.do(TendApprovals("app"))  # more people may answer s
        await judged_by(
            runtime, f"{S}, when: 'true', {terms}", "id: t, at: admission, answer: ask, approve: {by: [eve]}"
        )
        assert (await state_of(runtime, receipt))[0] == "held"
        after = {one["rule"]: one for one in await open_approvals(runtime)}
        assert (after["s"]["id"], after["s"]["by"]) == (before["s"]["id"], ["ada", "bob", "eve", "leads"])
        assert [vote["by"] for vote in after["s"]["votes"]] == ["ada"]
        assert after["t"]["id"] != before["t"]["id"]
        assert (after["t"]["by"], after["t"]["votes"]) == (["eve"], [])
        first = await runtime.reader.approval(before["t"]["id"])
        assert first is not None
        assert (first["state"], first["note"]) == (
            "withdrawn",
            "the policy has changed, and this approval is not needed any more",
        )
        assert len(await open_alarms(runtime)) == 2
        await yes(runtime, Actor("eve", "http", proved=True))
        assert (await state_of(runtime, receipt))[0] == "done"
    assert seen == [[1]]


async def test_a_yes_to_one_rule_stays_while_another_is_asked_anew(new_app: NewApp, policy: Path):
    write(policy, rules(S, "id: t, at: admission, answer: ask"))
    app, seen = new_app(policy=policy), []
    crawler(app, seen)
    async with working(app) as runtime:
        receipt = await app.emit("found", 1)
        await runtime.drain()
        first = next(one for one in await open_approvals(runtime) if one["rule"] == "s")
        await runtime.store.do(AnswerApproval(first["id"], "true", first["run"], by=ADA))
        await judged_by(runtime, S, "id: u, at: admission, answer: ask")
        assert [one["rule"] for one in await open_approvals(runtime)] == ["u"]
        await judged_by(runtime, S)
        assert (await state_of(runtime, receipt))[0] == "done"
    assert seen == [[1]]


async def test_a_text_that_comes_back_asks_with_a_new_approval(new_app: NewApp, policy: Path):
    app, seen = new_app(policy=policy), []
    crawler(app, seen)
    stricter = f"{S}, approve: {{by: [eve]}}"
    async with working(app) as runtime:
        receipt = await app.emit("found", 1)
        await runtime.drain()
        ids = []
        for text in (S, stricter, S, stricter):
            await judged_by(runtime, text)
            (asked,) = await open_approvals(runtime)
            ids.append(asked["id"])
        assert len(set(ids)) == 4
        await yes(runtime)
        assert (await state_of(runtime, receipt))[0] == "done"


async def test_a_hold_that_replaces_an_ask_waits_without_an_end(new_app: NewApp, policy: Path):
    app, seen = new_app(policy=policy), []
    crawler(app, seen)
    async with working(app) as runtime:
        receipt = await app.emit("found", 1)
        await runtime.drain()
        (asked,) = await open_approvals(runtime)
        assert asked["due_at"] is not None
        await judged_by(runtime, "id: s, at: admission, answer: hold")
        (asked,) = await open_approvals(runtime)
        assert asked["due_at"] is None
        await pass_time(runtime, "100d")
        await runtime.store.do(TendApprovals("app"))
        await agree(runtime)
        assert (await state_of(runtime, receipt))[0] == "done"


@pytest.mark.parametrize(("then", "state"), [("deny", "denied"), ("ask", "done"), ("allow", "done")])
async def test_a_yes_before_the_second_look_does_not_begin_it(new_app: NewApp, policy: Path, then: str, state: str):
    """The vote is kept."""
    app, seen = new_app(policy=policy), []
    crawler(app, seen)
    async with working(app) as runtime:
        receipt = await app.emit("found", 1)
        await runtime.drain()
        await put_in_force(runtime, rules(f"id: s, at: admission, answer: {then}", "id: x, action: pax, answer: deny"))
        (asked,) = await open_approvals(runtime)
        said = await runtime.store.do(AnswerApproval(asked["id"], "true", asked["run"], app="app", by=ADA))
        await runtime.drain()
        assert said is not None
        assert (said.first, said.state, said.votes, said.needed) == (True, "open", 1, 1)
        assert (await state_of(runtime, receipt))[0] == "held"
        assert seen == []
        await pass_time(runtime, "5h")
        await runtime.store.do(TendApprovals("app"))
        assert (await state_of(runtime, receipt))[0] == "held"  # its time does not end before it was judged
        await runtime.policy_files.run_once()
        await runtime.drain()
        assert (await state_of(runtime, receipt))[0] == state
        assert await open_alarms(runtime) == []
        approval = await runtime.reader.approval(asked["id"])
        assert approval is not None
        assert (approval["state"], approval["answered_by"]) == (
            ("answered", "ada") if then == "ask" else ("withdrawn", None)
        )


async def test_a_no_before_the_second_look_stands(new_app: NewApp, policy: Path):
    app, seen = new_app(policy=policy), []
    crawler(app, seen)
    async with working(app) as runtime:
        receipt = await app.emit("found", 1)
        await runtime.drain()
        await put_in_force(runtime, rules("id: s, at: admission, answer: allow"))
        (asked,) = await open_approvals(runtime)
        await runtime.store.do(AnswerApproval(asked["id"], "false", asked["run"], app="app", by=ADA))
        await runtime.policy_files.run_once()
        await runtime.drain()
        assert await state_of(runtime, receipt) == ("denied", "ada said no")
    assert seen == []


@pytest.mark.parametrize(("then", "state"), [("deny", "denied"), ("ask", "done")])
async def test_while_no_process_runs_the_yes_is_stored_and_judged_at_the_next_start(
    new_app: NewApp, policy: Path, then: str, state: str
):
    app, seen = new_app(policy=policy), []
    crawler(app, seen)
    async with working(app) as runtime:
        receipt = await app.emit("found", 1)
        await runtime.drain()
        (asked,) = await open_approvals(runtime)
    other = new_app("other")
    async with working(other) as runtime:
        text = rules(f"id: s, at: admission, answer: {then}", "id: x, action: pax, answer: deny")
        await put_in_force(runtime, text, app="app")
        await runtime.store.do(AnswerApproval(asked["id"], "true", asked["run"], app="app", by=ADA))
    async with working(app) as runtime:
        await runtime.drain()
        assert (await state_of(runtime, receipt))[0] == state
    assert seen == ([[1]] if state == "done" else [])


async def test_counted_rules_count_it_once(new_app: NewApp, policy: Path, store_url: str):
    many = "id: many, at: admission, over: {most}/h, answer: ask"
    write(policy, rules(many.format(most=1)))
    app, seen = new_app(policy=policy), []
    crawler(app, seen)
    async with working(app) as runtime:
        for number in (1, 2, 3, 4):
            await app.emit("found", number)
        await runtime.drain()
        assert (seen, len(await open_approvals(runtime))) == ([[1]], 3)
        await judged_by(runtime, many.format(most=3))
        assert sorted(seen) == [[1], [2], [3]]
        await runtime.policy_files.run_once()
        (asked,) = await open_approvals(runtime)
        uses = await query(store_url, "select count(*), count(distinct use) from wakeful_policy_use")
        assert uses == [(3, 3)]
        await judged_by(runtime, many.format(most=2))
        assert [one["id"] for one in await open_approvals(runtime)] == [asked["id"]]
        await agree(runtime)
        assert sorted(seen) == [[1], [2], [3], [4]]
    assert await query(store_url, "select count(*) from wakeful_policy_use") == [(3,)]


@pytest.mark.parametrize(("then", "expected"), [("deny", []), ("allow", [[1], [2]])])
async def test_runs_in_the_order_of_a_key(new_app: NewApp, policy: Path, then: str, expected: list[Any]):
    """The run that was held had its place; what follows it goes on in either case."""
    write(policy, rules("id: s, at: admission, when: 'data == 1', answer: ask"))
    app, seen = new_app(policy=policy), []
    crawler(app, seen, key=lambda _: "k")
    async with working(app) as runtime:
        for number in (1, 2):
            await app.emit("found", number)
        await runtime.drain()
        assert seen == []
        await judged_by(runtime, f"id: s, at: admission, when: 'data == 1', answer: {then}")
        assert seen == (expected or [[2]])


async def test_runs_that_gather(new_app: NewApp, policy: Path):
    """A run that waits for a person gathers with no other, and so it stays."""
    write(policy, rules("id: s, at: admission, when: 'data == 1', answer: ask"))
    app, seen = new_app(policy=policy), []
    crawler(app, seen, batch=(3, "10s"))
    async with working(app) as runtime:
        for number in (1, 2, 3):
            await app.emit("found", number)
        await judged_by(runtime, "id: s, at: admission, answer: allow")
        await pass_time(runtime, "20s")
    assert sorted(seen) == [[1], [2, 3]]


@pytest.mark.parametrize("then", ["allow", "deny"])
async def test_events_that_joined_by_a_key(new_app: NewApp, policy: Path, then: str):
    app, seen = new_app(policy=policy), []
    crawler(app, seen, once=lambda _: "k")
    async with working(app) as runtime:
        first, second = await app.emit("found", 1), await app.emit("found", 2)
        await runtime.drain()
        assert first.runs == second.runs
        await judged_by(runtime, f"id: s, at: admission, answer: {then}")
        assert (await state_of(runtime, first))[0] == {"allow": "done", "deny": "denied"}[then]
    assert seen == ([[1]] if then == "allow" else [])


async def test_runs_of_a_chain_that_comes_back(new_app: NewApp, policy: Path, store_url: str):
    """Its rounds are not counted once more, and later rounds do not deny an event that was within the limit."""
    app, seen = new_app(policy=policy, chain_rate="2/h"), []
    crawler(app, seen)
    async with working(app) as runtime:
        receipts = [await app.emit("found", number, **BACK) for number in (1, 2, 3, 4)]
        assert [len(one.runs) for one in receipts] == [1, 1, 0, 0]
        counted = await query(store_url, "select rounds from wakeful_chain")
        await judged_by(runtime, S, "id: x, action: pax, answer: deny")
        assert [(await state_of(runtime, one))[0] for one in receipts[:2]] == ["held", "held"]
        await judged_by(runtime, "id: s, at: admission, answer: allow")
        assert await query(store_url, "select rounds from wakeful_chain") == counted == [(4,)]
    assert seen == [[1], [2]]


async def test_a_rule_in_code_that_asks_about_rounds_goes_on_asking(new_app: NewApp, policy: Path, store_url: str):
    def again(facts: Any) -> Decision | None:
        chain = getattr(facts, "chain", None)
        return Decision("ask", "again", "it came back") if chain is not None and chain.rounds > 1 else None

    write(policy, rules("id: x, action: pax, answer: deny"))
    app, seen = new_app(policy=policy, rules=(again, *DEFAULT_RULES)), []
    crawler(app, seen)
    async with working(app) as runtime:
        for number in (1, 2):
            await app.emit("found", number, **BACK)
        await runtime.drain()
        assert seen == [[1]]
        (asked,) = await open_approvals(runtime)
        await judged_by(runtime, "id: y, action: pax, answer: deny")
        assert [one["id"] for one in await open_approvals(runtime)] == [asked["id"]]
        await query(store_url, "delete from wakeful_chain")  # as after a day
        await judged_by(runtime, "id: z, action: pax, answer: deny")
        assert [one["id"] for one in await open_approvals(runtime)] == [asked["id"]]


async def test_fed_events(new_app: NewApp, policy: Path):
    write(policy, rules("id: s, at: admission, agent: late, answer: ask"))
    app, seen = new_app(policy=policy), []
    late(app, seen)
    await stored_events(app, 2)
    async with working(app) as runtime:
        await feed(runtime, app)
        assert len(await open_approvals(runtime)) == 2
        await judged_by(runtime, "id: s, at: admission, agent: late, when: 'data == 1', answer: deny")
        assert sorted(one["state"] for one in (await runtime.reader.runs(agent="late"))["runs"]) == ["denied", "done"]
    assert seen == [2]


async def test_a_run_that_another_process_held_by_the_version_before(new_app: NewApp, policy: Path):
    """It had not looked yet. The next look of any process judges it anew."""
    app, sender, seen = new_app(policy=policy), new_app(), []
    crawler(app, seen)
    crawler(sender, [])
    async with working(app) as runtime, working(sender, worker=False) as only:
        only.policies._now = lambda: only.policies._looked_at
        await judged_by(runtime, "id: s, at: admission, answer: allow")
        await sender.emit("found", 1)
        await runtime.drain()
        assert len(await open_approvals(runtime)) == 1
        await agree(runtime)
        assert seen == []
        await runtime.policy_files.run_once()
        await runtime.drain()
    assert seen == [[1]]


async def test_a_text_that_this_process_cannot_read_judges_nothing_anew(new_app: NewApp, policy: Path):
    app = new_app(policy=policy)
    crawler(app, [])
    async with working(app) as runtime:
        receipt = await app.emit("found", 1)
        await runtime.drain()
        await put_in_force(runtime, "policy: 2\nrules: []\n", version="of a later Wakeful")
        await runtime.policy_files.run_once()
        await runtime.drain()
        assert (await state_of(runtime, receipt))[0] == "held"
        assert len(await open_approvals(runtime)) == 1


async def test_a_rule_that_breaks_denies_and_alarms(new_app: NewApp, policy: Path):
    broken: list[bool] = []

    def breaks(_: Any) -> Decision | None:
        if broken:
            raise ValueError("cannot tell")
        return None

    app = new_app(policy=policy, rules=(breaks, *DEFAULT_RULES))
    crawler(app, [])
    async with working(app) as runtime:
        receipt = await app.emit("found", 1)
        await runtime.drain()
        broken.append(True)
        await judged_by(runtime, S, "id: x, action: pax, answer: deny")
        assert (await state_of(runtime, receipt))[0] == "denied"
        assert [one["key"] for one in await open_alarms(runtime)] == ["rule/app/breaks"]


async def test_rules_that_watch_are_recorded_for_each_version(new_app: NewApp, policy: Path, store_url: str):
    app = new_app(policy=policy)
    crawler(app, [])
    async with working(app) as runtime:
        await app.emit("found", 1)
        await runtime.drain()
        await judged_by(runtime, S, "id: look, at: admission, answer: deny, mode: watch")
        await runtime.policy_files.run_once()
    assert await decided(store_url) == [("admission", "ask", "s", None), ("admission", "deny", "look", "watch")]


async def test_more_of_them_than_one_page(new_app: NewApp, policy: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("wakeful.intake.held_runs.PAGE", 2)
    app, seen = new_app(policy=policy), []
    crawler(app, seen)
    async with working(app) as runtime:
        for number in range(5):
            await app.emit("found", number)
        await judged_by(runtime, "id: s, at: admission, answer: allow")
    assert sorted(seen) == [[number] for number in range(5)]


async def test_what_people_are_told_about_a_yes_before_the_second_look(
    new_app: NewApp, policy: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("WAKEFUL_URL", "http://127.0.0.1:1")
    people = policy.with_name("people.yaml")
    write(people, "people: {ada: {}, bob: {}}\n")
    app = new_app(policy=policy, people=people)
    crawler(app, [])
    async with working(app) as runtime:
        for number in (1, 2):
            await app.emit("found", number)
        await runtime.drain()
        second, first = await open_approvals(runtime)
        transport = httpx2.ASGITransport(app.asgi(token=TOKEN), client=("127.0.0.1", 1))
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:1") as http:
            made = await http.post(f"/v1/approvals/{second['id']}/links", json={"for": "ada"}, headers=WITH_TOKEN)
            await put_in_force(runtime, rules(S, "id: x, action: pax, answer: deny"))
            said = (await http.post(f"/v1/approvals/{first['id']}/approve", json={}, headers=WITH_TOKEN)).json()
            assert (said["state"], said["votes"], said["of"]) == ("open", 1, 1)
            assert told(said, cast("Any", first), {}) == (
                f"approval {first['id']}: 1 of 1 agree. The policy has changed since: run {first['run']} stays held until "
                "a process of its app has judged it by the policy in force."
            )
            path = made.json()["url"].removeprefix("http://127.0.0.1:1")
            digest = re.search(r'name="digest" value="([^"]+)"', (await http.get(path)).text)
            assert digest is not None
            page = await http.post(path, data={"digest": digest[1], "answer": "approve", "note": ""})
            assert "ada has answered. The policy has changed since" in page.text
        await runtime.policy_files.run_once()
        await runtime.drain()
        assert await open_approvals(runtime) == []
