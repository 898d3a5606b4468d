"""Runs that would leave their chain, or be told by a stranger what they wait for: against a real server, on both stores."""

from __future__ import annotations

import json
import time
from typing import Any

import httpx2
import pytest

from support.command_line import wait_until
from support.senders import by_github

TOKEN = "5f3e8a0c6b7d41e29c1f0a8b7e6d5c4b"
SECRET = "of-github"
ENVIRONMENT = {"WAKEFUL_TOKEN": TOKEN, "GITHUB_SECRET": SECRET}

DESK = """
from wakeful import App, Run, env, on, webhook
from wakeful.verify import github

app = App("desk")


@app.agent(webhook("/hooks/github", verify=github(secret=env("GITHUB_SECRET"))))
async def review(run: Run) -> None: ...


@app.agent(on("again"), attempts=1)
async def loop(run: Run) -> None:
    await run.emit("again", {"round": run.event.data["round"] + 1}, chaindepth=0)


@app.agent(on("stop"), attempts=1)
async def until(run: Run) -> str:
    return (await run.wait_for("github.push", source="/hooks/github", timeout="1h")).data["ref"]


@app.agent(on("stop"), attempts=1)
async def whichever(run: Run) -> str:
    return (await run.wait_for("github.push", timeout="1h")).data["ref"]


@app.agent(on("talk"), attempts=1, emits=["ticket.*"])
async def talk(run: Run) -> None:
    await run.emit(run.event.data["type"])
"""
NEIGHBOUR = """
from wakeful import App

app = App("neighbour")
"""


@pytest.fixture
def serve(folder, start, store_url):
    (folder / "desk.py").write_text(DESK)
    (folder / "neighbour.py").write_text(NEIGHBOUR)
    clients = []

    def call(name: str) -> httpx2.Client:
        command = start("serve", f"{name}.py", "--port", "0", "--store", store_url, env=ENVIRONMENT)
        url = command.wait_for(rf"serving {name} on (http://127\.0\.0\.1:\d+)")[1]
        headers = {"Authorization": f"Bearer {TOKEN}"}
        clients.append(httpx2.Client(base_url=url, headers=headers, trust_env=False, timeout=30))
        return clients[-1]

    yield call
    for client in clients:
        client.close()


def send(client: httpx2.Client, kind: str, data: Any = None, source: str = "/tests", identifier: str = "1") -> None:
    body = {"source": source, "id": identifier, "type": kind, "data": data or {}}
    answer = client.post("/v1/events", json=body)
    assert answer.status_code == 202, answer.text


def runs(client: httpx2.Client, agent: str, state: str) -> list[Any]:
    found = client.get("/v1/runs", params={"agent": agent, "state": state}).json()["runs"]
    return [client.get(f"/v1/runs/{run['id']}").json() for run in found]


def test_a_loop_cannot_say_that_it_is_none(serve):
    client = serve("desk")
    send(client, "again", {"round": 1})
    (dead,) = wait_until(lambda: runs(client, "loop", "dead"))
    assert "run.emit('again'): chaindepth is set by Wakeful" in dead["error"]["message"]
    assert len(client.get("/v1/events", params={"type": "again"}).json()["events"]) == 1


def test_a_wait_for_a_source_takes_nothing_that_others_say(serve):
    client, neighbour = serve("desk"), serve("neighbour")
    send(client, "stop")
    wait_until(lambda: runs(client, "until", "waiting") and runs(client, "whichever", "waiting"))
    # Another app on the same store: none of its events are those of this one.
    send(neighbour, "github.push", {"ref": "of a neighbour"}, source="/hooks/github")
    assert (
        client.post("/v1/events", json={"source": "/hooks/github", "id": "1", "type": "github.push"}).status_code == 422
    )
    send(client, "github.push", {"ref": "of the app"}, source="/elsewhere")
    (done,) = wait_until(lambda: runs(client, "whichever", "done"))
    assert done["output"] == "of the app"
    assert len(runs(client, "until", "waiting")) == 1
    body = json.dumps({"ref": "real"}).encode()
    headers = {
        **by_github(SECRET, body, int(time.time())),
        "content-type": "application/json",
        "x-github-event": "push",
        "x-github-delivery": "1",
    }
    assert client.post("/hooks/github", content=body, headers=headers).json()["events"][0]["status"] == "accepted"
    (done,) = wait_until(lambda: runs(client, "until", "done"))
    assert done["output"] == "real"


def test_an_agent_says_nothing_beyond_what_it_may(serve):
    client = serve("desk")
    send(client, "talk", {"type": "payment.made"})
    (dead,) = wait_until(lambda: runs(client, "talk", "dead"))
    assert "agent talk: run.emit('payment.made'): type \"payment.made\" is not allowed" in dead["error"]["message"]
    send(client, "talk", {"type": "ticket.opened"}, identifier="2")
    wait_until(lambda: runs(client, "talk", "done"))
    assert client.get("/v1/events", params={"type": "payment.made"}).json()["events"] == []
    assert len(client.get("/v1/events", params={"type": "ticket.opened"}).json()["events"]) == 1
