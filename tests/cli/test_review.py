"""`wakeful review` and `wakeful return`, and an output that is edited, from the command line."""

import json

import pytest

APP = """
from wakeful import App, Choice, Run, on
from wakeful.channels import file
from wakeful.checks import fresh

app = App("desk", channels={"ops": file("ops.jsonl")})


def polite(text):
    return "no exclamation marks" if "!" in text else None


@app.agent(on("ticket.created"), deliver="ops", checks=[polite])
async def reply(run: Run) -> str:
    return f"{run.event.data} {len(run.remarks)}" + ("" if run.remarks else "!")


def unsure(question, options):
    return Choice(options[0], 0.5, reason="it is new")


@app.agent(on("ticket.odd"))
async def choose(run: Run) -> str:
    return await run.decide("Which way?", ["by sea", "by air"], model=unsure, ask="ops", timeout="4h")
"""


@pytest.fixture
def held(wakeful, folder) -> str:
    (folder / "app.py").write_text(APP)
    run = wakeful("emit", "app.py", "ticket.created", "--id", "1", "--data", '"HELP"', "--json").json["events"][0]
    wakeful("once", "app.py", code=None)
    return str(run["runs"][0])


def test_it_lists_what_waits_with_commands_that_work(wakeful, held):
    wakeful("emit", "app.py", "ticket.odd", "--id", "2")
    wakeful("once", "app.py", code=None)
    page = wakeful("review", "--json").json
    assert ([one["kind"] for one in page["review"]], page["next"]) == (["output", "approval"], None)
    output, approval = page["review"]
    assert (output["id"], output["due"]) == (held, None)
    assert approval["text"].startswith("Which way?")
    assert "model unsure chose by sea with confidence 0.5 (it is new), and 0.8 is needed" in approval["text"]
    shown = wakeful("review").out
    for command in (*output["commands"], *approval["commands"]):
        assert f"    {command}\n" in shown
    wakeful("approvals", "answer", approval["id"], "by air", "--as", "ada")
    wakeful("return", held, "--remark", "calmer")
    wakeful("once", "app.py")
    assert wakeful("review").out == "nothing waits for a person\n"
    story = wakeful("why", approval["run"]).out
    assert '"Which way?" was decided by ada: by air (no rule matched; model unsure chose by sea' in story
    trace = wakeful("trace", approval["run"]).out
    assert "step decide(" in trace
    assert "was decided by ada: by air" in trace


def test_a_remark_reaches_the_handler(wakeful, folder, held):
    answer = wakeful("return", held[:8], "--remark", "calmer", "--as", "ada")
    assert answer.out == f"run {held}: returned; its handler runs again and reads the remark as run.remarks\n"
    wakeful("once", "app.py")
    run = wakeful("trace", held, "--json").json
    assert (run["state"], run["output"]) == ("done", "HELP 1")
    assert [(one["verb"], one["operator"], one["note"]) for one in run["remedies"]] == [("return", "ada", "calmer")]
    assert json.loads((folder / "ops.jsonl").read_text())["body"] == "HELP 1"
    assert f"run {held} is done" in wakeful("return", held, "--remark", "again", code=1).err
    assert wakeful("runs", "return", "nothing", "--remark", "x", code=1).err.startswith("wakeful: there is no run")


def test_an_edited_output_leaves_instead(wakeful, folder, held, monkeypatch):
    refused = wakeful("release", held, "--output", '"NO!"', "--app", "app.py", code=1).err
    assert "did not pass, and nothing was changed: check polite: no exclamation marks" in refused
    assert "does not fit its return type" in wakeful("release", held, "--output", "7", "--app", "app.py", code=1).err
    (folder / "calm.json").write_text('"calm"')
    monkeypatch.setenv("WAKEFUL_APP", "app.py")
    answer = wakeful("release", held, "--output", "@calm.json", "--note", "shorter", "--as", "ada")
    assert answer.out == f"run {held}: released with the edited output, and 1 delivery and 0 staged effects\n"
    wakeful("once", "app.py")
    assert json.loads((folder / "ops.jsonl").read_text())["body"] == "calm"
    trace = wakeful("trace", held).out
    assert "edited and released by ada: shorter" in trace
    assert 'output was "HELP 0!"' in trace
    assert "ada released its output, edited, at" in wakeful("why", held).out


def test_a_long_question_is_cut_in_the_list(wakeful, folder):
    (folder / "app.py").write_text(
        "from wakeful import App, Run, on\n\napp = App('desk')\n\n\n@app.agent(on('ask'))\n"
        "async def ask(run: Run) -> object:\n    return await run.ask('May I? ' + 'x' * 5000, schema=bool)\n"
    )
    wakeful("emit", "app.py", "ask")
    wakeful("once", "app.py", code=None)
    shown = wakeful("review").out
    assert "May I? xxx" in shown
    assert "…" in shown
    assert len(shown) < 1500
    (item,) = wakeful("review", "--json").json["review"]
    assert len(item["text"]) > 5000


def test_it_needs_the_code(wakeful, folder, held):
    (folder / "other.py").write_text('from wakeful import App\n\napp = App("other")\n')
    words = wakeful("release", held, "--output", '"calm"', "--app", "other.py", code=1).err
    assert "checked with the code of agent reply of app desk: name it with --app APP" in words


@pytest.mark.parametrize("wrong", [("--output", "{bad"), ("--output", "@missing.json")])
def test_what_is_no_json_is_refused(wakeful, held, wrong):
    wakeful("release", held, *wrong, "--app", "app.py", code=2)
    assert wakeful("runs", "--held", "--json").json["runs"][0]["id"] == held


def test_a_channel_that_does_not_exist_is_found_by_check(wakeful, folder, held):
    (folder / "app.py").write_text(APP.replace('ask="ops"', 'ask="opps"'))
    words = wakeful("check", "app.py", code=None)
    assert "run.decide(ask='opps'): the app has no such channel. Did you mean \"ops\"?" in words.out + words.err
