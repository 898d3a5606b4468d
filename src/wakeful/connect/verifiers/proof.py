"""Shared checks of verifiers: a header must be present, bytes must be equal, a time must be near.

Comparisons take constant time, and every secret is tried even after a match: the response time tells nothing about the
secret.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable, Sequence

from wakeful.clock import SECOND, Duration, Microseconds, duration, readable, written
from wakeful.errors import ConfigError
from wakeful.triggers.verifier import Refused, WebhookRequest

TOLERANCE = "5m"
MOST_SIGNATURES = 10  # in one header: each costs a comparison
ALGORITHMS = ("sha256", "sha512", "sha384", "sha1")
_SECONDS = re.compile(r"[0-9]{1,12}").fullmatch
_HEXADECIMAL = re.compile(r"(?:[0-9a-fA-F]{2})+").fullmatch


def required(request: WebhookRequest, name: str) -> str:
    """The value of a header; raises Refused if it is missing. `name` as people write it."""
    value = request.headers.get(name.lower())
    if not value:
        message = f"the header {name} is {'missing' if value is None else 'empty'}"
        raise Refused(message)
    return value


def raw(value: str, name: str) -> bytes:
    """The bytes of a header."""
    try:
        return value.encode("latin-1")
    except UnicodeEncodeError:
        message = f"the header {name} contains characters that are not allowed in a header"
        raise Refused(message) from None


def require_signature(
    given: Sequence[bytes], keys: Sequence[bytes], content: bytes, *, name: str, algorithm: str = "sha256"
) -> None:
    """Raise Refused unless one of the signatures was made with one of the keys."""
    fits = False
    for key in keys:
        expected = hmac.digest(key, content, algorithm)
        for one in given:
            fits |= hmac.compare_digest(one, expected)
    if not fits:
        message = f"the signature in {name} does not match: the secret is different, or the body was changed on its way"
        raise Refused(message)


def require_equal(given: bytes, secrets: Sequence[bytes], *, what: str) -> None:
    """Raise Refused unless the given value is one of the secrets."""
    fits = False
    for secret in secrets:
        fits |= hmac.compare_digest(given, secret)
    if not fits:
        message = f"{what} does not match"
        raise Refused(message)


def require_near(sent_at: Microseconds, request: WebhookRequest, tolerance: Microseconds) -> None:
    """Raise Refused if a request is too old (a replay), or too far in the future (it could be replayed for long)."""
    age = request.received_at - sent_at
    if age > tolerance:
        message = f"it was sent {readable(age)} before it arrived; at most {written(tolerance)} is allowed"
        raise Refused(message)
    if -age > tolerance:
        message = f"its time is {readable(-age)} in the future: check the clocks of both machines"
        raise Refused(message)


def seconds_of(text: str, name: str) -> Microseconds:
    """A time in whole seconds since 1970, in decimal digits."""
    if not _SECONDS(text):
        message = f"the time in {name} is not a number of seconds"
        raise Refused(message)
    return int(text) * SECOND


def from_hexadecimal(text: str, name: str) -> bytes:
    """Decode strictly: `bytes.fromhex` would ignore blanks."""
    if not _HEXADECIMAL(text):
        message = f"the signature in {name} is not hexadecimal"
        raise Refused(message)
    return bytes.fromhex(text)


def from_base64(text: str | bytes, name: str) -> bytes:
    """Decode strictly: `b64decode` would ignore excess at the end, so that one value could be written in several ways."""
    given = text.encode("ascii", "replace") if isinstance(text, str) else text
    try:
        found = base64.b64decode(given, validate=True)
    except (binascii.Error, ValueError):
        found = b""
    if not found or base64.b64encode(found) != given:
        message = f"the value of {name} is not base64"
        raise Refused(message)
    return found


def after_prefix(value: str, prefix: str, name: str) -> str:
    """The value after `sha256=`. Another prefix means another scheme, which proves nothing here."""
    if not value.startswith(prefix):
        message = f"the signature in {name} does not begin with {prefix}"
        raise Refused(message)
    return value[len(prefix) :]


def read_tolerance(tolerance: Duration, *, where: str) -> Microseconds:
    try:
        span = duration(tolerance)
    except (TypeError, ValueError) as error:
        message = f"{where}: tolerance: {error}"
        raise ConfigError(message) from None
    if span <= 0:
        message = f'{where}: tolerance must be longer than zero, like "5m"'
        raise ConfigError(message)
    return span


def aliases_of(
    name: str, request: WebhookRequest, signature: Callable[[WebhookRequest], bytes], *more: str
) -> tuple[str, ...]:
    """A further identity of a request: its signature, as bytes, because one signature can be written in several ways. It is stored
    as a digest, so that a reader of the store cannot reuse it. A request that a person trusts may have none.
    """
    try:
        told = signature(request).hex()
    except Refused:
        return ()
    return (hashlib.blake2b("\0".join((name, told, *more)).encode(), digest_size=16).hexdigest(),)
