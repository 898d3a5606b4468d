from __future__ import annotations

from base64 import b64encode

import pytest

from support.tokens import TOKEN


def test_what_is_declared(wakeful, tickets):
    shown = wakeful("check", "app.py").out
    assert "app tickets, 5 agents, store sqlite:///wakeful.db" in shown
    assert 'on("ticket.*", where="data.severity >= 3")' in shown
    assert "app.py:48" in shown
    assert "no problems" in shown
    assert not (tickets / "wakeful.db").exists()


def test_as_json(wakeful, tickets):
    found = wakeful("check", "app.py", "--json").json
    assert found["app"] == "tickets"
    assert [agent["name"] for agent in found["agents"]] == ["triage", "page", "mend", "peek", "later"]
    assert found["agents"][0]["triggers"] == ['on("ticket.created")']
    assert found["problems"] == found["notes"] == []


def test_an_error_in_the_file(wakeful, folder):
    (folder / "app.py").write_text("from wakeful import App\napp = App('a')\n@app.agent(triger='x')\ndef f(run): ...\n")
    result = wakeful("check", "app.py", code=1)
    assert result.err == 'wakeful: agent f (app.py:3): unknown option "triger". ' + result.err.partition('triger". ')[2]
    found = wakeful("check", "app.py", "--json", code=1).json
    assert found["app"] is None
    assert found["problems"][0].startswith("agent f (app.py:3)")


@pytest.mark.parametrize("command", ["serve", "worker", "once", "emit", "run", "dev"])
def test_every_start_refuses_the_same_way(wakeful, folder, start, command):
    (folder / "app.py").write_text("import nothing_like_it\n")
    said = wakeful("check", "app.py", code=1).err
    if command == "dev":
        started = start("dev", "app.py", "--port", "0")
        match = started.wait_for("nothing_like_it")
        assert match.string == f"{said.rstrip()} (waiting for a change)"
        return
    more = {"emit": ["x"], "run": ["x"], "serve": ["--port", "0"]}.get(command, [])
    assert wakeful(command, "app.py", *more, code=1).err == said


def test_a_store_that_cannot_be(wakeful, tickets):
    assert "in memory" in wakeful("check", "app.py", "--store", "sqlite:///:memory:", code=1).err


def test_a_host_beyond_loopback(wakeful, tickets, monkeypatch):
    assert "set WAKEFUL_TOKEN" in wakeful("check", "app.py", "--host", "0.0.0.0", code=1).err
    monkeypatch.setenv("WAKEFUL_TOKEN", TOKEN)
    wakeful("check", "app.py", "--host", "0.0.0.0")


def test_notes(wakeful, folder):
    (folder / "app.py").write_text("from wakeful import App\napp = App('a')\n")
    assert "note: app a has no agents" in wakeful("check", "app.py").out
    (folder / "app.py").write_text("from wakeful import App\napp = App('a')\n@app.agent()\nasync def f(run): ...\n")
    assert "note: agent f has no trigger" in wakeful("check", "app.py").out


def test_an_app_of_heartbeats_alone(wakeful, folder):
    (folder / "HEARTBEAT.md").write_text("## Disk\nprobe: $ true\n")
    (folder / "app.py").write_text(
        "from wakeful import App\napp = App('a')\napp.heartbeat('HEARTBEAT.md', every='30m', commands=True)\n"
    )
    assert "no agents" not in wakeful("check", "app.py").out


def test_a_heartbeat_with_commands_that_are_not_allowed(wakeful, folder):
    (folder / "HEARTBEAT.md").write_text("## Disk\nprobe: $ true\n")
    (folder / "app.py").write_text("from wakeful import App\napp = App('a')\napp.heartbeat('HEARTBEAT.md')\n")
    said = wakeful("check", "app.py", code=1).err
    assert "heartbeat heartbeat: HEARTBEAT.md:2: this heartbeat runs no commands (commands=False, the default)" in said
    assert "allow commands with app.heartbeat(…, commands=True)" in said


def test_a_secret_that_a_child_would_get_as_a_setting(wakeful, folder):
    (folder / "app.py").write_text(
        "from wakeful import App, env, on\n"
        "from wakeful.channels import http\n"
        "app = App('a', channels={'ops': http('https://example.com', secret=env('CHECKED_SECRET'))})\n"
        "app.command('report', on('go'), ['true'], environment=['CHECKED_SECRET'])\n"
    )
    said = wakeful("check", "app.py", code=1).err
    assert "command report: environment names CHECKED_SECRET, which the app reads as a secret" in said


