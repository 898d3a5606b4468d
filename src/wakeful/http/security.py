"""Who may talk to the API: requests for a known Host that no foreign page sent, with the token where one is set.

Host ──► Origin, Sec-Fetch-Site ──► the token, or else a program of this machine
                                └─► webhooks and health, without

The Host check is what keeps a web page that somebody visits from reaching a server on that person's own machine by a
name that was made to point to 127.0.0.1 (DNS rebinding): such a request carries the page's name as its Host. It proves
nothing about the sender: whoever is no browser writes there what it likes.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from typing import Protocol, Self

from starlette.types import ASGIApp, Receive, Scope, Send

from wakeful import settings as environment
from wakeful.errors import ConfigError
from wakeful.http import foreign
from wakeful.http.body import BODY_LIMIT
from wakeful.http.callers import Tokens, address_of, is_of_a_proxy, problem_of_stranger
from wakeful.http.problem import Problem
from wakeful.stores.reads import ReadsDatabase
from wakeful.tokens import refuse_weak
from wakeful.triggers.webhook import TAKEN

HEALTH_PATHS = frozenset({"/healthz", "/readyz"})
KNOWN_HOSTS_LIMIT = 1_024
KNOWN_NAMES_LIMIT = 1_024
READ = foreign.READ | {b"host", b"authorization"}
# In the scope of a request: whether its sender may see everything, and the tokens, for whom it may concern.
IS_KNOWN = "wakeful.is_known"
TRIES = "wakeful.tries"


class Paths(Protocol):
    """Paths of which there may be none."""

    def __contains__(self, path: object, /) -> bool: ...
    def __len__(self) -> int: ...


@dataclass(frozen=True, slots=True)
class ApiSettings:
    """How the API is bound and guarded. Raises `ConfigError` for a token that can be guessed."""

    host: str = "127.0.0.1"
    allowed_hosts: tuple[str, ...] = ()
    """Further names this server is reached by, such as the one of a reverse proxy; "*" allows every name."""
    token: str | None = field(default=None, repr=False)
    next_token: str | None = field(default=None, repr=False)
    """Valid beside the token, while one takes the place of the other."""
    body_limit: int = BODY_LIMIT
    open_paths: Paths = frozenset()
    """Paths that need no token because they check their callers themselves, such as signed webhooks."""
    guarded: ReadsDatabase | None = None
    """Decisions about an app that is guarded need a token of that app. None: no app is."""

    def __post_init__(self) -> None:
        if self.token:
            refuse_weak(self.token, "the token (WAKEFUL_TOKEN, or `token=`)")
        if self.next_token:
            refuse_weak(self.next_token, "the next token (WAKEFUL_TOKEN_NEXT, or `next_token=`)")
        if self.next_token and not self.token:
            message = (
                "there is a next token (WAKEFUL_TOKEN_NEXT) and no token: set WAKEFUL_TOKEN to the present one, "
                "or to the next one once all clients have it"
            )
            raise ConfigError(message)

    @classmethod
    def of_environment(cls, host: str) -> Self:
        """Bound to `host`, with WAKEFUL_TOKEN and WAKEFUL_TOKEN_NEXT."""
        return cls(host=host, token=environment.token(), next_token=environment.next_token())


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
            "set WAKEFUL_TOKEN (`wakeful token` prints one), or bind to 127.0.0.1"
        )


class Guard:
    """Lets through what is allowed and answers the rest itself. Plain ASGI: it costs a microsecond, not a task."""

    def __init__(self, app: ASGIApp, settings: ApiSettings) -> None:
        self._app = app
        self._tokens = Tokens(settings.token, settings.next_token)
        self._open_paths = settings.open_paths
        bound = _name(settings.host)
        address = _address(bound)
        self._names = {_name(name) for name in (bound, *settings.allowed_hosts)}
        self._origins = frozenset(name.strip().lower().encode() for name in settings.allowed_hosts)
        # Bound to every address, the server cannot know its own. An address as Host is safe then: the trick above
        # needs a name, and nobody can make somebody else's address resolve anew.
        self._any_address = bound == "" or (address is not None and address.is_unspecified)
        self._any_name = "*" in settings.allowed_hosts
        self._known: dict[
            bytes | None, bool
        ] = {}  # Host headers that are allowed, and whether they name this machine itself
        self._plain: set[bytes] = set()  # names of headers that no proxy adds, of those that came

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        problem = self._problem(scope)
        if problem is None:
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008, "reason": problem.title})
        else:
            await problem.response()(scope, receive, send)

    def _problem(self, scope: Scope) -> Problem | None:
        """Why a request is not let in, if it is not. Every question of the drawing above, in its order."""
        headers: dict[bytes, bytes] = {}
        passed_on: bytes | None = None
        for name, value in scope["headers"]:
            if name in READ:
                # What came twice is joined: that is no Host, token or type any more.
                headers[name] = value if name not in headers else headers[name] + b", " + value
            elif name not in self._plain and self._is_of_a_proxy(name):
                passed_on = name
        host = headers.get(b"host")
        problem = None if host in self._known else self._problem_of_host(host)
        if problem is None and (b"origin" in headers or b"sec-fetch-site" in headers):
            problem = foreign.problem_of_page(headers, self._origins)
        path = path_of(scope)
        if problem is not None or path in self._open_paths:
            return problem
        authorization = headers.get(b"authorization")
        if self._tokens.exist:
            is_known = self._tokens.has(authorization)
        else:
            local_name = self._known.get(headers[b"host"]) or is_loopback(_name(headers[b"host"].decode("latin-1")))
            problem = problem_of_stranger(scope, passed_on, local_name=local_name, webhooks=self._open_paths)
            is_known = problem is None
        if path in HEALTH_PATHS:
            self._note_health(scope, authorization, is_known=is_known)
            return None
        if is_known:
            return None
        problem = problem or self._tokens.refusal(authorization, scope)
        return _nothing_here() if problem.status != 429 and _is_astray(scope, path) else problem

    def _is_of_a_proxy(self, name: bytes) -> bool:
        if is_of_a_proxy(name):
            return True
        if len(self._plain) < KNOWN_NAMES_LIMIT:
            self._plain.add(name)
        return False

    def _note_health(self, scope: Scope, authorization: bytes | None, *, is_known: bool) -> None:
        """Health is told to everybody; who is known hears more. A probe whose token is out of date must not find a server that
        is well unwell: its tries are counted and logged, but not answered with 401 or 429.
        """
        scope[IS_KNOWN] = is_known
        scope[TRIES] = self._tokens.tries
        if self._tokens.exist and not is_known and authorization is not None:
            self._tokens.tries.add(address_of(scope))

    def _problem_of_host(self, host: bytes | None) -> Problem | None:
        is_one = host is not None and b"," not in host
        if host is not None and is_one and (host in self._known or self._allows(host)):
            return None
        detail = (
            "the Host header names another server: use the address this one is bound to, or allow the name "
            "(allowed_hosts, --allow-host)"
            if is_one
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
            self._known[host] = is_loopback(name)
        return allowed


def _is_astray(scope: Scope, path: str) -> bool:
    """Does it look like a sender that calls a webhook which there is not? It is told so, instead of being asked for a token that
    it must not have. Nothing else is answered without one.
    """
    first = path.partition("/")[2].partition("/")[0]
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
