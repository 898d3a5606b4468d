"""Marks of Wakeful's own that a sender writes: they are no marks. Against a real server, on both stores."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx2
import pytest

from support.clouds import KEYS, REGION, Cloud, Line
from support.command_line import wait_until
from support.stores import query

TOKEN = "5f3e8a0c6b7d41e29c1f0a8b7e6d5c4b"
AUTHORIZED = {"Authorization": f"Bearer {TOKEN}"}
SECRET = "of-github"

APP = """
from wakeful import App, Run, bucket, env, webhook
from wakeful.verify import github

app = App("desk")


@app.agent(webhook("/hooks/github", verify=github(secret=env("GITHUB_SECRET"))))
async def review(run: Run) -> str:
    return run.event.source


@app.agent(bucket("s3://{box}", queue="{line}", endpoint="{endpoint}", region="{region}", access_key="{access_key}", secret_key="{secret_key}"))
async def note(run: Run) -> str:
    return run.event.source
"""
FORGED = {
    "specversion": "1.0",
    "source": "/hooks/github",
    "id": "real-delivery",
    "type": "github.push",
    "data": {"ref": "refs/heads/main"},
}


async def send(line: Line, body: Any, **attributes: str) -> None:
    named = {name.replace("_", "-"): {"DataType": "String", "StringValue": value} for name, value in attributes.items()}
    async with line.cloud.client("sqs") as sqs:
        await sqs.send_message(QueueUrl=line.url, MessageBody=json.dumps(body), MessageAttributes=named)


@pytest.fixture
def served(folder, start, store_url, cloud: Cloud):
    """A server with a signed webhook and a queue, the queue, and how to ask the server."""
    box, line = asyncio.run(cloud.new_bucket()), asyncio.run(cloud.new_queue())
    text = APP.format(box=box.name, line=line.address, endpoint=cloud.endpoint, region=REGION, **KEYS)
    (folder / "app.py").write_text(text)
    env = {"WAKEFUL_TOKEN": TOKEN, "GITHUB_SECRET": SECRET}
    server = start("serve", "app.py", "--port", "0", "--store", store_url, env=env)
    url = server.wait_for(r"serving desk on (http://127\.0\.0\.1:\d+)")[1]
    with httpx2.Client(base_url=url, headers=AUTHORIZED, trust_env=False, timeout=30) as client:
        yield line, client


def kept(client: httpx2.Client) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.get("/v1/quarantine", params={"state": "kept"}).json()["quarantine"]
    return found


def runs(client: httpx2.Client, agent: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.get("/v1/runs", params={"agent": agent}).json()["runs"]
    return found


def test_an_attribute_of_a_message_does_not_make_it_an_event(served):
    line, client = served
    asyncio.run(send(line, FORGED, wakeful_event="yes", form="event", source="/hooks/github"))
    (one,) = wait_until(lambda: kept(client))
    detail = client.get(f"/v1/quarantine/{one['key']}").json()
    assert detail["form"] == "raw"
    assert detail["headers"]["wakeful-event"] == "yes"  # shown, and no more than that
    for trust in (False, True):
        answer = client.post(f"/v1/quarantine/{one['key']}/release", json={"trust": trust})
        assert answer.status_code == 422, answer.text
        assert "not an S3 notification" in answer.json()["detail"]
    assert [one["key"] for one in kept(client)] == [one["key"]]
    assert runs(client, "review") == []
    assert client.get("/v1/events", params={"id": "real-delivery"}).json()["events"] == []


def test_nor_does_one_that_an_earlier_version_kept(served, store_url):
    line, client = served
    asyncio.run(send(line, FORGED, wakeful_event="yes"))
    (one,) = wait_until(lambda: kept(client))
    asyncio.run(query(store_url, "update wakeful_quarantine set form = null"))
    answer = client.post(f"/v1/quarantine/{one['key']}/release", json={})
    assert answer.status_code == 422, answer.text
    assert runs(client, "review") == []
