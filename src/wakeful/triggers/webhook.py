"""`webhook("/hooks/github", verify=github(…), type="github.pull_request.opened")`: wakes an agent when a sender calls.

Several agents may name the same path. It is one endpoint (endpoint.py); each agent says which of its events it wants.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

from wakeful.cel import Condition, Match, compile_condition
from wakeful.errors import ConfigError, did_you_mean
from wakeful.intake.cloudevents import TEXT_LIMIT
from wakeful.intake.route import WILDCARD, type_matcher
from wakeful.model import Event
from wakeful.rate import Rate
from wakeful.size import read_size
from wakeful.triggers.identity import Identity, read_identity
from wakeful.triggers.mapping import Mapping, read_mapping
from wakeful.triggers.verifier import VERIFIERS, Verifier

BODY_LIMIT = 1024 * 1024
OPTIONS = ("verify", "type", "id", "where", "data", "source", "body_limit", "rate")
# Paths that the server itself uses.
TAKEN = ("v1", "healthz", "readyz", "metrics", "approve")
_PATH = re.compile(r"(/[A-Za-z0-9._~!$&'()*+,;=:@-]+)+").fullmatch


@dataclass(frozen=True, slots=True)
class Webhook:
    """A path that a sender calls, how the sender proves its identity, and which of its events are wanted."""

    path: str
    verify: Verifier
    type: str
    source: str
    where: str | None = None
    id: Identity | None = None
    data: Mapping | None = None
    body_limit: int = BODY_LIMIT
    rate: Rate | None = None
    _fits: Callable[[str], bool] = field(init=False, repr=False, compare=False)
    _condition: Condition | None = field(init=False, repr=False, compare=False)

    carries_data: ClassVar[bool] = True

    def __post_init__(self) -> None:
        condition = None if self.where is None else compile_condition(self.where, where=self.place)
        object.__setattr__(self, "_fits", type_matcher(self.type))
        object.__setattr__(self, "_condition", condition)
        # Report mistakes in these where they are written.
        read_identity(self.id, where=self.place)
        read_mapping(self.data, where=self.place)

    @property
    def place(self) -> str:
        """Its name in messages."""
        return f'webhook("{self.path}")'

    @property
    def endpoint(self) -> dict[str, object]:
        """The options that all webhooks of one path must share."""
        return {
            "verify": self.verify,
            "id": self.id,
            "data": self.data,
            "source": self.source,
            "body_limit": self.body_limit,
            "rate": self.rate,
        }

    def describe(self) -> str:
        parts = [f'"{self.path}"', f"verify={self.verify.describe()}"]
        if self.type != WILDCARD:
            parts.append(f'type="{self.type}"')
        if self.where is not None:
            parts.append(f'where="{self.where}"')
        return f"webhook({', '.join(parts)})"

    def matches(self, event: Event) -> Match:
        if not self._fits(event.type):
            return Match(matched=False, reason=f'type "{event.type}" is not "{self.type}"')
        if self._condition is None:
            return Match(matched=True, reason=self.describe())
        return self._condition.matches(event)


def webhook(
    path: str,
    *,
    verify: Verifier | None = None,
    type: str | None = None,  # noqa: A002 the word of CloudEvents
    id: Identity | None = None,  # noqa: A002 the word of CloudEvents
    where: str | None = None,
    data: Mapping | None = None,
    source: str | None = None,
    body_limit: int | str = BODY_LIMIT,
    rate: Rate | str | None = None,
    **unknown: Any,
) -> Webhook:
    """Wake when a sender calls this path, once its request is verified and stored.

    `verify` says how the sender proves its identity (`wakeful.verify`); `none()` accepts every caller. `type` selects the events,
    exact or with `*`; if the sender names no type, its events get this one. `id`: the sender's own, else a digest of the content;
    or "content", "header:X-Request-Id", a CEL expression like "data.id", or a function of the request. `where` is CEL over the
    event, `data` replaces the payload for the agent. `rate` ("100/s") and `body_limit` ("1MB") apply to each process.
    """
    where_written = f"webhook({path!r})" if not isinstance(path, str) else f'webhook("{path}")'
    for option in unknown:
        message = f'{where_written}: unknown option "{option}".{did_you_mean(option, OPTIONS)}'
        raise ConfigError(message)
    refuse_path(path)
    refuse_verifier(verify, where=where_written)
    try:
        limit = read_size(body_limit)
        allowed = Rate.read(rate) if isinstance(rate, str) else rate
    except ValueError as error:
        message = f"{where_written}: {error}"
        raise ConfigError(message) from None
    if allowed is not None and not isinstance(cast("object", allowed), Rate):
        message = f'{where_written}: rate must be a number per time, like "100/s", not {rate!r}'
        raise ConfigError(message)
    for name, text in (("type", type), ("source", source)):
        refuse_text(name, text, where=where_written)
    return Webhook(path, cast("Verifier", verify), type or WILDCARD, source or path, where, id, data, limit, allowed)


def refuse_path(path: Any) -> None:
    if not isinstance(path, str) or not path.startswith("/"):
        message = f'webhook({path!r}): the path must begin with a slash, like webhook("/hooks/github")'
        raise ConfigError(message)
    if path == "/":
        message = 'webhook("/"): the console is there; choose a path of its own, like "/hooks/github"'
        raise ConfigError(message)
    if not _PATH(path) or len(path) > TEXT_LIMIT or {".", ".."} & set(path.split("/")):
        message = (
            f"webhook({path!r}): a path is words between slashes, like /hooks/github: letters, digits, - . _ and no slash "
            "at the end"
        )
        raise ConfigError(message)
    first = path.split("/")[1]
    if first in TAKEN:
        message = f'webhook("{path}"): /{first} belongs to the server; use "/hooks{path}", for example'
        raise ConfigError(message)


def refuse_verifier(verify: Any, *, where: str) -> None:
    """Refuse a webhook without a verifier: forgetting `verify` must not mean that every caller is accepted."""
    if isinstance(verify, Verifier):
        return
    known = [f"{name}(…)" for name in VERIFIERS]
    if verify is None:
        message = (
            f"{where}: verify is missing: say how the sender proves its identity, with one of {', '.join(known)} of "
            "wakeful.verify; none() accepts every caller"
        )
    elif callable(verify):
        message = f"{where}: verify is a function: call it, like {getattr(verify, '__name__', 'github')}(…)"
    else:  # the value may be the secret itself, so the message does not repeat it
        message = f'{where}: verify must be one of {", ".join(known)}, like github(secret=env("GITHUB_SECRET"))'
    raise ConfigError(message)


def refuse_text(name: str, text: Any, *, where: str) -> None:
    if text is None:
        return
    if not isinstance(text, str) or not text.strip() or text != text.strip() or not text.isprintable():
        message = f"{where}: {name} must be text without spaces around it, not {text!r}"
        raise ConfigError(message)
    if len(text) > TEXT_LIMIT:
        message = f"{where}: {name} has {len(text):,} characters, over the limit of {TEXT_LIMIT:,}"
        raise ConfigError(message)
