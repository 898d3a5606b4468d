"""Encryption keys for payloads. The first key encrypts, all keys decrypt, so a new key is added in front.

    @sealed:<key's id>.<letter>:<base64 of salt, nonce, ciphertext and tag>     bound to its place
    @sealed:<key's id>:<the same>                                               as older versions wrote it

A bound payload has its place as associated data: table, column, and the row name that the letter stands for (binding.py). It opens in
no other place. Code that knows only the older form reads "id.letter" as a key that it does not have, and reports it missing.

AES-256-GCM. A key is never used directly: every process, and again every few million payloads, derives a key from it with a random
salt, so that a nonce never repeats under the same key.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from wakeful.errors import ConfigError, EncryptionKeyMissing, PayloadTampered
from wakeful.secrets import Secret, reveal

SEALED = "@sealed:"
KEY_LENGTH = 32
SALT_LENGTH = 16
NONCE_LENGTH = 12
DIGEST_LENGTH = 40  # longer than a digest without a key
UNDER_ONE_SALT = 1 << 24
HOW_TO_MAKE_ONE = "`wakeful keys new` prints a new one"


def new_key() -> str:
    """A new key in the form that the environment variable takes."""
    return urlsafe_b64encode(os.urandom(KEY_LENGTH)).decode()


def read_keys(given: Sequence[Secret] | None, setting: str | None) -> KeyRing | None:
    """The keys given to the app, else those of the setting, separated by commas or spaces; None if there are none."""
    if given is None:
        texts, source = (setting or "").replace(",", " ").split(), "WAKEFUL_ENCRYPTION_KEYS"
    else:
        texts, source = [reveal(secret, needed_by="encryption=") for secret in given], "App(encryption=[…])"
    return KeyRing(texts, source=source) if texts else None


class Key:
    """One key. Its repr shows the id only."""

    def __init__(self, text: str, *, named: str = "this") -> None:
        try:
            raw = urlsafe_b64decode(text.strip())
        except ValueError:
            raw = b""
        if len(raw) != KEY_LENGTH:  # the given text may be the secret itself, so the message does not repeat it
            message = f"{named} is not valid: an encryption key is {KEY_LENGTH} bytes in base64. {HOW_TO_MAKE_ONE}"
            raise ConfigError(message)
        self.id = hashlib.blake2b(raw, digest_size=4, person=b"wakeful key").hexdigest()
        self._raw = raw

    def cipher(self, salt: bytes) -> Any:
        return cipher_of(hmac.digest(self._raw, b"payload" + salt, "sha256"))

    def digest(self, text: str) -> str:
        own = hmac.digest(self._raw, b"digest", "sha256")
        return hmac.digest(own, text.encode(), "sha256").hex()[:DIGEST_LENGTH]

    def __repr__(self) -> str:
        return f"Key({self.id})"


@lru_cache(maxsize=1024)
def cipher_of(key: bytes) -> Any:
    """AES-GCM under a key that was derived with a salt."""
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError as error:
        message = "encryption needs the package cryptography: pip install 'wakeful[encryption]'"
        raise ConfigError(message) from error
    return AESGCM(key)


class KeyRing:
    """The keys of a process."""

    def __init__(self, texts: Sequence[str], *, source: str = "the keys") -> None:
        keys = [Key(text, named=f"{source}: key {place} of {len(texts)}") for place, text in enumerate(texts, 1)]
        self.first = keys[0]
        self._keys = {key.id: key for key in keys}
        self._mark = f"{SEALED}{self.first.id}:"
        self._bound = f"{SEALED}{self.first.id}."
        self._take_salt()

    @property
    def ids(self) -> frozenset[str]:
        return frozenset(self._keys)

    def seal(self, text: str, place: str | None = None, letter: str = "") -> str:
        """Encrypt a text. With a place, it can be opened only there."""
        self._left -= 1
        if self._left < 0:
            self._take_salt()
        nonce = os.urandom(NONCE_LENGTH)
        mark = self._mark if place is None else f"{self._bound}{letter}:"
        closed = self._cipher.encrypt(nonce, text.encode(), (mark + place if place else mark).encode())
        return mark + urlsafe_b64encode(self._salt + nonce + closed).decode()

    def open(self, sealed: str, place_by: Callable[[str], str | None] = lambda _: None) -> str:
        """Decrypt a text. `place_by` returns the place for the letter of a bound payload, or None if the table has no such letter.
        Raises EncryptionKeyMissing if the key is not here, PayloadTampered if the payload was changed, cut or moved.
        """
        identifier, _, content = sealed.removeprefix(SEALED).partition(":")
        name, bound, letter = identifier.partition(".")
        key = self._keys.get(name)
        if key is None and len(name) != len(self.first.id):
            message = "a stored payload names no key: it was changed or cut outside of Wakeful"
            raise PayloadTampered(message)
        if key is None:
            raise missing_key([name], self.ids)
        mark = f"{SEALED}{identifier}:"
        place = place_by(letter) if bound else ""
        try:
            if place is None:
                message = f"no row name has the letter {letter!r}"
                raise ValueError(message)
            raw = urlsafe_b64decode(content)
            salt, nonce, closed = (
                raw[:SALT_LENGTH],
                raw[SALT_LENGTH : SALT_LENGTH + NONCE_LENGTH],
                raw[SALT_LENGTH + NONCE_LENGTH :],
            )
            opened: bytes = key.cipher(salt).decrypt(nonce, closed, (mark + place).encode())
        except Exception as error:
            message = (
                f"a stored payload cannot be decrypted with key {name}: it was changed, cut, or moved from another place, "
                "outside of Wakeful"
            )
            raise PayloadTampered(message) from error
        return opened.decode()

    def is_current(self, sealed: str, *, bound: bool = False) -> bool:
        return sealed.startswith(self._bound if bound else (self._mark, self._bound))

    def digest(self, text: str) -> str:
        """A keyed digest: without the key, a guess cannot be compared with it."""
        return self.first.digest(text)

    def _take_salt(self) -> None:
        self._salt = os.urandom(SALT_LENGTH)
        self._cipher = self.first.cipher(self._salt)
        self._left = UNDER_ONE_SALT


def missing_key(missing: Sequence[str], given: frozenset[str]) -> EncryptionKeyMissing:
    """The error for keys, by id, that the store needs and this process does not have."""
    names = ", ".join(sorted(missing))
    have = f"given: {', '.join(sorted(given))}" if given else "none is given"
    return EncryptionKeyMissing(
        f"payloads in this store are encrypted with key {names}, which this process does not have ({have}): add it to "
        "WAKEFUL_ENCRYPTION_KEYS, or to App(encryption=[…]) where the app runs. `wakeful keys rotate` replaces old keys"
    )
