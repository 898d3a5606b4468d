"""Bearer tokens: how one is made, and which are too weak to guard anything.

A token cannot be checked for how it was made, only for how it looks. The estimate is cautious: it never takes a token for
stronger than its length and its kinds of characters allow, and repeated or counted stretches add nothing.
"""

from __future__ import annotations

import re
import secrets
import string
from itertools import pairwise
from math import log2

from wakeful.errors import ConfigError

LEAST_BITS = 128
LENGTH = 43  # of 62 kinds of characters: 256 bits
ALPHABET = string.ascii_letters + string.digits
FORESEEN = 6  # characters in a row that follow from those before them: chance makes that once in thousands of tokens
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
FIXED_IN_UUID = 6  # bits that say which kind of UUID it is


def new_token() -> str:
    """A fresh token of 256 random bits: letters and digits, so that a double click takes all of it."""
    return "".join(secrets.choice(ALPHABET) for _ in range(LENGTH))


def refuse_weak(token: str, name: str) -> None:
    """Raise `ConfigError` unless a token can be sent in a header and has 128 bits. The message never holds the token."""
    if not (token.isascii() and token.isprintable()) or " " in token:
        message = (
            f"{name} has a space, a line break or a letter that no header can carry: use letters and digits; "
            "`wakeful token` prints a new one"
        )
        raise ConfigError(message)
    if (bits := bits_of(token)) < LEAST_BITS:
        message = (
            f"{name} can be guessed: it looks like {bits:.0f} bits, and {LEAST_BITS} are needed (22 random letters and digits "
            "of both cases, or 32 hexadecimal digits). `wakeful token` prints a new one"
        )
        raise ConfigError(message)


def bits_of(token: str) -> float:
    """How many bits a token has at most, by its looks.

    >>> bits_of("secret"), bits_of("0123456789abcdef0123456789abcdef") < 128, bits_of("9f86d081884c7d659a2feaa0c55ad015")
    (24.0, True, 128.0)
    """
    text = token.rstrip("=")  # what base64 pads with
    if UUID.fullmatch(text):
        return 32 * 4.0 - FIXED_IN_UUID
    has_digit = any(character.isdigit() for character in text)
    has_upper, has_lower = text.lower() != text, text.upper() != text
    if has_upper and has_lower:
        each = 6.0  # base64, or letters and digits
    else:
        text = re.sub(r"[^0-9A-Za-z]", "", text)  # separators, here
        if not (has_upper or has_lower):
            each = log2(10)
        elif not has_digit:
            each = 4.0  # words, perhaps: people do not choose letters by chance
        else:
            each = 4.0 if re.fullmatch(r"[0-9a-fA-F]*", text) else 5.0
    return each * _surprises(text)


def _surprises(text: str) -> int:
    """How many characters do not follow from those before them."""
    count = place = 0
    while place < len(text):
        ahead = max(_repeated(text, place), _counted(text, place))
        place += ahead if ahead >= FORESEEN else 1
        count += 1
    return count


def _repeated(text: str, place: int) -> int:
    """How many characters from here on stood there before, in the same order."""
    longest = 0
    for start in range(place):
        length = 0
        while place + length < len(text) and text[start + length] == text[place + length]:
            length += 1
        longest = max(longest, length)
    return longest


def _counted(text: str, place: int) -> int:
    """How many characters from here on are the same, or go up or down by the same step: "aaaa", "4567"."""
    codes = [ord(character) for character in text[place:]]
    steps = [after - before for before, after in pairwise(codes)]
    length = next((number for number, step in enumerate(steps) if step != steps[0]), len(steps))
    return length + 1
