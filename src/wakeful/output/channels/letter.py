"""A message as an email: plain text, with headers that are the same at every try.

    Message-ID   <operation id@domain of the sender>     mail programs fold repetitions by it
    References   <digest of app and thread@domain>       the same for all messages of a thread: an email that was never sent
    Date         of the commit

Only `text.py` and the standard library write what comes from a message, and the ids are digests, so no text becomes a header.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from wakeful.clock import to_datetime
from wakeful.errors import ConfigError
from wakeful.output.channels.base import Message
from wakeful.output.channels.text import cut, repetition_of, text_of, title_of

TEXT_LIMIT = 100_000  # characters: to write them keeps the event loop busy for some milliseconds
TITLE_LIMIT = 200
MOST_RECIPIENTS = 100  # as many as every server takes at once
_ATEXT = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_ADDRESS = re.compile(rf"(?=.{{1,64}}@){_ATEXT}(?:\.{_ATEXT})*@{_LABEL}(?:\.{_LABEL})*").fullmatch
_NAMED = re.compile(r"\s*(.*?)\s*<([^<>]*)>\s*").fullmatch
_ATOM = re.compile(r"[A-Za-z0-9_-]{1,64}").fullmatch
_LONGEST_ADDRESS = 254
_FIRST_DOT = re.compile(rb"^\.", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Mailbox:
    """An address, with the name of its owner or without."""

    address: str
    name: str = ""

    @property
    def domain(self) -> str:
        return self.address.rpartition("@")[2].lower()

    def __str__(self) -> str:
        return f"{self.name} <{self.address}>" if self.name else self.address


def read_mailbox(given: Any, what: str, where: str) -> Mailbox:
    """A declared address: `ops@example.com` or `Ops <ops@example.com>`."""
    parts = _NAMED(given) if isinstance(given, str) else None
    name, address = (parts[1].strip('" '), parts[2]) if parts else ("", given)
    if (
        not isinstance(address, str)
        or not _ADDRESS(address)
        or len(address) > _LONGEST_ADDRESS
        or not name.isprintable()
    ):
        message = (
            f'{where}: {what}: {given!r} is not an address: write it in ASCII (a domain of other letters as "xn--…"), '
            'like "ops@example.com" or "Ops <ops@example.com>"'
        )
        raise ConfigError(message)
    return Mailbox(address, name)


def read_mailboxes(given: Any, what: str, where: str) -> tuple[Mailbox, ...]:
    """Declared addresses: one, or a list of them."""
    several = list(given) if isinstance(given, list | tuple | set | frozenset) else [given]
    found = tuple(read_mailbox(one, what, where) for one in several)
    if not 1 <= len(found) <= MOST_RECIPIENTS or len({one.address for one in found}) < len(found):
        message = f"{where}: {what}: from 1 to {MOST_RECIPIENTS} addresses, each once; there are {len(found)}"
        raise ConfigError(message)
    return found


def message_id(message: Message, sender: Mailbox) -> str:
    """The same at every try."""
    own = message.id if _ATOM(message.id) else _digest(message.id)
    return f"<{own}@{sender.domain}>"


def root_id(message: Message, sender: Mailbox) -> str | None:
    """The id that all messages of a thread refer to."""
    return None if message.thread is None else f"<{_digest(message.app, message.thread)}@{sender.domain}>"


def write(message: Message, sender: Mailbox, to: Sequence[Mailbox]) -> bytes:
    """The whole email, with CRLF after each line."""
    from email.headerregistry import Address
    from email.message import EmailMessage
    from email.policy import SMTP

    email = EmailMessage(SMTP.clone(cte_type="7bit", max_line_length=76))  # ASCII: no server has to offer more
    email["From"] = Address(sender.name, addr_spec=sender.address)
    email["To"] = [Address(one.name, addr_spec=one.address) for one in to]
    email["Subject"] = title_of(message, TITLE_LIMIT)
    email["Date"] = to_datetime(message.committed_at)
    email["Auto-Submitted"] = "auto-generated"  # no automatic answers, such as notes of absence
    if message.urgent:
        email["Importance"] = "high"
    repetition = repetition_of(message)
    words = cut(text_of(message).words, TEXT_LIMIT)
    email.set_content(words if repetition is None else f"{repetition}\n\n{words}")
    return _ids(message, sender) + email.as_bytes()


def _ids(message: Message, sender: Mailbox) -> bytes:
    """Headers with ids, in one line each: the standard library encodes a long id in a way that few mail programs read."""
    lines = [f"Message-ID: {message_id(message, sender)}"]
    root = root_id(message, sender)
    if root is not None:
        lines += [f"In-Reply-To: {root}", f"References: {root}"]
    return "".join(f"{line}\r\n" for line in lines).encode("ascii")


def with_doubled_dots(content: bytes) -> bytes:
    """For the exchange with a server, which reads a line with one dot as the end."""
    return _FIRST_DOT.sub(b"..", content)


def _digest(*parts: str) -> str:
    whole = "\0".join(parts).encode("utf-8", "surrogatepass")
    return hashlib.sha256(whole).hexdigest()[:32]
