"""The secrets of one verifier: one, or several during rotation. Each is tried, and none is ever shown.

github(secret=env("GITHUB_SECRET"))
github(secret=[env("NEW_SECRET"), env("OLD_SECRET")])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from wakeful.errors import ConfigError
from wakeful.redaction import KNOWN
from wakeful.secrets import Env, Secret, reveal

GivenSecret = Secret | Sequence[Secret]


@dataclass(frozen=True, slots=True, repr=False)
class Secrets:
    """The secrets that a verifier accepts."""

    each: tuple[Secret, ...]

    @classmethod
    def of(cls, given: GivenSecret, *, where: str, name: str = "secret") -> Secrets:
        """The declared secrets. Raises ConfigError, without repeating any of them, for a value that cannot be a secret."""
        each: tuple[object, ...] = tuple(given) if isinstance(given, list | tuple) else (given,)
        if not each:
            message = (
                f'{where}: {name} is empty, so any caller would be accepted: give text, env("NAME"), or a list of these'
            )
            raise ConfigError(message)
        for one in each:
            if not isinstance(one, str | Env):
                message = f'{where}: {name} must be text, env("NAME"), or a list of these, not {type(one).__name__}'
                raise ConfigError(message)
            if isinstance(one, str):
                _refuse_unfit(one, where=where, name=name)
                KNOWN.learn("secret", one)
        return cls(cast("tuple[Secret, ...]", each))

    def open(self, where: str, name: str = "secret") -> list[str]:
        """Each secret, resolved at start. Raises ConfigError if one is missing."""
        found = [reveal(one, needed_by=where) for one in self.each]
        for text in found:
            _refuse_unfit(text, where=where, name=name)
        return found

    def reveal(self) -> list[str]:
        """Each secret, now. Raises ConfigError if one has disappeared since the start: not the sender's fault."""
        return [one if isinstance(one, str) else one.reveal("verify") for one in self.each]

    def as_keys(self) -> list[bytes]:
        """Each secret as bytes, to sign with."""
        return [key_of(secret) for secret in self.reveal()]

    def __repr__(self) -> str:
        shown = [repr(one) if isinstance(one, Env) else '"…"' for one in self.each]
        return shown[0] if len(shown) == 1 else f"[{', '.join(shown)}]"


def key_of(secret: str) -> bytes:
    """The bytes of a secret. An environment variable may hold bytes that are not text."""
    return secret.encode("utf-8", "surrogateescape")


def _refuse_unfit(secret: str, *, where: str, name: str) -> None:
    if not secret:
        message = f"{where}: {name} is empty, so any caller would be accepted: copy it from the sender's settings"
        raise ConfigError(message)
    if secret != secret.strip():
        message = f"{where}: {name} begins or ends with a blank or a line break: copy it again without it"
        raise ConfigError(message)
    try:
        key_of(secret)
    except UnicodeEncodeError:
        message = f"{where}: {name} contains half of a character: copy it again completely"
        raise ConfigError(message) from None
