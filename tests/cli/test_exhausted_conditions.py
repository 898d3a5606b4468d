"""An event that makes a condition too dear, sent to a real server: nothing starts, and that is told everywhere."""

from __future__ import annotations

import signal

import httpx2

TOKEN = "8d1f6c02e97ab453f06e2d9c71b8a54e3c7f90d162eb8a45"
GUARDED = """
from wakeful import App, Run, on

app = App("guarded")


@app.agent(on("order.placed", where='data.lines.exists(line, line.risky)'))
async def inspect(run: Run) -> str:
    return "inspected"


@app.agent(on("order.placed", where='data.note.replace("a", data.other) == ""'))
async def tidy(run: Run) -> None: ...


@app.agent(on("order.placed", where="data.total > 5"))
async def bill(run: Run) -> None: ...
"""


def test_a_large_event_does_not_slip_past_a_condition(folder, start, wakeful, monkeypatch):
    (folder / "guarded.py").write_text(GUARDED)
    server = start("serve", "guarded.py", "--port", "0", env={"WAKEFUL_TOKEN": TOKEN})
    address = server.wait_for(r"serving guarded on (http://127\.0\.0\.1:\d+)")[1]
    lines = [{"risky": False}] * 10_100 + [{"risky": True}]
    data = {"lines": lines, "note": "a" * 1_000, "other": "b" * 100_000, "total": 7}
    large = {"specversion": "1.0", "id": "large", "source": "/shop", "type": "order.placed", "data": data}
    small = {**large, "id": "small", "data": {**data, "lines": lines[-2:], "other": "b"}}
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with httpx2.Client(base_url=address, headers=headers, trust_env=False) as client:
        (told,) = client.post("/v1/events", json=large).json()["events"]
        assert (told["status"], len(told["runs"])) == ("accepted", 1)  # bill asks for one number
        (told,) = client.post("/v1/events", json=small).json()["events"]
        assert len(told["runs"]) == 2
        event = client.get("/v1/events/large").json()
        alarms = client.get("/v1/alarms").json()["alarms"]
    server.wait_for("ran out of its budget")
    server.signal(signal.SIGTERM)
    assert server.end() == 0
    became = {one["agent"]: one for one in event["admissions"]}
    assert (became["inspect"]["state"], became["tidy"]["state"]) == ("denied", "denied")
    assert "all, exists, filter and map go through at most 10,000 elements" in became["inspect"]["reason"]
    assert "units" in became["tidy"]["reason"]
    assert {one["key"] for one in alarms} == {"condition/guarded/inspect", "condition/guarded/tidy"}
    story = wakeful("why", "large").out.replace("\n", " ")
    assert "Agent inspect did nothing, because its condition could not be evaluated" in story
    assert "--denied" in story
    monkeypatch.setenv("WAKEFUL_TOKEN", TOKEN)  # a person's: the server had one
    handed = wakeful("replay", "--events", "order.placed", "--from", "1h", "--agent", "inspect", "--denied", "--json")
    assert handed.json["redone"] == 1
