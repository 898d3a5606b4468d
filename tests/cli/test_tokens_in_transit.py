"""The token of a server goes in plain text to this machine alone, and to no server but the one that was named."""

from __future__ import annotations

import asyncio

import pytest

from support.receiver import Receiver, Reply

TOKEN = "tok-5d41402abc4b2a76b9719d911017c592"
ACCEPTED = Reply(202, b'{"events": [{"source": "/cli", "id": "1", "status": "accepted", "runs": []}]}')
COMMANDS = pytest.mark.parametrize("words", [("emit", "ticket.odd"), ("checkin", "backup")], ids=lambda words: words[0])


@pytest.fixture
def say(start):
    """A command that has the token, and its exit code and output."""

    async def call(*words, **env):
        command = start(*words, env={"WAKEFUL_TOKEN": TOKEN, **env})
        code = await asyncio.to_thread(command.end)
        assert TOKEN not in command.output
        return code, command.output

    return call


def proxied(proxy):
    """As somebody's environment has it: everything by a proxy."""
    address = f"http://127.0.0.1:{proxy.port}"
    return {"HTTP_PROXY": address, "http_proxy": address, "ALL_PROXY": address, "NO_PROXY": "", "no_proxy": ""}


@COMMANDS
async def test_plain_http_to_another_machine_is_refused(say, words):
    async with Receiver(ACCEPTED) as proxy:  # by which it would go there
        code, said = await say(*words, "--url", "http://wakeful.example:8765", **proxied(proxy))
        assert code == 2
        assert "the token would cross the network in plain text: use https://, or add --insecure" in said
        assert proxy.requests == []


@COMMANDS
async def test_unless_that_is_meant(say, words):
    async with Receiver(ACCEPTED) as proxy:
        code, _ = await say(*words, "--url", "http://wakeful.example:8765", "--insecure", **proxied(proxy))
        assert code == 0
        assert proxy.requests[0].headers["authorization"] == f"Bearer {TOKEN}"


@COMMANDS
async def test_nothing_secret_needs_no_permission(say, words):
    async with Receiver(ACCEPTED) as proxy:
        code, _ = await say(*words, "--url", "http://wakeful.example:8765", **proxied(proxy), WAKEFUL_TOKEN="")
        assert code == 0
        assert "authorization" not in proxy.requests[0].headers


@COMMANDS
@pytest.mark.parametrize("credential", ["pass-word", "ada:pass-word"])
async def test_a_credential_in_the_address_is_refused_like_the_token(say, words, credential):
    async with Receiver(ACCEPTED) as proxy:
        url = f"http://{credential}@wakeful.example:8765"
        code, said = await say(*words, "--url", url, **proxied(proxy), WAKEFUL_TOKEN="")
        assert code == 2
        assert "the credential in the address would cross the network in plain text" in said
        assert "pass-word" not in said
        assert proxy.requests == []


@COMMANDS
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_what_is_for_this_machine_goes_by_no_proxy(say, words, host):
    async with Receiver(ACCEPTED) as server, Receiver(ACCEPTED) as proxy:
        code, said = await say(*words, "--url", f"http://{host}:{server.port}", **proxied(proxy))
        assert code == 0, said
        assert proxy.requests == []
        assert server.requests[0].headers["authorization"] == f"Bearer {TOKEN}"


@COMMANDS
async def test_a_redirect_does_not_take_the_token_along(say, words):
    async with Receiver(ACCEPTED) as other:
        leads = f"http://127.0.0.1:{other.port}/v1/events?token=hidden-in-it"
        async with Receiver(Reply(307, headers={"Location": leads})) as server:
            code, said = await say(*words, "--url", f"http://127.0.0.1:{server.port}")
        assert code == 1
        assert f"answered 307: it redirects to http://127.0.0.1:{other.port}/v1/events?token=…, and redirects" in said
        assert other.requests == []


@pytest.mark.parametrize(
    "url",
    [
        "http://10.0.0.7:1",
        "http://127.0.0.1.example:1",
        "http://ada:pass-word@db.example",
        "127.0.0.1:1",
        "http://[::1",
    ],
)
async def test_other_addresses_that_are_not_this_machine(say, url):
    code, said = await say("emit", "ticket.odd", "--url", url)
    assert code == 2, said
    assert "pass-word" not in said
