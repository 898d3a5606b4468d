"""`wakeful approvals`: what runs ask people, seen and answered from the command line."""

import pytest

APP = """
from pydantic import BaseModel, Field

from wakeful import App, Run, on

app = App("shop")


class Refund(BaseModel):
    amount: int = Field(ge=1, le=100)
    reason: str


@app.agent(on("order.returned"))
async def refund(run: Run) -> str:
    if await run.ask("Shall order 7 be refunded?", to="ops", schema=bool, timeout="4h"):
        return "refunded"
    return "kept"


@app.agent(on("order.lost"))
async def amount(run: Run) -> int:
    found = await run.ask("How much?", schema=Refund)
    return found.amount


@app.agent(on("order.odd"))
async def odd(run: Run) -> str:
    return await run.ask("What happened?", schema=str)


@app.agent(on("order.free"))
async def free(run: Run) -> object:
    return await run.ask("Anything?")
"""


@pytest.fixture
def asked(wakeful, folder):
    """Let an event be handled until its run waits for a person; the id of the question."""
    (folder / "app.py").write_text(APP)

    def ask(kind="order.returned"):
        wakeful("emit", "app.py", kind)
        wakeful("once", "app.py", code=None)
        return wakeful("approvals", "--json").json["approvals"][0]["id"]

    return ask


def output(wakeful):
    wakeful("once", "app.py")
    (run,) = wakeful("runs", "--json").json["runs"]
    return wakeful("trace", run["id"], "--json").json["output"]


def test_open_approvals_are_listed_with_what_to_do(wakeful, asked):
    assert "no approvals yet. A run asks for one with" in no_store_yet(wakeful, asked)
    identifier = asked()
    shown = wakeful("approvals").out
    for words in (identifier, "refund", "ops", "Shall order 7 be refunded?", "in 4 h", "wakeful approvals answer ID"):
        assert words in shown
    assert wakeful("approvals", "list", "--state", "answered").out == "no answered approvals\n"
    assert wakeful("approvals", "--state", "answered", "--json").json == {"approvals": [], "next": None}


def no_store_yet(wakeful, asked):
    wakeful("migrate")
    return wakeful("approvals").out


def test_one_is_shown_with_what_is_expected(wakeful, asked):
    identifier = asked("order.lost")
    shown = wakeful("approvals", "show", identifier[:6]).out
    assert "How much?" in shown
    assert "expected: an object with amount (a whole number of at least 1 and at most 100), reason (text)" in shown
    assert wakeful("approvals", "show", identifier, "--json").json["agent"] == "amount"


@pytest.mark.parametrize(("words", "result"), [("yes", "refunded"), ("no", "kept"), ("true", "refunded")])
def test_an_answer_lets_the_run_go_on(wakeful, asked, words, result):
    identifier = asked()
    answer = wakeful("approvals", "answer", identifier[:8], words, "--note", "seen it", "--as", "ada")
    assert f"approval {identifier}: answered with" in answer.out
    assert output(wakeful) == result
    (run,) = wakeful("runs", "--json").json["runs"]
    assert "ada answered its approval" in wakeful("why", run["id"]).out
    assert "answered by ada: seen it" in wakeful("trace", run["id"]).out
    assert "answered by ada" in wakeful("approvals", "show", identifier).out
    assert "ada" in wakeful("approvals", "--state", "answered").out
    assert wakeful("approvals").out == "no open approvals\n"


@pytest.mark.parametrize("words", ["it fell off the cart", "12", '"quoted"'])
def test_text_needs_no_quotes_where_text_is_asked_for(wakeful, asked, words):
    wakeful("approvals", "answer", asked("order.odd"), words)
    assert output(wakeful) == words.strip('"')


def test_an_answer_out_of_a_file(wakeful, asked, folder):
    (folder / "answer.json").write_text('{"amount": 40, "reason": "broken"}')
    found = wakeful("approvals", "answer", asked("order.lost"), "@answer.json", "--json").json
    assert found["answer"] == {"amount": 40, "reason": "broken"}
    assert output(wakeful) == 40