def test_variables_that_a_child_would_not_find_here(wakeful, folder, monkeypatch):
    monkeypatch.delenv("NOT_SET_HERE", raising=False)
    monkeypatch.setenv("SET_HERE", "x")
    (folder / "HEARTBEAT.md").write_text("## Disk\nevery: 1h\nprobe: $ df\n")
    (folder / "app.py").write_text(
        "from wakeful import App, env, on\n"
        "app = App('a')\n"
        "app.command('given', on('go'), ['true'], environment={'K': env('NOT_SET_HERE'), 'MODE': 'live'})\n"
        "app.command('named', on('go'), ['true'], environment=['NOT_THERE_EITHER', 'SET_HERE'])\n"
        "app.heartbeat('HEARTBEAT.md', commands=True, environment=['NOT_THERE_EITHER'])\n"
    )
    assert [note for note in wakeful("check", "app.py", "--json").json["notes"] if "environment" in note] == [
        "command given: environment K: the environment variable NOT_SET_HERE is not set here; starting the child fails without it",
        "command named: environment NOT_THERE_EITHER: not set here; the program does not get it",
        "heartbeat heartbeat: environment NOT_THERE_EITHER: not set here; the program does not get it",
    ]


def test_encryption_keys(wakeful, folder, monkeypatch):
    (folder / "app.py").write_text("from wakeful import App, env\napp = App('a', encryption=[env('DESK_KEY')])\n")
    assert "note: encryption: the environment variable DESK_KEY is not set here" in wakeful("check", "app.py").out
    monkeypatch.setenv("DESK_KEY", "no such thing")
    said = wakeful("check", "app.py", code=1).err
    assert "an encryption key is 32 bytes in base64" in said
    assert "no such thing" not in said
    monkeypatch.setenv("DESK_KEY", b64encode(bytes(32)).decode())
    wakeful("check", "app.py")


def test_the_apps_own_store_goes_before_the_environment(wakeful, folder, monkeypatch):
    (folder / "app.py").write_text("from wakeful import App\napp = App('a', store='sqlite:///own.db')\n")
    monkeypatch.setenv("WAKEFUL_STORE", "sqlite:///other.db")
    assert wakeful("check", "app.py", "--json").json["store"] == "sqlite:///own.db"
    assert wakeful("check", "app.py", "--json", "--store", "sqlite:///third.db").json["store"] == "sqlite:///third.db"
    assert wakeful("runs", code=1).err.startswith("wakeful: there is no store at sqlite:///other.db")


def test_a_password_is_not_shown(wakeful, tickets):
    found = wakeful("check", "app.py", "--json", "--store", "postgresql://ada:secret@db/ops").json
    assert found["store"] == "postgresql://ada:…@db/ops"


OUTPUT = """
from pydantic import BaseModel

from wakeful import App, Run, on
from wakeful.channels import file, http

app = App("desk", channels={"ops": file("ops.jsonl"), "hooks": http("https://example.com/hook", secret="whsec_c2VjcmV0")})


class Seen(BaseModel):
    count: int = 0


def polite(output): ...


@app.agent(on("a"), deliver="ops", checks=[polite], state=Seen)
async def review(run: Run) -> None: ...


@app.agent(on("b"))
async def plain(run: Run) -> None: ...
"""


def test_channels_and_what_agents_put_out_and_keep(wakeful, folder):
    (folder / "app.py").write_text(OUTPUT)
    shown = wakeful("check", "app.py").out
    assert "ops      file  path ops.jsonl" in shown
    assert "hooks    http  url https://example.com/hook, signed" in shown
    assert "c2VjcmV0" not in shown
    assert "review  ops          Seen   polite" in shown
    found = wakeful("check", "app.py", "--json").json
    assert [(one["name"], one["kind"]) for one in found["channels"]] == [
        ("log", "log"),
        ("ops", "file"),
        ("hooks", "http"),
    ]
    assert (found["agents"][0]["checks"], found["agents"][1]["checks"]) == (["polite"], [])


