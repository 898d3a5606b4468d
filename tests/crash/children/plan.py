"""What a test tells a child to do, as JSON."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, fields
from typing import Any


@dataclass
class Plan:
    store: str
    counter: str
    # Which one it is, and where its log goes: filled in by whoever starts it.
    case: int = 0
    log: str = os.devnull
    # At the n-th boundary of a commit: die by SIGKILL, or stop by SIGSTOP.
    crash_at: int | None = None
    stop_at: int | None = None
    # The same within the n-th transaction, when only its COMMIT is missing.
    stop_in: int | None = None
    # The same for the first boundary at this point ("within") of a transaction with just these requests.
    stop_on: tuple[str, list[str]] | None = None
    crash_on: tuple[str, list[str]] | None = None
    say_boundaries: bool = False
    single: bool = False  # batches may be single statements, as in production; there is no moment within them
    # Events to send: type, id, data. What gets no answer is sent again.
    emit: list[tuple[str, str, Any]] = field(default_factory=list)
    die_when_accepted: bool = False
    # Then send orders without end, so many at a time, with a rest between them.
    senders: int = 0
    rest: float = 0.05
    # Leave when so many runs are done or dead; None: when told to, by SIGTERM.
    done: int | None = None
    lease: float = 1.0
    grace: float = 10.0
    in_flight: int = 64
    gate: str | None = None
    slow_to_cancel: float = 0.0
    # Ceilings, which SIGUSR1 lifts: of the database (SQLite, in pages), and of any file (bytes).
    pages: int | None = None
    file_size: int | None = None
    # PostgreSQL: how long to wait for an answer, and how long the server waits for the next word of a transaction.
    command_timeout: float | None = None
    idle_limit: float | None = None
    # Serve HTTP there; work=False: and nothing else.
    port: int | None = None
    work: bool = True

    @classmethod
    def read(cls, given: dict[str, Any]) -> Plan:
        return cls(**{one.name: given[one.name] for one in fields(cls) if one.name in given})
