"""Where outgoing requests may go: public addresses, and nothing that only this machine or its network can reach.

A URL may come from a setting, a form or a model, and the owner of its domain decides what its name resolves to. So a
request is checked twice:

    declared     http://10.0.0.5/, http://2130706433/      an address in the URL: refused at once
    connecting   hooks.example.org → 93.184.215.14, ::1    all answers of one lookup: any that is not public refuses

and the connection uses an address from that same lookup: there is no second lookup that could answer differently.
`transport.py` connects.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from urllib.parse import SplitResult, urlsplit

from wakeful.errors import ConfigError, Persistent
from wakeful.functions.call import in_thread

Address = IPv4Address | IPv6Address
Resolve = Callable[[str, int], Awaitable[list[str]]]

REMEDY = "if it is intended, declare it with allow_private=True"

# By the registries of special-purpose addresses, in words. Not `is_global` and similar ones: their answers differ
# between versions of Python.
_NOT_PUBLIC_4 = tuple(
    (IPv4Network(network), what)
    for network, what in (
        ("0.0.0.0/8", "an unspecified address"),
        ("10.0.0.0/8", "a private address"),
        ("100.64.0.0/10", "an address of a provider's own network"),
        ("127.0.0.0/8", "a loopback address"),
        (
            "168.63.129.16/32",
            "the address of a cloud's own services",
        ),  # a public number, but each machine has it to itself
        ("169.254.0.0/16", "a link-local address, where clouds keep their metadata"),
        ("172.16.0.0/12", "a private address"),
        ("192.0.0.0/24", "a reserved address"),
        ("192.0.2.0/24", "an address for documentation"),
        ("192.88.99.0/24", "a reserved address"),
        ("192.168.0.0/16", "a private address"),
        ("198.18.0.0/15", "an address for benchmarks"),
        ("198.51.100.0/24", "an address for documentation"),
        ("203.0.113.0/24", "an address for documentation"),
        ("224.0.0.0/4", "a multicast address"),
        ("240.0.0.0/4", "a reserved address"),
    )
)
_NOT_PUBLIC_6 = tuple(
    (IPv6Network(network), what)
    for network, what in (
        ("::/128", "an unspecified address"),
        ("::1/128", "a loopback address"),
        ("2001::/23", "a reserved address"),
        ("2001:db8::/32", "an address for documentation"),
        ("3fff::/20", "an address for documentation"),
        ("fc00::/7", "a private address"),
        ("fe80::/10", "a link-local address"),
        ("fec0::/10", "a private address"),
        ("ff00::/8", "a multicast address"),
    )
)
_PUBLIC_6 = IPv6Network("2000::/3")
# IPv6 addresses that carry an IPv4 address, and how far its 32 bits are from the right end. Obsolete forms
# (::127.0.0.1, Teredo) are reserved altogether.
_CARRIERS = (
    (IPv6Network("::ffff:0:0/96"), 0),  # mapped: the system itself connects over IPv4
    (IPv6Network("64:ff9b::/96"), 0),  # NAT64
    (IPv6Network("2002::/16"), 80),  # 6to4
)
_NUMERIC = re.compile(r"[0-9a-fA-FxX.]+").fullmatch
_BROKEN = re.compile(r"[\x00-\x20\x7f\\]").search


def why_not_public(address: Address) -> str | None:
    """The kind of an address that is not public; None for a public one."""
    if isinstance(address, IPv4Address):
        return next((what for network, what in _NOT_PUBLIC_4 if address in network), None)
    for network, what in _NOT_PUBLIC_6:
        if address in network:
            return what
    for carrier, distance in _CARRIERS:
        if address in carrier:
            inner = IPv4Address(int(address) >> distance & 0xFFFFFFFF)
            reason = why_not_public(inner)
            return None if reason is None else f"{reason} ({inner}) in the form of IPv6"
    return None if address in _PUBLIC_6 else "a reserved address"


def literal(host: str) -> Address | None:
    """The address, if a URL's host is one and not a name: also as 2130706433, 0x7f.1 or 0177.0.0.1, which systems
    accept.
    """
    try:
        return ip_address(host)
    except ValueError:
        pass
    if not _NUMERIC(host):
        return None
    try:
        return IPv4Address(socket.inet_aton(host))
    except OSError:
        return None


def check_url(
    url: str,
    *,
    where: str,
    allow_private: bool = False,
    schemes: Sequence[str] = ("https", "http"),
    like: str = "https://example.com/hook",
    credentials: str = "put it into a header, with env(…)",
) -> SplitResult:
    """A declared URL, split; ConfigError if nothing may be sent there. Names are not looked up. For the error: `like` is a right URL, and
    `credentials` says where a user and a password belong.
    """
    if not isinstance(url, str) or _BROKEN(url):
        message = f"{where}: a URL is a text without spaces, line breaks and backslashes, like {like}"
        raise ConfigError(message)
    try:
        parts = urlsplit(url)
        host = parts.hostname
        _ = parts.port
    except ValueError as error:
        message = f"{where}: this is not a URL ({error}): write it like {like}"
        raise ConfigError(message) from None
    if parts.scheme not in schemes:
        *others, last = (f"{one}://" for one in schemes)
        message = f'{where}: the scheme is "{parts.scheme}": only {", ".join(others)} and {last} can be sent to'
        raise ConfigError(message)
    if not host:
        message = f"{where}: there is no host in the URL: write it like {like}"
        raise ConfigError(message)
    if "@" in parts.netloc:
        message = f"{where}: a user or password in the URL would be shown wherever the URL is: {credentials}"
        raise ConfigError(message)
    address = None if allow_private else literal(host)
    if address is not None and (what := why_not_public(address)) is not None:
        message = f"{where}: a URL to a private address: {_spelled(host, address)} is {what}; {REMEDY}"
        raise ConfigError(message)
    return parts


def shown_url(parts: SplitResult) -> str:
    """A URL for people and logs: without its query and fragment, which may hold tokens."""
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()


async def resolve(host: str, port: int) -> list[str]:
    """All addresses of a name, in the order in which the system would try them."""
    found = await in_thread(socket.getaddrinfo, (host, port), {"type": socket.SOCK_STREAM})
    return list(dict.fromkeys(str(place[0]) for *_, place in found))


async def addresses_of(host: str, port: int, *, allow_private: bool = False, resolve: Resolve = resolve) -> list[str]:
    """One lookup of a host: the addresses to connect to. Raises Persistent if any of them is not public."""
    found = await resolve(host, port)
    if not allow_private:
        for text in found:
            address = ip_address(text)
            if (what := why_not_public(address)) is not None:
                message = f"{_spelled(host, address)} is {what}; nothing is sent there; {REMEDY}"
                raise Persistent(message)
    return found


def _spelled(host: str, address: Address) -> str:
    return host if host == str(address) else f"{host} ({address})"
