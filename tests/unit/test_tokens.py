"""Which tokens are taken, by their looks."""

from __future__ import annotations

import base64
import random
import uuid

import pytest

from support.tokens import NEXT_TOKEN, TOKEN
from wakeful.errors import ConfigError
from wakeful.http.security import ApiSettings
from wakeful.tokens import LEAST_BITS, bits_of, new_token, refuse_weak

CHANCE = random.Random(14)
MADE = {
    "hex": lambda: CHANCE.randbytes(16).hex(),
    "HEX": lambda: CHANCE.randbytes(16).hex().upper(),
    "base64": lambda: base64.b64encode(CHANCE.randbytes(16)).decode(),
    "base64url": lambda: base64.urlsafe_b64encode(CHANCE.randbytes(16)).decode().rstrip("="),
    "base32": lambda: base64.b32encode(CHANCE.randbytes(17)).decode().rstrip("="),
    "two UUIDs": lambda: f"{uuid.UUID(bytes=CHANCE.randbytes(16))}-{uuid.UUID(bytes=CHANCE.randbytes(16))}",
    "digits": lambda: "".join(CHANCE.choices("0123456789", k=41)),
    "ours": new_token,
}


@pytest.mark.parametrize("how", MADE)
def test_what_tools_make_of_128_random_bits_is_taken(how):
    """Not every one: a few in a thousand look like less than they are."""
    refused = [token for token in (MADE[how]() for _ in range(1000)) if bits_of(token) < LEAST_BITS]
    assert len(refused) <= 5, refused[:3]


TOOLS = {
    "wakeful token": new_token,
    "secrets.token_hex(16)": MADE["hex"],
    "secrets.token_urlsafe(16)": MADE["base64url"],
    # 122 bits, but it cannot be told from 128 in hexadecimal digits
    "uuid.uuid4().hex": lambda: uuid.UUID(bytes=CHANCE.randbytes(16), version=4).hex,
}


@pytest.mark.parametrize("how", TOOLS)
def test_what_the_usual_tools_make_is_never_refused(how):
    assert [token for token in (TOOLS[how]() for _ in range(10_000)) if bits_of(token) < LEAST_BITS] == []


@pytest.mark.parametrize(
    "weak",
    [
        "",
        "secret",
        "correct-horse-battery-staple",
        "Tr0ub4dor&3",
        "a" * 200,
        "ab" * 100,
        "aA1" * 40,
        "0123456789" * 8,
        "Passw0rd!" * 8,
        "changeme" * 8,
        "a3f09c1b7e5d2846a3f09c1b7e5d284",  # 124 bits
        "tPq4W9zK2mXv7RcY1nLb8",  # 126 bits
        "7d444840-9dc0-41d1-b245-5ffdce74fad2",  # a UUID: 122 bits
        "31415926535897932384626433832795028841",
        "0123456789abcdef" * 2,
        "0123456789abcdef" * 3,
        "9f86d081884c7d659a2feaa0c55a" * 2,  # a piece of 112 bits
        "9f86d081884c7d659a2feaa0c55a9f86d081884c7d659a2f",  # the same, cut at its end
        "abcdefghijklmnopqrstuvwxyz0123456789",
        "zyxwvutsrqponmlkjihgfedcba9876543210",
        "AbCdEfGhIjKlMnOpQrStUvWxYz",
        "Qwertyuiop1234567890Asdfghjkl",
        "Password1Password2Password3",
        "hunter2hunter3hunter4hunter5",
        "Summer2024Summer2025Summer2026",
    ],
)
def test_what_has_fewer_is_refused_and_not_shown(weak):
    with pytest.raises(ConfigError, match="`wakeful token` prints a new one") as refused:
        refuse_weak(weak, "the token")
    assert not weak or weak not in str(refused.value)


@pytest.mark.parametrize("unsendable", [f"{TOKEN} ", f"{TOKEN}\n", f"{TOKEN}ü", f"two {TOKEN}"])
def test_what_no_header_can_carry_is_refused(unsendable):
    with pytest.raises(ConfigError, match="not allowed in a header") as refused:
        refuse_weak(unsendable, "the token")
    assert TOKEN not in str(refused.value)


def test_settings_are_checked_wherever_they_are_made():
    for token, following in (("secret", None), (TOKEN, "secret"), (None, NEXT_TOKEN)):
        with pytest.raises(ConfigError, match="WAKEFUL_TOKEN"):
            ApiSettings(token=token, next_token=following)
