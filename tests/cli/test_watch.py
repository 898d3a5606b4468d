"""`wakeful watch` as its own process: it needs only the store, it is heard of by its ping, and what dies is noticed."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import signal
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx2
import pytest

from support.command_line import wait_for_answer
from support.stores import query
from wakeful.testing.postgres_server import PostgresServer

APP = """
from wakeful import App, Run
from wakeful.triggers.every import every

app = App("ops")
app.expect("nightly backup", at_least_every="1d")


@app.agent(every("1h"))
async def digest(run: Run) -> None: ...
"""


class Pings:
    """Who hears the pings: a real server, and what it was told, in order."""

    def __init__(self) -> None:
        heard: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                heard.put((self.path, body.decode()))
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *words: object) -> None: ...

        self.heard = heard
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/ping/abc"

    def wait_for(self, path: str, patience: float = 60.0) -> str:
        """The words of the next ping to this path."""
        while True:
            found, words = self.heard.get(timeout=patience)
            if found == f"/ping/abc{path}":
                return words

    def fall_silent(self, time: float, most: int = 20) -> list[str]:
        """Wait until nothing comes for so long; what came until then: it was under way."""
        came: list[str] = []
        with contextlib.suppress(queue.Empty):
            while len(came) < most:
                came.append(self.heard.get(timeout=time)[0].removeprefix("/ping/abc"))
            pytest.fail("it goes on pinging")
        return came

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def pings() -> Iterator[Pings]:
    started = Pings()
    yield started
    started.close()


@pytest.fixture
def ops(folder):
    (folder / "app.py").write_text(APP)
    return folder


def test_the_end_of_a_whole_server_is_noticed_from_outside(ops, start, pings):
    """Pinged each second, silence is what somebody outside hears."""
    (ops / "app.py").write_text(APP.replace('App("ops")', f'App("ops", ping="{pings.url}", watch_every="1s")'))
    server = start("serve", "app.py", "--port", "0")
    server.wait_for("wakeful: serving ops")
    pings.wait_for("/start")
    for _ in range(3):
        pings.wait_for("")
    server.signal(signal.SIGKILL)
    server.process.wait()
    pings.fall_silent(3.0)


def test_a_server_that_was_killed_is_noticed_by_another_process(ops, start, wakeful, pings):
    server = start("serve", "app.py", "--port", "0")
    server.wait_for("wakeful: serving ops")
    watch = start("watch", "--every", "1s", "--ping", pings.url, "--port", "0")
    address = watch.wait_for(r"health on (http://127\.0\.0\.1:\d+)/healthz")[1]
    watch.wait_for(r"wakeful: watching sqlite:///wakeful\.db every 1 s")
    pings.wait_for("/start")
    pings.wait_for("")
    assert wait_for_answer(f"{address}/readyz", 200).json()["status"] == "ready"
    server.signal(signal.SIGKILL)
    server.process.wait()
    # As if the 15 seconds of its lease were over.
    asyncio.run(query(f"sqlite:///{ops}/wakeful.db", "update wakeful_process set lease_until = 1"))
    watch.wait_for("down/ops")
    assert "no process of app ops is alive" in pings.wait_for("/fail")
    assert "down/ops" in [one["key"] for one in wakeful("alarms", "--json").json["alarms"]]
    again = start("serve", "app.py", "--port", "0")
    again.wait_for("wakeful: serving ops")
    watch.wait_for("alarm resolved.*down/ops")
    pings.wait_for("")
    watch.signal(signal.SIGTERM)
    assert watch.end() == 0
    assert set(pings.fall_silent(0.1)) <= {""}  # a stop says nothing


@pytest.mark.postgres
def test_a_database_that_is_gone_makes_it_red_and_fails_the_ping(
    ops, start, pings, postgres_server: PostgresServer, wakeful
):
    database = asyncio.run(postgres_server.create_database())
    url = postgres_server.dsn(database)
    wakeful("migrate", "--store", url)
    watch = start("watch", "--store", url, "--every", "1s", "--ping", pings.url, "--port", "0")
    address = watch.wait_for(r"health on (http://127\.0\.0\.1:\d+)/healthz")[1]
    pings.wait_for("")
    asyncio.run(postgres_server.drop_database(database))
    assert "could not look" in pings.wait_for("/fail")
    assert wait_for_answer(f"{address}/readyz", 503).json()["status"] == "not ready"
    assert httpx2.get(f"{address}/healthz", trust_env=False).status_code == 200


def test_with_an_app_it_leaves_the_work_to_others(ops, start, wakeful, pings):
    wakeful("emit", "app.py", "whatever")
    watch = start("watch", "app.py", "--every", "1s", "--ping", pings.url)
    watch.wait_for(r"wakeful: watching ops \(sqlite:///wakeful\.db\) every 1 s")
    pings.wait_for("")
    watch.signal(signal.SIGTERM)
    assert watch.end() == 0


def test_once_looks_once(ops, wakeful, pings, monkeypatch):
    monkeypatch.setenv("WAKEFUL_PING", pings.url)
    wakeful("once", "app.py")
    assert pings.heard.get(timeout=60) == ("/ping/abc", "")
    assert pings.fall_silent(0.1) == []


def test_a_script_checks_in_by_a_line_at_its_end(ops, wakeful):
    wakeful("once", "app.py")
    listed = {one["name"]: one for one in wakeful("expectations", "--json").json["expectations"]}
    assert listed["nightly backup"]["state"] == "pending"
    assert listed["digest"]["kind"] == "schedule"
    assert wakeful("checkin", "nightly backup", "--as", "cron").out == "checked in: nightly backup\n"
    (met,) = [one for one in wakeful("expectations", "--json").json["expectations"] if one["name"] == "nightly backup"]
    assert met["state"] == "met"
    assert 'check-in "nightly backup" at least every 1 d 0 h' in " ".join(wakeful("expectations").out.split())
    first = wakeful("checkin", "nightly backup", "--id", "7", "--data", '{"bytes": 5}', "--json").json
    assert first["events"][0]["id"] == "7"
    assert wakeful("checkin", "nightly backup", "--id", "7", "--data", '{"bytes": 5}').out.startswith("checked again")


def test_the_listing_fits_a_terminal(ops, wakeful, monkeypatch):
    wakeful("once", "app.py")
    monkeypatch.setenv("COLUMNS", "80")
    header, *rows = wakeful("expectations").out.splitlines()
    assert header.split("  ")[0] == "expectation"
    assert header.split()[1:] == ["state", "last", "met", "due", "what"]
    assert all("pending" in row and len(row) <= 80 for row in rows)
    assert wakeful("expectations", "--of", "shop").out == "app shop has no expectations\n"


def test_a_name_that_nobody_expects_is_refused(ops, wakeful):
    wakeful("once", "app.py")
    refused = wakeful("checkin", "nigthly backup", code=1)
    assert 'no check-in "nigthly backup" is expected. Did you mean' in refused.err


def test_a_check_in_goes_to_a_server_too(ops, start, wakeful):
    server = start("serve", "app.py", "--port", "0")
    url = server.wait_for(r"serving ops on (http://127\.0\.0\.1:\d+)")[1]
    assert wakeful("checkin", "nightly backup", "--url", url).out == "checked in: nightly backup\n"
    assert 'no check-in "backup" is expected' in wakeful("checkin", "backup", "--url", url, code=1).err
    answer = httpx2.post(f"{url}/v1/checkins/nightly%20backup?id=9", json={"bytes": 5}, trust_env=False)
    assert (answer.status_code, answer.json()["events"][0]["id"]) == (202, "9")
    found = httpx2.get(f"{url}/v1/expectations?app=ops", trust_env=False).json()["expectations"]
    assert {one["name"]: one["state"] for one in found} == {"digest": "pending", "nightly backup": "met"}
    story = wakeful("why", "nightly backup").out
    assert "check-in" in story


@pytest.mark.parametrize(
    ("words", "said"),
    [(["--every", "10ms"], "--every: must be at least 1 s"), (["--ping", "ftp://example.com"], 'the scheme is "ftp"')],
)
def test_what_cannot_be_meant_is_refused(ops, wakeful, words, said):
    wakeful("once", "app.py")
    assert said in wakeful("watch", *words, code=2).err


def test_there_must_be_a_store(folder, wakeful):
    assert "there is no store" in wakeful("watch", code=1).err
