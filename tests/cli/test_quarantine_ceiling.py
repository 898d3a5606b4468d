"""Strangers who send forged requests to a real server: the store stays small, what was verified stays, and it is told."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import re
import signal
import sqlite3
from pathlib import Path

import httpx2
import pytest

SECRET = "a secret of the sender's own"
TOKEN = "8d1f6c02e97ab453f06e2d9c71b8a54e3c7f90d162eb8a45"
PLANTED = "planted-7d1f0c55"
CEILING = 400_000
EMPTY = 1_000_000  # what the tables of a new store take, and more
PATHS = 3
HOOKS = f"""
from wakeful import App, Run, env, webhook
from wakeful.verify import github

app = App("hooks", quarantine="{CEILING // 1000}kB")


async def push(run: Run) -> None: ...


for number in range({PATHS}):
    app.agent(webhook(f"/hooks/{{number}}", verify=github(secret=env("SENDER"))), name=f"push-{{number}}")(push)
"""


@pytest.fixture
def serve(folder, start):
    (folder / "hooks.py").write_text(HOOKS)

    def call(**env):
        server = start("serve", "hooks.py", "--port", "0", env={"SENDER": SECRET, "WAKEFUL_TOKEN": TOKEN, **env})
        server.address = server.wait_for(r"serving hooks on (http://127\.0\.0\.1:\d+)")[1]
        return server

    return call


@pytest.fixture
def server(serve):
    return serve()


def signed(body: bytes) -> str:
    return "sha256=" + hmac.digest(SECRET.encode(), body, hashlib.sha256).hex()


def size_of(folder: Path) -> int:
    return (folder / "wakeful.db").stat().st_size


def test_forged_requests_do_not_fill_the_disk_and_what_is_verified_stays(server, folder, wakeful):
    with httpx2.Client(base_url=server.address, trust_env=False) as client:
        genuine = b"genuine, and no JSON"
        headers = {"X-Hub-Signature-256": signed(genuine), "X-GitHub-Event": "push", "Content-Type": "application/json"}
        answer = client.post("/hooks/0", content=genuine, headers=headers)
        assert (answer.status_code, answer.json()["events"][0]["status"]) == (202, "quarantined")
        for number in range(100):
            for path in range(PATHS):
                forged = {"X-Hub-Signature-256": "sha256=" + "0" * 64, "X-Corp-Pass-Through": f"{PLANTED}-{number}"}
                body = f"{path} {number} ".encode().ljust(20_000, b"x")
                assert client.post(f"/hooks/{path}", content=body, headers=forged).status_code == 401
        found = client.get("/v1/quarantine", params={"limit": 500}, headers={"Authorization": f"Bearer {TOKEN}"}).json()
    server.signal(signal.SIGTERM)
    assert server.end() == 0
    assert size_of(folder) < EMPTY + 2 * CEILING  # of more than 8 MB that were sent
    assert len(re.findall("quarantine is full of unverified requests", server.output)) == 1

    assert 0 < found["unverified"]["held"] <= CEILING
    assert {one["source"] for one in found["unverified"]["cut"]} == {f"/hooks/{path}" for path in range(PATHS)}
    kinds = [one["kind"] for one in found["quarantine"]]
    assert kinds[-1] == "unreadable"
    assert sum(one["count"] for one in found["unverified"]["cut"]) + kinds.count("unverified") == 100 * PATHS
    assert wakeful("quarantine", "show", found["quarantine"][-1]["key"], "--raw", "-").out == genuine.decode()
    assert re.search(r"/hooks/1: \d+ unverified inputs \([\d.]+ MB\) removed since 2", wakeful("quarantine").out)
    (source, *_) = wakeful("sources", "--json").json["sources"]
    assert source["cut"]["count"] > 80
    assert "unverified inputs" in wakeful("sources", "/hooks/0").out
    assert "unverified inputs" in wakeful("doctor", code=None).out
    (alarm,) = wakeful("alarms", "--json").json["alarms"]
    assert alarm["key"] == "quarantine/hooks"


def test_credentials_under_names_that_only_a_proxy_knows_are_not_stored(server, folder, wakeful):
    """Neither of a forged request nor of one that was verified and cannot be read. What a release needs is stored."""
    with httpx2.Client(base_url=server.address, trust_env=False) as client:
        for body, signature in ((b'{"forged": 1}', "sha256=" + "0" * 64), (b"no JSON", signed(b"no JSON"))):
            headers = {
                "X-Hub-Signature-256": signature,
                "X-GitHub-Event": "push",
                "X-GitHub-Delivery": "72d3162e",
                "Content-Type": "application/json",
                "X-Corp-Pass-Through": PLANTED,
                "Authorization": f"Bearer {PLANTED}",
            }
            assert client.post("/hooks/0", content=body, headers=headers).status_code in {401, 202}
    server.process.kill()  # the journal of the database stays beside it
    server.end()
    for one in wakeful("quarantine", "--json").json["quarantine"]:
        whole = wakeful("quarantine", "show", one["key"], "--json").json
        assert set(whole["headers"]) == {"x-hub-signature-256", "x-github-event", "x-github-delivery", "content-type"}
    files = [file for file in folder.rglob("*") if file.is_file() and file.suffix != ".py"]
    assert files
    assert not any(PLANTED.encode() in file.read_bytes() for file in files)


def test_large_ones_that_come_again_and_again_leave_nothing_behind_under_a_key_too(serve, folder, wakeful, monkeypatch):
    key = base64.b64encode(bytes(range(32))).decode()
    monkeypatch.setenv("WAKEFUL_ENCRYPTION_KEYS", key)
    server = serve(WAKEFUL_ENCRYPTION_KEYS=key)
    with httpx2.Client(base_url=server.address, trust_env=False) as client:
        for number in range(40):
            body = f"{number // 2} ".encode().ljust(60_000, b"x")
            headers = {"X-Hub-Signature-256": "sha256=" + "0" * 64}
            assert client.post("/hooks/0", content=body, headers=headers).status_code == 401
    server.signal(signal.SIGTERM)
    assert server.end() == 0
    page = wakeful("quarantine", "--json").json
    assert page["unverified"]["held"] <= CEILING
    assert [one["came"] for one in page["quarantine"]] == [2] * len(page["quarantine"])
    assert page["unverified"]["cut"][0]["count"] == 20 - len(page["quarantine"])
    shown = wakeful("quarantine", "show", page["quarantine"][-1]["key"], "--json").json
    assert len(base64.b64decode(shown["raw"])) == 60_000
    with contextlib.closing(sqlite3.connect(folder / "wakeful.db")) as database:
        assert database.execute("select count(*) from wakeful_blob").fetchone() == (len(page["quarantine"]),)
