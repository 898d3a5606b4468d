"""Two hosts with a cable between them, on this machine: network namespaces, where root may make them.

async with Cable() as cable:
    relay = await cable.lead_to("127.0.0.1", server.port)     a port of the near host, which leads out to that address
    enter(cable.far)                                          in a process: from now on it is on the far host
    cable.pull()                                              packets are lost, nobody is told
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import secrets
import shutil
import socket
import subprocess
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

NEAR, FAR = "192.0.2.1", "192.0.2.2"  # set aside for examples: no real host has them
NETWORK_NAMESPACE = 0x40000000


def why_not() -> str | None:
    """The reason for which there can be no namespaces here."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None:
        return "network namespaces need the program ip (iproute2)"
    probe = f"wakeful-probe-{secrets.token_hex(3)}"
    try:
        ip("netns", "add", probe)
    except subprocess.CalledProcessError as error:
        return f"network namespaces are not allowed here: {error.stderr.decode().strip()}"
    ip("netns", "delete", probe)
    return None


def enter(namespace: str) -> None:
    """This thread, and those it starts, are on that host from now on."""
    library = ctypes.CDLL(None, use_errno=True)
    handle = os.open(f"/var/run/netns/{namespace}", os.O_RDONLY)
    try:
        if library.setns(handle, NETWORK_NAMESPACE) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), namespace)
    finally:
        os.close(handle)


class Cable:
    def __init__(self) -> None:
        mark = secrets.token_hex(3)
        self.near, self.far = f"wakeful-near-{mark}", f"wakeful-far-{mark}"
        self._ends = f"wkn{mark}", f"wkf{mark}"
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        try:
            self._lay()
        except BaseException:
            self._remove()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for server in self._servers:
            server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._remove()

    def _lay(self) -> None:
        near, far = self._ends
        ip("netns", "add", self.near)
        ip("netns", "add", self.far)
        ip("-n", self.near, "link", "add", near, "type", "veth", "peer", "name", far, "netns", self.far)
        for host, end, address in ((self.near, near, NEAR), (self.far, far, FAR)):
            ip("-n", host, "address", "add", f"{address}/30", "dev", end)
            ip("-n", host, "link", "set", "lo", "up")
            ip("-n", host, "link", "set", end, "up")

    def _remove(self) -> None:
        for host in (self.near, self.far):
            if Path("/var/run/netns", host).exists():
                ip("netns", "delete", host)

    def pull(self) -> None:
        ip("-n", self.near, "link", "set", self._ends[0], "down")

    def plug(self) -> None:
        ip("-n", self.near, "link", "set", self._ends[0], "up")

    async def lead_to(self, host: str, port: int) -> int:
        """A port of the near host, for the far one, behind which is an address out here."""
        listener = await asyncio.to_thread(self._listen)
        self._servers.append(
            await asyncio.start_server(lambda reader, writer: self._take(reader, writer, host, port), sock=listener)
        )
        return int(listener.getsockname()[1])

    def _listen(self) -> socket.socket:
        """A socket stays on the host on which it was made; only a thread of its own goes there to make it."""
        made: list[socket.socket] = []

        def make() -> None:
            enter(self.near)
            made.append(socket.create_server((NEAR, 0)))

        thread = threading.Thread(target=make)
        thread.start()
        thread.join()
        return made[0]

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str, port: int) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        outer = None
        try:
            inner, outer = await asyncio.open_connection(host, port)
            async with asyncio.TaskGroup() as directions:
                directions.create_task(carry(reader, outer))
                directions.create_task(carry(inner, writer))
        except* OSError:
            pass  # one side ended: so does the other
        finally:
            for one in (writer, outer):
                if one is not None:
                    one.transport.abort()
            self._tasks.discard(task)


async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(65536):
        writer.write(chunk)
        await writer.drain()
    with contextlib.suppress(OSError):
        writer.write_eof()


def ip(*words: str) -> None:
    subprocess.run([shutil.which("ip") or "ip", *words], check=True, capture_output=True)
