"""Bearer tokens: how one is made, and which are too weak.

A check sees the characters of a token, not how they were chosen. It computes the most bits that a random token of this length
and these kinds of characters can have, and subtracts repetitions and keyboard rows (`0123`, `qwerty`). The person who sets a
token must make it random.
"""

from __future__ import annotations

import re
import secrets
import string
from math import ceil, log2

from wakeful.errors import ConfigError

LEAST_BITS = 128
LENGTH = 43  # of 62 different characters: 256 bits
ALPHABET = string.ascii_letters + string.digits
FEW = 8  # different characters: a random token has fewer once in millions
SURE = 30  # bits of regularity, which a random token has once in a billion; less than this is not counted
ROWS = "0123456789abcdefghijklmnopqrstuvwxyz 1234567890 qwertyuiopasdfghjklzxcvbnm "
ROWS += ROWS[::-1]
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
FIXED_IN_UUID = 6  # bits for the kind of UUID


def new_token() -> str:
    """A new token of 256 random bits: letters and digits only, so that a double click selects all of it."""
    return "".join(secrets.choice(ALPHABET) for _ in range(LENGTH))


def refuse_weak(token: str, name: str) -> None:
    """Raise `ConfigError` unless a token can be sent in a header and has 128 bits. The message never contains the
    token.
    """
    if not (token.isascii() and token.isprintable()) or " " in token:
        message = (
            f"{name} contains a space, a line break or a character that is not allowed in a header: use letters and digits; "
            "`wakeful token` prints a new one"
        )
        raise ConfigError(message)
    if (bits := bits_of(token)) < LEAST_BITS:
        message = (
            f"{name} is too weak: it has at most {bits:.0f} bits, and {LEAST_BITS} are required (22 random letters and digits "
            "of both cases, or 32 hexadecimal digits). `wakeful token` prints a new one"
        )
        raise ConfigError(message)


def bits_of(token: str) -> float:
    """The most bits that a token with these characters can have.

    >>> bits_of("secret"), bits_of("changeme" * 8), bits_of("9f86d081884c7d659a2feaa0c55ad015")
    (20.0, 28.0, 128.0)
    """
    text = token.rstrip("=")  # base64 padding
    if UUID.fullmatch(text):
        return 32 * 4.0 - FIXED_IN_UUID
    has_digit = any(character.isdigit() for character in text)
    has_upper, has_lower = text.lower() != text, text.upper() != text
    if has_upper and has_lower:
        each = 6.0  # base64, or letters and digits
    else:
        text = re.sub(r"[^0-9A-Za-z]", "", text)  # without separators
        if not (has_upper or has_lower):
            each = log2(10)
        elif not has_digit:
            each = 4.0  # perhaps words: people do not choose letters at random
        else:
            each = 4.0 if re.fullmatch(r"[0-9a-fA-F]*", text) else 5.0
    text = _unit(text, each)
    if (kinds := len(set(text))) < FEW:
        return each * min(len(text), kinds)
    saved = _saved(text.lower(), min(each, 5.0))  # a letter without its case has one bit less
    return each * len(text) - (saved if saved >= SURE else 0)


def _unit(text: str, each: float) -> str:
    """The piece that the whole text repeats, the last time perhaps cut short; the text itself if there is none."""
    overlap = ceil(SURE / each)
    return next((text[:size] for size in range(1, len(text) - overlap + 1) if text.startswith(text[size:])), text)


def _saved(text: str, each: float) -> float:
    """The bits that are saved if pieces that occurred before, or keyboard rows, are named by place and length. Random
    text saves n bits only once in 2 to the power of n.
    """
    naming = log2(len(ROWS) + len(text)) + 2 * log2(len(text))  # the piece, its length, and the place
    before, saved, at = ROWS, 0.0, 0
    while at < len(text):
        size = 0
        while at + size < len(text) and text[at : at + size + 1] in before + text[at : at + size]:
            size += 1
        if each * size <= naming:
            size = 1
        else:
            saved += each * size - naming
        before, at = before + text[at : at + size], at + size
    return saved
