"""Who may use the API: requests for a known Host that no foreign page sent, with the token if one is set.

Host ──► Origin, Sec-Fetch-Site ──► the token, or that of a person, or else a program on this machine
                                └─► webhooks, links to approvals and health, without a token

The Host check keeps a web page from reaching a server on its visitor's own machine by a name that resolves to 127.0.0.1 (DNS
rebinding): such a request has the page's name as its Host. It proves nothing about the sender: a program that is not a browser can
send any Host.
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
from wakeful.http.callers import (
    PERSON,
    PersonalTokens,
    Tokens,
    address_of,
    is_of_a_proxy,
    problem_of_stranger,
    token_in,
)
from wakeful.http.problem import Problem
from wakeful.resources.approval_links import PATH
from wakeful.stores.reads import ReadsDatabase
from wakeful.tokens import refuse_weak
from wakeful.triggers.webhook import TAKEN

HEALTH_PATHS = frozenset({"/healthz", "/readyz"})
KNOWN_HOSTS_LIMIT = 1_024
KNOWN_NAMES_LIMIT = 1_024
READ = foreign.READ | {b"host", b"authorization"}
# Keys in the scope of a request: whether the sender may see everything, and the wrong attempts.
IS_KNOWN = "wakeful.is_known"
TRIES = "wakeful.tries"


class Paths(Protocol):
    """A set of paths, possibly empty."""

    def __contains__(self, path: object, /) -> bool: ...
    def __len__(self) -> int: ...


@dataclass(frozen=True, slots=True)
class ApiSettings:
    """How the API is bound and protected. Raises `ConfigError` for a weak token."""

    host: str = "127.0.0.1"
    allowed_hosts: tuple[str, ...] = ()
    """Further names of this server, such as that of a reverse proxy; "*" allows every name."""
    token: str | None = field(default=None, repr=False)
    next_token: str | None = field(default=None, repr=False)
    """Valid in addition to the token, during rotation."""
    body_limit: int = BODY_LIMIT
    open_paths: Paths = frozenset()
    """Paths that need no token because they verify their callers themselves, such as signed webhooks."""
    guarded: ReadsDatabase | None = None
    """Decisions about a guarded app need a token of that app. None: no app is guarded."""
    people: PersonalTokens | None = None
    """The people whose tokens are valid too. None: the app has none."""
    app: str | None = None
    """The app whose people they are."""

    def __post_init__(self) -> None:
        if self.token:
            refuse_weak(self.token, "the token (WAKEFUL_TOKEN, or `token=`)")
        if self.next_token:
            refuse_weak(self.next_token, "the next token (WAKEFUL_TOKEN_NEXT, or `next_token=`)")
        if self.next_token and not self.token:
            message = (
                "there is a next token (WAKEFUL_TOKEN_NEXT) but no token: set WAKEFUL_TOKEN to the current one, "
                "or to the next one once all clients have it"
            )
            raise ConfigError(message)

    @classmethod
    def of_environment(cls, host: str) -> Self:
        """Bound to `host`, with WAKEFUL_TOKEN and WAKEFUL_TOKEN_NEXT."""
        return cls(host=host, token=environment.token(), next_token=environment.next_token())


def is_loopback(host: str) -> bool:
    """Whether a name or an address is this machine."""
    address = _address(host)
    return host == "localhost" if address is None else address.is_loopback


def path_of(scope: Scope) -> str:
    """The path inside this app, also if another program has mounted it."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    return path.removeprefix(root)


def refuse_open_binding(settings: ApiSettings) -> None:
    """Raise ConfigError if the server would be reachable from other machines without a token."""
    if not settings.token and not is_loopback(_name(settings.host)):
        raise ConfigError(
            f"--host {settings.host} can be reached from other machines, but there is no token: "
            "set WAKEFUL_TOKEN (`wakeful token` prints one), or bind to 127.0.0.1"
        )


