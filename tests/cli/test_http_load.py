"""Strangers who take what they can of a real server: bytes, time, connections, file descriptors. Runs go on meanwhile."""

from __future__ import annotations

import asyncio
import re
import signal
import threading
from pathlib import Path

import httpx2
import pytest

from support.strangers import HALF_A_BODY, HALF_A_HEAD, call, crowd, flood, read_all
from wakeful.resources.desk import looking
from wakeful.resources.processes import processes
from wakeful.shell.opening import reading

MEBIBYTE = 1024 * 1024
TICKS = """
import asyncio

from wakeful import App, Run, on

app = App("busy", chain_depth=None, chain_rate=None)


@app.agent(on("tick"))
async def tick(run: Run) -> None:
    number = run.event.data["number"]
    print(f"tick {number}", flush=True)
    await asyncio.sleep(0.02)
    await run.emit("tick", {"number": number + 1})


@app.agent(on("nap"))
async def nap(run: Run) -> str:
    await asyncio.sleep(3)
    return "slept"
"""


def limited(descriptors):
    """A command line that may open so many descriptors at most."""
    return ("sh", "-c", f'ulimit -n {descriptors} && exec "$@"', "sh")


@pytest.fixture
def busy(folder):
    (folder / "busy.py").write_text(TICKS)
    return folder


@pytest.fixture
def serve(busy, start):
    def begin(*words, descriptors=1024, **env):
        # The tests look at its descriptors, which a process that works shows to root alone.
        env = {"WAKEFUL_DUMPABLE": "1", **env}
        server = start("serve", "busy.py", "--port", "0", *words, through=limited(descriptors), env=env)
        return server, int(server.wait_for(r"serving busy on http://127\.0\.0\.1:(\d+)")[1])

    return begin


def send(port, kind="tick", query="", **data):
    event = {"id": f"{kind}-{data}", "source": "/test", "type": kind, "data": data}
    answer = httpx2.post(f"http://127.0.0.1:{port}/v1/events{query}", json=event, trust_env=False, timeout=60)
    assert answer.status_code in {200, 202}, answer.text
    return answer


def answers(port):
    return httpx2.get(f"http://127.0.0.1:{port}/healthz", trust_env=False, timeout=60).status_code == 200


def memory_of(server):
    """Bytes of the server that are in memory."""
    status = Path(f"/proc/{server.process.pid}/status").read_text(encoding="ascii")
    (size,) = re.findall(r"VmRSS:\s+(\d+) kB", status)
    return int(size) * 1024


def descriptors_of(server):
    return len(list(Path(f"/proc/{server.process.pid}/fd").iterdir()))


def lease_of(server, store):
    """Until when the server's process holds its lease, as the store has it."""

    async def ask():
        async with reading(store) as reader:
            return {
                one["pid"]: one["lease_until"] for one in await processes(looking(reader)) if one["state"] == "alive"
            }

    return asyncio.run(ask()).get(server.process.pid)


def wait_for_renewals(server, store, number):
    """Wait until the lease was renewed so many times."""
    seen = {lease_of(server, store)}
    for _ in range(3000):
        seen.add(lease_of(server, store))
        assert None not in seen, "the process lost its lease"
        if len(seen) > number:
            return
        threading.Event().wait(0.02)  # between two questions, not instead of one
    raise AssertionError(f"the lease was renewed {len(seen) - 1} times in a minute")


# headers without an end


def many(line):
    """Lines like this one, each under a name of its own where there is room for one."""
    return b"".join(line.replace(b"0000", b"%04d" % number) for number in range(1000))


START = b"POST /v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\n"
CHUNKED = START + b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("first", "piece", "status"),
    [
        pytest.param(b"POST /", b"a" * 65536, 431, id="path"),
        pytest.param(START + b"X-Long: ", b"a" * 65536, 431, id="value"),
        pytest.param(START, b"a" * 65536, 431, id="name"),
        pytest.param(START, many(b"X-0000: " + b"a" * 100 + b"\r\n"), 431, id="headers"),
        pytest.param(START, many(b"0000:\r\n"), 431, id="small-headers"),
        pytest.param(CHUNKED + b"2\r\n{}\r\n0\r\n", many(b"X-0000: a\r\n"), 400, id="trailers"),
        pytest.param(CHUNKED + b"2\r\n{}\r\n0\r\nX-Long: ", b"a" * 65536, 400, id="trailer"),
        pytest.param(CHUNKED + b"2;", b"a" * 65536, 400, id="chunk-extension"),
        pytest.param(CHUNKED, b"1;aaaaaaaa\r\na\r\n" * 1000, 400, id="chunk-extensions"),
    ],
)
def test_what_is_not_the_body_is_refused_while_it_is_read(serve, first, piece, status):
    server, port = serve()
    assert answers(port)
    before = memory_of(server)
    said, sent = flood(port, first, piece, 64 * MEBIBYTE)
    assert said.startswith(b"HTTP/1.1 %d " % status), said
    assert b"connection: close" in said
    assert sent < 32 * MEBIBYTE, "what the system's buffers take, and not much more"
    assert memory_of(server) - before < 16 * MEBIBYTE
    assert answers(port)


