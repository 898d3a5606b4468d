from __future__ import annotations

import json
import os
import signal
import socket
from pathlib import Path

import httpx2
import pytest

from support.command_line import wait_for_answer
from support.tokens import TOKEN
from wakeful.testing.postgres_server import PostgresServer

SLOW = """
import asyncio
import time
from pathlib import Path

from wakeful import App, Run, on

app = App("slow")


@app.agent(on("nap"))
async def nap(run: Run) -> str:
    print("napping", flush=True)
    while not Path("wake").exists():
        await asyncio.sleep(0.01)
    return "slept"


@app.agent(on("hang"))
def hang(run: Run) -> None:
    print("hanging", flush=True)
    time.sleep(1000)


@app.agent(on("stuck"))
async def stuck(run: Run) -> None:
    print("stuck", flush=True)
    time.sleep(1000)


@app.agent(on("pool"))
async def pool(run: Run) -> None:
    print("pooled", flush=True)
    await asyncio.to_thread(time.sleep, 1000)
"""


@pytest.fixture
def slow(folder):
    (folder / "slow.py").write_text(SLOW)
    return folder


@pytest.fixture
def serve(start):
    def call(*words, **more):
        server = start("serve", "slow.py", "--port", "0", *words, **more)
        match = server.wait_for(
            r"wakeful: serving slow on (http://127\.0\.0\.1:\d+) \(sqlite:///wakeful\.db, 4 agents\)"
        )
        return server, match[1]

    return call


def send(url, kind, **headers):
    answer = httpx2.post(
        f"{url}/v1/events", json={"id": kind, "source": "/test", "type": kind}, headers=headers, trust_env=False
    )
    assert answer.status_code == 202, answer.text
    return answer.json()["events"][0]["runs"][0]


def test_events_over_http_become_runs(slow, serve):
    server, url = serve()
    run = send(url, "nap")
    server.wait_for("napping")
    assert httpx2.get(f"{url}/readyz", trust_env=False).json()["status"] == "ready"
    (slow / "wake").touch()
    server.signal(signal.SIGTERM)
    assert server.end() == 0
    assert server.output.endswith("wakeful: stopped")
    assert run


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_lets_what_runs_finish(slow, serve, wakeful, number):
    server, url = serve()
    run = send(url, "nap")
    server.wait_for("napping")
    server.signal(number)
    server.wait_for(rf"stopping; waiting up to 10 s for 1 run \(nap {run[:10]}\); press Ctrl-C again to stop at once")
    (slow / "wake").touch()
    assert server.end() == 0
    assert wakeful("trace", run, "--json").json["state"] == "done"


def test_the_time_of_grace_has_an_end(slow, serve, wakeful):
    server, url = serve("--grace", "0.1s")
    run = send(url, "nap")
    server.wait_for("napping")
    server.signal(signal.SIGINT)
    assert server.end() == 0
    found = wakeful("trace", run, "--json").json
    assert found["state"] == "ready"
    assert found["attempts"] == 0
    assert found["reason"] == "its worker stopped"


@pytest.mark.parametrize("kind", ["nap", "hang", "pool"])
def test_the_second_signal_gives_back_at_once(slow, serve, wakeful, kind):
    server, url = serve("--grace", "1h")
    run = send(url, kind)
    server.wait_for("napping|hanging|pooled")
    server.signal(signal.SIGINT)
    server.wait_for("press Ctrl-C again")
    server.signal(signal.SIGINT)
    assert server.end(patience=30) == 130
    assert wakeful("trace", run, "--json").json["state"] == "ready"
    assert all(process["state"] == "stopped" for process in _processes())


def test_the_third_signal_leaves_even_a_loop_that_is_stuck(slow, serve):
    server, url = serve()
    send(url, "stuck")
    server.wait_for("stuck")
    for _ in range(3):
        server.signal(signal.SIGINT)
        # Signals of one number do not queue up: each must have been taken before the next is sent.
        while _pending(server.process.pid, signal.SIGINT):
            os.sched_yield()
    assert server.end(patience=30) == 130


def _pending(pid, number):
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    except (FileNotFoundError, ProcessLookupError):
        return False
    lines = dict(line.split(":", 1) for line in status.splitlines())
    return any(int(lines.get(name, "0"), 16) >> (number - 1) & 1 for name in ("SigPnd", "ShdPnd"))


def _processes():
    import asyncio

    from wakeful.resources.desk import looking
    from wakeful.resources.processes import processes
    from wakeful.shell.opening import reading

    async def ask():
        async with reading("sqlite:///wakeful.db") as reader:
            return await processes(looking(reader))

    return asyncio.run(ask())


def test_a_token_guards_it_beyond_loopback(slow, start, wakeful):
    refused = wakeful("serve", "slow.py", "--host", "0.0.0.0", "--port", "0", code=1)
    assert refused.err == (
        "wakeful: --host 0.0.0.0 can be reached from other machines, but there is no token: "
        "set WAKEFUL_TOKEN (`wakeful token` prints one), or bind to 127.0.0.1\n"
    )
    server = start("serve", "slow.py", "--host", "0.0.0.0", "--port", "0", env={"WAKEFUL_TOKEN": TOKEN})
    url = server.wait_for(r"serving slow on (http://0\.0\.0\.0:\d+)")[1].replace("0.0.0.0", "127.0.0.1")
    assert httpx2.get(f"{url}/v1/runs", trust_env=False).status_code == 401
    right = {"Authorization": f"Bearer {TOKEN}"}
    assert httpx2.get(f"{url}/v1/runs", headers=right, trust_env=False).status_code == 200
    assert httpx2.get(f"{url}/healthz", headers={"Host": "evil.example"}, trust_env=False).status_code == 421


