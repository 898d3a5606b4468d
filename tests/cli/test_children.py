"""Children of a real worker: what a command or a heartbeat's probe learns, and what it can do with that."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest

from support.command_line import WAKEFUL, wait_until
from wakeful.testing.waiting import until

TOKEN = "planted-token-" + secrets.token_hex(32)
FILE = f"planted-store-{secrets.token_hex(8)}.db"  # of this process: tests in others give commands with theirs, and a spy sees all commands
STORE = f"sqlite:///{FILE}"
SECRETS = {
    "WAKEFUL_TOKEN": TOKEN,
    "WAKEFUL_TOKEN_NEXT": "planted-next-" + secrets.token_hex(32),
    "WAKEFUL_ENCRYPTION_KEYS": "cGxhbnRlZC1rZXktcGxhbnRlZC1rZXktcGxhbnRlZCE=",
    "WAKEFUL_STORE": STORE,
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

    def stop(self) -> None:
        self.process.signal(signal.SIGTERM)
        assert self.process.end() == 0

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
    server.wait_for(r"can read the password in --store .*: set the address in WAKEFUL_STORE instead")
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
""".replace("planted-store.db", FILE)


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
    words = f"{wakeful} approvals answer {question} yes --store sqlite:///planted-store.db > /dev/null"
    line = f"{words} 2> heard; echo $? > code; cat code heard > said.new; mv said.new said"
    os.execve("/bin/sh", ["sh", "-c", line], {"PATH": os.environ["PATH"]})
""".replace("planted-store.db", FILE)


def detached(
    place: Path, start: Any, script: str = DETACHING, asking: str = ASKING, **environment: str
) -> tuple[Server, str, str]:
    """A program detaches itself from its run, and tries to answer: (the server, the run that asks, its question)."""
    (place / "answering.py").write_text(script)
    line = f"{sys.executable} answering.py $(cat question) {WAKEFUL}"
    (place / "app.py").write_text(asking + f'\napp.command("answering", on("answering"), {line!r})\n')
    server = Server(start, place, **environment)
    run = server.emit("ask")["runs"][0]
    asyncio.run(until(lambda: server.get("/v1/approvals")["approvals"]))
    question = server.get("/v1/approvals")["approvals"][0]["id"]
    (place / "question").write_text(question)
    server.emit("answering")
    return server, run, question


def said(place: Path) -> str:
    asyncio.run(until((place / "said").exists))
    return " ".join((place / "said").read_text().split())


def test_a_child_that_detaches_needs_the_token(place, start):
    server, run, question = detached(place, start, WAKEFUL_ENCRYPTION_KEYS="")
    words = said(place)
    assert words.startswith(
        "1 wakeful: to answer an approval needs the token that the server of spied was started with"
    )
    assert "WAKEFUL_TOKEN is not set here: set WAKEFUL_TOKEN to it. Nothing was changed" in words
    assert server.get(f"/v1/approvals/{question}")["state"] == "open"
    assert server.get(f"/v1/runs/{run}")["state"] == "waiting"


def test_a_child_that_detaches_has_no_key_either(place, start):
    server, run, question = detached(place, start)
    assert "WAKEFUL_ENCRYPTION_KEYS" in said(place)
    assert server.get(f"/v1/approvals/{question}")["state"] == "open"
    assert server.get(f"/v1/runs/{run}")["state"] == "waiting"


NO_SECRETS = {"WAKEFUL_ENCRYPTION_KEYS": "", "WAKEFUL_TOKEN": "", "WAKEFUL_TOKEN_NEXT": ""}


def test_without_a_token_a_child_that_detaches_answers_nothing_and_people_are_told_why(place, start, wakeful):
    """Nothing tells it from a person's command, so neither is believed."""
    server, run, question = detached(place, start, **NO_SECRETS)
    assert said(place).startswith("1 wakeful: to answer an approval needs a token, but spied was started without one")
    assert server.get(f"/v1/approvals/{question}")["state"] == "open"
    assert server.get(f"/v1/runs/{run}")["state"] == "waiting"
    words = (
        "command answering starts programs, and agent deploy asks people: without a token no command answers for them"
    )
    assert words in server.process.output
    assert words in " ".join(wakeful("check", "app.py").out.split())
    store = STORE
    assert words in " ".join(wakeful("doctor", "app.py", "--store", store, code=None).out.split())


def test_where_the_code_says_so_a_child_may_answer(place, start):
    server, _, question = detached(
        place, start, asking=ASKING.replace('"spied"', '"spied", programs_may_answer=True'), **NO_SECRETS
    )
    assert said(place) == "0"
    assert server.get(f"/v1/approvals/{question}")["state"] == "answered"
    assert "starts programs" not in server.process.output