# 1,500 half-sent requests


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
@pytest.mark.parametrize("half", [HALF_A_HEAD, HALF_A_BODY], ids=["head", "body"])
def test_runs_go_on_while_half_sent_requests_take_all_connections(serve, wakeful, kind, half, request):
    store = "sqlite:///wakeful.db" if kind == "sqlite" else request.getfixturevalue("postgres_dsn")
    if kind == "postgres":
        wakeful("migrate", "--store", store)
    server, port = serve(
        "--store", store, descriptors=128, WAKEFUL_HTTP_HEADERS_WITHIN="10m", WAKEFUL_HTTP_BODY_WITHIN="10m"
    )
    send(port, number=1)
    server.wait_for("tick 10$")
    own = descriptors_of(server)
    with crowd(port, 1500, half):
        refused = call(port, b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        with refused:
            said = read_all(refused)
        assert said.startswith(b"HTTP/1.1 503 "), said
        assert b"retry-after: 5" in said
        assert descriptors_of(server) <= own + 64 + 32, "half of the descriptors, and those that are being turned away"
        # Runs are counted: each emits the event of the next one.
        first = int(server.wait_for(r"tick (\d+)")[1])
        wait_for_renewals(server, store, 2)
        server.wait_for(rf"tick {first + 100}$")
    assert wait_until_it_answers(port)
    later = int(server.wait_for(r"tick (\d+)")[1])
    server.wait_for(rf"tick {later + 10}$")
    assert "unavailable" not in server.output
    server.signal(signal.SIGTERM)
    assert server.end() == 0


def wait_until_it_answers(port):
    """The server notices one after the other that its clients are gone."""
    for _ in range(3000):
        with call(port, b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n") as client:
            if read_all(client).startswith(b"HTTP/1.1 200 "):
                return True
        threading.Event().wait(0.02)  # between two questions, not instead of one
    return False


@pytest.mark.parametrize(("command", "ready"), [("serve", "serving"), ("worker", "working"), ("watch", "watching")])
def test_half_sent_requests_end_and_others_are_answered(busy, start, command, ready):
    limits = {
        "WAKEFUL_DUMPABLE": "1",
        "WAKEFUL_HTTP_HEADERS_WITHIN": "500ms",
        "WAKEFUL_HTTP_BODY_WITHIN": "500ms",
        "WAKEFUL_HTTP_IDLE_FOR": "500ms",
    }
    server = start(command, "busy.py", "--port", "0", env=limits, through=limited(512))
    port = int(server.wait_for(r"on http://127\.0\.0\.1:(\d+)")[1])
    if command != "serve":
        server.wait_for(f"{ready} (for )?busy")
    assert wait_until_it_answers(port)
    own = descriptors_of(server)
    whole = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    with crowd(port, 150, HALF_A_HEAD) as heads, crowd(port, 20, b"") as silent, crowd(port, 20, whole) as idle:
        assert {read_all(one)[:12] for one in heads} == {b"HTTP/1.1 408"}
        assert {read_all(one) for one in silent} == {b""}
        assert {read_all(one)[:12] for one in idle} == {b"HTTP/1.1 200"}
    assert wait_until_it_answers(port)
    for _ in range(3000):
        if descriptors_of(server) <= own + 2:
            break
        threading.Event().wait(0.02)  # between two looks, not instead of one
    assert descriptors_of(server) <= own + 2
    server.signal(signal.SIGTERM)
    assert server.end() == 0


def test_no_address_takes_all_connections(serve):
    server, port = serve(WAKEFUL_HTTP_CONNECTIONS="20", WAKEFUL_HTTP_CONNECTIONS_PER_ADDRESS="5")
    with crowd(port, 5, HALF_A_HEAD, addresses=1):
        with call(port, address="127.0.0.2") as sixth:
            said = read_all(sixth)
        assert said.startswith(b"HTTP/1.1 429 ")
        assert b"retry-after: 5" in said
        assert b"too-many-connections" in said
        assert answers(port), "from another address"
    server.signal(signal.SIGTERM)
    assert server.end() == 0


def test_an_answer_that_is_waited_for_is_not_cut(serve):
    limits = dict.fromkeys(("HEADERS_WITHIN", "BODY_WITHIN", "ANSWER_WITHIN", "IDLE_FOR"), "200ms")
    _, port = serve(**{f"WAKEFUL_HTTP_{name}": value for name, value in limits.items()})
    answer = send(port, "nap", "?wait=30s")
    assert "slept" in answer.text


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("HEADERS_WITHIN", "soon", "WAKEFUL_HTTP_HEADERS_WITHIN: 'soon' is not a duration"),
        ("LEAST_SPEED", "fast", "WAKEFUL_HTTP_LEAST_SPEED must be bytes per second, like 1KiB or 500B, not 'fast'"),
        ("CONNECTIONS", "0", "WAKEFUL_HTTP_CONNECTIONS must be a whole number from 1, like 200, not '0'"),
        ("CONNECTIONS", "600", "WAKEFUL_HTTP_CONNECTIONS=600 needs 1200 file descriptors"),
    ],
)
def test_a_limit_that_is_none_is_said_at_once(busy, start, name, value, said):
    server = start("serve", "busy.py", "--port", "0", env={f"WAKEFUL_HTTP_{name}": value}, through=limited(1000))
    assert server.end() == 1
    assert said in server.output
