"""Processes that have nothing to do: how many statements, and how many connections, each of them costs PostgreSQL."""

import asyncio
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack

import asyncpg

from bench.plan import Figure, Places, code_of
from wakeful.testing.postgres_server import PostgresServer

MOST = 2.0  # statements a second
PROCESSES = 4
SETTLED_AFTER = 8.0  # their first looks at everything are over
STATEMENT = re.compile(r"^.*?LOG:  (?:execute [^:]*|statement): ", re.MULTILINE)
CONNECTIONS = "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"


class Idle(Places):
    """The measurements of processes that rest."""

    def idle(self) -> Iterator[Figure]:
        for agents in (9, 60):
            mine, connections = self._rest(agents)
            before, note = None, f"{connections:.1f} connections a process"
            if self.plan.before is not None:
                before, others = self._rest(agents, before=True)
                note += f"; before: {others:.1f}"
            yield Figure(
                f"idle, {PROCESSES} processes with {agents} agents, PostgreSQL", f"{mine:.2f} statements/s a process",
                "–" if before is None else f"before: {before:.2f}", None if before is None else mine / before,
                f"≤ {MOST:g}", "", mine <= MOST, note,
            )  # fmt: skip

    def _rest(self, agents: int, *, before: bool = False) -> tuple[float, float]:
        """Statements a second, with BEGIN and COMMIT, and connections, of each process."""
        environment = code_of(self.plan.before if before else None)
        with ExitStack() as stack:
            server = stack.enter_context(PostgresServer(fsync=False, settings={"log_statement": "all"}))
            store = server.dsn(asyncio.run(server.create_database()))
            command = [sys.executable, "-m", "wakeful", "migrate", "--store", store]
            subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
            command = [sys.executable, "-m", "bench.engine_idle", "--store", store, "--agents", str(agents)]
            children = []
            for _ in range(PROCESSES):
                child = subprocess.Popen(
                    command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
                )
                stack.enter_context(child)
                stack.callback(child.kill)
                children.append(child)
            for child in children:
                assert child.stdout is not None
                assert child.stdout.readline() == "working\n"
            time.sleep(SETTLED_AFTER)
            log = server.folder / "log"
            start, began = log.stat().st_size, time.monotonic()
            time.sleep(10 * self.plan.seconds)
            took = time.monotonic() - began
            said = log.read_bytes()[start:].decode(errors="replace")
            connections = asyncio.run(_asked(store))
        return len(STATEMENT.findall(said)) / took / PROCESSES, connections / PROCESSES


async def _asked(store: str) -> int:
    connection = await asyncpg.connect(store)
    try:
        return int(await connection.fetchval(CONNECTIONS))
    finally:
        await connection.close()
