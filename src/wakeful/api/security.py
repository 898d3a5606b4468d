"""Who may talk to the API: requests for a known Host, with the token where one is set.

The Host check is what keeps a web page that somebody visits from reaching a server on that person's own machine by a
name that was made to point to 127.0.0.1 (DNS rebinding): such a request carries the page's name as its Host.
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Container
from dataclasses import dataclass, field

from starlette.types import ASGIApp, Receive, Scope, Send

from wakeful.api.body import BODY_LIMIT
from wakeful.api.problem import Problem
from wakeful.errors import ConfigError
from wakeful.triggers.webhook import TAKEN

HEALTH_PATHS = frozenset({"/healthz", "/readyz"})
KNOWN_HOSTS_LIMIT = 1_024


@dataclass(frozen=True, slots=True)
class ApiSettings:
    """How the API is bound and guarded."""

    host: str = "127.0.0.1"
    allowed_hosts: tuple[str, ...] = ()
    """Further names this server is reached by, such as the one of a reverse proxy; "*" allows every name."""
    token: str | None = field(default=None, repr=False)
    body_limit: int = BODY_LIMIT
    open_paths: Container[str] = frozenset()
    """Paths that need no token because they check their callers themselves, such as signed webhooks."""


def is_loopback(host: str) -> bool:
    """Whether a name or an address is this machine itself."""
    address = _address(host)
    return host == "localhost" if address is None else address.is_loopback


def path_of(scope: Scope) -> str:
    """The path inside this app, wherever another program has mounted it."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    return path.removeprefix(root)


def refuse_open_binding(settings: ApiSettings) -> None:
    """Refuse to be reachable from elsewhere without a token."""
    if not settings.token and not is_loopback(_name(settings.host)):
        raise ConfigError(
            f"--host {settings.host} can be reached from other machines, and there is no token: "
            "set WAKEFUL_TOKEN, or bind to 127.0.0.1"
        )


class Guard:
    """Lets through what is allowed and answers the rest itself. Plain ASGI: it costs a microsecond, not a task."""

    def __init__(self, app: ASGIApp, settings: ApiSettings) -> None:
        self._app = app
        self._token = settings.token.encode() if settings.token else None
        self._open_paths = settings.open_paths
        bound = _name(settings.host)
        address = _address(bound)
        self._names = {_name(name) for name in (bound, *settings.allowed_hosts)}
        # Bound to every address, the server cannot know its own. An address as Host is safe then: the trick above
        # needs a name, and nobody can make somebody else's address resolve anew.
        self._any_address = bound == "" or (address is not None and address.is_unspecified)
        self._any_name = "*" in settings.allowed_hosts
        self._known: set[bytes] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        hosts: list[bytes] = []
        authorization: bytes | None = None
        for name, value in scope["headers"]:
            if name == b"host":
                hosts.append(value)
            elif name == b"authorization":
                authorization = value
        problem = self._problem_of_host(hosts)
        if problem is None and self._token is not None and not self._is_open(scope):
            problem = self._problem_of_token(authorization)
            if problem is not None and _is_astray(scope):
                problem = _nothing_here()
        if problem is None:
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008, "reason": problem.title})
        else:
            await problem.response()(scope, receive, send)

    def _problem_of_host(self, hosts: list[bytes]) -> Problem | None:
        if len(hosts) == 1 and (hosts[0] in self._known or self._allows(hosts[0])):
            return None
        detail = (
            "the Host header names another server: use the address this one is bound to, or allow the name "
            "(allowed_hosts, --allow-host)"
            if len(hosts) == 1
            else "a request carries exactly one Host header"
        )
        return Problem(421, detail, kind="unknown-host", title="This server does not answer to that name", field="Host")

    def _allows(self, host: bytes) -> bool:
        name = _name(host.decode("latin-1"))
        address = _address(name)
        allowed = (
            self._any_name
            or name in self._names
            or is_loopback(name)
            or (address is not None and (self._any_address or str(address) in self._names))
        )
        if allowed and len(self._known) < KNOWN_HOSTS_LIMIT:
            self._known.add(host)
        return allowed

    def _is_open(self, scope: Scope) -> bool:
        path = path_of(scope)
        return path in HEALTH_PATHS or path in self._open_paths

    def _problem_of_token(self, authorization: bytes | None) -> Problem | None:
        scheme, _, given = (authorization or b"").partition(b" ")
        # Compared in constant time, so that the time it takes tells nothing about how much of a guess was right.
        if self._token is not None and scheme.lower() == b"bearer" and hmac.compare_digest(given.strip(), self._token):
            return None
        return Problem(
            401,
            "send the token as: Authorization: Bearer TOKEN",
            kind="unauthorized",
            title="A token is needed" if authorization is None else "This token is not the right one",
            field="Authorization",
            headers={"WWW-Authenticate": "Bearer"},
        )


def _is_astray(scope: Scope) -> bool:
    """Does it look like a sender that calls a webhook which there is not? It is told so, instead of being asked for a token that
    it must not have. Nothing else is answered without one.
    """
    first = path_of(scope).partition("/")[2].partition("/")[0]
    return scope.get("method") == "POST" and first not in {"", *TAKEN}


def _nothing_here() -> Problem:
    return Problem(404, "no webhook has this path: it must be the same to the letter")


def _name(host: str) -> str:
    """The name or address in a Host header or a setting: without port, brackets and final dot, in lower case."""
    host = host.strip().lower()
    if host.startswith("["):
        name, _, rest = host[1:].partition("]")
        return name if not rest or _is_port(rest) else host
    if host.count(":") == 1:
        name, _, _ = host.partition(":")
        host = name if _is_port(host[len(name) :]) else host
    return host.removesuffix(".")


def _is_port(text: str) -> bool:
    return text.startswith(":") and text[1:].isascii() and text[1:].isdigit()


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
