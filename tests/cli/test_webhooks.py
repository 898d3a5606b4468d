"""Webhooks on the command line: what `check` says of them, and where `serve` says that they are."""

from __future__ import annotations

import signal

import httpx2
import pytest

HOOKS = """
from wakeful import App, Run, env, webhook
from wakeful.verify import github, none

app = App("hooks")


@app.agent(webhook("/hooks/github", verify=github(secret=env("GITHUB_SECRET")), type="github.push"))
async def push(run: Run) -> None: ...


@app.agent(webhook("/hooks/any", verify=none()))
async def anything(run: Run) -> None: ...
"""
DISAGREE = """

@app.agent(webhook("/hooks/github", verify=github(secret="another"), type="github.ping"))
async def ping(run: Run) -> None: ...
"""


@pytest.fixture
def hooks(folder):
    (folder / "hooks.py").write_text(HOOKS)
    return folder


def test_check_shows_them_and_notes_a_secret_that_is_not_here(hooks, wakeful):
    result = wakeful("check", "hooks.py", "--json")
    shown = {one["name"]: one["triggers"] for one in result.json["agents"]}
    assert shown["push"] == ['webhook("/hooks/github", verify=github(secret=env("GITHUB_SECRET")), type="github.push")']
    assert shown["anything"] == ['webhook("/hooks/any", verify=none())']
    (note,) = result.json["notes"]
    assert note.startswith('webhook("/hooks/github"): github: the environment variable GITHUB_SECRET is not set')


def test_check_names_both_places_that_do_not_agree(hooks, wakeful):
    (hooks / "hooks.py").write_text(HOOKS + DISAGREE)
    result = wakeful("check", "hooks.py", "--json", code=1)
    (problem,) = result.json["problems"]
    assert 'webhook("/hooks/github"): agents push (hooks.py:8) and ping (hooks.py:16) differ in verify=' in problem


def test_serve_says_where_they_are(hooks, start):
    server = start("serve", "hooks.py", "--port", "0", env={"GITHUB_SECRET": "hush"})
    address = server.wait_for(r"serving hooks on (http://127\.0\.0\.1:\d+)")[1]
    server.wait_for(rf"wakeful: webhook {address}/hooks/github \(github\)")
    server.wait_for(rf"wakeful: webhook {address}/hooks/any \(none\)")
    answer = httpx2.post(f"{address}/hooks/any", json={"n": 1}, trust_env=False)
    assert answer.status_code == 202
    assert httpx2.post(f"{address}/hooks/github", json={"n": 1}, trust_env=False).status_code == 401
    server.signal(signal.SIGTERM)
    assert server.end() == 0


def test_serve_without_the_secret_ends_with_one_line(hooks, start):
    server = start("serve", "hooks.py", "--port", "0")
    assert server.end() != 0
    assert "GITHUB_SECRET is not set" in server.output
    assert "Traceback" not in server.output


def test_a_worker_needs_no_secret_of_a_webhook(hooks, start):
    server = start("worker", "hooks.py")
    server.wait_for("working for hooks")
    server.signal(signal.SIGTERM)
    assert server.end() == 0
