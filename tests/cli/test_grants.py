"""`wakeful grants`: a yes in advance, listed with its uses, and taken back."""

import re

import pytest

APP = """
from wakeful import App, Operation, Run, action, on

app = App("desk", policy="policy.yaml")


@action(safety="idempotent")
async def refund(op: Operation, amount: float) -> None:
    print("refunded", amount, flush=True)


@app.agent(on("ticket.created"))
async def triage(run: Run) -> None:
    await run.act(refund, run.event.data["amount"])
"""
POLICY = "policy: 1\nrules:\n  - {id: look, action: refund, answer: ask, reason: look first}\n"
GRANT = ("--until", "7d", "--most", "2")


@pytest.fixture
def desk(wakeful, folder) -> None:
    (folder / "policy.yaml").write_text(POLICY)
    (folder / "app.py").write_text(APP)
    wakeful("emit", "app.py", "ticket.created", "--id", "a", "--data", '{"amount": 1.0}')
    wakeful("once", "app.py")


def emit(wakeful, identifier: str, amount: float) -> None:
    wakeful("emit", "app.py", "ticket.created", "--id", identifier, "--data", f'{{"amount": {amount}}}')


def test_from_the_first_to_the_last(wakeful, desk):
    assert "no grant is live" in wakeful("grants").out
    where = "arguments.amount < 10.0"
    said = wakeful("grants", "add", "--action", "refund", "--where", where, *GRANT, "--as", "ada", "--note", "away").out
    (name,) = set(re.findall(r"g-[a-z0-9]{6}", said))
    assert f"grant {name} (app desk): effects of action refund where {where} need no person any more" in said
    for identifier, amount in (("b", 5.0), ("c", 50.0), ("d", 5.0), ("e", 5.0)):
        emit(wakeful, identifier, amount)
    assert wakeful("once", "app.py").out.count("refunded 5.0") == 2
    assert "no grant is live" in wakeful("grants").out
    (listed,) = wakeful("grants", "--all", "--json").json["grants"]
    assert (listed["id"], listed["state"], listed["used"], listed["by"]) == (name, "used-up", 2, "ada")
    shown = wakeful("grants", "show", name).out
    assert "2 of 2 uses" in shown
    assert "granted by ada" in shown
    assert shown.count("refund ") >= 2
    assert f"grant {name} by ada" in wakeful("decisions").out
    assert "is revoked: it has served 2 effects" in wakeful("grants", "revoke", name, "--as", "bob").out
    assert "was already revoked by bob" in wakeful("grants", "revoke", name, code=1).err


def test_with_the_code_its_names_are_checked(wakeful, desk):
    common = ("grants", "add", "--app", "app.py", *GRANT)
    said = wakeful(*common, "--action", "refund", "--where", "arguments.amont < 1.0", code=2).err
    assert 'Did you mean "amount"?' in said
    said = wakeful(*common, "--agent", "triaje", code=1).err
    assert 'app desk has no agent "triaje". Did you mean "triage"?' in said
    assert "effects of any action by agent triage" in wakeful(*common, "--agent", "triage").out


@pytest.mark.parametrize(
    ("words", "said", "code"),
    [
        (GRANT, "--agent or --action is missing", 2),
        (("--action", "refnd", *GRANT), 'Did you mean "refund"?', 1),
        (("--agent", "triaje", *GRANT), 'Did you mean "triage"?', 1),
        (("--action", "refund", "--until", "yesterday", "--most", "2"), "--until:", 2),
        (("--action", "refund", "--until", "7d", "--most", "0"), "--most", 2),
        (("--action", "refund", "--until", "7d"), "--most", 2),
        (("--action", "refund", *GRANT, "--where", "1 + 1"), "not true or false", 2),
        (("--action", "refund", *GRANT, "--where", "argument.amount > 1"), "--where:", 2),
    ],
)
def test_what_is_refused(wakeful, desk, words, said, code):
    assert said in wakeful("grants", "add", *words, code=code).err
    assert wakeful("grants", "--all", "--json").json == {"grants": []}
