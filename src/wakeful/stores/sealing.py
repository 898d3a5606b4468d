"""How a store is encrypted: what the table of ciphers says beside the keys.

    ab12cd34                 payloads are encrypted with this key
    ab12cd34.bound           … and bound to their places: what every process writes from then on
    strict:@sealed:…         nothing else is to be found: plain text, and what is not bound, was put there by somebody

Each line is a row that an older version takes for a key that it does not have: it does not start where it could not read. The last
one is encrypted itself, so that it cannot be made without a key. It can be removed, though: WAKEFUL_ENCRYPTION_STRICT is for that.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from wakeful.errors import ConfigError, EncryptionKeyMissing, PayloadTampered
from wakeful.stores.keyring import KeyRing, missing_key
from wakeful.stores.payloads import Codec, refuse_missing_keys

BOUND = ".bound"
STRICT = "strict:"
PLACE_OF_STRICT = "cipher.strict"
LETTER = "m"
BINDS_SINCE = 18  # the migration that code knows which reads bound payloads


@dataclass(frozen=True, slots=True)
class Sealing:
    """What the table says: the ids of the keys, whether payloads are bound, and the marks of a strict store."""

    ids: frozenset[str]  # every row
    keys: frozenset[str]
    bound: bool
    strict: tuple[str, ...]

    @classmethod
    def of(cls, ids: Iterable[str]) -> Sealing:
        every = list(ids)
        strict = tuple(one for one in every if one.startswith(STRICT))
        others = [one for one in every if not one.startswith(STRICT)]
        keys = frozenset(one.removesuffix(BOUND) for one in others)
        return cls(
            frozenset(every), keys, bound=bool(strict) or any(one.endswith(BOUND) for one in others), strict=strict
        )

    @property
    def is_new(self) -> bool:
        """Has nothing ever been encrypted here?"""
        return not self.keys and not self.strict

    def is_strict(self, ring: KeyRing | None) -> bool:
        """Is the store strict? PayloadTampered for a mark that nobody with a key has made."""
        if not self.strict:
            return False
        if ring is None:
            raise missing_key(sorted(self.keys), frozenset())
        for mark in self.strict:
            try:
                ring.open(mark.removeprefix(STRICT), lambda _: PLACE_OF_STRICT)
            except EncryptionKeyMissing as error:
                message = (
                    "the mark that says that this store is strict was tampered with: it does not open with the keys that are here. "
                    "Nothing was read. Restore the table wakeful_cipher from a backup"
                )
                raise PayloadTampered(message) from error
        return True

    def apply(self, codec: Codec, *, demanded: bool = False) -> None:
        """What holds for a codec, by this and by the setting (`demanded`). EncryptionKeyMissing when a key is not here; ConfigError
        when none is, and a strict store is demanded. What held before goes on: a mark that is removed changes nothing for a
        process that lives.
        """
        refuse_missing_keys(self.keys, codec.ring)
        if demanded and codec.ring is None:
            raise refuse_without_keys()
        codec.binds = codec.binds or self.bound
        codec.strict = self.is_strict(codec.ring) or codec.strict or demanded


def strict_mark(ring: KeyRing) -> str:
    """A new mark, under the first key."""
    return STRICT + ring.seal("strict", PLACE_OF_STRICT, LETTER)


def refuse_without_mark() -> ConfigError:
    """What to say where a strict store is demanded and the store is none."""
    return ConfigError(
        "WAKEFUL_ENCRYPTION_STRICT demands a strict store, and this one has no mark of that: plain text in it would be believed. "
        "If it never had one, run `wakeful keys rotate --strict`. If it had one, the mark was removed, by someone who can write "
        "to the database: look at what else was changed"
    )


def refuse_without_keys() -> ConfigError:
    """What to say where a strict store is demanded of a process without keys."""
    return ConfigError(
        "WAKEFUL_ENCRYPTION_STRICT demands a strict store, and this process has no key: set WAKEFUL_ENCRYPTION_KEYS, or "
        "App(encryption=[…])"
    )
