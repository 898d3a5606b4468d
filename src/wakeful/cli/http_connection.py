"""One connection of the HTTP server: uvicorn's, with an end to what a client may send, to how long it may take, and to what may wait.

    REST     no request is being read: a new connection, an answer that is awaited, or the pause between two requests
    HEAD     from the first byte of a request to the end of its headers      headers_within, HEAD_LIMIT
    BODY     to the end of the body                                          body_within and least_speed, HEAD_LIMIT for the wrapping
    LEAVING  refused; what still comes is thrown away for a moment, so that the client can read why

Waiting for the app's answer has no limit here. Waiting for a client to read it has.

The parser (httptools) hands over headers one by one, but collects a header that is not whole inside itself. So the bytes are counted where
they are fed to it, in parts that are no larger than the limit; a request that came in one small part needs no counting at all.
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
    """Raised inside the parser, to stop it."""


class Connection(HttpToolsProtocol):
    """Counts and times one client's requests. uvicorn's own timer of idle connections is not used."""

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
        self.deaf = False  # nothing more is read from this client
        self.refusal = NOT_HTTP  # the reason, if the parser stops
        self.part = 0  # bytes that the parser has at this moment
        self.head_size = 0  # of the parts before it that belong to this head, and perhaps to what came before
        self.received = 0  # of this body
        self.wrapping = 0  # bytes around the body that the body does not outweigh
        self.unread = 0  # bytes of answers that the client has left lying
        self.unread_since = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.made = True
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.open.release(self.network)

    # what comes in

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
            self.deaf = (
                True  # there is no other protocol here: this request is answered as any other, and it is the last one
            )
        except httptools.HttpParserError:
            self.refuse(self.refusal)
        else:
            if self.stage == HEAD:
                self.head_size += self.part
                # The first part may hold the end of another request.
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

    # what the parser says

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
        self.headers = []  # of trailers, which the app does not get to see
        self.stage = BODY
        self.since = self.open.now
        if self.parser.should_upgrade():
            self.cycle.keep_alive = False

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self.stage = REST

    def on_response_complete(self) -> None:
        """As uvicorn's, which would also set a timer for the pause that begins."""
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
        """Read no more of this client. Answers that it is owed for earlier requests still leave; then the connection closes."""
        self.open.count(refusal)
        cycle, stage = self.cycle, self.stage
        self.deaf, self.stage = True, REST
        owed = cycle is not None and not cycle.response_complete
        if owed and stage == BODY and not cycle.response_started:
            # The app, or its queue, waits for the rest of this very request.
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
        super().on_message_begin()  # forget what there is of a request
        if self.transport.is_closing():
            return
        # To close with unread bytes would reset the connection, and the client might never see the answer.
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
        """A stranger can ask for an upgrade as often as it likes; the log has no use for that."""

    # time

    def look(self, elapsed: float) -> None:
        """Once a second: is there anything that this client has had its time for?"""
        limits = self.open.limits
        now = (
            self.open.now - limits.look_every
        )  # occurrences are noted with the time of the last look, so they may be that old
        if self._leaves_answers_lying(now):
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
        """The app does not read on, or has not asked for the body that the client announced."""
        if self.flow.read_paused:
            return True
        return self.stage == BODY and self.cycle.waiting_for_100_continue and not self.cycle.response_complete

    def _leaves_answers_lying(self, now: float) -> bool:
        """Has the client read less of an answer than the least speed asks for? While the app may still add to it, nobody can tell."""
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
