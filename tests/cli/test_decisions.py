"""`wakeful decisions`: what policy did not allow, and why."""

import pytest

APP = """
from wakeful import App, Operation, Run, action, on
from wakeful.model import Decision
from wakeful.policy.decide import DEFAULT_RULES, AdmissionFacts, EffectFacts


def small_only(facts):
    if isinstance(facts, EffectFacts):
        return Decision("hold", rule="small_only", reason="a person looks at each charge")
    if isinstance(facts, AdmissionFacts) and facts.event.data == 13:
        return Decision("deny", rule="no_thirteen", reason="13 is not handled")
    return None


app = App("shop", rules=(small_only, *DEFAULT_RULES))


@action(safety="idempotent")
async def charge(op: Operation, amount: int) -> str:
    return f"charged {amount}"


@app.agent(on("order.placed"))
async def pay(run: Run) -> str:
    return await run.act(charge, run.event.data)
"""


@pytest.fixture
def decided(wakeful, folder) -> None:
    """One event that policy denies, and one effect that it holds."""
    (folder / "app.py").write_text(APP)
    wakeful("emit", "app.py", "order.placed", "--data", "13", "--id", "a")
    wakeful("emit", "app.py", "order.placed", "--data", "5", "--id", "b")
    wakeful("once", "app.py", code=None)


def test_nothing_is_decided_at_first(wakeful, folder):
    (folder / "app.py").write_text(APP)
    wakeful("once", "app.py")
    assert "no decisions yet. Only answers of policy other than allow are stored." in wakeful("decisions").out
    assert wakeful("decisions", "--json").json == {"decisions": [], "next": None}


def test_decisions_are_listed_newest_first_with_the_reasons(wakeful, decided, monkeypatch):
    held, denied = wakeful("decisions", "--json").json["decisions"]
    assert (held["app"], held["agent"], held["place"], held["action"], held["event"]) == (
        "shop",
        "pay",
        "effect",
        "charge",
        "b",
    )
    assert (denied["place"], denied["answer"], denied["event"], denied["run"]) == ("admission", "deny", "a", None)
    for width in ("80", "140"):
        monkeypatch.setenv("COLUMNS", width)
        text = wakeful("decisions").out
        assert text.index("a person looks at each charge") < text.index("13 is not handled")
        assert "small_only" in text


def test_filters(wakeful, decided):
    def rules(*words):
        return [one["rule"] for one in wakeful("decisions", *words, "--json").json["decisions"]]

    assert rules() == rules("--since", "2h", "--of", "shop", "--agent", "pay") == ["small_only", "no_thirteen"]
    assert rules("--answer", "deny") == rules("--rule", "no_thirteen") == ["no_thirteen"]
    assert rules("--of", "other") == rules("--agent", "other") == []
    assert "no matching decisions" in wakeful("decisions", "--rule", "other").out
    page = wakeful("decisions", "--limit", "1", "--json").json
    assert rules("--after", page["next"]) == ["no_thirteen"]


def test_one_is_shown_with_what_it_is_about(wakeful, decided):
    held, denied = wakeful("decisions", "--json").json["decisions"]
    assert wakeful("decisions", "show", held["id"], "--json").json == held
    text = wakeful("decisions", "show", held["id"]).out
    assert "rule small_only, version 1: a person looks at each charge" in text
    assert f"action charge, effect {held['effect']}" in text
    assert f"event b, run {held['run']}" in text
    assert f"wakeful why {held['run']}" in text
    assert "`wakeful why a`" in wakeful("decisions", "show", denied["id"]).out


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("show", "99"), 1, 'there is no decision "99". See `wakeful decisions`'),
        (("show",), 2, "decisions takes list, or show and an ID"),
        (("--answer", "perhaps"), 2, "perhaps"),
        (("--since", "someday"), 2, "decisions: --since:"),
    ],
)
def test_what_is_not_there_is_refused(wakeful, decided, words, code, said):
    assert said in wakeful("decisions", *words, code=code).err