def test_a_locked_app_is_opened_by_starting_it_with_a_token(place, start, wakeful, monkeypatch):
    (place / "app.py").write_text(ASKING + '\napp.command("nothing", on("nothing"), "true")\n')
    server = Server(start, place, **NO_SECRETS)
    server.emit("ask")
    asyncio.run(until(lambda: server.get("/v1/approvals")["approvals"]))
    question = server.get("/v1/approvals")["approvals"][0]["id"]
    answer = ("approvals", "answer", question, "yes", "--store", STORE)
    run = server.get("/v1/runs")["runs"][0]["id"]
    detours = (("fork", run, "--from", "ask"), ("apps", "retire", "spied", "--live"))
    for words in (answer, *((*words, "--store", STORE) for words in detours)):
        assert "or set App(…, programs_may_answer=True). Nothing was changed" in wakeful(*words, code=1).err
    with_token = {"authorization": f"Bearer {TOKEN}"}
    other = Server(start, place, WAKEFUL_ENCRYPTION_KEYS="")  # beside the first, as a program of the app could start it
    refused = httpx2.post(
        f"{other.url}/v1/approvals/{question}/answer", json={"answer": True}, headers=with_token, trust_env=False
    )
    assert refused.status_code == 403, refused.text
    assert "was started without a token" in refused.json()["detail"]
    other.stop()
    server.stop()
    wakeful(*answer, code=1)  # the lock stays while no server runs
    Server(start, place, WAKEFUL_ENCRYPTION_KEYS="")
    monkeypatch.setenv("WAKEFUL_TOKEN", TOKEN)
    assert "answered with true" in wakeful(*answer).out


# Without our commands: the database file itself.
WRITING = """
import os, sqlite3, sys

program = os.getpid()
if os.fork() == 0:
    os.setsid()
    while os.getppid() == program:  # it ends at once
        pass
    store = sqlite3.connect("planted-store.db", timeout=60)
    with store:
        store.execute("update wakeful_approval set state = 'answered', answer = 'true', answered_by = 'a person'")
        store.execute("update wakeful_step set state = 'done', result = 'true' where name = 'ask'")
        store.execute("update wakeful_run set state = 'ready', due_at = 0 where state = 'waiting'")
    store.close()
    with open("said.new", "w") as file:
        file.write("written")
    os.replace("said.new", "said")
""".replace("planted-store.db", FILE)


def test_an_answer_that_a_child_writes_into_an_encrypted_store_is_noticed(place, start):
    server, run, _ = detached(place, start, WRITING, WAKEFUL_ENCRYPTION_STRICT="1")
    assert said(place) == "written"
    asyncio.run(until(lambda: server.get(f"/v1/runs/{run}")["state"] == "held"))
    told = server.get(f"/v1/runs/{run}")
    assert "tampered with: wakeful_step.result" in told["reason"]
    assert told["output"] is None
    asyncio.run(until(lambda: any(one["key"].startswith("tampering/") for one in server.get("/v1/alarms")["alarms"])))


@pytest.mark.parametrize(
    ("environment", "works"),
    [
        ({"WAKEFUL_TOKEN": TOKEN}, True),
        ({"WAKEFUL_TOKEN": SECRETS["WAKEFUL_TOKEN_NEXT"]}, True),
        ({"WAKEFUL_TOKEN_NEXT": TOKEN}, True),
        ({"WAKEFUL_TOKEN": "another-" + secrets.token_hex(32)}, False),
        ({}, False),
    ],
    ids=["the-token", "the-next-token", "as-the-next-token", "another-one", "none"],
)
def test_a_person_who_has_the_token_answers(place, start, wakeful, monkeypatch, environment, works):
    (place / "app.py").write_text(ASKING)
    server = Server(start, place, WAKEFUL_ENCRYPTION_KEYS="")
    server.emit("ask")
    asyncio.run(until(lambda: server.get("/v1/approvals")["approvals"]))
    question = server.get("/v1/approvals")["approvals"][0]["id"]
    server.stop()  # the guard stays while no server runs
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    answer = ("approvals", "answer", question, "yes", "--store", STORE)
    if works:
        assert "answered with true" in wakeful(*answer).out
        return
    told = wakeful(*answer, code=1).err
    assert "set WAKEFUL_TOKEN to it. Nothing was changed" in told
    assert ("WAKEFUL_TOKEN is a different one" in told) == bool(environment)
    assert TOKEN not in told


GUARDED = [
    ("effects", "repeat", "--all"),
    ("release", "3f2a91"),
    ("resume", "all"),
    ("halt", "all", "--lift"),
    ("grants", "add", "--agent", "deploy", "--until", "7d", "--most", "5"),
    ("circuits", "close", "stripe"),
    ("replay", "3f2a91"),
    ("fork", "3f2a91", "--from", "fetch"),
    ("dead", "replay", "--all"),
    ("deliveries", "replay", "--all"),
    ("state", "clear", "deploy"),
    ("schedules", "resume", "nightly"),
    ("quarantine", "release", "app.py", "3f2a91"),
    ("apps", "retire", "spied"),
]


