"""Quarantine: what cannot be verified or read is kept, with its bytes, what came along, and the reason.

It is an event like any other, in state `quarantined`, which wakes nobody; its identity is its bytes and what came along with
them, so that the same again is a repeat, and one body under two topics or two ids is two. A person looks at it, mends what was wrong, and releases it: what it says then becomes an event of its own.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Mapping

from pydantic_core import from_json, to_json

from wakeful.model import Arrival, digest, event_key
from wakeful.stores.verbs.take_in import Kept, QuarantineForm, QuarantineKind

TYPE = "wakeful.quarantined"
# Whoever has these can pass for somebody else: they are not kept.
_CREDENTIAL = re.compile(r"authorization|cookie|token|secret|passw|api-?key", re.IGNORECASE).search
# What tells of the way that a request took, and may be another at every try: its identity is without it.
ON_THE_WAY = frozenset(
    {
        "accept",
        "accept-encoding",
        "connection",
        "content-length",
        "date",
        "forwarded",
        "host",
        "traceparent",
        "tracestate",
        "user-agent",
        "via",
        "x-forwarded-for",
        "x-forwarded-host",
        "x-forwarded-port",
        "x-forwarded-proto",
        "x-real-ip",
    }
)
HIDDEN = "(not kept)"
LONGEST_REASON = 1_000


def keep(
    app: str,
    source: str,
    raw: bytes,
    reason: str,
    *,
    kind: QuarantineKind,
    headers: Mapping[str, str],
    form: QuarantineForm = "raw",
    size: int | None = None,
) -> Kept:
    """Something that could not be taken in, ready to be stored. `source` is what its events would have as their source.

    `form` is a part of its identity: bytes from outside never stand in for an event that Wakeful wrote down.
    """
    shown = {name: HIDDEN if _CREDENTIAL(name) else value for name, value in headers.items()}
    along = sorted((name.lower(), value) for name, value in shown.items() if name.lower() not in ON_THE_WAY)
    identity = digest(raw.hex(), kind if form == "raw" else f"{kind}/{form}", to_json(along).decode())
    envelope = {
        "specversion": "1.0",
        "source": source,
        "id": identity,
        "type": TYPE,
        "data_base64": b64encode(raw).decode(),
    }
    arrival = Arrival(
        event_key(app, source, identity),
        source,
        identity,
        TYPE,
        None,
        "quarantined",
        digest(raw.hex()),
        to_json(envelope).decode(),
        reason[:LONGEST_REASON],
    )
    return Kept(arrival, kind, to_json(shown).decode(), len(raw) if size is None else size, form)


def could_not_be_taken_in(event_id: str) -> str:
    """How the reason begins that Wakeful gives for an event which its source could read."""
    return f"event {event_id} could not be taken in: "


def without_hidden(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers that were kept. A sender may write HIDDEN too: only in the place of a credential it is ours."""
    return {name: value for name, value in headers.items() if value != HIDDEN or not _CREDENTIAL(name)}


def raw_of(envelope: str) -> bytes:
    """The bytes of something in quarantine."""
    return b64decode(from_json(envelope)["data_base64"])
