"""Secrets: named in the code, kept in the environment, and read only when they are used.

http(url, secret=env("HOOK_SECRET"))      declared: nothing is read, nothing can be shown
channel.open()                            read once, so that a missing one is reported at start
channel.deliver(...)                      read again, and used

Every value that was read is redacted from then on in what people see (`redaction.py`).
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from wakeful.errors import ConfigError
from wakeful.redaction import KNOWN

# Every name that was given to env(…) in this process. Only names, and for all apps: a variable that one app reads as a
# secret must not be a plain setting of another.
_NAMED: set[str] = set()
# Those of them that no child process gets, even if the app's code passes them on: tokens of people.
_WITHHELD: set[str] = set()
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*").fullmatch


@dataclass(frozen=True, slots=True, repr=False)
class Env:
    """A secret in an environment variable. It shows the variable's name, never its value."""

    name: str

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME(self.name):
            # The argument may be the secret itself: do not repeat it.
            message = (
                'env(…) takes the name of a variable (letters, digits, "_"), like env("GITHUB_SECRET"), not its value'
            )
            raise ConfigError(message)
        _NAMED.add(self.name)
        KNOWN.declare(self.name)

    def reveal(self, needed_by: str | None = None) -> str:
        """The variable's current value; `needed_by` names the caller in the error. An empty variable counts as not set."""
        value = os.environ.get(self.name)
        if not value:
            who = f"{needed_by}: " if needed_by else ""
            message = f"{who}the environment variable {self.name} is not set: set it where this process is started"
            raise ConfigError(message)
        KNOWN.learn_secret(self.name, value)  # the value may have changed
        return value

    def __repr__(self) -> str:
        return f'env("{self.name}")'


Secret = str | Env


def named_secrets() -> frozenset[str]:
    """The variables that this process reads as secrets."""
    return frozenset(_NAMED)


def withheld_secrets() -> frozenset[str]:
    """The variables that no child process gets."""
    return frozenset(_WITHHELD)


def withhold(name: str) -> Env:
    """A secret that no child process gets: with the token of a person a program could answer for them."""
    _WITHHELD.add(name)
    return Env(name)


def env(name: str) -> Env:
    """A secret that is read from this environment variable when it is needed."""
    return Env(name)


def reveal(secret: Secret, *, needed_by: str) -> str:
    """A secret's value, from the code or from the environment."""
    return secret.reveal(needed_by) if isinstance(secret, Env) else secret
