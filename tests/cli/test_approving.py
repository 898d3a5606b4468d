"""`wakeful approvals approve` and `deny`: several at once, two who must agree, edits, and what is refused."""

import os

import pytest

from wakeful.tokens import new_token

APP = """
from wakeful import App, Denied, Operation, Run, action, on

app = App("shop", policy="policy.yaml", people="people.yaml")


@action(safety="idempotent")
async def refund(op: Operation, order: str, amount: float) -> str:
    return f"refunded {amount}"


@app.agent(on("order.returned"), owner="ops")
async def returns(run: Run) -> str:
    try:
        return await run.act(refund, run.event.id, run.event.data)
    except Denied as error:
        return str(error)
"""
POLICY = """
policy: 1
rules:
  - id: large
    action: refund
    when: arguments.amount > 100.0
    answer: ask
    approve: {by: [ops], of: 2, within: 4h, edit: true}
  - id: small
    action: refund
    when: arguments.amount <= 100.0
    answer: ask
    approve: {by: [ops], within: 4h, edit: true}
"""
PEOPLE = "people: {ada: {groups: [ops], token_env: ADA_TOKEN}, bob: {groups: [ops], token_env: BOB_TOKEN}}"


@pytest.fixture
def asked(wakeful, folder, monkeypatch):
    """Let refunds be asked about; the ids of the approvals, in their order."""
    for name in ("ADA_TOKEN", "BOB_TOKEN"):
        monkeypatch.setenv(name, new_token())
    for name, text in (("app.py", APP), ("policy.yaml", POLICY), ("people.yaml", PEOPLE)):
        (folder / name).write_text(text)

    def ask(*amounts):
        for amount in amounts:
            wakeful("emit", "app.py", "order.returned", "--data", str(float(amount)))
        wakeful("once", "app.py", code=None)
        return [one["id"] for one in reversed(wakeful("approvals", "--json").json["approvals"])]

    return ask


def outputs(wakeful):
    wakeful("once", "app.py", code=None)
    found = wakeful("runs", "--json").json["runs"]
    return [wakeful("trace", run["id"], "--json").json["output"] for run in reversed(found)]


def test_they_are_listed_and_shown_with_how_to_answer(wakeful, asked):
    (approval,) = asked(150)
    assert "`wakeful approvals approve ID`" in wakeful("approvals").out
    shown = wakeful("approvals", "show", approval).out
    assert "  amount = 150.0\n2 people must agree\n" in shown
    assert f"`wakeful approvals approve {approval[:10]}` or `wakeful approvals deny {approval[:10]}`" in shown


def test_several_are_approved_at_once(wakeful, asked):
    said = wakeful("approvals", "approve", *asked(10, 20), "--note", "checked").out
    assert said.count(": approved. Run ") == 2
    assert sorted(outputs(wakeful)) == ["refunded 10.0", "refunded 20.0"]


def test_the_others_are_approved_if_one_is_answered_already(wakeful, asked):
    first, second = asked(10, 20)
    wakeful("approvals", "deny", first, "--as", "ada", "--note", "a duplicate")
    result = wakeful("approvals", "approve", first, second, code=1)
    assert "ada answered it" in result.err
    denied, done = sorted(outputs(wakeful))
    assert (denied, done[:8]) == ("action refund: small: ada said no", "refunded")


def test_none_is_answered_if_one_is_unknown(wakeful, asked):
    (approval,) = asked(10)
    assert 'no approval "nothing"' in wakeful("approvals", "approve", approval, "nothing", code=1).err
    assert wakeful("approvals", "show", approval, "--json").json["state"] == "open"


def test_where_two_must_agree_each_needs_a_token(wakeful, asked, monkeypatch):
    (approval,) = asked(150)
    claimed = wakeful("approvals", "approve", approval, "--as", "ada", code=1)
    assert "the name ada is only claimed" in claimed.err
    monkeypatch.setenv("WAKEFUL_TOKEN", os.environ["ADA_TOKEN"])
    assert wakeful("approvals", "approve", approval).out.endswith("1 of 2 agree; 1 more person must agree.\n")
    assert "one person, one vote" in wakeful("approvals", "approve", approval, code=1).err
    monkeypatch.setenv("WAKEFUL_TOKEN", os.environ["BOB_TOKEN"])
    wakeful("approvals", "approve", approval)
    monkeypatch.delenv("WAKEFUL_TOKEN")
    assert outputs(wakeful) == ["refunded 150.0"]


def test_arguments_are_edited(wakeful, asked):
    (approval,) = asked(80)
    said = wakeful("approvals", "approve", approval, "--arguments", '{"amount": 70.0}').out
    assert "the arguments are edited. A worker checks them." in said
    assert outputs(wakeful) == ["refunded 70.0"]


@pytest.mark.parametrize(
    ("words", "said", "code"),
    [
        (("--digest", "0" * 26), "it is about something else by now", 1),
        (("--arguments", "{amount: 70}"), "--arguments: arguments is not JSON", 2),
        (("--arguments", "70"), "the arguments must be an object, by parameter", 1),
    ],
)
def test_what_does_not_fit_changes_nothing(wakeful, asked, words, said, code):
    (approval,) = asked(80)
    assert said in wakeful("approvals", "approve", approval, *words, code=code).err
    assert wakeful("approvals", "show", approval, "--json").json["state"] == "open"


def test_the_digest_that_was_seen_is_approved(wakeful, asked):
    (approval,) = asked(80)
    digest = wakeful("approvals", "show", approval, "--json").json["digest"]
    wakeful("approvals", "approve", approval, "--digest", digest)
    assert outputs(wakeful) == ["refunded 80.0"]
