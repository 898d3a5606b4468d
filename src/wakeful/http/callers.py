"""Identifies the caller: a person or a program with a token, or, if there is none, a program on this machine.

A server without a token recognises local callers only by the address of the connection, since every header can be forged. A proxy on
this machine has a local address too, for callers from anywhere. So headers that a proxy adds mean "not local".
"""

from __future__ import annotations

import hmac
import ipaddress
import math
from collections.abc import Sized
from typing import Protocol

from starlette.types import Scope

from wakeful.http.problem import Problem
from wakeful.http.tries import WrongTries

# Added by proxies and tunnels. All names that begin with x-forwarded count as well.
OF_PROXIES = frozenset(
    {
        b"forwarded",
        b"via",
        b"x-real-ip",
        b"x-client-ip",
        b"x-original-forwarded-for",
        b"true-client-ip",
        b"cf-connecting-ip",
        b"cf-ray",
        b"cdn-loop",
        b"fly-client-ip",
        b"x-cluster-client-ip",
        b"x-envoy-external-address",
    }
)
X_FORWARDED = b"x-forwarded"
LOOPBACK = frozenset({"127.0.0.1", "::1"})  # the usual spellings


# Key in the scope of a request: the person who has its token.
PERSON = "wakeful.person"


class PersonalTokens(Protocol):
    """The people of the server's app who have a token."""

    def person_of(self, given: bytes, /) -> str | None:
        """The person who has this token, found in constant time; None if no person has it."""
        ...


def token_in(authorization: bytes | None) -> bytes | None:
    """The bearer token of a request; None if it has none."""
    scheme, _, given = (authorization or b"").partition(b" ")
    return given.strip() if scheme.lower() == b"bearer" else None


class Tokens:
    """The valid tokens, two of them during rotation."""

    def __init__(self, token: str | None, next_token: str | None) -> None:
        self._first = token.encode() if token else b""
        self._next = next_token.encode() if next_token else self._first
        self.exist = bool(token)
        self.tries = WrongTries()

    def has(self, authorization: bytes | None) -> bool:
        """Whether a request has a valid token. Both are compared, in constant time: the duration tells nothing about a guess."""
        given = token_in(authorization)
        told = given or b""
        first, following = hmac.compare_digest(told, self._first), hmac.compare_digest(told, self._next)
        return (first | following) and self.exist and given is not None

    def refusal(self, authorization: bytes | None, scope: Scope) -> Problem:
        """The response to a request without a valid token. A wrong token counts as an attempt."""
        wait = 0.0 if authorization is None else self.tries.add(address_of(scope))
        if wait:
            return Problem(
                429,
                "too many wrong tokens from this address: wait for the time in Retry-After. The right token is accepted at any time",
                kind="too-many-tries",
                title="Too many wrong tokens",
                headers={"Retry-After": str(max(1, math.ceil(wait))), "Connection": "close"},
            )
        return Problem(
            401,
            "send the token as: Authorization: Bearer TOKEN",
            kind="unauthorized",
            title="A token is needed" if authorization is None else "This token is not the right one",
            field="Authorization",
            headers={"WWW-Authenticate": "Bearer"},
        )


def is_of_a_proxy(header: bytes) -> bool:
    """Whether a header of this name shows that a request came through a proxy."""
    return header in OF_PROXIES or header.startswith(X_FORWARDED)


def problem_of_stranger(scope: Scope, passed_on: bytes | None, *, local_name: bool, webhooks: Sized) -> Problem | None:
    """Why a server without a token refuses a request; None if a program on this machine sent it."""
    if len(webhooks):
        why = "this server has webhooks, so strangers can reach it"
    elif passed_on is not None:
        why = f"the request came through a proxy ({passed_on.decode('latin-1')[:40]})"
    elif not is_loopback_address(address_of(scope)):
        why = "the request did not come from this machine"
    elif not local_name:
        why = "the request used a host name that other machines use"
    else:
        return None
    detail = (
        f"{why}, and there is no token: set WAKEFUL_TOKEN (`wakeful token` prints one), restart the server, "
        "and send Authorization: Bearer TOKEN"
    )
    return Problem(403, detail, kind="token-needed", title="This server has no token, and is open to this machine only")


def address_of(scope: Scope) -> str | None:
    """The address of the connection; None if there is none, as for a Unix socket."""
    client = scope.get("client")
    return client[0] if client else None


def is_loopback_address(address: str | None) -> bool:
    """Whether a connection comes from this machine. One without an address does not: a Unix socket has a proxy behind it."""
    if address in LOOPBACK:
        return True
    try:
        found = ipaddress.ip_address(address or "")
    except ValueError:
        return False
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
        return found.ipv4_mapped.is_loopback
    return found.is_loopback
