"""`wakeful effects` and `wakeful runs --held`: a person's word about what nobody else can know."""

import pytest

APP = """
from wakeful import App, Operation, Run, action, on

app = App("shop")


@action
async def charge(op: Operation, amount: int) -> str:
    raise TimeoutError("no answer")


@app.agent(on("order.paid"))
async def pay(run: Run) -> str:
    return await run.act(charge, 12)
"""


@pytest.fixture
def held(wakeful, folder) -> str:
    """An effect that waits for a person; its id."""
    (folder / "app.py").write_text(APP)
    wakeful("emit", "app.py", "order.paid", "--id", "1")
    wakeful("once", "app.py", code=None)
    (effect,) = wakeful("effects", "--state", "held", "--json").json["effects"]
    return effect["id"]


def test_what_is_held_is_listed_with_what_to_do(wakeful, held):
    shown = wakeful("runs", "--held").out
    assert "held" in shown
    assert held in shown
    assert "at most once" in shown
    assert "wakeful effects confirm|repeat|abandon ID" in shown


def test_confirm_lets_the_run_go_on(wakeful, held):
    answer = wakeful(
        "effects", "confirm", held[:8], "--result", '"by hand"', "--note", "seen at the bank", "--as", "ada"
    )
    assert f"charge {held}: confirmed" in answer.out
    wakeful("once", "app.py")
    (run,) = wakeful("runs", "--json").json["runs"]
    assert run["state"] == "done"
    shown = wakeful("trace", run["id"]).out
    assert "settled by ada: seen at the bank" in shown
    assert "by hand" in shown


def test_the_first_answer_stands_and_the_second_is_told_so(wakeful, held):
    wakeful("effects", "confirm", held, "--as", "ada")
    refused = wakeful("effects", "abandon", held, "--as", "bob", code=1)
    assert "ada settled it before: confirmed" in refused.err
    assert wakeful("effects", "show", held).json["settled_by"] == "ada"


def test_abandon_ends_the_run(wakeful, held):
    wakeful("effects", "abandon", held, "--note", "too late")
    wakeful("once", "app.py", code=None)
    (run,) = wakeful("runs", "--json").json["runs"]
    assert run["state"] == "dead"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("confirm",), "an ID, like"),
        (("settle", "x"), 'there is no "effects settle"'),
        (("confrim", "x"), 'there is no "effects confrim". Did you mean "confirm"?'),
        (("list", "x"), "list, or show, confirm, repeat or abandon"),
        (("confirm", "09cb"), "give 6 characters of its id or more"),
        (("--after", "x"), "--after: not a cursor"),
        (("confirm", "nothing"), 'there is no effect "nothing"'),
        (("repeat", "nothing", "--result", "1"), 'there is no effect "nothing"'),
    ],
)
def test_wrong_words_are_answered_clearly(wakeful, held, words, said):
    assert said in wakeful("effects", *words, code=None).err


def test_a_result_is_for_confirm(wakeful, held):
    assert "--result is for confirm" in wakeful("effects", "repeat", held, "--result", "1", code=2).err


def test_a_result_that_is_not_json_is_named(wakeful, held):
    assert "--result: result is not JSON" in wakeful("effects", "confirm", held, "--result", "{bad", code=2).err
    assert wakeful("effects", "show", held).json["state"] == "held"


def test_pages_go_on(wakeful, held):
    wakeful("emit", "app.py", "order.paid", "--id", "2")
    wakeful("once", "app.py", code=None)
    first = wakeful("effects", "--limit", "1", "--json").json
    assert f"more effects: --after {first['next']}" in wakeful("effects", "--limit", "1").out
    (other,) = wakeful("effects", "--after", first["next"], "--json").json["effects"]
    assert other["id"] == held
