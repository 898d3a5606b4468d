"""Guards of apps: the tokens that a command must have which decides in a person's stead, kept as hashes.

The store has the guard and not the process: it holds while no server runs. A server that starts with other tokens replaces it, and one
that starts with none removes it. While another process of the app is alive, only one that knows a token of the guard does: a program that
the app started can start a server too.

An app that starts programs and has no token is locked: no token opens that guard, so what only people decide waits until a server of the app
starts with one.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from wakeful.stores.reads import ReadsDatabase

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
        if self == LOCK:
            return False
        # scrypt fills a short word up with NULs: one that ends with some has the hash of the word without them
        return "\0" not in token and hmac.compare_digest(_hashed(token, self.salt), self.hash)


LOCK = TokenHash("", "locked")
"""The guard of an app that starts programs, while no server of it was started with a token. It is the hash of no token."""


def hashes_of(tokens: Iterable[str | None]) -> tuple[TokenHash, ...]:
    return tuple(TokenHash.of(token) for token in tokens if token)


def known(guards: Iterable[tuple[str, TokenHash]], app: str, tokens: Iterable[str | None]) -> str | None:
    """The hash of an app's guard that one of these tokens has; None if there is none."""
    given = [token for token in tokens if token]
    return next((one.hash for name, one in guards if name == app and any(fits(one, token) for token in given)), None)


@lru_cache(maxsize=64)
def fits(hashed: TokenHash, token: str) -> bool:
    """As `is_of`, once for each pair: a process that asks has few tokens, and asks about few hashes."""
    return hashed.is_of(token)


def _hashed(token: str, salt: str) -> str:
    made = hashlib.scrypt(
        token.encode(errors="surrogatepass"),
        salt=bytes.fromhex(salt),
        n=COST,
        r=BLOCK,
        p=1,
        maxmem=MEMORY,
        dklen=LENGTH,
    )
    return made.hex()


async def read_guards(reads: ReadsDatabase) -> list[tuple[str, TokenHash]]:
    """The guarded apps, each with the hash of a token."""
    return [(app, TokenHash(salt, hashed)) for app, salt, hashed in await reads.fetch("list_guards")]
