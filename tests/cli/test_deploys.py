"""Processes of one version beside a schema that a later version has made."""

from __future__ import annotations

import asyncio
import signal

import httpx2
import pytest

from support.schemas import knowing, later
from support.stores import query
from wakeful.stores.migrations import migrations

NEXT = later(
    9001, "alter table wakeful_run add column later text; create index wakeful_run_later on wakeful_run (later);"
)
TAKES = later(9002, "-- contract: needs 9001\nalter table wakeful_run drop column data;", "takes")
HELLO = """
from wakeful import App, Run, on

app = App("hello")


@app.agent(on("greet"))
async def greet(run: Run) -> str:
    print("greeted", run.event.id, flush=True)
    return "hello"
"""


def send(url, identifier):
    body = {"id": identifier, "source": "/test", "type": "greet"}
    assert httpx2.post(f"{url}/v1/events", json=body, trust_env=False).status_code == 202


def test_an_old_server_goes_on_and_restarts_while_a_new_version_is_rolled_out(folder, start, wakeful, store_url):
    (folder / "app.py").write_text(HELLO)
    words = ("serve", "app.py", "--port", "0", "--store", store_url)
    old = start(*words)
    url = old.wait_for(r"serving hello on (http://\S+)")[1]
    send(url, "before")
    old.wait_for("greeted before")
    with knowing(NEXT):
        assert "applied 9001_later" in wakeful("migrate", "--store", store_url).out
    ready = httpx2.get(f"{url}/readyz", trust_env=False)
    assert ready.status_code == 200
    assert ready.json()["parts"]["schema"] == 9001
    assert "compatible" in ready.json()["note"]
    send(url, "during")
    old.wait_for("greeted during")
    old.signal(signal.SIGTERM)
    assert old.end() == 0

    again = start(*words)
    url = again.wait_for(r"serving hello on (http://\S+)")[1]
    send(url, "after")
    again.wait_for("greeted after")
    schema = next(
        one
        for one in wakeful("doctor", "--json", "--store", store_url, code=None).json["findings"]
        if one["what"] == "schema"
    )
    assert schema["verdict"] == "look"
    assert "ahead (9001" in schema["text"]

    with knowing(NEXT, TAKES):
        said = wakeful("migrate", "--store", store_url)
        assert "9002_takes is postponed" in said.err
        assert "nothing applied; left for later 9002_takes" in said.out
    again.signal(signal.SIGTERM)
    assert again.end() == 0
    with knowing(NEXT, TAKES):
        assert "applied 9002_takes" in wakeful("migrate", "--store", store_url).out
    assert "9002_takes needs a version that knows 9001" in wakeful(*words, code=1).err


def test_doctor_and_migrate_tell_of_a_text_that_was_changed(wakeful, folder, store_url):
    asyncio.run(query(store_url, "update wakeful_migration_detail set digest = 'other' where number = 8"))
    assert "0008_deploys was applied with a different text" in wakeful("migrate", "--store", store_url).err
    said = wakeful("doctor", "--store", store_url, code=None).out
    assert "! schema" in said
    assert "0008_deploys was applied with a different text" in said


@pytest.mark.postgres
def test_a_plan_names_locks_sizes_and_times(wakeful, folder, postgres_url):
    with knowing(NEXT):
        said = wakeful("migrate", "--plan", "--store", postgres_url).out
        steps = wakeful("migrate", "--plan", "--json", "--store", postgres_url).json
    assert "to apply: 9001_later" in said
    assert "9001_later (expands: older processes keep working)" in said
    assert "ACCESS EXCLUSIVE on wakeful_run (about" in said
    assert "create index concurrently if not exists wakeful_run_later on wakeful_run (later)" in said
    assert "SHARE UPDATE EXCLUSIVE on wakeful_run" in said
    assert "others can read and write meanwhile" in said
    assert steps["plan"] == ["9001_later"]
    assert [step["lock"] for step in steps["steps"]] == ["ACCESS EXCLUSIVE", "SHARE UPDATE EXCLUSIVE"]
    assert len(migrations("postgres")) < 9001


def test_a_plan_of_a_file(wakeful, folder):
    wakeful("migrate")
    with knowing(NEXT):
        said = wakeful("migrate", "--plan").out
    assert "create index wakeful_run_later on wakeful_run (later)" in said
    assert "in one transaction with the other steps; other writers wait" in said


def test_bad_durations_are_told(wakeful, folder):
    assert "--lock-timeout" in wakeful("migrate", "--lock-timeout", "soon", code=None).err
