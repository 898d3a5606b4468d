"""Children of a real worker: what a command or a heartbeat's probe learns, and what it can do with that."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest

from support.command_line import WAKEFUL
from wakeful.testing.waiting import until

TOKEN = "planted-token-" + secrets.token_hex(32)
SECRETS = {
    "WAKEFUL_TOKEN": TOKEN,
    "WAKEFUL_TOKEN_NEXT": "planted-next-" + secrets.token_hex(32),
    "WAKEFUL_ENCRYPTION_KEYS": "cGxhbnRlZC1rZXktcGxhbnRlZC1rZXktcGxhbnRlZCE=",
    "WAKEFUL_STORE": "sqlite:///planted-store.db",
    "GITHUB_SECRET": "planted-github",
    "CLOUD_PASSWORD": "planted-cloud",
    "REPORT_MODE": "weekly",
    "TZ": "UTC",
    "LANG": "C.UTF-8",
}
PLANTED = [value for value in SECRETS.values() if "planted" in value or value.startswith("cGxhbnRl")]
TOLD = {"PATH", "HOME", "LANG", "TZ", "REPORT_MODE", "WAKEFUL_RUN_ID", "WAKEFUL_AGENT"}
OF_THE_SHELL = {"PWD", "OLDPWD", "SHLVL", "_", "LC_CTYPE"}

# Root may look into every process, and so may those with some capabilities. Without any of them root is a user like others.
WITHOUT_CAPABILITIES = """
import ctypes, os, sys
for one in range(64):
    ctypes.CDLL(None).prctl(24, one, 0, 0, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""
AS_A_USER = (sys.executable, "-c", WITHOUT_CAPABILITIES) if sys.platform == "linux" and os.geteuid() == 0 else ()

# What a curious program finds: its own environment, the environment and the words of all processes, and its ancestors' memory.
SPY = f"""
import json, os, sys
from pathlib import Path

planted = {PLANTED!r}
found = {{"environment": dict(os.environ), "planted": [], "memory": [], "ancestors": 0}}
for process in Path("/proc").glob("[0-9]*"):
    for name in ("environ", "cmdline"):
        try:
            text = (process / name).read_bytes()
        except OSError:
            continue
        found["planted"] += [f"{{process.name}}/{{name}}: {{one}}" for one in planted if one.encode() in text]
ancestor = os.getppid()
while ancestor > 1:
    words = Path(f"/proc/{{ancestor}}/cmdline").read_text().split(chr(0))
    if "serve" in words:
        found["ancestors"] += 1
        try:
            os.close(os.open(f"/proc/{{ancestor}}/mem", os.O_RDONLY))
        except OSError:
            pass
        else:
            found["memory"].append(words)
    ancestor = int(Path(f"/proc/{{ancestor}}/stat").read_text().rpartition(")")[2].split()[1])
Path(sys.argv[1] + ".new").write_text(json.dumps(found))
os.replace(sys.argv[1] + ".new", sys.argv[1])
"""

APP = """
import sys
from wakeful import App, Run, env, on, webhook
from wakeful.verify import github

app = App("spied")


@app.agent(webhook("/hooks/github", verify=github(secret=env("GITHUB_SECRET"))))
async def review(run: Run) -> None: ...


app.command("spy", on("spy"), [sys.executable, "spy.py", "command.json"], environment=["REPORT_MODE"])
app.heartbeat("HEARTBEAT.md", every="1s", commands=True, environment=["REPORT_MODE"])
"""


ASKING = """
from wakeful import App, Run, on

app = App("spied")


@app.agent(on("ask"))
async def deploy(run: Run) -> str:
    return "deployed" if await run.ask("Deploy?", timeout="1h") else "not deployed"
"""


class Server:
    """A `wakeful serve` with secrets in its environment."""

    def __init__(self, start: Any, folder: Path, **more: str) -> None:
        given = {**SECRETS, "HOME": str(folder), **more}
        self.process = start("serve", "app.py", "--port", "0", env=given, through=AS_A_USER)
        self.url = self.process.wait_for(r"serving spied on (http://127\.0\.0\.1:\d+)")[1]

    def get(self, path: str) -> Any:
        headers = {"authorization": f"Bearer {TOKEN}"}
        return httpx2.get(f"{self.url}{path}", headers=headers, trust_env=False, timeout=90).json()

    def emit(self, kind: str, *, wait: str = "") -> dict[str, Any]:
        content = {"id": kind, "source": "/test", "type": kind}
        headers = {"authorization": f"Bearer {TOKEN}"}
        url = f"{self.url}/v1/events{wait}"
        answer = httpx2.post(url, json=content, headers=headers, trust_env=False, timeout=90)
        assert answer.status_code in {200, 202}, answer.text
        return dict(answer.json()["events"][0])


@pytest.fixture
def place(folder: Path) -> Path:
    (folder / "app.py").write_text(APP)
    (folder / "spy.py").write_text(SPY)
    (folder / "HEARTBEAT.md").write_text(f"## Look\nprobe: $ {sys.executable} spy.py probe.json\n")
    return folder


pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


def found_by(place: Path, server: Server, report: str) -> dict[str, Any]:
    if report == "command.json":
        server.emit("spy", wait="?wait=60s")
    asyncio.run(until((place / report).exists))
    return dict(json.loads((place / report).read_text()))


@pytest.mark.parametrize("report", ["command.json", "probe.json"])
def test_a_child_finds_no_secret_of_its_worker(place, start, report):
    found = found_by(place, Server(start, place), report)
    assert found["ancestors"] == 1  # the worker is there to be looked into
    assert found["planted"] == []
    assert found["memory"] == []
    told = set(found["environment"]) - OF_THE_SHELL - {"WAKEFUL_EVENT", "WAKEFUL_SCHEDULED_FOR"}
    assert told == TOLD
    assert found["environment"]["REPORT_MODE"] == "weekly"


def test_a_debugger_may_be_let_in(place, start):
    found = found_by(place, Server(start, place, WAKEFUL_DUMPABLE="1"), "command.json")
    assert found["memory"] != []
    assert any(TOKEN in one for one in found["planted"])
    assert not set(found["environment"]) & (set(SECRETS) - TOLD)


def test_a_word_that_says_neither_is_refused(place, start):
    server = start("serve", "app.py", env={"WAKEFUL_DUMPABLE": "yes"})
    server.wait_for("wakeful: WAKEFUL_DUMPABLE must be 1 or 0, not 'yes'")
    assert server.end() == 1


@pytest.mark.parametrize("how", ["before the host", "in the query"])
def test_a_password_in_the_words_of_a_process_is_warned_of(place, start, how):
    """A child reads these words in /proc, and so does every user: hiding them is not possible."""
    store = {
        "before the host": "postgresql://desk:planted-word@127.0.0.1:9/desk",
        "in the query": "postgresql://127.0.0.1:9/desk?password=planted-word",
    }[how]
    server = start("serve", "app.py", "--port", "0", "--store", store, env=SECRETS)
    server.wait_for(r"the password in --store can be read by .*: give the address by WAKEFUL_STORE")
    assert "planted-word" not in server.output


def test_a_password_that_is_not_in_the_words_is_not(place, start):
    server = start(
        "serve",
        "app.py",
        "--port",
        "0",
        env={**SECRETS, "WAKEFUL_STORE": "postgresql://desk:planted-word@127.0.0.1:9/desk"},
    )
    server.wait_for("127.0.0.1:9")
    assert "password" not in server.output


ANSWERING = """
import os, subprocess, sys
from urllib import request, error

question, wakeful, url = sys.argv[1:]
plain = {name: value for name, value in os.environ.items() if not name.startswith("WAKEFUL_")}
answer = ["approvals", "answer", question, "yes"]
for environment, words in ((None, answer), (plain, answer), (plain, ["release", question])):
    words = [wakeful, *words, "--store", "sqlite:///planted-store.db"]
    tried = subprocess.run(words, env=environment, capture_output=True, text=True)
    print(tried.returncode, tried.stderr.strip())
asked = request.Request(f"{url}/v1/approvals/{question}/answer", b'{"answer": true}', {"content-type": "application/json"})
try:
    print(request.urlopen(asked).status)
except error.HTTPError as refused:
    print(refused.code)
"""


@pytest.mark.parametrize("token", [TOKEN, ""], ids=["token", "no-token"])
def test_a_child_cannot_answer_what_its_app_asks(place, start, token):
    (place / "answering.py").write_text(ANSWERING)
    line = f"{sys.executable} answering.py $(cat question) {WAKEFUL} $(cat url)"
    (place / "app.py").write_text(ASKING + f'\napp.command("answering", on("answering"), {line!r})\n')
    server = Server(start, place, WAKEFUL_ENCRYPTION_KEYS="", WAKEFUL_TOKEN=token, WAKEFUL_TOKEN_NEXT="")
    asking = server.emit("ask")["runs"][0]
    asyncio.run(until(lambda: server.get("/v1/approvals")["approvals"]))
    question = server.get("/v1/approvals")["approvals"][0]["id"]
    (place / "question").write_text(question)
    (place / "url").write_text(server.url)
    (output,) = server.emit("answering", wait="?wait=60s")["outputs"].values()
    *tries, status = output["stdout"].splitlines()
    assert status == ("401" if token else "403")
    assert len(tries) == 3
    for tried in tries:
        assert tried.startswith("1 wakeful: this command runs inside run"), output
    assert server.get(f"/v1/approvals/{question}")["state"] == "open"
    assert server.get(f"/v1/runs/{asking}")["state"] == "waiting"


DETACHING = """
import os, sys

question, wakeful = sys.argv[1:]
program = os.getpid()
if os.fork() == 0:
    os.setsid()
    while os.getppid() == program:  # it ends at once
        pass
    words = [wakeful, "approvals", "answer", question, "yes", "--store", "sqlite:///planted-store.db"]
    os.execve(wakeful, words, {"PATH": os.environ["PATH"]})
"""


def test_a_child_that_detaches_is_not_known_for_one(place, start):
    """The limit of these commands, as docs/how-to/commands.md tells it: what has no ancestor of the run left, and none of its environment, is
    a process of this user like any other, and may do with a SQLite file what its user may.
    """
    (place / "answering.py").write_text(DETACHING)
    line = f"{sys.executable} answering.py $(cat question) {WAKEFUL}"
    (place / "app.py").write_text(ASKING + f'\napp.command("answering", on("answering"), {line!r})\n')
    server = Server(start, place, WAKEFUL_ENCRYPTION_KEYS="")
    server.emit("ask")
    asyncio.run(until(lambda: server.get("/v1/approvals")["approvals"]))
    question = server.get("/v1/approvals")["approvals"][0]["id"]
    (place / "question").write_text(question)
    server.emit("answering")
    asyncio.run(until(lambda: server.get(f"/v1/approvals/{question}")["state"] != "open"))
    assert server.get(f"/v1/approvals/{question}")["state"] == "answered"


EDITED = """
from wakeful import App

app = App("spied")


@app.probe
def unread() -> str:
    return "one mail"


app.heartbeat("HEARTBEAT.md", every="1s")
"""


def test_a_file_that_a_model_edits_is_not_a_shell(place, start, wakeful):
    (place / "app.py").write_text(EDITED)
    (place / "HEARTBEAT.md").write_text("## Mail\nprobe: unread\n")
    server = Server(start, place, WAKEFUL_ENCRYPTION_KEYS="")
    server.process.wait_for("one mail")
    (place / "HEARTBEAT.md").write_text("## Mail\nprobe: unread\n\n## Disk\nprobe: $ touch taken\n")
    server.process.wait_for(r"HEARTBEAT\.md:5: this heartbeat runs no commands .* allow commands with .*commands=True")
    (alarm,) = server.get("/v1/alarms?state=open")["alarms"]
    assert "HEARTBEAT.md:5: this heartbeat runs no commands" in alarm["text"]
    assert "this heartbeat runs no commands" in wakeful("check", "app.py", code=1).err
    assert not (place / "taken").exists()
