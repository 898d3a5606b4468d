"""http(): what is sent, how answers are taken, and what is refused before anything is sent."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import shutil
import ssl
import subprocess
import time
from pathlib import Path
from typing import Any

import httpx2
import pytest

from support.messages import NOWHERE, message
from support.receiver import Receiver, Reply, Request
from wakeful import env
from wakeful.channels import http
from wakeful.clock import SECOND
from wakeful.errors import ConfigError, Persistent, Transient
from wakeful.failures import classify
from wakeful.functions.options import Backoff
from wakeful.output.channels.client import ANSWER_LIMIT
from wakeful.output.channels.http import Http
from wakeful.testing.ports import free_port

SECRET = "whsec_" + base64.b64encode(b"a key of twenty-four bytes").decode()
OTHER = "an older secret, in plain text"


async def deliver(channel: Http, *messages: Any) -> None:
    await channel.open(NOWHERE)
    try:
        await channel.deliver(messages or [message()])
    finally:
        await channel.close()


async def failure(url: str, **options: Any) -> BaseException:
    with pytest.raises(Exception) as caught:
        await deliver(http(url, allow_private=True, **options))
    return caught.value


def signed_with(request: Request, key: bytes) -> bool:
    """As a receiver does it: by the text of the specification, with the bytes that came."""
    content = f"{request.headers['webhook-id']}.{request.headers['webhook-timestamp']}.".encode() + request.body
    wanted = "v1," + base64.b64encode(hmac.digest(key, content, hashlib.sha256)).decode()
    fresh = abs(time.time() - int(request.headers["webhook-timestamp"])) < 300
    return fresh and wanted in request.headers["webhook-signature"].split(" ")


# what is sent


async def test_a_message_is_a_signed_post():
    async with Receiver() as receiver:
        channel = http(receiver.url, secret=SECRET, headers={"X-Team": "ops"}, allow_private=True)
        await deliver(channel, message("0f9e", {"text": "späť"}, subject="order 7"))
    (request,) = receiver.requests
    assert (request.method, request.path) == ("POST", "/hook")
    assert request.json == {
        "id": "0f9e",
        "channel": "ops",
        "subject": "order 7",
        "body": {"text": "späť"},
        "app": "billing",
        "agent": "remind",
        "run": "abc123",
        "committed_at": "2026-01-01T00:00:00.123456Z",
    }
    assert request.headers["content-type"] == "application/json"
    assert request.headers["x-team"] == "ops"
    assert request.headers["webhook-id"] == "0f9e"
    assert request.headers["user-agent"].startswith("wakeful/")
    assert signed_with(request, b"a key of twenty-four bytes")
    assert not signed_with(request, b"another key")


async def test_two_secrets_are_two_signatures():
    async with Receiver() as receiver:
        await deliver(http(receiver.url, secret=[SECRET, OTHER], allow_private=True))
    (request,) = receiver.requests
    assert signed_with(request, b"a key of twenty-four bytes")
    assert signed_with(request, OTHER.encode())


async def test_without_a_secret_there_is_an_id_and_no_signature():
    async with Receiver() as receiver:
        await deliver(http(receiver.url, allow_private=True))
    (request,) = receiver.requests
    assert request.headers["webhook-id"] == "0f9e11ba70"
    assert "webhook-signature" not in request.headers


async def test_a_second_try_has_the_same_id_and_the_same_body():
    async with Receiver(Reply(503)) as receiver:
        channel = http(receiver.url, secret=SECRET, allow_private=True)
        await channel.open(NOWHERE)
        with pytest.raises(httpx2.HTTPStatusError):
            await channel.deliver([message(tries=1)])
        await channel.deliver([message(tries=2)])
        await channel.close()
    first, second = receiver.requests
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert first.body == second.body


async def test_secrets_come_from_the_environment_when_they_are_needed(monkeypatch):
    monkeypatch.setenv("HOOK_SECRET", "first")
    monkeypatch.setenv("HOOK_TOKEN", "Bearer abc")
    async with Receiver() as receiver:
        channel = http(
            receiver.url, secret=env("HOOK_SECRET"), headers={"Authorization": env("HOOK_TOKEN")}, allow_private=True
        )
        await channel.open(NOWHERE)
        await channel.deliver([message()])
        monkeypatch.setenv("HOOK_SECRET", "second")
        await channel.deliver([message()])
        await channel.close()
    first, second = receiver.requests
    assert signed_with(first, b"first")
    assert signed_with(second, b"second")
    assert first.headers["authorization"] == "Bearer abc"


async def test_a_secret_that_is_missing_is_heard_of_at_the_start(monkeypatch):
    monkeypatch.delenv("HOOK_SECRET", raising=False)
    for options in ({"secret": env("HOOK_SECRET")}, {"headers": {"Authorization": env("HOOK_SECRET")}}):
        channel = http("https://example.com/hook?token=hunter2", **options)
        with pytest.raises(ConfigError, match=r"^http\(https://example\.com/hook\).*HOOK_SECRET is not set"):
            await channel.open(NOWHERE)


async def test_a_header_from_the_environment_cannot_bring_others_along(monkeypatch):
    monkeypatch.setenv("HOOK_TOKEN", "abc\r\nX-Other: 1")
    channel = http("https://example.com/", headers={"Authorization": env("HOOK_TOKEN")})
    with pytest.raises(ConfigError, match="the header Authorization is empty, or has a line break") as caught:
        await channel.open(NOWHERE)
    assert "abc" not in str(caught.value)


async def test_the_connection_stays_open_between_messages():
    async with Receiver(Reply(200, b"thanks"), Reply(202), Reply(500, b"oops"), Reply(204)) as receiver:
        channel = http(receiver.url, allow_private=True)
        await channel.open(NOWHERE)
        await channel.deliver([message("a"), message("b")])
        with pytest.raises(httpx2.HTTPStatusError):
            await channel.deliver([message("c")])
        await channel.deliver([message("c")])
        await channel.close()
    assert receiver.connections == 1
    assert [request.headers["webhook-id"] for request in receiver.requests] == ["a", "b", "c", "c"]


async def test_proxies_of_the_environment_are_not_used(monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9/")
    async with Receiver() as receiver:
        await deliver(http(receiver.url, allow_private=True))
        assert len(receiver.requests) == 1


async def test_an_opened_channel_can_be_closed_and_opened_again():
    async with Receiver() as receiver:
        channel = http(receiver.url, allow_private=True)
        await deliver(channel)
        await deliver(channel)
        await channel.close()
        assert len(receiver.requests) == 2


# how answers are taken


@pytest.mark.parametrize(
    ("reply", "kind", "wait"),
    [
        (Reply(500), "transient", None),
        (Reply(503, headers={"retry-after": "120"}), "transient", 120 * SECOND),
        (Reply(408), "transient", None),
        (Reply(429), "transient", None),
        (Reply(429, headers={"retry-after": "30"}), "rate_limited", 30 * SECOND),
        (Reply(400), "persistent", None),
        (Reply(401), "persistent", None),
        (Reply(404), "persistent", None),
        (Reply(410), "persistent", None),
        (Reply(304), "persistent", None),
    ],
)
async def test_answers_by_their_status(reply: Reply, kind: str, wait: int | None):
    async with Receiver(reply) as receiver:
        verdict = classify(await failure(receiver.url))
    assert (verdict.failure, verdict.retry_after) == (kind, wait)


async def test_what_the_other_side_says_is_shown_in_one_line_and_not_for_long():
    async with Receiver(Reply(422, b"no such\r\n\x1b[31mteam \xff" + b"y" * 100_000)) as receiver:
        url = f"{receiver.url}?token=hunter2"
        said = str(await failure(url))
    assert said.startswith(f"http({receiver.url}) answered 422: no such �[31mteam �yyy")
    assert "hunter2" not in said
    assert len(said) < ANSWER_LIMIT + 100


async def test_an_answer_without_end_is_not_read_to_it():
    async with Receiver(Reply(200, endless=True), Reply(500, endless=True)) as receiver:
        channel = http(receiver.url, allow_private=True)
        await channel.open(NOWHERE)
        await channel.deliver([message()])
        with pytest.raises(httpx2.HTTPStatusError, match="answered 500: xxx"):
            await channel.deliver([message()])
        await channel.close()
    assert receiver.connections == 2


async def test_what_is_packed_is_not_unpacked():
    async with Receiver(Reply(500, b"\x1f\x8b not gzip at all", {"content-encoding": "gzip"})) as receiver:
        assert "not gzip at all" in str(await failure(receiver.url))


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_redirect_is_not_followed_and_says_so(status: int):
    async with Receiver(Reply(status, headers={"location": "http://127.0.0.1:1/other"})) as receiver:
        error = await failure(receiver.url)
        assert len(receiver.requests) == 1
    assert isinstance(error, Persistent)
    assert f"answered {status}, a redirect to http://127.0.0.1:1/other: redirects are not followed" in str(error)


async def test_no_answer_may_come_later():
    async with Receiver(Reply(silent=True)) as receiver:
        error = await failure(receiver.url, timeout="500ms")
        assert isinstance(error, Transient)
        assert str(error) == f"http({receiver.url}): no answer within 500 ms"


async def test_a_delivery_that_is_given_up_leaves_the_channel_as_it_was():
    async with Receiver(Reply(silent=True)) as receiver:
        channel = http(receiver.url, allow_private=True)
        await channel.open(NOWHERE)
        delivery = asyncio.ensure_future(channel.deliver([message("a")]))
        await receiver.received.wait()
        delivery.cancel()
        with pytest.raises(asyncio.CancelledError):
            await delivery
        await channel.deliver([message("a", tries=2)])
        await channel.close()
    assert [request.headers["webhook-id"] for request in receiver.requests] == ["a", "a"]


async def test_nobody_there_may_come_back():
    error = await failure(f"http://127.0.0.1:{free_port()}/hook")
    assert isinstance(error, Transient)
    assert "127.0.0.1 cannot be reached" in str(error)


async def test_a_name_that_nobody_knows_may_be_known_later():
    async def resolve(host: str, port: int) -> list[str]:
        raise OSError(-2, "Name or service not known")

    with pytest.raises(Transient, match=r"hooks\.example\.org cannot be resolved"):
        await deliver(Http("https://hooks.example.org/", resolve=resolve))


# where it may go


async def test_this_machine_is_refused_at_delivery_by_any_name():
    async with Receiver() as receiver:
        for host in ("localhost", "hooks.example.org"):
            channel = Http(f"http://{host}:{receiver.port}/", resolve=loopback)
            with pytest.raises(Persistent) as caught:
                await deliver(channel)
            assert str(caught.value) == (
                f"{host} (127.0.0.1) is a loopback address; nothing is sent there; "
                "if it is intended, declare it with allow_private=True"
            )
        assert receiver.connections == 0


async def loopback(host: str, port: int) -> list[str]:
    return ["127.0.0.1"]


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """Of hooks.example.org, signed by itself."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("needs the openssl command to make a certificate")
    key, file = tmp_path / "key.pem", tmp_path / "certificate.pem"
    words = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=hooks.example.org"
    words += f" -addext subjectAltName=DNS:hooks.example.org -keyout {key} -out {file}"
    subprocess.run([openssl, *words.split()], check=True, capture_output=True)
    return file, key


