"""An event under the name of a source that has a door of its own, by another door: against a real server, on both stores."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import httpx2
import pytest

from support.command_line import wait_until
from support.senders import by_github
from support.stores import count, query

TOKEN = "5f3e8a0c6b7d41e29c1f0a8b7e6d5c4b"
SECRET = "of-github"
ENVIRONMENT = {"WAKEFUL_TOKEN": TOKEN, "GITHUB_SECRET": SECRET}
NAMED = "github.push"

APP = """
from wakeful import App, Run, cron, env, files, on, webhook
from wakeful.verify import github

app = App("desk")


@app.agent(webhook("/hooks/github", verify=github(secret=env("GITHUB_SECRET"))), webhook("/hooks/named", verify=github(secret=env("GITHUB_SECRET")), source="octocat"))
async def review(run: Run) -> str:
    return run.event.data["ref"]


@app.agent(files("inbox/*.md"))
async def read(run: Run) -> None: ...


@app.agent(cron("0 8 * * *"), name="nightly")
async def nightly(run: Run) -> None: ...


@app.agent(on("ticket.created"))
async def triage(run: Run) -> None: ...
"""
# A program that shares the store and has none of the agents.
THIN = """
from wakeful import App

app = App("desk")
"""


@pytest.fixture
def server(folder, start, store_url, monkeypatch):
    (folder / "app.py").write_text(APP)
    (folder / "thin.py").write_text(THIN)
    (folder / "inbox").mkdir()
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    command = start("serve", "app.py", "--port", "0", "--store", store_url, env=ENVIRONMENT)
    url = command.wait_for(r"serving desk on (http://127\.0\.0\.1:\d+)")[1]
    with httpx2.Client(
        base_url=url, headers={"Authorization": f"Bearer {TOKEN}"}, trust_env=False, timeout=30
    ) as client:
        yield client


def event(source: str, identifier: str = "delivery-1", kind: str = NAMED, **more: Any) -> dict[str, Any]:
    return {"specversion": "1.0", "source": source, "id": identifier, "type": kind, "data": {"ref": "forged"}, **more}


def deliver(client: httpx2.Client, identifier: str = "delivery-1", path: str = "/hooks/github") -> httpx2.Response:
    """As GitHub does."""
    body = json.dumps({"ref": "real"}).encode()
    headers = {
        **by_github(SECRET, body, int(time.time())),
        "content-type": "application/json",
        "x-github-event": "push",
        "x-github-delivery": identifier,
    }
    return client.post(path, content=body, headers=headers)


def refused(answer: httpx2.Response, field: str = "source") -> str:
    assert answer.status_code == 422, answer.text
    problem = answer.json()
    assert (problem["type"], problem["field"]) == ("urn:wakeful:problem:reserved-name", field)
    detail: str = problem["detail"]
    return detail


def outputs(client: httpx2.Client, agent: str = "review") -> list[Any]:
    found = client.get("/v1/runs", params={"agent": agent, "state": "done"}).json()["runs"]
    return [client.get(f"/v1/runs/{run['id']}").json()["output"] for run in found]


def test_a_forged_event_wakes_nobody_and_the_real_delivery_is_no_duplicate(server, store_url):
    forged = event("/hooks/github")
    structured = {"content-type": "application/cloudevents+json"}
    binary = {f"ce-{name}": forged[name] for name in ("specversion", "source", "id", "type")}
    for headers, body in (({}, forged), (structured, forged), (binary, forged["data"]), ({}, [forged])):
        detail = refused(server.post("/v1/events", json=body, headers=headers))
        assert 'source "/hooks/github" is reserved: its events come only through webhook "/hooks/github".' in detail
        assert "give this event a source of its own" in detail
    assert asyncio.run(count(store_url, "wakeful_event")) == 0
    answer = deliver(server)
    assert (answer.status_code, answer.json()["events"][0]["status"]) == (202, "accepted")
    assert wait_until(lambda: outputs(server)) == ["real"]
    assert deliver(server).json()["events"][0]["status"] == "duplicate"


def test_of_a_batch_the_one_is_named_and_nothing_is_stored(server, store_url):
    batch = [event("/elsewhere", "1"), event("/elsewhere", "2"), event("/hooks/github", "3")]
    headers = {"idempotency-key": "once", "content-type": "application/cloudevents-batch+json"}
    answer = server.post("/v1/events", json=batch, headers=headers)
    assert refused(answer).startswith('event at index 2 of the batch: source "/hooks/github" is reserved')
    assert answer.json()["index"] == 2
    assert asyncio.run(count(store_url, "wakeful_event")) == 0
    # The key was not used up either.
    assert server.post("/v1/events", json=batch[:2], headers=headers).status_code == 202


def test_all_names_of_the_apps_own_doors(server, store_url):
    rows = asyncio.run(query(store_url, "select brings from wakeful_source where kind = 'files'"))
    (inbox,) = json.loads(rows[0][0])
    for source in (
        "octocat",
        inbox,
        "/desk/schedules/nightly",
        "/desk/schedules/of-tomorrow",
        "/desk/alarms/0",
        "/desk/checkins",
        "/desk/run",
        "/desk/triage",
    ):
        assert f'source "{source}" is reserved' in refused(server.post("/v1/events", json=event(source)))
    types = refused(server.post("/v1/events", json=event("/x", kind="wakeful.checkin", subject="backup")), "type")
    assert 'types that begin with "wakeful." are for Wakeful\'s own events' in types
    assert asyncio.run(count(store_url, "wakeful_event")) == 0
    for source in ("/desk", "/desk/other", "/hooks/github/2", "/hooks", "octocat2", "/cli"):
        assert server.post("/v1/events", json=event(source)).status_code == 202
    assert deliver(server, path="/hooks/named").json()["events"][0]["status"] == "accepted"
    started = server.post("/v1/agents/triage/runs", json={}, params={"id": "7"})
    assert (started.status_code, started.json()["events"][0]["status"]) == (202, "accepted")


@pytest.mark.parametrize("program", ["app.py", "thin.py"])
def test_nor_by_the_command_line_also_where_the_program_has_no_such_agent(server, wakeful, store_url, program):
    words = ("emit", program, NAMED, "--id", "delivery-1", "--store", store_url)
    for source in ("/hooks/github", "octocat", "/desk/triage", "/desk/run"):
        said = wakeful(*words, "--source", source, code=None)
        assert said.code == 1
        assert f'source "{source}" is reserved' in said.err
    said = wakeful("emit", NAMED, "--url", str(server.base_url).rstrip("/"), "--source", "/hooks/github", code=1)
    assert "answered 422" in said.err
    assert 'source "/hooks/github" is reserved' in said.err
    assert deliver(server).json()["events"][0]["status"] == "accepted"
