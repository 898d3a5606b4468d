"""The environment of a child process: a command's program, or the command of a heartbeat's probe. It is an allow-list.

    PATH HOME LANG TZ        passed on from the worker, if they are set there
    environment=             set by the app's code: {"MODE": "live", "KEY": env("REPORT_KEY")}, or names to pass on: ["AWS_PROFILE"]
    WAKEFUL_RUN_ID …         facts about the run; the worker's own WAKEFUL_* variables are not passed on

A child with the worker's token, its keys or the address of its store could answer the approvals that its own app asks of people.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from wakeful.errors import ConfigError
from wakeful.secrets import Env, named_secrets, reveal, withheld_secrets

PASSED_ON = ("PATH", "HOME", "LANG", "TZ")
OURS = "WAKEFUL_"


@dataclass(frozen=True, slots=True)
class ChildEnvironment:
    """The variables of `environment=`, in addition to those that every child gets."""

    given: Mapping[str, str | Env] = field(default_factory=dict)
    named: tuple[str, ...] = ()  # passed on from the worker's environment, if set

    def problem(self) -> str | None:
        """Why it is not allowed, known once the whole app is declared: a name that an env(…) reads is a secret."""
        withheld = withheld_secrets()
        given = [value.name for value in self.given.values() if isinstance(value, Env)]
        personal = next((name for name in (*self.named, *given, *self.given) if name in withheld), None)
        if personal is not None:
            return f"environment: {personal} is the token of a person; no child gets one, because it could answer for that person"
        secret = next((name for name in self.named if name in named_secrets()), None)
        if secret is None:
            return None
        return (
            f"environment names {secret}, which the app reads as a secret with env({secret!r}): leave it out, or, if the "
            f'program should have it, write environment={{"{secret}": env("{secret}")}}'
        )

    def missing(self) -> list[str]:
        """Messages about variables that a child would not find if it were started here."""
        needed = [(name, value.name) for name, value in self.given.items() if isinstance(value, Env)]
        return [
            *(
                f"environment {name}: the environment variable {read} is not set here; starting the child fails without it"
                for name, read in needed
                if not os.environ.get(read)
            ),
            *(
                f"environment {name}: not set here; the program does not get it"
                for name in self.named
                if name not in os.environ
            ),
        ]

    def made(self, facts: Mapping[str, str], *, where: str) -> dict[str, str]:
        """The whole environment of one child. Raises ConfigError for a secret that is missing or must not be passed on."""
        problem = self.problem()
        if problem is not None:
            raise ConfigError(f"{where}: {problem}")
        names = {*(set(PASSED_ON) - named_secrets()), *self.named}
        made = {name: os.environ[name] for name in names if name in os.environ}
        made |= {name: reveal(value, needed_by=f"{where}: environment {name}") for name, value in self.given.items()}
        return made | dict(facts)


def read_environment(given: Any, where: str, *, withheld: Collection[str] = ()) -> ChildEnvironment:
    """Read and check `environment=`. `withheld`: variables with keys of the store, which no child gets."""
    if given is None:
        return ChildEnvironment()
    if isinstance(given, list | tuple | set | frozenset):
        names = tuple(given)
        if not all(_is_name(name) for name in names):
            raise _refusal(where)
        for name in names:
            _refuse_ours(name, name, where, withheld)
        return ChildEnvironment(named=names)
    if not isinstance(given, Mapping):
        raise _refusal(where)
    for name, value in given.items():
        if not _is_name(name) or not isinstance(value, str | Env):
            raise _refusal(where)
        _refuse_ours(name, value.name if isinstance(value, Env) else name, where, withheld)
    return ChildEnvironment(dict(given))


def _is_name(name: object) -> bool:
    return isinstance(name, str) and bool(name) and "=" not in name and "\0" not in name


def _refuse_ours(name: str, read: str, where: str, withheld: Collection[str]) -> None:
    for one in (name, read):
        if one.startswith(OURS):
            message = (
                f"{where}: environment: {one} stays with the worker. Of {OURS}* a child gets only facts about its run; a program "
                "that works with another app must get that app's store or token from a file, or under a different name"
            )
            raise ConfigError(message)
    if read in withheld:
        message = f"{where}: environment: {read} contains an encryption key of the store; no child gets one"
        raise ConfigError(message)


def _refusal(where: str) -> ConfigError:
    # Values may be secrets, so the message does not repeat them.
    return ConfigError(
        f'{where}: environment must be names and texts, like {{"MODE": "live", "KEY": env("REPORT_KEY")}}, or a list of names '
        'to pass on, like ["AWS_PROFILE"]'
    )
