"""Signatures by Standard Webhooks (https://www.standardwebhooks.com): the receiver knows who sent the message, what,
and when.

webhook-id          the message's id: the same at every try
webhook-timestamp   the second of this try: a recorded request cannot be replayed later
webhook-signature   "v1," + base64(HMAC-SHA256(key, id "." timestamp "." body)), one for each key, separated by spaces
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Sequence

from wakeful.errors import ConfigError

PREFIX = "whsec_"
ASYMMETRIC = ("whsk_", "whpk_")


def read_key(secret: str, *, needed_by: str) -> bytes:
    """The key of a secret: the base64 after `whsec_`, or the bytes of any other text. Errors do not repeat the secret."""
    if secret.startswith(ASYMMETRIC):
        message = f"{needed_by}: this is a key for asymmetric signatures; give the shared secret, {PREFIX}…"
        raise ConfigError(message)
    if not secret.startswith(PREFIX):
        key = secret.encode("utf-8", "surrogateescape")  # an environment variable may hold bytes that are not text
    else:
        try:
            key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
        except (binascii.Error, ValueError):
            message = f"{needed_by}: the part of the secret after {PREFIX} is not base64: copy it again, in full"
            raise ConfigError(message) from None
    if not key:
        message = f"{needed_by}: the secret is empty, so anyone could sign with it"
        raise ConfigError(message)
    return key


def signed_content(identifier: bytes, timestamp: bytes, body: bytes) -> bytes:
    """The bytes that are signed."""
    return b".".join((identifier, timestamp, body))


def sign(keys: Sequence[bytes], identifier: str, timestamp: int, body: bytes) -> dict[str, str]:
    """The headers of a signed body. Several keys are for a key change: the receiver needs to know one of them."""
    headers = {"webhook-id": identifier, "webhook-timestamp": str(timestamp)}
    if keys:
        content = signed_content(identifier.encode(), str(timestamp).encode(), body)
        digests = [hmac.digest(key, content, hashlib.sha256) for key in keys]
        headers["webhook-signature"] = " ".join(f"v1,{base64.b64encode(digest).decode()}" for digest in digests)
    return headers
