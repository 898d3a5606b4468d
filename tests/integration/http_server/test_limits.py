"""The limits of the HTTP server, each by itself, with its time in the test's hands: `server.open.look(seconds)` moves it on."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import AsyncIterator

import pytest
from starlette.types import Receive, Scope, Send

from wakeful.cli import http_accepting
from wakeful.cli.http_connection import BODY, HEAD, LINE, REST, Connection
from wakeful.cli.http_limits import HEAD_LIMIT, HEADERS_LIMIT, PIPELINE_LIMIT, HttpLimits, http_limits
from wakeful.cli.http_server import HttpServer
from wakeful.testing.waiting import until

LARGE = 16 * 1024 * 1024
GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"


class Site:
    """An app that does what the path says."""

    def __init__(self) -> None:
        self.scopes: list[Scope] = []
        self.go_on = asyncio.Event()
        self.waiting = 0
        self.gone = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scopes.append(scope)
        if scope["path"] == "/wait":  # before anything of the body is read
            self.waiting += 1
            await self.go_on.wait()
        body = b"ok"
        if scope["method"] == "POST":
            more = True
            body = b""
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    self.gone += 1
                    return
                body += message["body"]
                more = message["more_body"]
            body = str(len(body)).encode()
        elif scope["path"] == "/large":
            body = bytes(LARGE)
        headers = [(b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})


class Running:
    """A server, its app, and clients of it."""

    def __init__(self, limits: HttpLimits) -> None:
        self.site = Site()
        self.server = HttpServer(self.site, grace=1, access_log=False, limits=limits)  # type: ignore[arg-type]
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.clients: list[asyncio.StreamWriter] = []

    async def connect(self, sent: bytes = b"") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(*self.listener.getsockname(), limit=2**20)
        self.clients.append(writer)
        writer.write(sent)
        return reader, writer

    @property
    def only(self) -> Connection:
        (one,) = self.server.open.connections
        assert isinstance(one, Connection)
        return one

    async def reads(self, stage: int) -> Connection:
        """The one connection, once it is at this stage."""
        await until(lambda: len(self.server.open.connections) == 1 and self.only.stage == stage)
        return self.only

    def look(self, seconds: float) -> None:
        self.server.open.look(seconds)


@pytest.fixture
async def running(request: pytest.FixtureRequest) -> AsyncIterator[Running]:
    one = Running(getattr(request, "param", HttpLimits()))
    serving = asyncio.create_task(one.server.serve(sockets=[one.listener]))
    await one.server.ready.wait()
    assert one.server._looking is not None
    one.server._looking.cancel()  # the test looks itself
    yield one
    one.site.go_on.set()
    for client in one.clients:
        client.close()
    one.server.should_exit = True
    await serving
    assert not one.server.open.connections
    assert not one.server.open.admitted
    assert not one.server.open.of_network


def with_limits(**limits: float) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("running", [HttpLimits(**limits)], indirect=True)  # type: ignore[arg-type]


async def answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """The next answer on a connection: status and body."""
    head = await reader.readuntil(b"\r\n\r\n")
    (length,) = (line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length"))
    return int(head.split()[1]), await reader.readexactly(int(length.partition(b":")[2]))


async def end(reader: asyncio.StreamReader) -> bytes:
    """What comes until the server closes."""
    try:
        return await reader.read()
    except ConnectionResetError:
        return b"reset"


async def pour(writer: asyncio.StreamWriter, size: int) -> None:
    for _ in range(size // 65536):
        writer.write(bytes(65536))
        await writer.drain()


async def grows(connection: Connection, size: int) -> None:
    await until(lambda: connection.head_size > size)


async def has_received(connection: Connection, size: int) -> None:
    await until(lambda: connection.received == size or connection.stage != BODY)


# the size of headers


def head_of(size: int) -> bytes:
    """A request whose line and headers are of this size."""
    start = b"GET / HTTP/1.1\r\nHost: a\r\nX-Long: "
    return start + b"a" * (size - len(start) - len("\r\n")) + b"\r\n\r\n"


@pytest.mark.parametrize("pieces", [1, 7, 4000])
@pytest.mark.parametrize("over", [0, 1])
async def test_headers_of_32_kib_pass_and_not_a_byte_more(running: Running, over: int, pieces: int):
    assert len("  HTTP/1.1\r\n") == LINE
    reader, writer = await running.connect()
    head = head_of(HEAD_LIMIT + over)
    for start in range(0, len(head), -(-len(head) // pieces)):
        writer.write(head[start : start + -(-len(head) // pieces)])
        await asyncio.sleep(0)
    status, said = await answer(reader)
    assert status == (431 if over else 200)
    assert (b"headers-too-large" in said) == bool(over)


@pytest.mark.parametrize("over", [0, 1])
async def test_so_many_headers_and_no_more(running: Running, over: int):
    lines = b"".join(b"X-%d: a\r\n" % number for number in range(HEADERS_LIMIT - 1 + over))
    reader, _ = await running.connect(b"GET / HTTP/1.1\r\nHost: a\r\n" + lines + b"\r\n")
    assert (await answer(reader))[0] == (431 if over else 200)


async def test_small_headers_are_counted_before_they_end(running: Running):
    reader, _ = await running.connect(b"GET / HTTP/1.1\r\n" + b"a:\r\n" * (HEADERS_LIMIT + 1) + b"b")
    assert (await answer(reader))[0] == 431
    assert not running.only.headers


async def test_a_large_body_before_large_headers_does_not_count_as_headers(running: Running):
    body = bytes(200_000)
    first = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 200000\r\n\r\n" + body
    reader, _ = await running.connect(first + head_of(HEAD_LIMIT))
    assert await answer(reader) == (200, b"200000")
    assert await answer(reader) == (200, b"ok")


async def test_trailers_are_read_and_not_handed_on(running: Running):
    request = (
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\nAuthorization: b\r\n\r\n"
    )
    reader, _ = await running.connect(request + GET)
    assert await answer(reader) == (200, b"2")
    assert await answer(reader) == (200, b"ok")
    (first, second) = running.site.scopes
    assert [name for name, _ in first["headers"]] == [b"host", b"transfer-encoding"]
    assert [name for name, _ in second["headers"]] == [b"host"]


async def test_small_chunks_are_read_and_a_flood_of_them_is_not(running: Running):
    start = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    reader, _ = await running.connect(start + b"1\r\na\r\n" * 5_000 + b"0\r\n\r\n")
    assert await answer(reader) == (200, b"5000")
    reader, _ = await running.connect(start + b"1\r\na\r\n" * 100_000)
    status, said = await answer(reader)
    assert (status, b"larger chunks" in said) == (400, True)
    await until(lambda: running.site.gone == 1)


async def test_a_body_that_is_not_wanted_is_not_read_for_ever(running: Running):
    reader, writer = await running.connect(b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000\r\n\r\n")
    assert await answer(reader) == (200, b"ok")
    with pytest.raises(ConnectionError):
        await pour(writer, 100_000_000)
    reader, writer = await running.connect(b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n")
    assert await answer(reader) == (200, b"ok")
    await running.reads(BODY)
    running.look(8)
    assert await end(reader) == b""


# time


@pytest.mark.parametrize("sent", [b"G", b"GET / HTTP/1.1\r\nHost: a\r\n", GET + GET[:-1]])
async def test_headers_have_ten_seconds(running: Running, sent: bytes):
    reader, _ = await running.connect(sent)
    if sent.startswith(GET):
        assert await answer(reader) == (200, b"ok")
    await running.reads(HEAD)
    running.look(9)
    running.look(1)
    assert running.only.stage == HEAD
    running.look(1.1)
    status, said = await answer(reader)
    assert (status, b"headers-too-slow" in said) == (408, True)
    assert await end(reader) == b""


async def test_more_bytes_do_not_win_more_time_for_headers(running: Running):
    reader, writer = await running.connect(b"GET / HTTP/1.1\r\n")
    connection = await running.reads(HEAD)
    for number in range(11):
        running.look(1)
        writer.write(b"X-%d: a\r\n" % number)
        await grows(connection, connection.head_size)
    running.look(1)
    assert (await answer(reader))[0] == 408


@pytest.mark.parametrize("sent", [b"", b"\r\n" * 1000])
async def test_a_connection_without_a_request_ends_in_silence(running: Running, sent: bytes):
    reader, _ = await running.connect(sent)
    await running.reads(REST)
    running.look(11.1)
    assert await end(reader) in {b"", b"reset"}


async def test_between_two_requests_there_are_five_seconds(running: Running):
    reader, writer = await running.connect(GET)
    for _ in range(3):
        assert await answer(reader) == (200, b"ok")
        running.look(4)
        writer.write(GET)
    assert await answer(reader) == (200, b"ok")
    running.look(6.1)
    assert await end(reader) == b""


async def test_a_body_has_thirty_seconds_and_more_at_the_least_speed(running: Running):
    reader, writer = await running.connect(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 204800\r\n\r\n")
    connection = await running.reads(BODY)
    for number in range(1, 101):
        running.look(1)
        writer.write(bytes(2048))
        if number < 100:
            await has_received(connection, number * 2048)
    assert await answer(reader) == (200, b"204800")

    writer.write(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 204800\r\n\r\n")
    await running.reads(BODY)
    for number in range(1, 71):
        if connection.stage != BODY:
            break
        running.look(1)
        writer.write(bytes(512))
        await has_received(connection, number * 512)
    status, said = await answer(reader)
    assert (status, b"body-too-slow" in said) == (408, True)
    assert 55 < number < 65, "30 s, and half a second for each second's half a kibibyte"
    await until(lambda: running.site.gone == 1)
    assert await end(reader) == b""


async def test_a_body_that_the_app_does_not_read_yet_has_time(running: Running):
    body = bytes(500_000)
    reader, _ = await running.connect(b"POST /wait HTTP/1.1\r\nHost: a\r\nContent-Length: 500000\r\n\r\n" + body)
    await until(lambda: running.site.waiting == 1 and running.only.flow.read_paused)
    for _ in range(100):
        running.look(10)
    running.site.go_on.set()
    assert await answer(reader) == (200, b"500000")


async def test_who_asks_before_sending_a_body_waits_for_the_app(running: Running):
    reader, _ = await running.connect(
        b"POST /wait HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n"
    )
    await until(lambda: running.site.waiting == 1)
    running.look(1000)
    running.site.go_on.set()
    assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    running.look(29)
    assert running.only.stage == BODY
    running.look(3)
    assert (await answer(reader))[0] == 408


async def test_an_answer_may_take_the_app_as_long_as_it_likes(running: Running):
    reader, _ = await running.connect(b"GET /wait HTTP/1.1\r\nHost: a\r\n\r\n")
    await until(lambda: running.site.waiting == 1)
    for _ in range(100):
        running.look(1000)
    running.site.go_on.set()
    assert await answer(reader) == (200, b"ok")


async def unread(running: Running, asked: bytes) -> tuple[socket.socket, Connection]:
    """A client that has asked for much, and reads nothing by itself."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    client.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(client, running.listener.getsockname())
    await loop.sock_sendall(client, asked)
    connection: Connection = await until(lambda: running.server.open.connections and running.only)
    await until(connection.transport.get_write_buffer_size)
    return client, connection


