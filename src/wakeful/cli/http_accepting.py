"""Accepts connections from a listening socket and rejects those above the limits.

The event loop's own server would accept all waiting connections at once, before any could be refused, and so use up the
file descriptors that the store and the runs need. Here each connection is checked as it is accepted.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from wakeful.cli.http_connections import network_of
from wakeful.cli.http_refusals import NO_DESCRIPTORS, Refusal

if TYPE_CHECKING:
    from wakeful.cli.http_connection import Connection
    from wakeful.cli.http_connections import Connections

AT_ONCE = 64  # connections accepted before the event loop gets its turn
LINGERING = 32  # refused clients whose sockets stay open until they read the reason
LINGERS_FOR = 1.0
REST = 1.0


class Acceptor:
    """One listening socket. Has the part of an asyncio server that uvicorn uses: close and wait_closed."""

    def __init__(self, listener: socket.socket, connections: Connections, make: Callable[[str], Connection]) -> None:
        self._listener = listener
        self._open = connections
        self._make = make
        self._loop = asyncio.get_running_loop()
        self._connecting: set[asyncio.Task[None]] = set()
        self._refused: deque[tuple[float, socket.socket]] = deque()
        self._resting: asyncio.TimerHandle | None = None
        listener.setblocking(False)
        self._loop.add_reader(listener, self._accept)

    def _accept(self) -> None:
        for _ in range(AT_ONCE):
            try:
                client, address = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:
                # Out of descriptors or memory: the connection stays queued and would be offered again in a busy loop.
                self._open.count(NO_DESCRIPTORS)
                self._loop.remove_reader(self._listener)
                self._resting = self._loop.call_later(REST, self._go_on)
                return
            self._take(client, address)

    def _go_on(self) -> None:
        self._resting = None
        self._loop.add_reader(self._listener, self._accept)

    def _take(self, client: socket.socket, address: Any) -> None:
        client.setblocking(False)
        network = network_of(address[0]) if isinstance(address, tuple) else ""
        refusal = self._open.admit(client.fileno(), network)
        if refusal is None:
            task = self._loop.create_task(self._connect(client, network))
            self._connecting.add(task)
            task.add_done_callback(self._connecting.discard)
        else:
            self._turn_away(client, refusal)

    async def _connect(self, client: socket.socket, network: str) -> None:
        connection = self._make(network)
        try:
            await self._loop.connect_accepted_socket(lambda: connection, client)
        except OSError:  # the client has already disconnected
            client.close()
            if not connection.made:
                self._open.release(network)

    # connections above the limits

    def _turn_away(self, client: socket.socket, refusal: Refusal) -> None:
        """Send the reason at once, without reading the request. Closing with unread bytes would discard the answer, so
        closing waits a moment.
        """
        self._open.count(refusal)
        try:
            client.send(refusal.answer)
            client.shutdown(socket.SHUT_WR)
        except OSError:
            client.close()
            return
        if client.fileno() >= self._open.limits.descriptors:
            client.close()
            return
        self._refused.append((self._open.now, client))
        if len(self._refused) > LINGERING:
            self._refused.popleft()[1].close()

    def look(self) -> None:
        """Called once a second: close refused connections whose clients had time to read the answer."""
        while self._refused and self._open.now - self._refused[0][0] > LINGERS_FOR:
            self._refused.popleft()[1].close()

    # the end

    def close(self) -> None:
        if self._resting is not None:
            self._resting.cancel()
            self._resting = None
        self._loop.remove_reader(self._listener)
        while self._refused:
            self._refused.popleft()[1].close()

    async def wait_closed(self) -> None:
        if self._connecting:
            await asyncio.wait(self._connecting)
