"""Quarantine: input that cannot be verified or read is kept, with its bytes, its headers and the reason.

It is stored as an event in state `quarantined`, which wakes no agent. Its identity is its bytes and headers: the same
input again is a repetition, and one body under two topics or two ids is two. A person looks at it, corrects what was
wrong, and releases it: its content then becomes a new event.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Mapping

from pydantic_core import from_json, to_json

from wakeful.model import Arrival, digest, event_key
from wakeful.stores.verbs.take_in import Kept, QuarantineForm, QuarantineKind

TYPE = "wakeful.quarantined"
# Credentials let their holder act as another person: they are not kept.
_CREDENTIAL = re.compile(r"authorization|cookie|token|secret|passw|api-?key", re.IGNORECASE).search
# Headers about the way a request took, which may differ at every try: they are not part of its identity.
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
    """Input that could not be accepted, ready to be stored. `source` is the source that its events would have.

    `form` is part of its identity: bytes from outside can never pass for an event that Wakeful wrote.
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
    """The beginning of the reason for an event that its source could read but intake refused."""
    return f"event {event_id} could not be taken in: "


def without_hidden(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers that were kept. A sender may also write HIDDEN: it is ours only in place of a credential."""
    return {name: value for name, value in headers.items() if value != HIDDEN or not _CREDENTIAL(name)}


def raw_of(envelope: str) -> bytes:
    """The bytes of an input in quarantine."""
    return b64decode(from_json(envelope)["data_base64"])
