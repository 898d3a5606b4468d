"""`wakeful policy diff OLD NEW`: what another policy would have answered to what is stored."""

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


@app.agent(on("order.returned"))
async def billing(run: Run) -> str:
    await run.act(refund, "ada", float(run.event.data["amount"]))
    await run.act(tell, text="your money is on its way")
    return "done"


@app.agent(on("order.returned", where="data.amount > 1000"))
async def audit(run: Run) -> None: ...
"""
OLD = """
policy: 1
rules:
  - id: huge-refunds
    action: refund
    when: arguments.amount > 1000.0
    answer: deny
  - id: medium-refunds
    action: refund
    when: arguments.amount > 10.0
    answer: allow
"""
NEW = """
policy: 1
rules:
  - id: large-refunds
    action: refund
    when: arguments.amount > 100.0
    answer: hold
    reason: above 100
  - id: quiet
    at: admission
    when: data.amount == 20
    answer: deny
    reason: not 20
"""


@pytest.fixture
def returned(wakeful, folder) -> None:
    """Three orders were returned, and their money refunded."""
    (folder / "app.py").write_text(APP)
    (folder / "policy.yaml").write_text(OLD)
    (folder / "new.yaml").write_text(NEW)
    for amount in (5, 20, 120):
        wakeful("emit", "app.py", "order.returned", "--id", f"o{amount}", "--data", f'{{"amount": {amount}}}')
    wakeful("once", "app.py")


def diff(wakeful, old: str, new: str, *words: str, code: str | None = "app.py") -> dict:
    named = () if code is None else ("--app", code)
    answer = wakeful("policy", "diff", old, new, *named, "--json", *words).json
    assert answer["same"] + answer["stricter"] + answer["looser"] + answer["not_judged"] == (
        answer["admissions"] + answer["effects"]
    )
    return answer


def test_what_changes_is_counted_by_answers_and_rules(wakeful, returned):
    version = wakeful("policy", "--json").json["policies"][0]["version"]
    found = diff(wakeful, version[:8], "new.yaml", "--since", "1h")
    assert (found["admissions"], found["effects"], found["old"]) == (3, 6, version)
    assert (found["same"], found["stricter"], found["looser"], found["not_judged"]) == (7, 2, 0, 0)
    assert {tuple(one.values()) for one in found["pairs"]} == {
        ("stricter", "allow", "medium-refunds", "hold", "large-refunds", 1),
        ("stricter", "allow", "admit_everything", "deny", "quiet", 1),
        ("same", "allow", "medium-refunds", "allow", "default", 1),
    }
    example = next(one for one in found["examples"] if one["new_rule"] == "large-refunds")
    assert (example["at"], example["agent"], example["action"], example["reason"]) == (
        "effect",
        "billing",
        "refund",
        "above 100",
    )
    assert wakeful("effects", "show", example["id"], "--json").json["arguments"] == ["ada", 120.0]


def test_page_by_page(wakeful, returned, monkeypatch):
    monkeypatch.setattr("wakeful.operations.policy_diff.PAGE", 2)
    found = diff(wakeful, "policy.yaml", "new.yaml")
    assert (found["admissions"], found["effects"], found["stricter"]) == (3, 6, 2)


def test_the_other_way_round_is_looser(wakeful, returned):
    found = diff(wakeful, "new.yaml", "policy.yaml")
    assert (found["same"], found["stricter"], found["looser"]) == (7, 0, 2)


def test_in_words(wakeful, returned):
    said = wakeful("policy", "diff", "policy.yaml", "new.yaml", "--app", "app.py").out
    assert "3 admissions, 6 effects" in said
    assert "7 same, 2 stricter, 0 looser, 0 not judged" in said
    assert "allow by medium-refunds → hold by large-refunds: above 100" in said


def test_without_the_code_it_counts_what_it_could_not_judge(wakeful, returned):
    found = diff(wakeful, "policy.yaml", "new.yaml", code=None)
    assert (found["same"], found["stricter"], found["not_judged"], found["code"]) == (5, 1, 3, False)
    assert found["reasons"] == [{"reason": "arguments by position have no names without the app's code", "count": 3}]
    assert "not judged     3  arguments by position" in wakeful("policy", "diff", "policy.yaml", "new.yaml").out


def test_an_unknown_risk_matters_only_where_the_answers_differ(wakeful, returned, folder):
    (folder / "risk.yaml").write_text("policy: 1\nrules: [{id: risky, action: tell, risk: high, answer: allow}]\n")
    (folder / "none.yaml").write_text("policy: 1\nrules: [{id: other, action: other, answer: deny}]\n")
    found = diff(wakeful, "none.yaml", "risk.yaml", code=None)
    assert found["reasons"] == [{"reason": "the risk of the action is not known without the app's code", "count": 3}]
    found = diff(wakeful, "none.yaml", "risk.yaml")
    assert (found["same"], found["not_judged"]) == (9, 0)


def test_counts_depend_on_history(wakeful, returned, folder):
    rule = "policy: 1\nrules: [{id: many, action: refund, over: %s/h, answer: deny}]\n"
    (folder / "two.yaml").write_text(rule % 2)
    (folder / "three.yaml").write_text(rule % 3)
    found = diff(wakeful, "two.yaml", "three.yaml")
    assert found["reasons"] == [{"reason": "a rule with over: depends on what was counted then", "count": 3}]
    (folder / "same.yaml").write_text(f"{rule % 2}# the same rule\n")
    found = diff(wakeful, "two.yaml", "same.yaml")
    assert (found["same"], found["not_judged"]) == (9, 0)


def test_facts_of_runs_removed_payloads_and_denied_effects(wakeful, returned, folder):
    (folder / "facts.yaml").write_text(
        "policy: 1\nrules: [{id: owners, action: tell, when: facts.owner == 'ada', answer: deny}]\n"
    )
    wakeful("emit", "app.py", "order.returned", "--id", "o2000", "--data", '{"amount": 2000}')
    wakeful("once", "app.py")
    database = apsw.Connection(str(next(folder.glob("*.db"))))
    database.execute("update wakeful_event set envelope = '' where id = 'o5'")
    found = diff(wakeful, "policy.yaml", "facts.yaml")
    assert {one["reason"]: one["count"] for one in found["reasons"]} == {
        "facts of the run at that time are not stored": 2,
        "the payload of the event was removed": 3,
        "the effect was denied, and the arguments of denied effects are not stored": 1,
    }


def test_only_what_is_stored_since_then(wakeful, returned, folder):
    database = apsw.Connection(str(next(folder.glob("*.db"))))
    database.execute("update wakeful_event set accepted_at = accepted_at - 864000000000 where id = 'o5'")
    database.execute("update wakeful_effect set opened_at = opened_at - 864000000000 where action = 'tell'")
    found = diff(wakeful, "policy.yaml", "new.yaml")
    assert (found["admissions"], found["effects"]) == (2, 3)
    found = diff(wakeful, "policy.yaml", "new.yaml", "--since", "30d")
    assert (found["admissions"], found["effects"]) == (3, 6)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("policy.yaml", "nothing.yaml"), 1, 'there is no file and no version "nothing.yaml" of app shop'),
        (("policy.yaml", "abc"), 1, 'there is no file and no version "abc"'),
        (("policy.yaml",), 2, "diff OLD NEW"),
        (("policy.yaml", "new.yaml", "--since", "soon"), 2, "--since"),
        (("policy.yaml", "app.py"), 2, "the new policy cannot be used"),
    ],
)
def test_mistakes(wakeful, returned, words, code, said):
    assert said in wakeful("policy", "diff", *words, code=code).err