def test_order_and_limits(wakeful, folder):
    options = 'on("a"), concurrency=3, rate="100/m", key="data.k", expires="1h"'
    (folder / "app.py").write_text(
        f"from wakeful import App, on\napp = App('a')\n@app.agent({options})\nasync def f(run): ...\n"
    )
    shown = wakeful("check", "app.py").out
    assert "key data.k, one at a time, dead letters block, 3 at once, rate 100 in 1 m 0 s, expires 1 h 0 m" in shown


def test_what_is_handled_once(wakeful, folder):
    program = """
from wakeful import App, Operation, action, on
app = App("a")
@action(once="arguments.invoice")
async def pay(op: Operation, invoice: str) -> None: ...
@app.agent(on("a"), once="data.incident", once_for="30d")
async def f(run): ...
"""
    (folder / "app.py").write_text(program)
    assert "once per data.incident within 30 d" in wakeful("check", "app.py").out
    (folder / "app.py").write_text(program.replace("arguments.invoice", "arguments.invioce"))
    said = wakeful("check", "app.py", code=1).err
    assert '@action on pay (app.py:4): once: "arguments.invioce" names arguments.invioce' in said
    assert 'Did you mean "invoice"?' in said
    (folder / "app.py").write_text(program.replace("data.incident", "date.incident"))
    assert 'agent f (app.py:6): once: "date.incident"' in wakeful("check", "app.py", code=1).err


def test_channels_that_nobody_declared_are_all_named(wakeful, folder):
    text = OUTPUT.replace('deliver="ops"', 'deliver="opps"').replace(
        '@app.agent(on("b"))', '@app.agent(on("b"), deliver="nowhere")'
    )
    (folder / "app.py").write_text(text)
    result = wakeful("check", "app.py", code=1)
    assert 'deliver="opps": app desk has no such channel. Did you mean "ops"?' in result.err
    assert 'deliver="nowhere": app desk has no such channel.' in result.err
    assert "no problems" not in result.out
    assert len(wakeful("check", "app.py", "--json", code=1).json["problems"]) == 2


def test_secrets_that_are_missing_here_are_named(wakeful, folder, monkeypatch):
    (folder / "app.py").write_text(
        "from wakeful import App, env, on\n"
        "from wakeful.channels import http\n"
        "hook = http('https://example.com/hook', secret=env('HOOK_SECRET'), headers={'X-Token': env('HOOK_TOKEN')})\n"
        "app = App('desk', channels={'ops': hook})\n"
        "@app.agent(on('a'))\n"
        "async def f(run): ...\n"
    )
    secret, header = wakeful("check", "app.py", "--json").json["notes"]
    assert secret.startswith(
        "channel ops: http(https://example.com/hook), secret: the environment variable HOOK_SECRET"
    )
    assert "header X-Token: the environment variable HOOK_TOKEN is not set" in header
    monkeypatch.setenv("HOOK_SECRET", "x")
    monkeypatch.setenv("HOOK_TOKEN", "y")
    assert wakeful("check", "app.py", "--json").json["notes"] == []


FORESEEN = """
from wakeful import App, Run, on

app = App("foreseen")


async def helper(run):
    await run.sleep("soon")


def move(db, other):
    other.emit("x")


@app.agent(on("a"))
async def first(run: Run) -> None:
    await run.call("secnd")
    await run.call(second)
    await run.call(helper)
    await run.wait_for("paid.*")
    await run.wait_for("paid", where="data.amount >", timeout="1x")
    await helper(run)
    await run.transaction(move, run)
    await run.transaction(lambda db: run.uuid())

    def inner(db):
        run.log.info("fine")
        return run.now()

    await run.transaction(inner)


@app.agent()
async def second(context: Run) -> None:
    await context.call("first")
    async with context.lock("till"):
        await context.sleep("1s")
        await context.sleep("1h")
        await context.ask("sure?")
    await context.wait_for("paid", timeot="1h")
    await context.emit("paid", tenant="x")


app.channel("mail", app.channels["log"])


@app.agent()
async def third(run: Run) -> None:
    run.send("mial", "hello")
    run.send(channel="oops", message="hello")
    run.send("log", "hello")
    run.send(run.event.subject, "hello")
    await run.ask("sure?", to="mial")
    await run.ask("sure?", to="mail")
    await run.ask("sure?", to=run.event.subject)
    await run.ask("sure?", to=None)
"""
LINES = {
    17: "agent first: run.call('secnd'): there is no such agent. Did you mean \"second\"?",
    19: "agent first: run.call('helper'): there is no such agent.",
    20: "agent first: run.wait_for('paid.*'): give exactly one type to wait for, without *",
    21: "agent first: run.wait_for: where: ",
    8: "agent first: run.sleep: ",
    12: "agent first: other.emit inside run.transaction: its value would differ on resume.",
    24: "agent first: run.uuid inside run.transaction",
    28: "agent first: run.now inside run.transaction",
    49: "agent third: run.send('mial'): the app has no such channel. Did you mean \"mail\"?",
    50: "agent third: run.send('oops'): the app has no such channel. Known: log, mail.",
    53: "agent third: run.ask(to='mial'): the app has no such channel. Did you mean \"mail\"?",
    38: "agent second: run.sleep inside run.lock: a waiting run leaves memory",
    39: "agent second: run.ask inside run.lock",
    40: 'agent second: run.wait_for: unknown option "timeot". Did you mean "timeout"?',
    35: "agent second: run.call('first') closes a circle: first → second → first.",
}


