from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import asyncpg
import pytest

from support.fault_proxy import FaultProxy
from wakeful.testing.postgres_server import PostgresServer


class EchoServer:
    """Sends back what it gets, and keeps it."""

    def __init__(self) -> None:
        self.received = b""
        self.arrived = asyncio.Event()
        self.port = 0

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while chunk := await reader.read(1024):
                self.received += chunk
                self.arrived.set()
                writer.write(chunk)
                await writer.drain()
        except ConnectionError:
            pass
        writer.close()


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def connect(cls, proxy: FaultProxy) -> Client:
        return cls(*await asyncio.open_connection("127.0.0.1", proxy.port))

    async def ask(self, message: bytes) -> bytes:
        self.writer.write(message)
        await self.writer.drain()
        return await self.reader.readexactly(len(message))

    def close(self) -> None:
        self.writer.transport.abort()


@pytest.fixture
async def echo() -> AsyncIterator[EchoServer]:
    echo = EchoServer()
    listener = await asyncio.start_server(echo.handle, "127.0.0.1", 0)
    echo.port = listener.sockets[0].getsockname()[1]
    yield echo
    listener.close()


@pytest.fixture
async def proxy(echo: EchoServer) -> AsyncIterator[FaultProxy]:
    async with FaultProxy("127.0.0.1", echo.port) as proxy:
        yield proxy


@pytest.fixture
async def client(proxy: FaultProxy) -> AsyncIterator[Client]:
    client = await Client.connect(proxy)
    yield client
    client.close()


async def test_passes_bytes_through_in_both_directions(client: Client, proxy: FaultProxy):
    big = bytes(range(256)) * 4096
    client.writer.write(big)
    assert await client.reader.readexactly(len(big)) == big
    assert proxy.connections == 1


async def test_passes_the_end_of_a_stream_on(client: Client, echo: EchoServer):
    client.writer.write(b"last words")
    client.writer.write_eof()
    assert await client.reader.read() == b"last words"
    assert echo.received == b"last words"


async def test_latency_delays_both_directions(client: Client, proxy: FaultProxy):
    await client.ask(b"warm")
    proxy.latency = 0.05
    began = time.monotonic()
    await client.ask(b"slow")
    assert time.monotonic() - began >= 0.1


async def test_reset_ends_live_connections_and_takes_new_ones(client: Client, proxy: FaultProxy):
    await client.ask(b"one")
    proxy.reset()
    with pytest.raises(ConnectionResetError):
        await client.reader.read()
    again = await Client.connect(proxy)
    assert await again.ask(b"two") == b"two"
    again.close()


async def test_refuse_turns_new_connections_away_and_keeps_live_ones(client: Client, proxy: FaultProxy):
    await client.ask(b"one")
    proxy.refuse()
    with pytest.raises(ConnectionRefusedError):
        await Client.connect(proxy)
    assert await client.ask(b"two") == b"two"
    await proxy.pass_through()
    again = await Client.connect(proxy)
    assert await again.ask(b"three") == b"three"
    again.close()


async def test_blackhole_passes_nothing_until_it_is_taken_back(client: Client, proxy: FaultProxy, echo: EchoServer):
    await client.ask(b"one")
    proxy.blackhole()
    late = await Client.connect(proxy)
    answers = [asyncio.create_task(one.ask(b"two")) for one in (client, late)]
    done, _ = await asyncio.wait(answers, timeout=0.1)
    assert not done
    assert echo.received == b"one"
    await proxy.pass_through()
    assert await asyncio.gather(*answers) == [b"two", b"two"]
    late.close()


async def test_hold_keeps_back_one_connection_and_lets_others_work(client: Client, proxy: FaultProxy, echo: EchoServer):
    await client.ask(b"one")
    hold = proxy.hold(b"two")
    held = asyncio.create_task(client.ask(b"two"))
    await hold.done.wait()
    other = await Client.connect(proxy)
    assert await other.ask(b"two") == b"two"
    assert not held.done()
    await proxy.pass_through()
    assert await held == b"two"
    other.close()


async def test_a_server_that_is_away_looks_like_a_reset(echo: EchoServer):
    async with FaultProxy("127.0.0.1", 1) as proxy:
        client = await Client.connect(proxy)
        with pytest.raises(ConnectionResetError):
            await client.reader.read()
        client.close()


async def test_cut_before_keeps_the_pattern_from_the_server(client: Client, proxy: FaultProxy, echo: EchoServer):
    cut = proxy.cut(b"COMMIT")
    await client.ask(b"INSERT")
    with pytest.raises(ConnectionResetError):
        await client.ask(b"COMMIT")
    assert cut.done.is_set()
    assert echo.received == b"INSERT"


async def test_cut_after_lets_the_server_have_it_and_loses_the_answer(
    client: Client, proxy: FaultProxy, echo: EchoServer
):
    cut = proxy.cut(b"COMMIT", after=True)
    await client.ask(b"INSERT")
    with pytest.raises(ConnectionResetError):
        await client.ask(b"COMMIT")
    assert cut.done.is_set()
    assert echo.received == b"INSERTCOMMIT"


async def test_cut_finds_a_pattern_across_chunks(client: Client, proxy: FaultProxy, echo: EchoServer):
    cut = proxy.cut(b"COMMIT")
    await client.ask(b"COM")
    with pytest.raises(ConnectionResetError):
        await client.ask(b"MIT")
    assert cut.done.is_set()
    assert echo.received == b"COM"


async def test_cut_can_wait_for_a_later_occurrence_and_happens_once(client: Client, proxy: FaultProxy):
    cut = proxy.cut(b"COMMIT", occurrence=3)
    assert await client.ask(b"COMMIT") == b"COMMIT"
    other = await Client.connect(proxy)
    assert await other.ask(b"COMMIT") == b"COMMIT"
    with pytest.raises(ConnectionResetError):
        await client.ask(b"COMMIT")
    assert cut.seen == 3
    assert await other.ask(b"COMMIT") == b"COMMIT"
    other.close()


async def test_cut_after_passes_on_what_is_not_yet_the_answer(client: Client, proxy: FaultProxy, echo: EchoServer):
    cut = proxy.cut(b"ask", after=True, answer=b"reply")
    assert await client.ask(b"ask") == b"ask"
    assert not cut.done.is_set()
    with pytest.raises(ConnectionResetError):
        await client.ask(b"reply")
    assert cut.done.is_set()


@pytest.mark.parametrize("after", [False, True])
async def test_a_commit_whose_answer_is_lost_did_happen(
    postgres_server: PostgresServer, postgres_dsn: str, after: bool
):
    direct = await asyncpg.connect(postgres_dsn)
    await direct.execute("create table note (text text)")
    async with FaultProxy("127.0.0.1", postgres_server.port) as proxy:
        database = postgres_dsn.rpartition("/")[2]
        connection = await asyncpg.connect(postgres_server.dsn(database, port=proxy.port))
        cut = proxy.cut(b"COMMIT", after=after)
        with pytest.raises((ConnectionError, asyncpg.PostgresConnectionError, asyncpg.InterfaceError)):
            async with connection.transaction():
                await connection.execute("insert into note values ('hello')")
        assert cut.done.is_set()
        connection.terminate()
    assert await direct.fetchval("select count(*) from note") == int(after)
    await direct.close()
