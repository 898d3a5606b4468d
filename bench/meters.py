"""What is counted, and how: Python calls, allocated blocks, and what reaches a database and its log.

None of these numbers depends on how fast the machine is. A meter is read before and after some work; the difference is the cost.
"""

import asyncio
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Protocol

import apsw
import asyncpg

Reading = dict[str, float]

HERE = str(Path(__file__).parent)
FRAME = 24  # bytes that stand before each page in the log of SQLite
POLL = "pragma data_version"
OWN_NAME = "wakeful ledger"
# Each line of the server's log begins with the name of the session that it is about.
POSTGRES_SETTINGS: dict[str, str | int] = {
    "log_statement": "all",
    "log_line_prefix": "@%a@ ",
    "log_parameter_max_length": 0,
    "autovacuum": "off",
    "checkpoint_timeout": "1d",
}
STATEMENT = re.compile(rb"^@(?!wakeful ledger@)[^@\n]*@ LOG:  (?:execute [^:]*|statement): ", re.MULTILINE)
RECORD = re.compile(
    r"^rmgr: (\S+)\s+len \(rec/tot\):\s*\d+/\s*(\d+), tx:.*?, lsn: ([0-9A-F]+)/([0-9A-F]+), .*? desc: (\S+)"
)
WRITES_A_ROW = {"INSERT", "INSERT+INIT", "UPDATE", "UPDATE+INIT", "HOT_UPDATE", "HOT_UPDATE+INIT", "DELETE"}


Functions = dict[CodeType, int]


class Calls:
    """Counts the Python functions that are entered, and the coroutines and generators that are resumed: in this thread, and in
    every thread that is started from now on. Functions of the benchmark, which stand for the user's, are left out.

    By sys.setprofile and not by sys.monitoring, which Python 3.11 does not have: one meter for all versions.
    """

    def __init__(self) -> None:
        self._threads: list[Functions] = []

    def start(self) -> None:
        threading.setprofile(self._first)
        sys.setprofile(self._profile())

    @staticmethod
    def stop() -> None:
        """In this thread, and in those that are started later."""
        sys.setprofile(None)
        threading.setprofile(None)

    def _first(self, frame: FrameType, event: str, value: Any) -> None:
        """In a new thread. Each has a counter of its own: two that add to one number may lose one."""
        own = self._profile()
        sys.setprofile(own)
        own(frame, event, value)

    def _profile(self) -> Callable[[FrameType, str, Any], None]:
        entered: Functions = {}
        self._threads.append(entered)

        def profile(frame: FrameType, event: str, _: Any) -> None:
            if event == "call":
                code = frame.f_code
                entered[code] = entered.get(code, 0) + 1

        return profile

    def read(self) -> Functions:
        """How often each function was entered so far. Enters none itself that would count."""
        total: Functions = {}
        for entered in self._threads:
            for code, count in entered.copy().items():
                if not code.co_filename.startswith(HERE):
                    total[code] = total.get(code, 0) + count
        return total

    @staticmethod
    def between(before: Functions, after: Functions) -> Functions:
        return {code: count - before.get(code, 0) for code, count in after.items() if count > before.get(code, 0)}


class DatabaseMeter(Protocol):
    """Statements, rows written, commits of transactions that wrote, bytes to the log."""

    async def open(self) -> None: ...

    async def read(self) -> Any: ...

    async def differences(self, readings: list[tuple[Any, Any]]) -> list[Reading]: ...

    async def close(self) -> None: ...


class SqliteMeter:
    """Asks every connection that is opened from now on. Read while nothing is being written.

    The writer's looks for what other processes wrote come by time and not by work: they are counted apart, as `polls`.
    """

    def __init__(self) -> None:
        self.polls = 0
        self._connections: dict[apsw.Connection, tuple[int, int]] = {}
        self._statements = self._commits = 0

    async def open(self) -> None:
        apsw.connection_hooks.append(self._opened)

    async def close(self) -> None:
        apsw.connection_hooks.remove(self._opened)
        self._connections.clear()

    def _opened(self, connection: apsw.Connection) -> None:
        self._connections[connection] = (0, 0)
        connection.trace_v2(apsw.SQLITE_TRACE_STMT, self._stated)
        connection.set_commit_hook(self._committed)

    def _stated(self, event: dict[str, Any]) -> None:
        if event["sql"] == POLL:
            self.polls += 1
        elif not event["trigger"]:
            self._statements += 1

    def _committed(self) -> bool:
        self._commits += 1
        return False

    async def read(self) -> Reading:
        for connection in list(self._connections):
            try:
                pages, _ = connection.status(apsw.SQLITE_DBSTATUS_CACHE_WRITE)
                self._connections[connection] = (connection.total_changes(), pages)
            except apsw.ConnectionClosedError:
                pass  # what it wrote until the last look counts
        rows, pages = (sum(column) for column in zip(*self._connections.values(), strict=True))
        return {"statements": self._statements, "rows": rows, "commits": self._commits, "bytes": pages * (4096 + FRAME)}

    async def differences(self, readings: list[tuple[Reading, Reading]]) -> list[Reading]:
        return [{name: after[name] - before[name] for name in after} for before, after in readings]


class PostgresMeter:
    """Reads the server's two logs: that of its statements, and the write-ahead log, record by record."""

    def __init__(self, store: str, folder: Path, waldump: Path) -> None:
        self._store = store
        self._folder = folder
        self._waldump = waldump
        self._connection: asyncpg.Connection[Any] | None = None

    async def open(self) -> None:
        self._connection = await asyncpg.connect(self._store, server_settings={"application_name": OWN_NAME})

    async def close(self) -> None:
        assert self._connection is not None
        await self._connection.close()

    async def read(self) -> tuple[int, int]:
        """Where both logs are."""
        assert self._connection is not None
        place = await self._connection.fetchval("select pg_current_wal_insert_lsn()::text")
        return (self._folder / "log").stat().st_size, position(place)

    async def differences(self, readings: list[tuple[tuple[int, int], tuple[int, int]]]) -> list[Reading]:
        assert self._connection is not None
        await self._connection.fetchval("select pg_switch_wal()::text")
        records = await asyncio.to_thread(self._records, readings[0][0][1], readings[-1][1][1])
        found: list[Reading] = []
        with (self._folder / "log").open("rb") as log:
            for before, after in readings:
                log.seek(before[0])
                part = [one for one in records if before[1] <= one[0] < after[1]]
                found.append(
                    {
                        "statements": len(STATEMENT.findall(log.read(after[0] - before[0]))),
                        "rows": sum(kind in WRITES_A_ROW for _, rmgr, _, kind in part if rmgr == "Heap"),
                        "commits": sum(kind == "COMMIT" for _, rmgr, _, kind in part if rmgr == "Transaction"),
                        "bytes": sum(length for _, _, length, _ in part),
                    }
                )
        return found

    def _records(self, start: int, end: int) -> list[tuple[int, str, int, str]]:
        command = [str(self._waldump), "--path", str(self._folder / "data" / "pg_wal")]
        command += ["--start", written(start), "--end", written(end)]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        return [
            (int(one[3], 16) << 32 | int(one[4], 16), one[1], int(one[2]), one[5])
            for line in text.splitlines()
            if (one := RECORD.match(line))
        ]


def position(place: str) -> int:
    high, _, low = place.partition("/")
    return int(high, 16) << 32 | int(low, 16)


def written(place: int) -> str:
    return f"{place >> 32:X}/{place & 0xFFFFFFFF:X}"
