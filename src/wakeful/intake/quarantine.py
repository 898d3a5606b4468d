"""Quarantine: what cannot be verified or read is kept, with its bytes, what came along, and the reason.

It is an event like any other, in state `quarantined`, which wakes nobody; its identity is its bytes, so that the same again is a
repeat. A person looks at it, mends what was wrong, and releases it: what it says then becomes an event of its own.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping

from pydantic_core import from_json, to_json

from wakeful.model import Arrival, digest, event_key
from wakeful.stores.sources import Kept, QuarantineKind

TYPE = "wakeful.quarantined"
# Whoever has these can pass for somebody else: they are not kept.
CREDENTIALS = frozenset(
    {"authorization", "cookie", "proxy-authorization", "x-api-key", "x-auth-token", "x-gitlab-token"}
)
HIDDEN = "(not kept)"
LONGEST_REASON = 1_000


def keep(app: str, source: str, raw: bytes, reason: str, *, kind: QuarantineKind, headers: Mapping[str, str]) -> Kept:
    """Something that could not be taken in, ready to be stored. `source` is what its events would have as their source."""
    identity = digest(raw.hex(), kind)
    shown = {name: HIDDEN if name.lower() in CREDENTIALS else value for name, value in headers.items()}
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
    return Kept(arrival, kind, to_json(shown).decode(), len(raw))


def raw_of(envelope: str) -> bytes:
    """The bytes of something in quarantine."""
    return b64decode(from_json(envelope)["data_base64"])
