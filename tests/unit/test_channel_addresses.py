"""Where outgoing requests may go: the table of addresses, their disguises, and the one lookup that decides."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

import httpcore2
import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.receiver import Receiver, Reply
from wakeful.errors import ConfigError, Persistent
from wakeful.output.channels.addresses import addresses_of, check_url, literal, shown_url, why_not_public
from wakeful.output.channels.transport import GuardedBackend, GuardedTransport

PUBLIC = "93.184.215.14"

NOT_PUBLIC = {
    "0.0.0.0": "unspecified",
    "0.1.2.3": "unspecified",
    "10.0.0.1": "private",
    "10.255.255.255": "private",
    "100.64.0.1": "provider",
    "100.100.100.200": "provider",
    "100.127.255.255": "provider",
    "127.0.0.1": "loopback",
    "127.255.255.254": "loopback",
    "168.63.129.16": "cloud",
    "169.254.169.254": "metadata",
    "172.16.0.1": "private",
    "172.31.255.255": "private",
    "192.0.0.192": "reserved",
    "192.0.2.1": "documentation",
    "192.168.1.1": "private",
    "198.18.0.1": "benchmarks",
    "198.51.100.1": "documentation",
    "203.0.113.1": "documentation",
    "224.0.0.1": "multicast",
    "239.255.255.255": "multicast",
    "240.0.0.1": "reserved",
    "255.255.255.255": "reserved",
    "::": "unspecified",
    "::1": "loopback",
    "::7f00:1": "reserved",
    "::101:101": "reserved",
    "::ffff:127.0.0.1": "loopback",
    "::ffff:10.0.0.1": "private",
    "::ffff:169.254.169.254": "metadata",
    "::ffff:0:127.0.0.1": "reserved",
    "64:ff9b::7f00:1": "loopback",
    "64:ff9b::a9fe:a9fe": "metadata",
    "64:ff9b:1::1": "reserved",
    "100::1": "reserved",
    "2001::1": "reserved",
    "2001:db8::1": "documentation",
    "2002:7f00:1::": "loopback",
    "2002:a00:1::1": "private",
    "2002:a9fe:a9fe::": "metadata",
    "3fff::1": "documentation",
    "5f00::1": "reserved",
    "fc00::1": "private",
    "fd00:ec2::254": "private",
    "fe80::1": "link-local",
    "fe80::1%1": "link-local",
    "fec0::1": "private",
    "ff02::1": "multicast",
    "4000::1": "reserved",
}

PUBLIC_ONES = [
    PUBLIC,
    "1.1.1.1",
    "9.255.255.255",
    "11.0.0.0",
    "100.63.255.255",
    "100.128.0.0",
    "126.255.255.255",
    "128.0.0.0",
    "169.253.255.255",
    "172.15.255.255",
    "172.32.0.0",
    "192.167.255.255",
    "192.169.0.0",
    "223.255.255.255",
    "2606:4700:4700::1111",
    "2001:4860:4860::8888",
    "::ffff:1.1.1.1",
    "64:ff9b::101:101",
    "2002:101:101::1",
]


@pytest.mark.parametrize("address", NOT_PUBLIC)
def test_what_is_not_public_is_told_by_its_kind(address: str):
    assert NOT_PUBLIC[address] in str(why_not_public(ip_address(address)))


@pytest.mark.parametrize("address", PUBLIC_ONES)
def test_what_is_public_is_let_through(address: str):
    assert why_not_public(ip_address(address)) is None


@given(st.integers(0, 2**32 - 1).map(IPv4Address))
def test_nothing_that_python_knows_as_special_is_let_through(address: IPv4Address):
    special = address.is_private or address.is_multicast or address.is_reserved or address.is_unspecified
    assert not (special or address.is_loopback or address.is_link_local) or why_not_public(address)


@given(st.integers(0, 2**128 - 1).map(IPv6Address) | st.integers(0, 2**33).map(IPv6Address))
def test_the_same_for_ipv6(address: IPv6Address):
    carriers = [IPv6Network(text) for text in ("::ffff:0:0/96", "64:ff9b::/96", "2002::/16")]
    special = address.is_private or address.is_multicast or address.is_reserved or address.is_site_local
    assert not special or why_not_public(address) or any(address in carrier for carrier in carriers)


@given(st.integers(0, 2**32 - 1).map(IPv4Address))
def test_an_address_in_disguise_is_judged_as_itself(address: IPv4Address):
    number = int(address)
    refused = why_not_public(address) is not None
    for disguise in (0xFFFF << 32 | number, 0x64FF9B << 96 | number, 0x2002 << 112 | number << 80):
        assert (why_not_public(IPv6Address(disguise)) is not None) == refused


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("2130706433", "127.0.0.1"),
        ("0x7f.1", "127.0.0.1"),
        ("0177.0.0.1", "127.0.0.1"),
        ("127.1", "127.0.0.1"),
        ("0xA9FEA9FE", "169.254.169.254"),
        ("0", "0.0.0.0"),
        ("::1", "::1"),
        ("example.com", None),
        ("face.cafe", None),
        ("1.2.3.4.5", None),
    ],
)
def test_the_spellings_of_an_address(host: str, address: str | None):
    assert literal(host) == (None if address is None else ip_address(address))


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://127.0.0.1/", "127.0.0.1 is a loopback address; if it is intended, declare it with allow_private=True"),
        ("http://2130706433/", "2130706433 (127.0.0.1) is a loopback address"),
        ("http://0x7f.1:8080/x", "0x7f.1 (127.0.0.1) is a loopback address"),
        ("http://[::1]/", "::1 is a loopback address"),
        ("http://[::ffff:10.0.0.1]/", "a private address (10.0.0.1) in the form of IPv6"),
        ("https://169.254.169.254/latest/meta-data", "where clouds keep their metadata"),
        ("ftp://example.com/", 'the scheme is "ftp"'),
        ("file:///etc/passwd", 'the scheme is "file"'),
        ("example.com/hook", 'the scheme is ""'),
        ("https:///hook", "there is no host"),
        ("https://", "there is no host"),
        ("https://example.com:99999/", "this is not a URL"),
        ("https://[::1/", "this is not a URL"),
        ("https://example.com/a b", "without spaces"),
        ("https://example.com\\@10.0.0.1/", "backslashes"),
        ("https://example.com/\r\nHost: x", "line breaks"),
        ("", 'the scheme is ""'),
        (None, "a URL is a text"),
    ],
)
def test_a_url_that_is_refused_as_it_is_declared(url, said):
    with pytest.raises(ConfigError) as caught:
        check_url(url, where="http(…)")
    assert said in str(caught.value)
    assert str(caught.value).startswith("http(…): ")


def test_a_password_in_a_url_is_refused_and_not_repeated():
    with pytest.raises(ConfigError, match="put it into a header") as caught:
        check_url("https://ada:hunter2@example.com/", where="http(…)")
    assert "hunter2" not in str(caught.value)


def test_what_is_shown_of_a_url():
    parts = check_url("https://example.com:8443/hook?token=hunter2#part", where="http(…)")
    assert shown_url(parts) == "https://example.com:8443/hook"
    assert check_url("http://127.0.0.1/", where="http(…)", allow_private=True).hostname == "127.0.0.1"


# connecting


class Names:
    """A name server that says something else each time; the last answer stays."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> list[str]:
        self.asked.append(host)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


