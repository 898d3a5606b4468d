from __future__ import annotations

import shlex
import signal
import subprocess
import sys

from support.command_line import WAKEFUL, environment


def test_once_works_through_everything_that_is_due(wakeful, tickets):
    for number in range(5):
        wakeful("emit", "app.py", "ticket.created", "--id", str(number), "--data", '{"title": "a"}')
    assert wakeful("once", "app.py").out == "wakeful: 5 done now\n"
    assert wakeful("once", "app.py").out == "wakeful: nothing was due\n"
    assert wakeful("once", "app.py", "--json").json == {"finished": {}, "left": {}, "messages": {}}


def test_once_works_on_what_its_runs_send(wakeful, tickets):
    wakeful("emit", "app.py", "ticket.created", "--data", '{"title": "a", "severity": 3}')
    assert wakeful("once", "app.py", "--json").json == {"finished": {"done": 2}, "left": {}, "messages": {}}


def test_once_says_what_became_of_messages(wakeful, folder):
    (folder / "app.py").write_text(
        "from wakeful import App, Persistent, RateLimited, Run, on\n"
        "from wakeful.channels import Channel\n"
        "class Picky(Channel):\n"
        "    def __init__(self, error): self.error = error\n"
        "    async def deliver(self, messages): raise self.error\n"
        "app = App('a', channels={'slow': Picky(RateLimited('later', retry_after='5m')), 'no': Picky(Persistent('no'))})\n"
        "@app.agent(on('x'))\n"
        "async def tell(run: Run) -> None:\n"
        "    for channel in run.event.data: run.send(channel, 'hello')\n"
    )
    wakeful("emit", "app.py", "x", "--data", '["log", "slow", "no"]')
    assert wakeful("once", "app.py").out == "wakeful: 1 done now; deliveries: 1 delivered, 1 pending, 1 dead\n"
    assert wakeful("once", "app.py").out == "wakeful: nothing was due; deliveries: 1 pending\n"
    wakeful("emit", "app.py", "x", "--data", '["no", "no"]')
    told = wakeful("once", "app.py", "--json").json
    assert told == {"finished": {"done": 1}, "left": {}, "messages": {"dead": 2, "pending": 1}}


def test_once_counts_only_what_is_its_own(wakeful, tickets):
    (tickets / "other.py").write_text(
        "from wakeful import App, Run, on\n"
        "app = App('other')\n"
        "@app.agent(on('x'), deliver='log')\n"
        "async def tell(run: Run) -> str:\n"
        "    return 'hello'\n"
    )
    wakeful("emit", "other.py", "x")
    wakeful("emit", "app.py", "ticket.created", "--data", '{"title": "a"}')
    assert wakeful("once", "app.py").out == "wakeful: 1 done now\n"
    assert wakeful("once", "other.py").out == "wakeful: 1 done now; deliveries: 1 delivered\n"


SPEAKS = (
    "from wakeful import App, Run, on\n"
    "app = App('a')\n"
    "@app.agent(on('x'), deliver='log')\n"
    "async def tell(run: Run) -> str:\n"
    "    run.log.info('water is boiling')\n"
    "    return 'the kettle is on'\n"
)


def test_what_goes_to_the_log_is_seen_by_default(wakeful, folder):
    (folder / "app.py").write_text(SPEAKS)
    wakeful("emit", "app.py", "x")
    assert "the kettle is on" in wakeful("once", "app.py").err
    assert "water is boiling" in wakeful("run", "app.py", "tell", "--wait").err
    wakeful("emit", "app.py", "x")
    assert "the kettle is on" not in wakeful("once", "app.py", "--log-level", "warning").err


def test_a_message_that_waits_is_tried_now_or_discarded(wakeful, folder):
    (folder / "app.py").write_text(
        "from wakeful import App, RateLimited, Run, on\n"
        "from wakeful.channels import Channel\n"
        "class Slow(Channel):\n"
        "    async def deliver(self, messages): raise RateLimited('later', retry_after='5m')\n"
        "app = App('a', channels={'slow': Slow()})\n"
        "@app.agent(on('x'), deliver='slow')\n"
        "async def tell(run: Run) -> str:\n"
        "    return 'hello'\n"
    )
    wakeful("emit", "app.py", "x")
    wakeful("once", "app.py")
    (delivery,) = wakeful("deliveries", "--json").json["deliveries"]
    assert "1 delivery for channel slow of app a, the oldest for" in wakeful("doctor", code=1).out
    what = f"delivery {delivery['id']} to channel slow"
    assert wakeful("deliveries", "replay", delivery["id"]).out == f"{what}: tried now, was pending\n"
    assert wakeful("deliveries", "discard", delivery["id"], "--note", "old").out == f"{what}: discarded, was pending\n"
    assert wakeful("once", "app.py").out == "wakeful: nothing was due\n"
    assert "old" in wakeful("why", delivery["id"]).out


def test_once_can_be_interrupted(folder, start, wakeful):
    (folder / "app.py").write_text(
        "import asyncio\nfrom wakeful import App, Run, on\napp = App('a')\n@app.agent(on('x'))\n"
        "async def f(run: Run) -> None:\n    print('begun', flush=True)\n    await asyncio.sleep(1000)\n"
    )
    run = wakeful("emit", "app.py", "x", "--json").json["events"][0]["runs"][0]
    once = start("once", "app.py", "--grace", "0s")
    once.wait_for("begun")
    once.signal(signal.SIGINT)
    assert once.end() == 130
    assert wakeful("trace", run, "--json").json["state"] == "ready"


def test_a_new_project_runs_at_once(wakeful, folder):
    shown = wakeful("init", "project").out
    commands = [line.strip() for line in shown.splitlines() if line.startswith("  ")]
    assert commands[0] == "cd project"
    assert len(commands[1:]) == 3
    told = []
    for command in commands[1:]:
        program, *words = shlex.split(command)
        assert program == "wakeful"
        done = subprocess.run(
            [str(WAKEFUL), *words],
            cwd=folder / "project",
            env=environment(),
            capture_output=True,
            text=True,
            check=True,
        )
        told.append(done.stdout)
    assert told[0].startswith("accepted ")
    assert told[1] == "wakeful: 2 done now\n"
    assert "triage" in told[2]
    assert "page" in told[2]
    assert "no problems" in wakeful("check", "project/app.py").out


def test_its_test_runs_too(wakeful, folder):
    wakeful("init")
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"], cwd=folder,
        env=environment({"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}), check=True,
        capture_output=True,
    )  # fmt: skip


def test_nothing_is_overwritten(wakeful, folder):
    (folder / "README.md").write_text("mine")
    assert wakeful("init", code=1).err == (
        "wakeful: README.md already exists and is not overwritten: name another folder\n"
    )
    assert [one.name for one in folder.iterdir()] == ["README.md"]
    assert (folder / "README.md").read_text() == "mine"
    assert "cannot write into README.md/x" in wakeful("init", "README.md/x", code=1).err


def test_a_run_that_is_held_was_due_and_did_not_finish(wakeful, folder):
    (folder / "app.py").write_text(
        "from wakeful import App, Operation, Run, action, on\n\napp = App('shop')\n\n\n@action\nasync def charge(op: Operation) -> str:\n"
        "    raise TimeoutError('no answer')\n\n\n@app.agent(on('order.paid'))\nasync def pay(run: Run) -> str:\n    return await run.act(charge)\n"
    )
    wakeful("emit", "app.py", "order.paid", "--id", "1")
    assert wakeful("once", "app.py").out == "wakeful: nothing finished; 1 held left for later\n"
