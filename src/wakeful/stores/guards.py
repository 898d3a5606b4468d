"""Guards of apps: the tokens that a command must have which decides in a person's stead, kept as hashes.

The store has the guard and not the process: it holds while no server runs. A server that starts with other tokens replaces it, and one
that starts with none removes it.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterable
from dataclasses import dataclass

from wakeful.stores.request import Request

# About 8 MiB and 20 ms for each guess. A token has at least 128 bits by its looks; this is for one that has fewer in truth.
COST, BLOCK, MEMORY = 2**13, 8, 2**25
LENGTH = 32
SALT_LENGTH = 16


@dataclass(frozen=True, slots=True)
class TokenHash:
    """One token as it is stored. It cannot be turned back into the token."""

    salt: str
    hash: str

    @classmethod
    def of(cls, token: str) -> TokenHash:
        salt = secrets.token_hex(SALT_LENGTH)
        return cls(salt, _hashed(token, salt))

    def is_of(self, token: str) -> bool:
        return hmac.compare_digest(_hashed(token, self.salt), self.hash)


@dataclass(slots=True)
class GuardApp(Request[bool]):
    """These tokens, and no others, guard an app from now on. The answer: was it guarded before?"""

    app: str
    tokens: tuple[TokenHash, ...]

    @property
    def patient(self) -> bool:
        return True  # no run starts before: done twice it is the same


def hashes_of(tokens: Iterable[str | None]) -> tuple[TokenHash, ...]:
    return tuple(TokenHash.of(token) for token in tokens if token)


def _hashed(token: str, salt: str) -> str:
    made = hashlib.scrypt(token.encode(), salt=bytes.fromhex(salt), n=COST, r=BLOCK, p=1, maxmem=MEMORY, dklen=LENGTH)
    return made.hex()
