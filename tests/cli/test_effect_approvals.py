"""An effect that a rule asks about, seen and answered from the command line, on a terminal of 80 columns."""

import pytest

APP = """
from wakeful import App, Operation, Run, action, on

app = App("shop", policy="policy.yaml")


@action(safety="idempotent", risk="high")
async def refund(op: Operation, order: str, amount: float, card: str) -> str:
    return f"refunded {amount}"


@app.agent(on("order.returned"), owner="ops")
async def returns(run: Run) -> str:
    return await run.act(refund, run.event.id, run.event.data["amount"], "4111")


@app.agent(on("order.odd"))
async def odd(run: Run) -> str:
    return await run.ask("What happened?", schema=str)
"""
POLICY = """
policy: 1
redact: [arguments.card]
rules:
  - {id: refunds, action: refund, answer: allow}
  - id: large-refunds
    action: refund
    when: arguments.amount > 100.0
    answer: ask
    reason: above 100
    approve: {by: [ops], within: 4h, edit: true}
"""
DO_IT = 'May agent returns do refund(order="o1", amount=150.0, card="[redacted]")?'


@pytest.fixture
def asked(wakeful, folder, monkeypatch) -> str:
    """The approval of a refund of 150, and its run waits; the id of the approval."""
    (folder / "app.py").write_text(APP)
    (folder / "policy.yaml").write_text(POLICY)
    monkeypatch.setenv("COLUMNS", "80")
    wakeful("emit", "app.py", "order.returned", "--id", "o1", "--data", '{"amount": 150.0}')
    wakeful("once", "app.py", code=None)
    (approval,) = wakeful("approvals", "--json").json["approvals"]
    return str(approval["id"])


def ask_a_question(wakeful) -> None:
    wakeful("emit", "app.py", "order.odd")
    wakeful("once", "app.py", code=None)


def test_the_listing_shows_what_would_happen_and_how_to_answer(wakeful, asked):
    shown = wakeful("approvals").out
    assert f"\n  {DO_IT}\n  above 100\n" in shown
    assert " in 4 h" in shown
    assert shown.endswith(
        "Answer one with `wakeful approvals approve ID` or `wakeful approvals deny ID`;\n"
        "`wakeful approvals show ID` shows what would happen.\n"
    )
    ask_a_question(wakeful)
    both = wakeful("approvals").out
    assert "Answer a question with `wakeful approvals answer ID ANSWER`" in both
    assert "Answer one with `wakeful approvals approve ID`" in both
    assert all(len(line) <= 80 for line in both.splitlines())


def test_it_names_the_rule_that_asks(wakeful, asked):
    assert "rule: large-refunds  action: refund  digest: " in wakeful("approvals", "show", asked).out


def test_it_says_whether_arguments_may_be_edited(wakeful, folder, asked):
    assert wakeful("approvals", "show", asked, "--json").json["edit"] is True
    assert "to change arguments: approve with `--arguments JSON`" in wakeful("approvals", "show", asked).out
    ask_a_question(wakeful)
    question = wakeful("approvals", "--json").json["approvals"][0]
    assert (question["kind"], question["edit"]) == ("question", False)
    assert "--arguments" not in wakeful("approvals", "show", question["id"]).out


def test_a_trace_of_its_run_names_the_two_answers(wakeful, asked):
    shown = " ".join(wakeful("trace", "o1").out.split())
    assert f"for a yes: wakeful approvals approve {asked[:10]}, or deny" in shown


def test_yes(wakeful, asked):
    answer = wakeful("approvals", "approve", asked, "--as", "ada", "--note", "checked")
    assert answer.out.startswith(f"approval {asked}: approved. Run ")
    wakeful("once", "app.py")
    story = " ".join(wakeful("why", "o1").out.split())
    assert "ada answered its approval with yes at " in story
    assert " UTC: checked. " in story
    assert f"about it: `wakeful approvals show {asked}` says who agreed" in effect_story(wakeful)


def effect_story(wakeful) -> str:
    (effect,) = wakeful("effects", "--json").json["effects"]
    return " ".join(wakeful("why", effect["id"]).out.split())


def test_no(wakeful, asked):
    assert wakeful("approvals", "deny", asked, "--as", "ada").out.startswith(f"approval {asked}: denied. Run ")
    wakeful("once", "app.py", code=None)
    assert "ada answered its approval with no at " in " ".join(wakeful("why", "o1").out.split())


def test_an_edit_that_does_not_fit_and_one_that_does(wakeful, asked):
    edited = wakeful("approvals", "approve", asked, "--as", "ada", "--arguments", '{"amout": 80.0}').out
    assert edited == f"approval {asked}: the arguments are edited. A worker checks them.\n"
    late = wakeful("approvals", "approve", asked, "--as", "bob", code=1).err
    assert "ada edited its arguments at " in late
    assert "a worker has not checked them yet" in late
    wakeful("once", "app.py", code=None)
    shown = " ".join(wakeful("approvals", "show", asked).out.split())
    assert "open again: ada edited the arguments, but refund has no parameter amout" in shown
    wakeful("approvals", "approve", asked, "--as", "ada", "--arguments", '{"amount": 80.0}')
    wakeful("once", "app.py")
    story = " ".join(wakeful("why", "o1").out.split())
    called = 'called with (order="o1", amount=80.0, card="4111"), as a person edited it'
    assert called in story
    (effect,) = wakeful("effects", "--json").json["effects"]
    whole = wakeful("effects", "show", effect["id"]).out
    assert effect["rule"] == "refunds"  # which allows the new amount, and never asked
    assert f"approval {asked}" in whole
    assert "rule refunds asked" not in whole
    assert "Rule refunds asked" not in effect_story(wakeful)


def test_a_grant_tells_times_for_people(wakeful, asked):
    made = wakeful("grants", "add", "--action", "refund", "--until", "7d", "--most", "2").out
    (grant,) = wakeful("grants", "--json").json["grants"]
    assert grant["until"] not in made
    shown = wakeful("grants", "show", grant["id"]).out
    assert grant["until"] not in shown
    assert "UTC, 0 of 2 uses" in shown
    assert "in 7 d" in wakeful("grants").out