def test_each_field_that_does_not_fit_has_its_line_and_nothing_is_stored(wakeful, asked):
    identifier = asked("order.lost")
    refused = wakeful("approvals", "answer", identifier, '{"amount": 400}', code=2)
    assert refused.err.splitlines() == [
        "wakeful: reason is missing: text is expected",
        "wakeful: amount: a whole number of at least 1 and at most 100 is expected, not 400",
        (
            "wakeful: the answer does not fit and was not stored: "
            f"`wakeful approvals show {identifier[:10]}` shows what is expected"
        ),
    ]
    assert wakeful("approvals", "show", identifier, "--json").json["state"] == "open"


def test_the_first_answer_stands_and_the_second_is_told_who_gave_it_and_when(wakeful, asked):
    identifier = asked()
    wakeful("approvals", "answer", identifier, "yes", "--as", "ada")
    at = wakeful("approvals", "show", identifier, "--json").json["answered_at"]
    refused = wakeful("approvals", "answer", identifier, "no", "--as", "bob", code=1)
    assert f"ada answered it at {at}. This answer changed nothing" in refused.err
    assert wakeful("approvals", "show", identifier, "--json").json["answer"] is True


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("answer",), "like: wakeful approvals answer 3f2a91 yes"),
        (("answer", "x"), "like: wakeful approvals answer 3f2a91 yes"),
        (("show",), "approvals takes list"),
        (("list", "x"), "approvals takes list"),
        (("anwser", "x", "yes"), 'there is no "approvals anwser". Did you mean "answer"?'),
        (("show", "09cb"), "give 6 characters of its id or more"),
        (("answer", "nothing", "yes"), 'there is no approval "nothing": see `wakeful approvals`'),
        (("--state", "closed"), 'no state "closed"'),
        (("--after", "x"), "--after: not a cursor"),
    ],
)
def test_wrong_words_are_answered_clearly(wakeful, asked, words, said):
    asked()
    assert said in wakeful("approvals", *words, code=None).err


def test_an_id_that_is_nearly_right_is_guessed(wakeful, asked):
    identifier = asked()
    wrong = identifier[:9] + ("0" if identifier[9] != "0" else "1")
    assert f'Did you mean "{identifier[:10]}"?' in wakeful("approvals", "show", wrong, code=1).err


def test_a_question_that_takes_anything_takes_json(wakeful, asked):
    identifier = asked("order.free")
    refused = wakeful("approvals", "answer", identifier, "never", code=2)
    assert """Text needs quotes: '"never"'""" in refused.err
    wakeful("approvals", "answer", identifier, '["a"]')
    assert output(wakeful) == ["a"]


def test_waiting_runs_are_listed_with_what_they_wait_for(wakeful, asked, monkeypatch):
    asked()
    for width in ("60", "80", "200"):
        monkeypatch.setenv("COLUMNS", width)
        assert "asks ops" in wakeful("runs", "--state", "waiting").out


def test_doctor_sees_a_question(wakeful, asked):
    asked()
    assert "1 approval open" in wakeful("doctor", code=1).out


def test_trace_shows_the_question_and_not_its_schema(wakeful, asked):
    asked("order.lost")
    (run,) = wakeful("runs", "--json").json["runs"]
    assert 'step ask("How much?")  waiting' in wakeful("trace", run["id"]).out


def test_why_and_trace_take_the_id_of_a_question(wakeful, asked):
    question = asked("order.lost")
    (run,) = wakeful("runs", "--json").json["runs"]
    told = wakeful("why", question[:8], "--json").json
    assert told["subject"] == {"kind": "question", "id": question}
    assert (
        told["story"][0] == f'Approval {question} is "How much?", asked by run {run["id"]} of agent amount. It is open.'
    )
    assert f"run {run['id']}" in wakeful("trace", question[:8]).out
    wakeful("approvals", "answer", question, '{"amount": 7, "reason": "broken"}', "--as", "ada")
    assert "It was answered by ada." in wakeful("why", question).out
