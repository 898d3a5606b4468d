"""`wakeful policy explain ID`: every rule, whether it applies, and the condition that decided it."""

from __future__ import annotations

import apsw
import pytest

APP = """
from wakeful import App, Run, action, on

app = App("shop", policy="policy.yaml")


@action(risk="medium")
async def refund(operation, customer: str, amount: float) -> str:
    return "refunded"


@action
async def tell(operation, *, text: str) -> None: ...


@app.agent(on("order.returned"), owner="ops")
async def billing(run: Run) -> str:
    await run.act(refund, "ada", float(run.event.data["amount"]))
    await run.act(tell, text="your money is on its way")
    return "done"


@app.agent(on("order.returned"))
async def audit(run: Run) -> None: ...
"""
POLICY = """
policy: 1
rules:
  - id: small-refunds
    action: refund
    when: arguments.amount <= 100.0
    answer: allow
  - id: large-refunds
    action: refund
    when: arguments.amount > 100.0
    unless: data.vip
    answer: hold
    reason: above 100
  - id: risky
    risk: high
    answer: deny
  - id: shouting
    action: tell
    when: arguments.text.contains("!")
    answer: deny
  - id: test-orders
    at: admission
    agent: audit
    when: data.test
    answer: deny
"""


@pytest.fixture
def returned(wakeful, folder) -> None:
    """One order was returned, and its money refunded."""
    (folder / "app.py").write_text(APP)
    (folder / "policy.yaml").write_text(POLICY)
    wakeful("emit", "app.py", "order.returned", "--id", "o1", "--data", '{"amount": 20, "vip": false, "test": false}')
    wakeful("once", "app.py")


def places(wakeful, *words: str) -> dict:
    """The places of an explanation, by agent or action."""
    answer = wakeful("policy", "explain", *words, "--json").json
    return {one["action"] or one["agent"]: one for one in answer["places"]}


def rules(place: dict) -> dict[str, tuple[bool, str]]:
    return {one["rule"]: (one["applies"], one["why"]) for one in place["rules"]}


def test_an_event_is_explained_for_each_agent_and_effect(wakeful, returned):
    found = places(wakeful, "o1", "--app", "app.py")
    assert set(found) == {"audit", "billing", "refund", "tell"}
    applies, why = rules(found["audit"])["test-orders"]
    assert (applies, why) == (False, 'when "data.test" is false (data.test: false)')
    assert rules(found["billing"])["test-orders"] == (False, "agent billing is not audit")
    assert [found[one]["answer"] for one in ("audit", "billing", "refund", "tell")] == ["allow"] * 4
    refund = rules(found["refund"])
    assert refund["small-refunds"] == (True, 'when "arguments.amount <= 100.0" is true (arguments.amount: 20.0)')
    assert refund["large-refunds"][0] is False
    assert "arguments.amount: 20.0" in refund["large-refunds"][1]
    assert refund["risky"] == (False, "risk medium is not high")
    assert refund["shouting"] == (False, "action refund is not tell")
    assert (found["refund"]["rule"], found["refund"]["decided_by"], found["refund"]["lacks"]) == (
        "small-refunds",
        "small-refunds",
        [],
    )


def test_a_run_and_an_effect_by_the_beginning_of_their_ids(wakeful, returned):
    run = next(one for one in wakeful("runs", "--json").json["runs"] if one["agent"] == "billing")
    explained = wakeful("policy", "explain", run["id"][:10], "--json").json
    assert (explained["kind"], explained["id"], explained["app"]) == ("run", run["id"], "shop")
    assert [(one["at"], one["agent"]) for one in explained["places"]] == [
        ("admission", "billing"),
        ("effect", "billing"),
        ("effect", "billing"),
    ]
    effect = next(one for one in wakeful("effects", "--json").json["effects"] if one["action"] == "refund")
    explained = wakeful("policy", "explain", effect["id"][:10], "--json").json
    assert (explained["kind"], explained["id"]) == ("effect", effect["id"])
    assert [one["id"] for one in explained["places"]] == [effect["id"]]


def test_without_the_code_it_says_what_is_not_known(wakeful, returned):
    found = places(wakeful, "o1")
    assert found["refund"]["lacks"] == [
        "the risk of the action is not known without the app's code",
        "arguments by position have no names without the app's code",
    ]
    # What cannot be told counts against: the allow does not apply, the hold does.
    asked = {one["rule"]: one for one in found["refund"]["rules"]}
    assert (asked["small-refunds"]["applies"], asked["small-refunds"]["unknown"]) == (False, True)
    assert (asked["large-refunds"]["applies"], asked["large-refunds"]["unknown"]) == (True, True)
    assert rules(found["tell"])["shouting"][0] is False  # its argument is stored by keyword
    assert "arguments by position have no names without the app's code" not in found["tell"]["lacks"]
    assert "--app APP names the code" in wakeful("policy", "explain", "o1").out


def test_it_is_explained_by_the_policy_in_force_now(wakeful, returned, folder):
    (folder / "policy.yaml").write_text(POLICY.replace("> 100.0", "> 10.0").replace("<= 100.0", "<= 10.0"))
    wakeful("policy", "apply", "policy.yaml")
    said = wakeful("policy", "explain", "o1", "--app", "app.py").out
    assert 'large-refunds (hold) applies: when "arguments.amount > 10.0" is true (arguments.amount: 20.0)' in said
    assert "answer: hold, by large-refunds: above 100" in said


def test_the_payload_of_the_event_is_gone(wakeful, returned, folder):
    apsw.Connection(str(next(folder.glob("*.db")))).execute("update wakeful_event set envelope = ''")
    found = places(wakeful, "o1", "--app", "app.py")
    assert {one["answer"] for one in found.values()} == {None}
    assert found["refund"]["lacks"] == ["the payload of the event was removed"]
    assert "answer: it cannot be judged" in wakeful("policy", "explain", "o1").out


def test_a_denied_effect_has_only_its_decision(wakeful, returned, folder):
    (folder / "policy.yaml").write_text(POLICY.replace("answer: hold", "answer: deny"))
    wakeful("emit", "app.py", "order.returned", "--id", "o2", "--data", '{"amount": 200, "vip": false, "test": false}')
    wakeful("once", "app.py")
    refund = places(wakeful, "o2", "--app", "app.py")["refund"]
    assert (refund["state"], refund["decided_by"], refund["answer"]) == ("denied", "large-refunds", None)
    assert refund["lacks"] == [
        "the effect was denied, and the arguments of denied effects are not stored. Then: above 100"
    ]


def test_an_unknown_id(wakeful, returned):
    refused = wakeful("policy", "explain", "nothing", code=1)
    assert 'no event, run or effect is called "nothing"' in refused.err
    assert "explain and an ID" in wakeful("policy", "explain", code=2).err
