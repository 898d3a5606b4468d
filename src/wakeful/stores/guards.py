"""Guards of apps: the tokens that a command needs to decide on a person's behalf, stored as hashes.

The guard is in the store, not in a process, so it holds while no server runs. A server that starts with other tokens replaces the
guard; a server that starts with none removes it. While another process of the app is alive, only a server that knows a token of the
guard may do so, because a program that the app started can start a server too.

An app that starts programs and has no token is locked: no token opens that guard. Decisions that only people may make then wait until a
server of the app starts with a token.
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
    """The stored hash of one token. The token cannot be recovered from it."""

    salt: str
    hash: str

    @classmethod
    def of(cls, token: str, salt: str | None = None) -> TokenHash:
        """With a new salt, or with the one that other tokens have: then one look tells whose token it is."""
        chosen = secrets.token_hex(SALT_LENGTH) if salt is None else salt
        return cls(chosen, _hashed(token, chosen))

    def is_of(self, token: str) -> bool:
        if self == LOCK:
            return False
        # scrypt pads a short key with NULs: a token that ends with NULs would have the hash of the token without them
        return "\0" not in token and hmac.compare_digest(_hashed(token, self.salt), self.hash)


LOCK = TokenHash("", "locked")
"""The guard of an app that starts programs, as long as no server of it started with a token. No token has this hash."""


def hashes_of(tokens: Iterable[str | None]) -> tuple[TokenHash, ...]:
    return tuple(TokenHash.of(token) for token in tokens if token)


def known(guards: Iterable[tuple[str, TokenHash]], app: str, tokens: Iterable[str | None]) -> str | None:
    """The hash in the app's guard that matches one of these tokens; None if none matches."""
    given = [token for token in tokens if token]
    return next((one.hash for name, one in guards if name == app and any(fits(one, token) for token in given)), None)


def people_with(personal: Iterable[tuple[str, str, TokenHash]], tokens: Iterable[str | None]) -> dict[str, str]:
    """By app, the person who has one of these tokens. Tokens are hashed once for each salt, and an app mostly has one."""
    given = [token for token in tokens if token and "\0" not in token]
    return {
        app: name
        for app, name, hashed in personal
        if any(hmac.compare_digest(_hashed_once(token, hashed.salt), hashed.hash) for token in given)
    }


@lru_cache(maxsize=64)
def _hashed_once(token: str, salt: str) -> str:
    return _hashed(token, salt)


@lru_cache(maxsize=64)
def fits(hashed: TokenHash, token: str) -> bool:
    """As `is_of`, cached: a process has few tokens and checks them against few hashes."""
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
