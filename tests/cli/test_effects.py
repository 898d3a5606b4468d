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


def test_whose_word_an_effect_rests_on_is_listed_and_shown(wakeful, held):
    wakeful("effects", "confirm", held, "--result", '"by hand"', "--note", "on the statement", "--as", "ada")
    assert "confirmed by ada: on the statement" in wakeful("effects").out
    assert "that it was done: on the statement" in wakeful("effects", "show", held).out


def test_one_that_was_called_again_was_not_confirmed_by_a_person(wakeful, held, folder):
    wakeful("effects", "repeat", held, "--note", "not on the statement", "--as", "ada")
    (folder / "app.py").write_text(APP.replace('raise TimeoutError("no answer")', 'return "paid"'))
    wakeful("once", "app.py")
    assert "called again by ada: not on the statement" in wakeful("effects", "--state", "confirmed").out
    shown = wakeful("effects", "show", held).out
    assert "ada said that it is to be called again: not on the statement" in shown
    assert 'result: "paid"' in shown


def test_the_first_answer_stands_and_the_second_is_told_so(wakeful, held):
    wakeful("effects", "confirm", held, "--result", '"paid"', "--as", "ada")
    refused = wakeful("effects", "abandon", held, "--as", "bob", code=1)
    assert "ada settled it before: confirmed" in refused.err
    assert wakeful("effects", "show", held, "--json").json["settled_by"] == "ada"


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
        (("repeat", "nothing", "--result", "1"), "--result is for confirm, not for repeat"),
    ],
)
def test_wrong_words_are_answered_clearly(wakeful, held, words, said):
    assert said in wakeful("effects", *words, code=None).err


def test_a_result_is_for_confirm(wakeful, held):
    assert "--result is for confirm" in wakeful("effects", "repeat", held, "--result", "1", code=2).err


def test_a_result_that_is_not_json_is_named(wakeful, held):
    assert "--result: result is not JSON" in wakeful("effects", "confirm", held, "--result", "{bad", code=2).err
    assert wakeful("effects", "show", held, "--json").json["state"] == "held"


def test_pages_go_on(wakeful, held):
    wakeful("emit", "app.py", "order.paid", "--id", "2")
    wakeful("once", "app.py", code=None)
    first = wakeful("effects", "--limit", "1", "--json").json
    assert f"more effects: --after {first['next']}" in wakeful("effects", "--limit", "1").out
    (other,) = wakeful("effects", "--after", first["next"], "--json").json["effects"]
    assert other["id"] == held


def test_confirm_without_the_result_that_is_needed_is_refused_with_its_type(wakeful, held):
    refused = wakeful("effects", "confirm", held, code=2).err
    assert "its action returns text" in refused
    assert """--result '"…"'""" in refused
    assert "changed nothing" in refused
    assert "the result: text is expected, not 12" in wakeful("effects", "confirm", held, "--result", "12", code=2).err
    assert wakeful("effects", "show", held, "--json").json["state"] == "held"


def test_the_hints_name_the_result(wakeful, held):
    (run,) = wakeful("runs", "--held", "--json").json["runs"]
    assert "--result JSON" in wakeful("runs", "--held").out
    assert "--result JSON" in wakeful("why", run["id"]).out


def test_a_wrong_result_is_corrected_until_the_run_went_on_with_it(wakeful, held):
    wakeful("effects", "confirm", held, "--result", '"pay"', "--as", "ada")
    corrected = wakeful("effects", "confirm", held, "--result", '"paid"', "--note", "mistyped", "--as", "bob").out
    assert "its result is corrected" in corrected
    wakeful("once", "app.py")
    (run,) = wakeful("runs", "--json").json["runs"]
    assert 'output "paid"' in wakeful("trace", run["id"]).out
    refused = wakeful("effects", "confirm", held, "--result", '"more"', code=1).err
    assert "went on with the result that bob gave" in refused


def test_one_is_shown_for_people(wakeful, held):
    shown = wakeful("effects", "show", held).out
    for words in (
        f"effect {held}  held",
        "charge(12)",
        "agent pay, run ",
        "called once",
        "because: TimeoutError: no answer. It is unknown whether charge was done",
        "error: TimeoutError: no answer",
        "its action returns text",
        f"""wakeful effects confirm {held[:10]} --result '"…"'""",
        f"wakeful effects repeat {held[:10]}",
        f"wakeful effects abandon {held[:10]}",
    ):
        assert words in shown, words
    wakeful("effects", "confirm", held, "--result", '"paid"', "--note", "seen", "--as", "ada")
    after = wakeful("effects", "show", held).out
    assert "ada said that it was done: seen" in after
    assert 'result: "paid"' in after
    assert "wakeful effects repeat" not in after


class TestMany:
    @pytest.fixture
    def many(self, wakeful, held) -> list[str]:
        for number in ("2", "3"):
            wakeful("emit", "app.py", "order.paid", "--id", number)
        wakeful("once", "app.py", code=None)
        return [one["id"] for one in wakeful("effects", "--state", "held", "--json").json["effects"]]

    def test_a_plan_says_what_would_be_done_and_changes_nothing(self, wakeful, many):
        planned = wakeful("effects", "repeat", "--agent", "pay", "--action", "charge", "--plan")
        assert "would call again 3 held effects of 3 runs at 50/s" in planned.out
        assert "3  pay  charge" in planned.err
        shown = wakeful("effects", "confirm", "--action", "charge", "--plan", "--json").json
        assert (shown["count"], shown["runs"]) == (3, 3)
        assert "its action returns text" in shown["unfit"]
        (group,) = shown["groups"]
        assert (group["agent"], group["action"], group["called"], group["returns"]) == ("pay", "charge", 3, "text")
        assert sorted(group["effects"]) == sorted(many)
        assert len(wakeful("effects", "--state", "held", "--json").json["effects"]) == 3

    def test_all_of_them_are_settled(self, wakeful, many):
        refused = wakeful("effects", "confirm", "--agent", "pay", code=2).err
        assert "charge of agent pay: its action returns text" in refused
        words = ("--result", '"paid"', "--note", "on the statement", "--as", "ada")
        assert "3 of 3 held effects are confirmed" in wakeful("effects", "confirm", "--agent", "pay", *words).out
        wakeful("once", "app.py")
        assert [one["state"] for one in wakeful("runs", "--json").json["runs"]] == ["done"] * 3
        assert {one["settled_by"] for one in wakeful("effects", "--json").json["effects"]} == {"ada"}

    def test_as_json(self, wakeful, many):
        told = wakeful("effects", "abandon", "--all", "--json").json
        assert told == {"settled": 3, "of": 3, "stopped": False}

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (
                ("repeat", "--agent", "pya"),
                'no held effect matches: see `wakeful effects --state held`. Did you mean "pay"?',
            ),
            (("repeat", "--action", "chrage"), 'Did you mean "charge"?'),
            (("repeat",), "--agent NAME, --action NAME or --all"),
            (("repeat", "3f2a91", "--agent", "pay"), "leave out either the ID"),
            (("show", "--agent", "pay"), "--agent is for list, confirm, repeat and abandon, not for show"),
            (("repeat", "--all", "--result", "1"), "--result is for confirm"),
            (("repeat", "--all", "--rate", "x"), "is not a rate"),
        ],
    )
    def test_wrong_words(self, wakeful, many, words, said):
        assert said in wakeful("effects", *words, code=None).err

    def test_the_listing_is_narrowed(self, wakeful, many):
        assert len(wakeful("effects", "--agent", "pay", "--action", "charge", "--json").json["effects"]) == 3
        assert wakeful("effects", "--action", "mail").out == "no matching effects\n"
