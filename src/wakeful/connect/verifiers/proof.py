"""What all proofs have in common: a header that must be there, bytes that must be equal, a time that must be near.

Comparisons take the same time wherever two values differ, and every secret is tried, whichever fits: how long an answer takes
tells nothing about the secret.
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
    """The value of a header, which must be there. `name` as people write it."""
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
        message = f"the header {name} holds characters that no header can hold"
        raise Refused(message) from None


def require_signature(
    given: Sequence[bytes], keys: Sequence[bytes], content: bytes, *, name: str, algorithm: str = "sha256"
) -> None:
    """Refused, unless one of the signatures was made with one of the keys."""
    fits = False
    for key in keys:
        expected = hmac.digest(key, content, algorithm)
        for one in given:
            fits |= hmac.compare_digest(one, expected)
    if not fits:
        message = f"the signature in {name} does not fit: the secret is another one, or the body was changed on its way"
        raise Refused(message)


def require_equal(given: bytes, secrets: Sequence[bytes], *, what: str) -> None:
    """Refused, unless what was given is one of the secrets."""
    fits = False
    for secret in secrets:
        fits |= hmac.compare_digest(given, secret)
    if not fits:
        message = f"{what} is not the one that was agreed on"
        raise Refused(message)


def require_near(sent_at: Microseconds, request: WebhookRequest, tolerance: Microseconds) -> None:
    """Refused if a request is too old: somebody may have kept it. Too far ahead it would be worth keeping."""
    age = request.received_at - sent_at
    if age > tolerance:
        message = f"it was sent {readable(age)} before it came, and may be at most {written(tolerance)} old"
        raise Refused(message)
    if -age > tolerance:
        message = f"its time is {readable(-age)} ahead: set the clocks, here and there"
        raise Refused(message)


def seconds_of(text: str, name: str) -> Microseconds:
    """A time in whole seconds since 1970, in plain digits."""
    if not _SECONDS(text):
        message = f"the time in {name} is not a number of seconds"
        raise Refused(message)
    return int(text) * SECOND


def from_hexadecimal(text: str, name: str) -> bytes:
    """`bytes.fromhex` would pass over blanks."""
    if not _HEXADECIMAL(text):
        message = f"the signature in {name} is not hexadecimal"
        raise Refused(message)
    return bytes.fromhex(text)


def from_base64(text: str | bytes, name: str) -> bytes:
    """`b64decode` would pass over what is too much at the end, so that one value could be written in several ways."""
    given = text.encode("ascii", "replace") if isinstance(text, str) else text
    try:
        found = base64.b64decode(given, validate=True)
    except (binascii.Error, ValueError):
        found = b""
    if not found or base64.b64encode(found) != given:
        message = f"what {name} holds is not base64"
        raise Refused(message)
    return found


def after_prefix(value: str, prefix: str, name: str) -> str:
    """What follows `sha256=`. Another prefix is another way to sign, which proves nothing here."""
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
        message = f'{where}: tolerance must be longer than nothing, like "5m"'
        raise ConfigError(message)
    return span


def aliases_of(
    name: str, request: WebhookRequest, signature: Callable[[WebhookRequest], bytes], *more: str
) -> tuple[str, ...]:
    """A further name of a request: its signature, as bytes, because one signature can be written in several ways. It is kept as
    a digest, in case the store is read by somebody who should not send. One that a person trusts may have none.
    """
    try:
        told = signature(request).hex()
    except Refused:
        return ()
    return (hashlib.blake2b("\0".join((name, told, *more)).encode(), digest_size=16).hexdigest(),)
