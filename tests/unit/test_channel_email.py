"""email(): what is declared, and what is refused before anything is sent."""

from __future__ import annotations

from typing import Any

import pytest

from support.messages import NOWHERE
from wakeful.channels import email
from wakeful.errors import ConfigError

SENDER = "Wakeful <wakeful@example.com>"
PASSWORD = "correct horse battery staple 9"
RIGHT: dict[str, Any] = {"url": "smtp+starttls://mail.example.com", "sender": SENDER, "to": "ops@example.com"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"url": "http://mail.example.com"},
            'the scheme is "http": only smtp+starttls://, smtps:// and smtp:// can be',
        ),
        ({"url": "smtp://mail.example.com"}, "smtp:// is not encrypted"),
        ({"url": "smtps://10.0.0.5"}, "a URL to a private address: 10.0.0.5 is a private address"),
        ({"url": "smtp://127.0.0.1"}, "a URL to a private address: 127.0.0.1 is a loopback address"),
        ({"url": "smtps://ops:pass@mail.example.com"}, "write user= and password=env(…)"),
        ({"url": "smtps://mail.example.com/x"}, "no path and no query"),
        ({"url": "smtps://mail.example.com?x=1"}, "no path and no query"),
        ({"url": "smtps://mäil.example.com"}, "its host is ASCII"),
        ({"url": "smtps://"}, "there is no host"),
        ({"url": "smtps://mail.example.com:x"}, "this is not a URL"),
        ({"url": "smtps://mail.example.com\r\nRSET"}, "a URL is a text without spaces"),
        ({"sender": "ops"}, "sender: 'ops' is not an address"),
        ({"sender": "ops@example.com\r\nBcc: eve@example.net"}, "is not an address"),
        ({"sender": "Ops\r\nBcc: eve@example.net <ops@example.com>"}, "is not an address"),
        ({"sender": "öps@example.com"}, "is not an address: write it in ASCII"),
        ({"sender": "a@b> SIZE=1 <c@d"}, "is not an address"),
        ({"sender": None}, "sender: None is not an address"),
        ({"to": []}, "to: from 1 to 100 addresses, each once; there are 0"),
        ({"to": ["a@example.com", "A <a@example.com>"]}, "each once"),
        ({"to": [f"a{one}@example.com" for one in range(101)]}, "there are 101"),
        ({"to": "a@example.com, b@example.com"}, "is not an address"),
        ({"to": f"{'a' * 65}@example.com"}, "is not an address"),
        ({"to": "a..b@example.com"}, "is not an address"),
        ({"to": ".a@example.com"}, "is not an address"),
        ({"to": "a@example.com."}, "is not an address"),
        ({"to": "a@-example.com"}, "is not an address"),
        ({"to": '"a b"@example.com'}, "is not an address"),
        ({"user": "ops"}, "user and password belong together"),
        ({"password": "x"}, "user and password belong together"),
        ({"user": "ops", "password": ""}, "password must be a text"),
        ({"user": "", "password": "x"}, "user must be a text"),
        ({"user": 7, "password": "x"}, "user must be a text"),
        ({"on_doubt": "ask"}, 'on_doubt is "repeat" or "hold", not \'ask\''),
        ({"timeout": None}, "a request needs a time limit"),
        ({"timeout": "soon"}, "timeout: 'soon' is not a duration"),
        ({"attempts": 0}, "attempts must be a whole number from 1 up"),
    ],
)
def test_mistakes_are_told_as_it_is_declared(options: dict[str, Any], said: str):
    with pytest.raises(ConfigError) as caught:
        email(**{**RIGHT, **options})
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("url", "options", "port"),
    [
        ("smtp+starttls://mail.example.com", {}, 587),
        ("smtps://mail.example.com/", {}, 465),
        ("smtp://mail.example.com", {"allow_plain": True}, 25),
        ("smtp://127.0.0.1", {"allow_private": True}, 25),
        ("smtps://mail.example.com:2465", {}, 2465),
    ],
)
def test_the_usual_ports(url: str, options: dict[str, Any], port: int):
    assert email(**{**RIGHT, "url": url, **options})._server.port == port


async def test_a_user_from_the_environment_has_no_nul(monkeypatch: pytest.MonkeyPatch):
    channel = email(**RIGHT, user="o\0ps", password="x")
    with pytest.raises(ConfigError, match="NUL"):
        await channel.open(NOWHERE)


def test_what_it_says_of_itself_holds_no_secret():
    channel = email(**RIGHT, user="ops", password=PASSWORD, on_doubt="hold")
    assert channel.describe() == {
        "kind": "email",
        "url": "smtp+starttls://mail.example.com",
        "sender": SENDER,
        "to": ["ops@example.com"],
        "login": True,
        "on_doubt": "hold",
        "allow_private": False,
    }
    assert repr(channel) == 'email("smtp+starttls://mail.example.com")'