def test_commands_that_decide_ask_for_the_token_until_a_server_has_none(place, start, wakeful):
    (place / "app.py").write_text(ASKING)
    store = ("--store", STORE)
    Server(start, place, WAKEFUL_ENCRYPTION_KEYS="").stop()
    for words in GUARDED:
        assert "needs the token that the server of spied was started with" in wakeful(*words, *store, code=1).err, words
    for words in (
        ("approvals",),
        ("runs",),
        ("pause", "deploy"),
        ("halt", "deploy"),
        ("effects", "repeat", "--all", "--plan"),
    ):
        assert "token" not in wakeful(*words, *store, code=None).err
    open_again = Server(start, place, WAKEFUL_ENCRYPTION_KEYS="", WAKEFUL_TOKEN="", WAKEFUL_TOKEN_NEXT="")
    assert "this server has no token, but an earlier one had" in open_again.process.output
    open_again.stop()
    for words in GUARDED:
        assert "token" not in wakeful(*words, *store, code=None).err, words


OTHER = "another-" + secrets.token_hex(32)
OPEN = {"WAKEFUL_ENCRYPTION_KEYS": "", "WAKEFUL_TOKEN": "", "WAKEFUL_TOKEN_NEXT": ""}


def asked(place: Path, start: Any) -> tuple[Server, str]:
    """A server with a token that has asked a question, and the question."""
    (place / "app.py").write_text(ASKING)
    server = Server(start, place, WAKEFUL_ENCRYPTION_KEYS="")
    server.emit("ask")
    asyncio.run(until(lambda: server.get("/v1/approvals")["approvals"]))
    return server, server.get("/v1/approvals")["approvals"][0]["id"]


@pytest.mark.parametrize("token", ["", OTHER], ids=["none", "its-own"])
def test_a_second_server_does_not_take_the_guard_away(place, start, wakeful, monkeypatch, token):
    """As a child would start it: no secret of the first one is known to it."""
    server, question = asked(place, start)
    second = Server(start, place, **OPEN | {"WAKEFUL_TOKEN": token})
    assert "commands that decide for people keep asking for the live process's token" in second.process.output
    monkeypatch.setenv("WAKEFUL_TOKEN", token)
    answer = ("approvals", "answer", question, "yes", "--store", STORE)
    assert "set WAKEFUL_TOKEN to it. Nothing was changed" in wakeful(*answer, code=1).err
    headers = {"authorization": f"Bearer {token}"} if token else {}
    url = f"{second.url}/v1/approvals/{question}/answer"
    refused = httpx2.post(url, json={"answer": True}, headers=headers, trust_env=False, timeout=90)
    assert refused.status_code == 403, refused.text
    assert server.get(f"/v1/approvals/{question}")["state"] == "open"
    monkeypatch.setenv("WAKEFUL_TOKEN", TOKEN)
    assert "answered with true" in wakeful(*answer).out


def test_a_second_server_that_knows_the_token_replaces_it(place, start, wakeful, monkeypatch):
    """Rotation: one process after the other gets the new token, and the old one counts until the last has it alone."""
    _, question = asked(place, start)
    new = {"WAKEFUL_ENCRYPTION_KEYS": "", "WAKEFUL_TOKEN": TOKEN, "WAKEFUL_TOKEN_NEXT": OTHER}
    Server(start, place, **new)
    monkeypatch.setenv("WAKEFUL_TOKEN", SECRETS["WAKEFUL_TOKEN_NEXT"])
    answer = ("approvals", "answer", question, "yes", "--store", STORE)
    assert "WAKEFUL_TOKEN is a different one" in wakeful(*answer, code=1).err
    monkeypatch.setenv("WAKEFUL_TOKEN", OTHER)
    assert "answered with true" in wakeful(*answer).out


def test_the_token_of_another_app_answers_nothing(place, start, wakeful, monkeypatch):
    """A child can declare an app of its own, and serve it on the same store with a token of its own."""
    server, question = asked(place, start)
    (place / "evil.py").write_text('from wakeful import App\n\napp = App("evil")\n')
    words = ("serve", "evil.py", "--port", "0", "--store", STORE)
    evil = start(*words, env={"WAKEFUL_TOKEN": OTHER})
    url = evil.wait_for(r"serving evil on (http://127\.0\.0\.1:\d+)")[1]
    monkeypatch.setenv("WAKEFUL_TOKEN", OTHER)
    answer = ("approvals", "answer", question, "yes", "--store", STORE)
    told = wakeful(*answer, code=1).err
    assert "needs the token that the server of spied was started with, and WAKEFUL_TOKEN is a different one" in told
    headers = {"authorization": f"Bearer {OTHER}"}
    path = f"{url}/v1/approvals/{question}/answer"
    refused = httpx2.post(path, json={"answer": True}, headers=headers, trust_env=False, timeout=90)
    assert refused.status_code == 403, refused.text
    assert "app spied" in refused.json()["detail"]
    assert server.get(f"/v1/approvals/{question}")["state"] == "open"
    assert "is retired" not in wakeful("apps", "retire", "spied", "--live", "--store", STORE, code=1).out


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
    (alarm,) = wait_until(lambda: server.get("/v1/alarms?state=open")["alarms"])  # it is logged before it is stored
    assert "HEARTBEAT.md:5: this heartbeat runs no commands" in alarm["text"]
    assert "this heartbeat runs no commands" in wakeful("check", "app.py", code=1).err
    assert not (place / "taken").exists()
