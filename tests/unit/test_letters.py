"""Whatever a message says, its email has the headers of the channel and no others, and says all of it."""

from __future__ import annotations

from email import message_from_bytes
from email.header import decode_header, make_header
from email.utils import parseaddr
from typing import Any

from hypothesis import given
from hypothesis import strategies as some

from support.mail_servers import read
from support.messages import message
from wakeful.output.channels.letter import Mailbox, read_mailbox, with_doubled_dots, write
from wakeful.output.channels.text import text_of

HEADERS = [
    "Message-ID",
    "From",
    "To",
    "Subject",
    "Date",
    "Auto-Submitted",
    "Content-Type",
    "Content-Transfer-Encoding",
    "MIME-Version",
]
OPS = Mailbox("ops@example.com")
NASTY = some.sampled_from(
    ["\r\n", "\r\nBcc: eve@example.net\r\n", "\n.\n", "=?utf-8?q?x?=", "\r", "\x85", "\u2028", "\0", "From ", "<", ","]
)
TEXTS = some.lists(some.text(some.characters(), max_size=60) | NASTY, max_size=8).map("".join)


@given(subject=some.none() | TEXTS, body=TEXTS, thread=some.none() | TEXTS, identifier=TEXTS)
def test_no_text_becomes_a_header(subject: str | None, body: str, thread: str | None, identifier: str):
    one = message(identifier, body, subject=subject, thread=thread)
    email = read(write(one, OPS, [OPS]))
    threaded = [] if thread is None else ["In-Reply-To", "References"]
    assert sorted(email.keys()) == sorted([*HEADERS, *threaded])
    assert str(email["From"]) == str(email["To"]) == "ops@example.com"
    assert email.get_content().replace("\r\n", "\n").rstrip("\n") == text_of(one).words.rstrip("\n")


@given(name=some.text(some.characters(), max_size=80))
def test_a_name_is_shown_and_nothing_else(name: str):
    sender = Mailbox("ops@example.com", name) if name.isprintable() else OPS
    content = write(message(), sender, [sender])
    read(content)
    # Not by the newer parser, which shows a space between two encoded words that belong together.
    shown, address = parseaddr(message_from_bytes(content)["From"])
    decoded = str(make_header(decode_header(shown)))
    assert (address, " ".join(decoded.split())) == (sender.address, " ".join(sender.name.split()))


@given(address=some.emails(domains=some.sampled_from(["example.com", "a-b.example", "localhost"])))
def test_an_address_that_is_taken_can_be_written(address: str):
    try:
        mailbox = read_mailbox(address, "to", "here")
    except Exception:  # longer than allowed
        assert len(address.partition("@")[0]) > 64
        return
    (found,) = read(write(message(), OPS, [mailbox]))["To"].addresses
    assert found.addr_spec == address


@given(content=some.lists(some.sampled_from([b".", b"..", b"\r\n", b"x", b"\r\n."]), max_size=30).map(b"".join))
def test_no_line_of_a_text_is_its_end(content: bytes):
    sent: Any = with_doubled_dots(content + b"\r\n").split(b"\r\n")
    assert b"." not in sent
    assert [line[1:] if line.startswith(b".") else line for line in sent] == (content + b"\r\n").split(b"\r\n")
