"""Requests of every sender: refused, or what it signed; and what a genuine one says is an event or InvalidEvent.

A file holds headers, an empty line and a body. Its header `sender` names the sender; with `signed: yes` the body is signed
anew after it was changed, as a sender would that went mad.
"""

from __future__ import annotations

from dataclasses import replace

from support.fuzzing import bounded, fuzzed, headers_and_body, message, replayed
from support.senders import SENDERS, Sender, examine_genuine
from wakeful.verify import Refused

TARGET = "webhooks"
NAMED = {sender.name: sender for sender in SENDERS}


def seed(sender: Sender, *, signed: bool) -> bytes:
    headers = {"sender": sender.name, **({"signed": "yes", **sender.headers} if signed else sender.request().headers)}
    return message(headers, sender.raw)


SEEDS = [seed(sender, signed=signed) for sender in SENDERS for signed in (False, True)]
TOKENS = [f"\nsender: {name}\n".encode() for name in NAMED]
TOKENS += [
    b"\nsigned: yes\n",
    b"t=",
    b"v1=",
    b"v0=",
    b"sha256=",
    b"Bearer ",
    b"Basic ",
    b"whsec_",
    b"payload=",
    b"&",
    b"%ed%a0%80",
]


def examine(content: bytes) -> None:
    headers, body = headers_and_body(content)
    sender = NAMED.get(headers.pop("sender", ""), SENDERS[0])
    signed = headers.pop("signed", None)
    with bounded(content, TARGET):
        if signed:
            genuine = replace(sender, headers=headers, body=body)
            genuine.verifier().verify(genuine.request())
            examine_genuine(genuine, genuine.request())
            return
        request = replace(sender.request(), headers=headers, body=body)
        try:
            sender.verifier().verify(request)
        except Refused as refused:
            str(refused).encode()
        else:
            # Senders of one service share the secret: a request of one is genuine under the name of another, too.
            same = [one for one in SENDERS if (one.declare, one.secret) == (sender.declare, sender.secret)]
            assert not sender.signs_body or body in {one.raw for one in same}
        examine_genuine(sender, request)


@replayed(TARGET)
def test_the_corpus(content: bytes):
    examine(content)


@fuzzed(TARGET, *SEEDS, tokens=TOKENS)
def test_mutations(content: bytes):
    examine(content)