class Guard:
    """Passes allowed requests on and answers the others itself. Plain ASGI: it costs a microsecond, not a task."""

    def __init__(self, app: ASGIApp, settings: ApiSettings) -> None:
        self._app = app
        self._tokens = Tokens(settings.token, settings.next_token)
        self._people = settings.people
        self._open_paths = settings.open_paths
        bound = _name(settings.host)
        address = _address(bound)
        self._names = {_name(name) for name in (bound, *settings.allowed_hosts)}
        self._origins = frozenset(name.strip().lower().encode() for name in settings.allowed_hosts)
        # Bound to every address, the server cannot know its own. An address as Host is safe then: DNS rebinding needs a name; an
        # address cannot be made to resolve elsewhere.
        self._any_address = bound == "" or (address is not None and address.is_unspecified)
        self._any_name = "*" in settings.allowed_hosts
        self._known: dict[bytes | None, bool] = {}  # allowed Host headers, and whether they name this machine
        self._plain: set[bytes] = set()  # names of headers seen that no proxy adds

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
        """Why a request is refused; None if it is allowed. The checks are in the order of the drawing above."""
        headers: dict[bytes, bytes] = {}
        passed_on: bytes | None = None
        for name, value in scope["headers"]:
            if name in READ:
                # A repeated header is joined, so it is no longer a valid Host, token or type.
                headers[name] = value if name not in headers else headers[name] + b", " + value
            elif name not in self._plain and self._is_of_a_proxy(name):
                passed_on = name
        host = headers.get(b"host")
        problem = None if host in self._known else self._problem_of_host(host)
        path = path_of(scope)
        is_link = path.startswith(PATH)
        if problem is None and (b"origin" in headers or b"sec-fetch-site" in headers):
            problem = self._problem_of_page(scope, headers, is_link=is_link)
        if problem is not None or is_link or path in self._open_paths:
            return problem
        authorization = headers.get(b"authorization")
        scope.pop(PERSON, None)  # of a server around this one
        is_known = self._tokens.has(authorization) or self._is_person(scope, authorization)
        if not is_known and not self._tokens.exist:
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

    def _problem_of_page(self, scope: Scope, headers: dict[bytes, bytes], *, is_link: bool) -> Problem | None:
        """A person opens a link to an approval from any page, such as that of a mail program: it only shows something."""
        if not is_link:
            return foreign.problem_of_page(headers, self._origins)
        if scope.get("method") in {"GET", "HEAD"}:
            return None
        return foreign.problem_of_form(headers, self._origins)

    def _is_person(self, scope: Scope, authorization: bytes | None) -> bool:
        """Whether the token is that of a person, whose name is then noted."""
        given = token_in(authorization)
        person = None if self._people is None or not given else self._people.person_of(given)
        if person is not None:
            scope[PERSON] = person
        return person is not None

    def _is_of_a_proxy(self, name: bytes) -> bool:
        if is_of_a_proxy(name):
            return True
        if len(self._plain) < KNOWN_NAMES_LIMIT:
            self._plain.add(name)
        return False

    def _note_health(self, scope: Scope, authorization: bytes | None, *, is_known: bool) -> None:
        """Health is open to every caller; a known caller sees more. A probe with an outdated token must not take a healthy server for
        an unhealthy one: its attempts are counted and logged, but not answered with 401 or 429.
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
            "the Host header names another server: use the address that this server is bound to, or allow the name "
            "(allowed_hosts, --allow-host)"
            if is_one
            else "a request must have exactly one Host header"
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
    """Whether this looks like a sender that calls a webhook that does not exist. It gets 404, instead of a request for a token that
    it must not have. Nothing else is answered without a token.
    """
    first = path.partition("/")[2].partition("/")[0]
    return scope.get("method") == "POST" and first not in {"", *TAKEN}


def _nothing_here() -> Problem:
    return Problem(404, "no webhook has this path; it must match exactly")


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
