"""One connection of the HTTP server: uvicorn's, with limits on size, time and the number of waiting requests.

    REST     no request is being read: a new connection, a pending answer, or the pause between two requests
    HEAD     from the first byte of a request to the end of its headers   headers_within, HEAD_LIMIT
    BODY     to the end of the body                                       body_within, least_speed, HEAD_LIMIT for chunk overhead
    LEAVING  refused; further input is discarded for a moment, so that the client can read the answer

Waiting for the app's answer has no limit here. Waiting for the client to read the answer has one.

The parser (httptools) passes on headers one by one, but buffers an incomplete header internally. The bytes are therefore
counted when they are fed to it, in parts no larger than the limit; a request that arrives in one small part needs no count.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from wakeful.cli.http_limits import DISCARDED_LIMIT, HEAD_LIMIT, HEADERS_LIMIT, PIPELINE_LIMIT
from wakeful.cli.http_refusals import (
    BODY_TOO_SLOW,
    DISCARDING,
    HEAD_TOO_LARGE,
    HEAD_TOO_SLOW,
    NOT_HTTP,
    PIPELINED,
    UNREAD,
    WRAPPING_TOO_LARGE,
    Refusal,
)

if TYPE_CHECKING:
    from wakeful.cli.http_connections import Connections

REST, HEAD, BODY, LEAVING = range(4)
PART = HEAD_LIMIT
LEAVES_WITHIN = 1.0
LINE = len("  HTTP/1.1\r\n")
COLON_AND_END = len(": \r\n")


class RequestRefused(Exception):
    """Raised inside the parser to stop it."""


class Connection(HttpToolsProtocol):
    """Counts and times the requests of one client. Replaces uvicorn's timer for idle connections."""

    def __init__(
        self,
        config: Config,
        server_state: Connections,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        network: str = "",
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.open = server_state
        self.network = network
        self.made = False
        self.stage = REST
        self.since = server_state.now
        self.deaf = False  # no more input is read from this client
        self.refusal = NOT_HTTP  # the reason if the parser stops
        self.part = 0  # size of the part being parsed
        self.head_size = 0  # bytes of earlier parts of this head; the first part may include the end of another request
        self.received = 0  # of this body
        self.wrapping = 0  # bytes of chunk overhead in excess of the body
        self.unread = 0  # bytes of answers that the client has not read
        self.unread_since = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.made = True
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.open.release(self.network)

    # input

    def data_received(self, data: bytes) -> None:
        if len(data) <= PART:
            self._feed(data)
        else:
            view = memoryview(data)
            for start in range(0, len(data), PART):
                self._feed(view[start : start + PART])

    def _feed(self, part: bytes | memoryview) -> None:
        if self.deaf:
            return
        self.part = len(part)
        before = self.cycle if self.stage == BODY else None
        kept = 0 if before is None else len(before.body)
        try:
            self.parser.feed_data(part)
        except httptools.HttpParserUpgrade:
            self.deaf = True  # no other protocol is supported: answer this request as usual, then close
        except httptools.HttpParserError:
            self.refuse(self.refusal)
        else:
            if self.stage == HEAD:
                self.head_size += self.part
                # The first part may contain the end of another request.
                if self.head_size > HEAD_LIMIT + PART or len(self.headers) > HEADERS_LIMIT:
                    self.refuse(HEAD_TOO_LARGE)
            elif self.stage == BODY:
                self._count_body(continued=before is self.cycle, got=len(self.cycle.body) - kept)

    def _count_body(self, *, continued: bool, got: int) -> None:
        if not continued:
            self.received, self.wrapping = len(self.cycle.body), 0
            return
        self.received += self.part
        if self.cycle.response_complete:
            if self.received > DISCARDED_LIMIT:
                self.refuse(DISCARDING)
            return
        self.wrapping = max(0, self.wrapping + self.part - 2 * got)
        if self.wrapping > HEAD_LIMIT:
            self.refuse(WRAPPING_TOO_LARGE)

    # callbacks of the parser

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.stage = HEAD
        self.since = self.open.now
        self.head_size = 0

    def on_headers_complete(self) -> None:
        if len(self.headers) > HEADERS_LIMIT or (
            self.head_size + self.part > HEAD_LIMIT and self._whole_head() > HEAD_LIMIT
        ):
            self._stop_parser(HEAD_TOO_LARGE)
        if len(self.pipeline) >= PIPELINE_LIMIT:
            self._stop_parser(PIPELINED)
        super().on_headers_complete()
        self.headers = []  # from here on it collects trailers, which the app never sees
        self.stage = BODY
        self.since = self.open.now
        if self.parser.should_upgrade():
            self.cycle.keep_alive = False

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self.stage = REST

    def on_response_complete(self) -> None:
        """As in uvicorn, but without its timer for the pause that begins."""
        self.open.total_requests += 1
        if self.transport.is_closing():
            return
        if self.stage != HEAD:
            self.since = self.open.now
        self.flow.resume_reading()
        if self.pipeline:
            cycle, app = self.pipeline.pop()
            self._start_asgi_task(cycle, app)
        elif self.deaf:
            self.transport.close()

    def _whole_head(self) -> int:
        fields = sum(len(name) + len(value) + COLON_AND_END for name, value in self.headers)
        return len(self.parser.get_method()) + len(self.url) + LINE + fields

    def _stop_parser(self, refusal: Refusal) -> None:
        self.refusal = refusal
        raise RequestRefused

    # the end

    def refuse(self, refusal: Refusal) -> None:
        """Read no more from this client. Pending answers to earlier requests are still sent; then the connection
        closes.
        """
        self.open.count(refusal)
        cycle, stage = self.cycle, self.stage
        self.deaf, self.stage = True, REST
        owed = cycle is not None and not cycle.response_complete
        if owed and stage == BODY and not cycle.response_started:
            # The app, or the queue in front of it, waits for the rest of this request.
            cycle.disconnected = True
            cycle.message_event.set()
            if self.pipeline:
                self.pipeline.popleft()
                return
        elif owed:
            cycle.keep_alive = False
            return
        elif stage == BODY:
            self.transport.close()  # the request was answered before its body ended
            return
        self._leave(refusal.answer)

    def _leave(self, answer: bytes) -> None:
        self.stage = LEAVING
        self.since = self.open.now
        super().on_message_begin()  # discard the partial request
        if self.transport.is_closing():
            return
        # Closing with unread bytes would reset the connection, and the client might never see the answer.
        self.flow.resume_reading()
        self.transport.write(answer)
        if answer and self.transport.can_write_eof():
            self.transport.write_eof()
        else:
            self.transport.close()

    def shutdown(self) -> None:
        if self.stage == LEAVING:
            self.transport.close()
        else:
            super().shutdown()

    def _unsupported_upgrade_warning(self) -> None:
        """Log nothing: any client can request upgrades as often as it likes."""

    # time

    def look(self, elapsed: float) -> None:
        """Called once a second: refuse or close this connection if it exceeded a time limit."""
        limits = self.open.limits
        now = self.open.now - limits.look_every  # times are noted as of the last look, so they may be this much older
        if self._reads_too_slowly(now):
            self.open.count(UNREAD)
            self.transport.abort()
        elif self.transport.is_closing():
            return
        elif self.stage == LEAVING:
            if now - self.since > LEAVES_WITHIN:
                self.transport.close()
        elif self.stage == REST:
            if self.cycle is None or self.cycle.response_complete:
                within = limits.headers_within if self.cycle is None else limits.idle_for
                if now - self.since > within:
                    self.transport.close()
        elif self._waits_for_us():
            self.since += elapsed
        elif self.stage == HEAD:
            if now - self.since > limits.headers_within:
                self.refuse(HEAD_TOO_SLOW)
        elif self.cycle.response_complete:
            if now - self.since > limits.idle_for:
                self.refuse(DISCARDING)
        elif now - self.since > limits.body_within + self.received / limits.least_speed:
            self.refuse(BODY_TOO_SLOW)

    def _waits_for_us(self) -> bool:
        """Whether the app stopped reading, or has not yet asked for the body that the client announced."""
        if self.flow.read_paused:
            return True
        return self.stage == BODY and self.cycle.waiting_for_100_continue and not self.cycle.response_complete

    def _reads_too_slowly(self, now: float) -> bool:
        """Whether the client reads an answer more slowly than the least speed. Unknown, so False, while the app may
        still add to it.
        """
        waiting = self.transport.get_write_buffer_size()
        final = (
            self.flow.write_paused or self.cycle is None or self.cycle.response_complete or self.transport.is_closing()
        )
        if not waiting or not final:
            self.unread = 0
            return False
        limits = self.open.limits
        if waiting > self.unread or waiting <= self.unread - limits.least_speed * limits.answer_within:
            self.unread, self.unread_since = waiting, self.open.now
            return False
        return now - self.unread_since > limits.answer_within
