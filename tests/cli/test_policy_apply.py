"""`wakeful policy apply`, `check` and `show`: one file or several, names from the code, and no file that is left out by mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

APP = """
from wakeful import App, Run, action, on

app = App("shop", policy=["policy.yaml", "team.yaml"])


@action
async def refund(operation, customer: str, amount: float) -> str:
    return "refunded"


@app.agent(on("order.returned"))
async def billing(run: Run) -> str:
    return await run.act(refund, run.event.data["customer"], 20.0)
"""
POLICY = """policy: 1
rules:
  - {id: large-refunds, action: refund, when: arguments.amount > 100.0, answer: hold}
"""
TEAM = """policy: 1
rules:
  - {id: never-bob, action: refund, when: 'arguments.customer == "bob"', answer: deny}
"""
UNCHECKED = "names of agents and actions were not checked: --app APP checks them"


@pytest.fixture
def shop(folder: Path, wakeful) -> Path:
    (folder / "app.py").write_text(APP)
    (folder / "policy.yaml").write_text(POLICY)
    (folder / "team.yaml").write_text(TEAM)
    wakeful("once", "app.py")
    return folder


def test_several_files_hold_together(wakeful, shop):
    (shop / "team.yaml").write_text(TEAM.replace('"bob"', '"kim"'))
    assert "2 rules, no mistakes" in wakeful("policy", "check", "policy.yaml", "team.yaml", "--app", "app.py").out
    before = wakeful("policy", "show", "--json").json["version"]
    answer = wakeful("policy", "apply", "policy.yaml", "team.yaml", "--app", "app.py", "--json").json
    assert (answer["before"], answer["changed"], answer["code"]) == (before, True, True)
    shown = wakeful("policy", "show", "--json").json
    assert [one["name"] for one in shown["files"]] == ["policy.yaml", "team.yaml"]
    wakeful("emit", "app.py", "order.returned", "--id", "o1", "--data", '{"customer": "kim"}')
    wakeful("once", "app.py")  # its files are the older ones, so they do not come back
    (decision,) = wakeful("decisions", "--json").json["decisions"]
    assert (decision["rule"], decision["answer"]) == ("never-bob", "deny")


def test_an_older_version_of_several_files_comes_back(wakeful, shop):
    before = wakeful("policy", "show", "--json").json["version"]
    (shop / "new.yaml").write_text(POLICY)
    wakeful("policy", "apply", "new.yaml", "--only")
    assert wakeful("policy", "apply", "team.yaml", "policy.yaml", "--json").json["version"] == before


def test_a_file_of_the_policy_in_force_is_not_left_out_by_mistake(wakeful, shop):
    for words in (["policy.yaml"], ["policy.yaml", "--plan"]):
        said = wakeful("policy", "apply", *words, code=1).err
        assert "the policy in force has 2 files, and team.yaml would be left out: give all of them, or --only" in said
    assert len(wakeful("policy", "show", "--json").json["files"]) == 2
    assert "is in force; before:" in wakeful("policy", "apply", "policy.yaml", "--only").out
    assert len(wakeful("policy", "show", "--json").json["files"]) == 1


def test_an_id_occurs_once_in_all_files(wakeful, shop):
    (shop / "team.yaml").write_text(TEAM.replace("never-bob", "large-refunds"))
    said = wakeful("policy", "apply", "policy.yaml", "team.yaml", code=2).err
    assert 'team.yaml:3:10: id: "large-refunds" is the id of two rules; the first one is at policy.yaml:3:10' in said


@pytest.mark.parametrize("verb", [["check"], ["apply"], ["apply", "--plan"]])
@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("refund,", "refnd,", 'policy.yaml:3:33: action: there is no action "refnd". Did you mean "refund"?'),
        ("amount", "amont", "names arguments.amont, but there is no such parameter. Did you mean"),
        ("action: refund", "agent: biling", 'agent: there is no agent "biling". Did you mean "billing"?'),
    ],
)
def test_the_code_knows_the_names(wakeful, shop, verb, old, new, said):
    (shop / "policy.yaml").write_text(POLICY.replace(old, new, 1))
    assert said in wakeful("policy", verb[0], "policy.yaml", "team.yaml", *verb[1:], "--app", "app.py", code=2).err
    assert UNCHECKED in wakeful("policy", verb[0], "policy.yaml", "team.yaml", *verb[1:]).out


def test_without_a_version_the_one_in_force_is_shown(wakeful, shop):
    said = wakeful("policy", "show").out
    assert "in force" in said
    assert "# team.yaml" in said
    assert "never-bob" in said


def test_nothing_to_show(wakeful, folder):
    (folder / "app.py").write_text('from wakeful import App\n\napp = App("shop")\n')
    wakeful("once", "app.py")
    assert "no policy is in force" in wakeful("policy", "show", code=1).err