class Elsewhere(httpcore2.AsyncNetworkBackend):
    """The world: whatever public address is connected to, this receiver is there."""

    def __init__(self, receiver: Receiver, *, unreachable: tuple[str, ...] = ()) -> None:
        self.connected: list[str] = []
        self._port = receiver.port
        self._unreachable = unreachable
        self._inner = httpcore2.AnyIOBackend()

    async def connect_tcp(self, host, port, timeout=None, local_address=None, socket_options=None):
        self.connected.append(host)
        if host in self._unreachable:
            raise httpcore2.ConnectError("no route")
        return await self._inner.connect_tcp("127.0.0.1", self._port, timeout)


def client(names: Names, world: Elsewhere) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(
        transport=GuardedTransport(GuardedBackend(resolve=names, inner=world)), trust_env=False, timeout=10
    )


async def test_a_name_that_answers_differently_the_second_time_gains_nothing():
    names = Names([PUBLIC], ["127.0.0.1"])
    async with Receiver(Reply(200, b"ok", {"connection": "close"})) as receiver:
        world = Elsewhere(receiver)
        async with client(names, world) as http:
            assert (await http.post("http://hooks.example.org/a")).status_code == 200
            assert names.asked == ["hooks.example.org"]  # one lookup, and the connection goes to what it said
            assert world.connected == [PUBLIC]
            with pytest.raises(Persistent, match=r"hooks\.example\.org \(127\.0\.0\.1\) is a loopback address"):
                await http.post("http://hooks.example.org/b")
        assert world.connected == [PUBLIC]
        assert [request.path for request in receiver.requests] == ["/a"]
        assert receiver.requests[0].headers["host"] == "hooks.example.org"


@pytest.mark.parametrize("answers", [[PUBLIC, "10.0.0.5"], ["10.0.0.5", PUBLIC], [PUBLIC, "::ffff:10.0.0.5"]])
async def test_one_private_answer_among_public_ones_refuses(answers: list[str]):
    async with Receiver() as receiver:
        world = Elsewhere(receiver)
        async with client(Names(answers), world) as http:
            with pytest.raises(Persistent, match=r"10\.0\.0\.5.*allow_private=True"):
                await http.post("http://hooks.example.org/")
        assert world.connected == []


async def test_an_address_that_does_not_answer_is_followed_by_the_next():
    async with Receiver() as receiver:
        world = Elsewhere(receiver, unreachable=("1.1.1.1",))
        async with client(Names(["1.1.1.1", PUBLIC]), world) as http:
            assert (await http.post("http://hooks.example.org/")).status_code == 204
            assert world.connected == ["1.1.1.1", PUBLIC]
        async with client(Names(["1.1.1.1"]), world) as http:
            with pytest.raises(httpx2.ConnectError, match=r"cannot be reached \(1\.1\.1\.1: no route\)"):
                await http.post("http://hooks.example.org/")


async def test_a_redirect_leads_nowhere_private_either():
    async with Receiver(Reply(302, headers={"location": "http://169.254.169.254/", "connection": "close"})) as receiver:
        world = Elsewhere(receiver)

        async def names(host: str, port: int) -> list[str]:
            return [PUBLIC if host == "hooks.example.org" else host]

        transport = GuardedTransport(GuardedBackend(resolve=names, inner=world))
        async with httpx2.AsyncClient(transport=transport, follow_redirects=True) as http:
            with pytest.raises(Persistent, match=r"169\.254\.169\.254"):
                await http.get("http://hooks.example.org/")
        assert world.connected == [PUBLIC]


@pytest.mark.parametrize("host", ["localhost", "2130706433", "0x7f.1", "0177.0.0.1", "127.1", "0", "::1", "127.0.0.1"])
async def test_every_spelling_of_this_machine_is_refused_by_what_the_system_makes_of_it(host: str):
    with pytest.raises(Persistent, match="nothing is sent there"):
        await addresses_of(host, 80)
    assert await addresses_of(host, 80, allow_private=True)
