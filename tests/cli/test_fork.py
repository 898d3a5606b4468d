"""`wakeful fork`: from a step on, with what was finished before it, edited or not."""

import json

import pytest

APP = """
from wakeful import App, Run, on

app = App("desk")


async def fetch(number: int) -> str:
    return f"text {number}"


async def join(first: str, second: str) -> str:
    return f"{first}, {second}"


@app.agent(on("ticket.created"))
async def review(run: Run) -> str:
    return await run.step(join, await run.step(fetch, 1), await run.step(fetch, 2))
"""


@pytest.fixture
def done(wakeful, folder) -> str:
    """A run that went well; its id."""
    (folder / "app.py").write_text(APP)
    answer = wakeful("emit", "app.py", "ticket.created", "--id", "1", "--data", '{"n": 1}', "--json").json
    wakeful("once", "app.py")
    return str(answer["events"][0]["runs"][0])


def test_what_is_shown_can_be_edited_and_given_back(wakeful, folder, done):
    shown = wakeful("fork", done[:8], "--from", "join", "--show").json
    assert shown == {"data": {"n": 1}, "steps": {"fetch": "text 1", "fetch#2": "text 2"}}
    shown["steps"]["fetch"] = "better"
    (folder / "edit.json").write_text(json.dumps(shown))
    answer = wakeful("fork", done, "--from", "join", "--edit", "edit.json", "--as", "ada", "--note", "try").out
    assert answer == f"run {done}.1: forked from {done} at join; 2 steps kept\n"
    wakeful("once", "app.py")
    assert wakeful("trace", f"{done}.1", "--json").json["output"] == "better, text 2"
    shown = wakeful("trace", f"{done}.1").out
    assert "forked by ada: try" in shown
    assert f"from {done} at step join\n" in shown
    assert 'edited {"steps":{"fetch":"better"}}' in shown
    assert f"ada forked it from run {done}" in wakeful("why", f"{done}.1").out


def test_as_json(wakeful, done):
    answer = wakeful("fork", done, "--from", "fetch#2", "--json").json
    assert answer == {"run": f"{done}.1", "was": "done", "kept": ["fetch"]}


def test_a_step_that_does_not_exist(wakeful, done):
    said = wakeful("fork", done, "--from", "jion", code=1).err
    assert 'no step "jion". Did you mean "join"? Its steps, in order: fetch, fetch#2, join.' in said


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "--edit"),
        ('{"step": {}}', 'not "step". Did you mean "steps"?'),
        ('{"steps": {"join": 1}}', 'does not keep a step "join"'),
    ],
)
def test_an_edit_that_does_not_fit(wakeful, folder, done, text, words):
    (folder / "edit.json").write_text(text)
    assert words in wakeful("fork", done, "--from", "join", "--edit", "edit.json", code=2).err


def test_a_file_that_is_not_there(wakeful, done):
    said = wakeful("fork", done, "--from", "join", "--edit", "nothing.json", code=2).err
    assert "--edit nothing.json: No such file or directory" in said


def test_a_second_one_waits_for_the_first(wakeful, done):
    wakeful("fork", done, "--from", "join")
    assert f"shares its effects with run {done}.1" in wakeful("fork", done, "--from", "join", code=1).err


def test_why_of_what_was_forked_tells_so(wakeful, done):
    wakeful("fork", done, "--from", "join")
    assert f"as run {done}.1, which is ready" in wakeful("why", done).out