async def test_the_certificate_is_held_to_the_name_and_not_to_the_address(certificate, monkeypatch):
    file, key = certificate
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    served.load_cert_chain(file, key)
    names = []
    served.sni_callback = lambda _socket, name, _context: names.append(name)
    async with Receiver(tls=served) as receiver:
        for host in ("hooks.example.org", "other.example.org"):
            channel = Http(f"https://{host}:{receiver.port}/", allow_private=True, resolve=loopback)
            if host == "hooks.example.org":
                await deliver(channel)
            else:
                with pytest.raises(Transient, match=r"Hostname mismatch.*other\.example\.org"):
                    await deliver(channel)
    assert names == ["hooks.example.org", "other.example.org"]
    assert [request.headers["host"] for request in receiver.requests] == [f"hooks.example.org:{receiver.port}"]


# what is declared


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"url": "http://10.0.0.5/"}, "a URL to a private address: 10.0.0.5 is a private address"),
        ({"url": "gopher://example.com/"}, 'the scheme is "gopher"'),
        ({"secret": ""}, "the secret is empty"),
        ({"secret": []}, "secret must be a text"),
        ({"secret": 7}, "secret must be a text"),
        ({"secret": [SECRET, None]}, "secret must be a text"),
        ({"secret": "whsec_!"}, "is not base64"),
        ({"headers": {"Host": "x"}}, "the header Host is set by the channel itself"),
        ({"headers": {"webhook-id": "x"}}, "the header webhook-id is set by the channel itself"),
        ({"headers": {"A B": "x"}}, "'A B' is not the name of a header"),
        ({"headers": {"A": "x\ny"}}, "the header A is empty, or has a line break"),
        ({"headers": {"A": 7}}, "the header A must be a text"),
        ({"timeout": "soon"}, "timeout: 'soon' is not a duration"),
        ({"timeout": None}, "a request needs a time limit"),
        ({"attempts": 0}, "attempts must be a whole number from 1 up"),
        ({"backoff": "x"}, "backoff: 'x' is not a duration"),
    ],
)
def test_mistakes_are_told_as_it_is_declared(options: dict[str, Any], said: str):
    with pytest.raises(ConfigError) as caught:
        http(**{"url": "https://example.com/hook", **options})
    assert said in str(caught.value)


def test_what_it_says_of_itself_holds_no_secret():
    channel = http(
        "https://example.com/hook?token=hunter2", secret=[SECRET, env("X")], headers={"Authorization": "hunter3"}
    )
    assert channel.describe() == {
        "kind": "http",
        "url": "https://example.com/hook",
        "signed": True,
        "headers": ["Authorization"],
        "allow_private": False,
    }
    assert repr(channel) == 'http("https://example.com/hook")'


def test_its_options_are_those_of_a_channel():
    channel = http("https://example.com/", timeout="5s", attempts=3, backoff="10s")
    assert (channel.timeout, channel.attempts, channel.backoff) == ("5s", 3, Backoff(first="10s"))
    assert (http("https://example.com/").attempts, http("https://example.com/").most) == (None, 1)
