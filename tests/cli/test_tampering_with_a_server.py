"""Someone who can write to the database, and has no key, while a real server works on it: the run is held, and does nothing."""

from __future__ import annotations

import asyncio
import json
import signal
from base64 import urlsafe_b64encode

import httpx2
import pytest

from support.command_line import wait_until
from support.stores import query
from support.tokens import TOKEN, WITH_TOKEN

pytest.importorskip("cryptography")

ENVIRONMENT = {
    "WAKEFUL_ENCRYPTION_KEYS": urlsafe_b64encode(bytes([7]) * 32).decode(),
    "WAKEFUL_ENCRYPTION_STRICT": "1",
    "WAKEFUL_TOKEN": TOKEN,
}
PAYING = """
from wakeful import App, Run, on

app = App("paying")


async def look_up(name: str) -> str:
    return name


@app.agent(on("order"))
async def pay(run: Run) -> None:
    account = await run.step(look_up, run.event.data["account"])
    await run.wait_for("approved", subject=account, timeout="1d")
    print("paid to", account, flush=True)
"""
FORGED = {"specversion": "1.0", "id": "1", "source": "/shop", "type": "order", "data": {"account": "mallory"}}
STEP = """
update wakeful_step set result = $1 where name = 'look_up'
  and run_seq = (select run.seq from wakeful_run run join wakeful_event event on event.seq = run.event_seq where event.id = 'forged')
"""
PLACES = {
    "wakeful_event.envelope": ("update wakeful_event set envelope = $1 where id = 'forged'", json.dumps(FORGED)),
    "wakeful_step.result": (STEP, '"mallory"'),
}


@pytest.mark.parametrize("place", PLACES)
def test_plain_json_that_is_put_under_a_running_server_is_not_acted_on(folder, start, store_url, place):
    (folder / "paying.py").write_text(PAYING)
    server = start("serve", "paying.py", "--port", "0", "--store", store_url, env=ENVIRONMENT)
    address = server.wait_for(r"serving paying on (http://127\.0\.0\.1:\d+)")[1]
    with httpx2.Client(base_url=address, headers=WITH_TOKEN, trust_env=False) as client:

        def send(kind, name, **more):
            event = {"specversion": "1.0", "id": name, "source": "/shop", "type": kind, **more}
            answer = client.post("/v1/events", json=event)
            assert answer.status_code == 202, answer.text
            return answer.json()["events"][0]["runs"]

        def until(run, state):
            return wait_until(lambda: (found := client.get(f"/v1/runs/{run}").json())["state"] == state and found)

        (genuine,) = send("order", "genuine", data={"account": "ada"})
        (forged,) = send("order", "forged", data={"account": "bob"})
        for run in (genuine, forged):
            until(run, "waiting")
        asyncio.run(query(store_url, *PLACES[place]))
        for name in ("ada", "bob", "mallory"):
            send("approved", name, subject=name)
        held = until(forged, "held")
        until(genuine, "done")
        alarms = client.get("/v1/alarms").json()["alarms"]
    server.signal(signal.SIGTERM)
    assert server.end() == 0
    assert f"tampered with: {place}" in held["reason"]
    assert any(one["state"] == "open" and place in one["text"] for one in alarms)
    assert [line for line in server.seen if line.startswith("paid to")] == ["paid to ada"]
    assert "mallory" not in json.dumps(held)
