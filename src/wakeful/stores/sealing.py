"""How a store is encrypted, according to the rows of its cipher table.

    ab12cd34                 payloads are encrypted with this key
    ab12cd34.bound           … and every process binds new payloads to their places
    strict:@sealed:…         plain text and unbound payloads are not accepted: they were put there outside of Wakeful

An older version takes each such row for a key that it does not have, so it does not start on a store that it could not read. The last
row is encrypted itself, so it cannot be made without a key. It can be deleted, though; WAKEFUL_ENCRYPTION_STRICT protects against that.
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
BINDS_SINCE = 18  # code that knows this migration can read bound payloads


@dataclass(frozen=True, slots=True)
class Sealing:
    """The content of the cipher table: the keys' ids, whether payloads are bound, and the marks of a strict store."""

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
        """Whether nothing has ever been encrypted here."""
        return not self.keys and not self.strict

    def is_strict(self, ring: KeyRing | None) -> bool:
        """Whether the store is strict. Raises PayloadTampered for a mark that was not made with a key."""
        if not self.strict:
            return False
        if ring is None:
            raise missing_key(sorted(self.keys), frozenset())
        for mark in self.strict:
            try:
                ring.open(mark.removeprefix(STRICT), lambda _: PLACE_OF_STRICT)
            except EncryptionKeyMissing as error:
                message = (
                    "the mark of a strict store was tampered with: it does not open with the keys of this process. "
                    "Nothing was read. Restore the table wakeful_cipher from a backup"
                )
                raise PayloadTampered(message) from error
        return True

    def apply(self, codec: Codec, *, demanded: bool = False) -> None:
        """Configure a codec by this table and by the setting (`demanded`). Raises EncryptionKeyMissing if a key is not here, ConfigError
        if a strict store is demanded and there is no key at all. A codec that was strict stays strict: deleting a mark changes nothing
        for a running process.
        """
        refuse_missing_keys(self.keys, codec.ring)
        if demanded and codec.ring is None:
            raise refuse_without_keys()
        codec.binds = codec.binds or self.bound
        codec.strict = self.is_strict(codec.ring) or codec.strict or demanded


def strict_mark(ring: KeyRing) -> str:
    """A new mark of a strict store, under the first key."""
    return STRICT + ring.seal("strict", PLACE_OF_STRICT, LETTER)


def refuse_without_mark() -> ConfigError:
    """The error when a strict store is demanded and the store has no mark."""
    return ConfigError(
        "WAKEFUL_ENCRYPTION_STRICT demands a strict store, but this one is not marked as strict: plain text in it would be accepted. "
        "If it never was strict, run `wakeful keys rotate --strict`. If it was, someone with write access to the database removed "
        "the mark: check what else was changed"
    )


def refuse_without_keys() -> ConfigError:
    """The error when a strict store is demanded and the process has no keys."""
    return ConfigError(
        "WAKEFUL_ENCRYPTION_STRICT demands a strict store, but this process has no key: set WAKEFUL_ENCRYPTION_KEYS, or "
        "App(encryption=[…])"
    )