async def test_an_answer_that_is_not_read_is_given_up(running: Running):
    client, _ = await unread(running, b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n")
    with client:
        running.look(1)
        running.look(30)
        assert running.server.open.connections
        running.look(1.1)
        await until(lambda: not running.server.open.connections)
        assert running.server.open.refused["answer_not_read"] == 1


@pytest.mark.parametrize("last", [b"", b"Connection: close\r\n"])
async def test_an_answer_that_is_read_slowly_arrives(running: Running, last: bytes):
    client, connection = await unread(running, b"GET /large HTTP/1.1\r\nHost: a\r\n" + last + b"\r\n")
    loop = asyncio.get_running_loop()
    read = b""
    with client:
        while left := connection.transport.get_write_buffer_size():
            running.look(20)
            while connection.transport.get_write_buffer_size() > max(0, left - 1_000_000):
                read += await loop.sock_recv(client, 65536)
        while len(read) < LARGE:
            read += await loop.sock_recv(client, 65536)
    assert read.startswith(b"HTTP/1.1 200 ")


async def test_a_mistake_about_one_connection_does_not_spare_the_others(
    running: Running, monkeypatch: pytest.MonkeyPatch
):
    look = Connection.look

    def stumble(connection: Connection, elapsed: float) -> None:
        if connection.stage == HEAD:
            raise RuntimeError("stumbled")
        look(connection, elapsed)

    monkeypatch.setattr(Connection, "look", stumble)
    one, _ = await running.connect(GET[:5])
    await running.reads(HEAD)
    other, _ = await running.connect()
    await until(lambda: len(running.server.open.connections) == 2)
    running.look(12)
    assert {await end(one), await end(other)} <= {b"", b"reset"}


# many requests on one connection


async def test_pipelined_requests_are_answered_in_order(running: Running):
    requests = b"".join(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % n + bytes(n) for n in range(10))
    reader, _ = await running.connect(requests)
    assert [await answer(reader) for _ in range(10)] == [(200, str(number).encode()) for number in range(10)]


async def test_too_many_pipelined_requests_are_not_kept(running: Running):
    reader, _ = await running.connect(b"GET /wait HTTP/1.1\r\nHost: a\r\n\r\n" + GET * 5_000)
    await until(lambda: running.site.waiting == 1)
    assert len(running.only.pipeline) == PIPELINE_LIMIT
    running.look(1000)
    running.site.go_on.set()
    said = await end(reader)
    assert said.count(b"HTTP/1.1 200") in {PIPELINE_LIMIT + 1, 0}  # 0: what was not read resets the connection
    assert len(running.site.scopes) == PIPELINE_LIMIT + 1


@pytest.mark.parametrize(
    "second", [b"GET / HT", b"nonsense\r\n\r\n", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\na"]
)
async def test_a_bad_second_request_does_not_touch_the_answer_to_the_first(running: Running, second: bytes):
    reader, writer = await running.connect(b"GET /wait HTTP/1.1\r\nHost: a\r\n\r\n")
    await until(lambda: running.site.waiting == 1)
    writer.write(second)
    await until(lambda: running.only.stage in {HEAD, BODY} or running.only.deaf)
    for _ in range(4):
        running.only.flow.resume_reading()  # as an app does that asks whether the client is still there
        running.look(11)
    assert running.only.deaf
    running.site.go_on.set()
    assert await answer(reader) == (200, b"ok")
    assert await end(reader) == b""


async def test_http_1_0_is_answered_once(running: Running):
    reader, _ = await running.connect(b"GET / HTTP/1.0\r\nHost: a\r\n\r\n" * 2)
    assert (await end(reader)).count(b"HTTP/1.1 200") == 1


@pytest.mark.parametrize("upgrade", [b"websocket", b"h2c"])
async def test_no_other_protocol_is_spoken(running: Running, upgrade: bytes):
    reader, _ = await running.connect(
        b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: " + upgrade + b"\r\n\r\n\x00\x01\x02"
    )
    said = await end(reader)
    assert said.startswith(b"HTTP/1.1 200 ")
    assert b"connection: close" in said
    assert running.site.scopes[0]["type"] == "http"


@pytest.mark.parametrize(
    "sent", [b"nonsense\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"CONNECT a:1 HTTP/1.1\r\n\r\n"]
)
async def test_what_is_not_a_request_is_told_so(running: Running, sent: bytes):
    reader, _ = await running.connect(sent)
    status, said = await answer(reader)
    assert (status, b"not an HTTP/1.1 request" in said) == (400, True)
    assert await end(reader) == b""


@pytest.mark.parametrize("sent", [b"", GET[:9], b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\na"])
async def test_a_client_that_says_no_more_is_gone(running: Running, sent: bytes):
    reader, writer = await running.connect(sent)
    writer.write_eof()
    assert await end(reader) == b""
    await until(lambda: not running.server.open.connections)


# how many


@with_limits(connections=3, per_address=3)
async def test_one_too_many_is_answered_at_once_and_makes_room_when_another_ends(running: Running):
    others = [await running.connect(GET[:5]) for _ in range(3)]
    reader, _ = await running.connect()
    status, said = await answer(reader)
    assert (status, b"too-many-connections" in said) == (503, True)
    others[0][1].close()
    await until(lambda: running.server.open.admitted == 2)
    reader, _ = await running.connect(GET)
    assert await answer(reader) == (200, b"ok")


@with_limits(connections=3, per_address=2)
async def test_one_too_many_of_an_address(running: Running):
    for _ in range(2):
        await running.connect(GET[:5])
    reader, _ = await running.connect()
    status, said = await answer(reader)
    assert (status, b"from this address" in said) == (429, True)
    running.look(2)
    running.server.acceptors[0].look()
    assert await end(reader) == b""


@with_limits(descriptors=0)
async def test_the_last_descriptors_are_not_for_clients(running: Running):
    reader, _ = await running.connect()
    assert (await answer(reader))[0] == 503
    assert await end(reader) == b""


async def test_a_process_without_descriptors_does_not_spin(running: Running, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(http_accepting, "REST", 1000.0)
    asked = 0

    class Short(socket.socket):
        def accept(self) -> tuple[socket.socket, object]:
            nonlocal asked
            asked += 1
            raise OSError(errno.EMFILE, "Too many open files")

    listener = Short()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    acceptor = http_accepting.Acceptor(listener, running.server.open, running.server._connection)
    client = socket.create_connection(listener.getsockname())
    try:
        await until(lambda: asked == 1)
        for _ in range(100):
            await asyncio.sleep(0)
        assert asked == 1
        acceptor._go_on()
        await until(lambda: asked == 2)
        assert running.server.open.refused["no_file_descriptors"] == 2
    finally:
        acceptor.close()
        listener.close()
        client.close()


# the end of the server


async def test_the_server_ends_in_spite_of_requests_that_do_not():
    one = Running(HttpLimits())
    serving = asyncio.create_task(one.server.serve(sockets=[one.listener]))
    await one.server.ready.wait()
    for sent in (b"", GET[:9], b"nonsense\r\n\r\n", GET, b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\na"):
        await one.connect(sent)
    await until(lambda: len(one.site.scopes) == 2 and one.server.open.admitted == 5)
    one.server.should_exit = True
    async with asyncio.timeout(30):
        await serving
    for client in one.clients:
        client.close()


# settings


@pytest.mark.parametrize(
    ("allowed", "connections", "first_kept"), [(20_000, 1000, 15_000), (1024, 512, 768), (128, 64, 96), (10, 8, 8)]
)
def test_http_takes_half_of_the_descriptors_at_most(allowed: int, connections: int, first_kept: int):
    limits = http_limits({}, allowed=allowed)
    assert (limits.connections, limits.per_address, limits.descriptors) == (connections, connections // 2, first_kept)


def test_limits_come_from_the_environment():
    limits = http_limits(
        {
            "WAKEFUL_HTTP_HEADERS_WITHIN": "2s",
            "WAKEFUL_HTTP_BODY_WITHIN": "1m",
            "WAKEFUL_HTTP_LEAST_SPEED": "4KiB",
            "WAKEFUL_HTTP_ANSWER_WITHIN": "500ms",
            "WAKEFUL_HTTP_IDLE_FOR": "75s",
            "WAKEFUL_HTTP_CONNECTIONS": "5000",
            "WAKEFUL_HTTP_CONNECTIONS_PER_ADDRESS": "10",
        },
        allowed=20_000,
    )
    assert limits == HttpLimits(2, 60, 4096, 0.5, 75, 5000, 10, 15_000)
    assert limits.look_every == 0.125