def test_a_port_that_is_taken(slow, wakeful):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        said = wakeful("serve", "slow.py", "--port", port, code=1).err
    assert f"cannot listen on 127.0.0.1 port {port}" in said
    assert "--port 0" in said
    assert not (slow / "wakeful.db").exists()


def test_a_host_that_is_none(slow, wakeful, monkeypatch):
    monkeypatch.setenv("WAKEFUL_TOKEN", TOKEN)
    assert "check the host name" in wakeful("serve", "slow.py", "--host", "no.such.host.invalid", code=1).err


def test_a_worker_has_no_http(slow, start, wakeful):
    worker = start("worker", "slow.py")
    worker.wait_for(r"wakeful: working for slow \(sqlite:///wakeful.db, 4 agents\)")
    (slow / "wake").touch()
    assert json.loads(wakeful("run", "slow.py", "nap", "--wait").out) == "slept"
    worker.signal(signal.SIGTERM)
    assert worker.end() == 0


def test_a_worker_can_answer_for_its_health(slow, start):
    worker = start("worker", "slow.py", "--port", "0")
    url = worker.wait_for(r"health on (http://\S+)/healthz")[1]
    worker.wait_for("working for slow")
    assert httpx2.get(f"{url}/readyz", trust_env=False).json()["status"] == "ready"
    assert httpx2.get(f"{url}/v1/runs", trust_env=False).status_code == 404
    worker.signal(signal.SIGINT)
    assert worker.end() == 0


def test_logs_are_json_when_nobody_looks_and_carry_the_run(slow, serve, folder):
    (folder / "slow.py").write_text(
        "from wakeful import App, Run, on\napp = App('slow')\n"
        "@app.agent(on('say'))\nasync def speak(run: Run) -> None:\n    run.log.info('spoken', word='hello')\n"
        + "".join(f"@app.agent(on('x{n}'))\nasync def f{n}(run: Run) -> None: ...\n" for n in range(3))
    )
    server, url = serve()
    trace = "0af7651916cd43dd8448eb211c80319c"
    answer = httpx2.post(
        f"{url}/v1/events",
        json={"id": "1", "source": "/t", "type": "say", "traceparent": f"00-{trace}-b7ad6b7169203331-01"},
        trust_env=False,
    )
    line = json.loads(server.wait_for('"spoken"').string)
    assert line["level"] == "info"
    assert line["word"] == "hello"
    assert line["agent"] == "speak"
    assert line["run"] == answer.json()["events"][0]["runs"][0]
    assert line["trace_id"] == trace


def test_serve_refuses_a_schema_that_is_behind(slow, wakeful, postgres_dsn):
    said = wakeful("serve", "slow.py", "--port", "0", "--store", postgres_dsn, code=1).err
    assert "the schema is behind" in said
    assert "wakeful migrate" in said


def test_serve_refuses_a_wrong_password_at_once(slow, wakeful, postgres_dsn):
    wrong = postgres_dsn.replace("://postgres:", "://postgres:wrong")
    assert "password" in wakeful("serve", "slow.py", "--port", "0", "--store", wrong, code=1).err


@pytest.mark.postgres
def test_serve_waits_for_a_database_that_is_down(slow, start, wakeful):
    (slow / "wake").touch()
    with PostgresServer(fsync=False) as database:
        dsn = database.dsn()
        wakeful("migrate", "--store", dsn)
        database.stop()
        server = start("serve", "slow.py", "--port", "0", "--store", dsn)
        # It prints where it serves when it works; until then its log says what it waits for.
        server.wait_for("the store is unavailable; all parts try again until it is back")
        port = _listening_port(server.process.pid)
        url = f"http://127.0.0.1:{port}"
        assert wait_for_answer(f"{url}/readyz", 503).json()["status"] == "not ready"
        assert httpx2.get(f"{url}/healthz", trust_env=False).status_code == 200
        body = {"id": "1", "source": "/t", "type": "nap"}
        assert httpx2.post(f"{url}/v1/events", json=body, trust_env=False, timeout=30).status_code == 503
        database.start()
        server.wait_for("wakeful: serving slow on")
        assert wait_for_answer(f"{url}/readyz", 200).json()["status"] == "ready"
        assert httpx2.post(f"{url}/v1/events", json=body, trust_env=False, timeout=30).status_code == 202
        server.wait_for("napping")
        server.signal(signal.SIGINT)
        assert server.end() == 0


@pytest.mark.postgres
def test_serve_can_be_stopped_while_it_waits(slow, start):
    with PostgresServer(fsync=False) as database:
        dsn = database.dsn()
    server = start("serve", "slow.py", "--port", "0", "--store", dsn)
    server.wait_for("the store is unavailable; all parts try again until it is back")
    server.signal(signal.SIGINT)
    assert server.end() == 0


def _listening_port(pid):
    """The port a process listens on, by its open sockets."""
    own = {str(handle.readlink()) for handle in Path(f"/proc/{pid}/fd").iterdir() if handle.is_symlink()}
    for line in Path(f"/proc/{pid}/net/tcp").read_text(encoding="ascii").splitlines()[1:]:
        fields = line.split()
        if fields[3] == "0A" and f"socket:[{fields[9]}]" in own:
            return int(fields[1].rpartition(":")[2], 16)
    raise AssertionError("it listens on nothing")