def test_what_a_handler_may_not_emit(wakeful, folder):
    text = """from wakeful import App, Run, on

app = App("desk")


@app.agent(on("go"), emits=["ticket.*", "note"])
async def talk(run: Run) -> None:
    await run.emit("ticket.opened", tenant="x")
    await run.emit("nite")
    await run.emit("note", chaindepth=0)
    await run.emit("note", source="/elsewhere")
    await run.emit(run.event.data["type"])
"""
    (folder / "app.py").write_text(text)
    found = wakeful("check", "app.py", "--json", code=1).json["problems"]
    assert [one.rpartition("(")[2] for one in found] == ["app.py:9)", "app.py:10)", "app.py:11)"]
    assert 'the agent may emit only emits=["ticket.*", "note"]. Did you mean "note"?' in found[0]
    assert "agent talk: run.emit('note'): chaindepth is set by Wakeful" in found[1]
    assert "agent talk: run.emit('note'): source is set by Wakeful" in found[2]
    (folder / "app.py").write_text(text.replace('emits=["ticket.*", "note"]', 'emits="ticket.*"'))
    assert "emits must be a list of types or patterns" in wakeful("check", "app.py", code=1).err


def test_what_the_source_of_handlers_shows_to_be_wrong(wakeful, folder):
    (folder / "app.py").write_text(FORESEEN)
    found = wakeful("check", "app.py", "--json", code=1).json["problems"]
    for line, words in LINES.items():
        assert [one for one in found if one.startswith(words) and one.endswith(f"(app.py:{line})")], (words, found)
    (late,) = [one for one in found if "run.wait_for: timeout" in one]
    assert "'1x'" in late
    assert len(found) == len(LINES) + 1
    assert "closes a circle" in wakeful("check", "app.py", code=1).err


SURELY_FINE = """
import agents_elsewhere
from wakeful import App, Run, on

app = App("fine")
NAME = "nobody"


def sleep(run):
    run.sleep("soon")


async def other(run, second):
    await second.sleep("soon")


class run:
    async def call(self, name): ...


@app.agent(on("a"))
async def first(run: Run, data: dict) -> None:
    await run.call(NAME)
    await run.call(data["agent"])
    await run.call(f"{NAME}")
    second = data
    await run.call(second)
    await run.sleep(data["span"])
    await run.sleep(90)
    await run.wait_for("paid", where="data.amount >= values.least", values={"least": 3}, timeout=None)
    await run.wait_for(data["type"], where=data["where"])
    await run.wait_for("paid", **data)
    await run.step(sleep, timeot=1)
    await other(data, run=run)
    other(*data, run)

    def another(run):
        run.call("nobody")

    async with run.lock("till"):
        await run.sleep("2s")

        async def later():
            await run.sleep("1h")

    await run.transaction(agents_elsewhere.move, run)
    await run.transaction(another, 1)
    await run.ask("sure?", timeout="4h")


@app.agent()
async def second(run: Run) -> None:
    run = {}
    run.call("nobody")
    exec("run.call('nobody')")


made = {}
exec("async def third(run):\\n    await run.call('nobody')", made)
app.agent(name="third")(made["third"])
"""


def test_what_is_not_certain_is_not_told(wakeful, folder):
    (folder / "agents_elsewhere.py").write_text("def move(db, run):\n    run.emit('x')\n")
    (folder / "app.py").write_text(SURELY_FINE)
    assert wakeful("check", "app.py", "--json").json["problems"] == []
