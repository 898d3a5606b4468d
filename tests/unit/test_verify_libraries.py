"""Signatures held to those who make them: the senders' own libraries, both ways, and the examples that they publish."""

from __future__ import annotations

import base64
import hmac
import json
from datetime import UTC, datetime

import pytest
import standardwebhooks
import stripe
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as some
from slack_sdk.signature import Clock, SignatureVerifier

from support.senders import NOW, SECRET, STANDARD, STANDARD_SECRET, STRIPE, by_slack, by_standard_webhooks, by_stripe
from wakeful import ConfigError, verify
from wakeful.clock import SECOND
from wakeful.signing import read_key, sign
from wakeful.verify import Refused, WebhookRequest

BODIES = some.text().map(lambda text: json.dumps({"text": text}, ensure_ascii=False).encode())


def request(headers: dict[str, str], body: bytes, received: float = NOW) -> WebhookRequest:
    return WebhookRequest("/hooks", headers, body, round(received * SECOND))


# published examples


def test_the_example_that_github_documents():
    signature = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    verifier = verify.github(secret="It's a Secret to Everybody")
    verifier.verify(request({"x-hub-signature-256": signature}, b"Hello, World!"))
    with pytest.raises(Refused, match="does not match"):
        verifier.verify(request({"x-hub-signature-256": signature}, b"Hello, World?"))


def test_the_example_that_jira_documents():
    signature = "sha256=a4771c39fbe90f317c7824e83ddef3caae9cb3d976c214ace1f2937e133263c9"
    verifier = verify.jira(secret="It's a Secret to Everybody")
    verifier.verify(request({"x-hub-signature": signature}, b"Hello World!"))
    with pytest.raises(Refused, match="does not match"):
        verifier.verify(request({"x-hub-signature": signature}, b"Hello, World!"))


def test_the_example_that_slack_documents():
    body = (
        b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V"
        b"&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text="
        b"&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN"
        b"&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
    )
    headers = {
        "content-type": "application/x-www-form-urlencoded",
        "x-slack-request-timestamp": "1531420618",
        "x-slack-signature": "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
    }
    verifier = verify.slack(secret="8f742231b10e8888abcd99yyyzzz85a5")
    genuine = request(headers, body, 1531420618)
    verifier.verify(genuine)
    told = verifier.read(genuine)
    assert (told.type, told.subject) == ("slack.command", "G8PSS9T3V")
    assert told.id == "398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
    assert told.data["command"] == "/webhook-collect"
    assert told.data["text"] == ""


def test_the_example_of_the_standard():
    headers = {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }
    verifier = verify.standard_webhooks(secret=STANDARD_SECRET)
    verifier.verify(request(headers, b'{"test": 2432232314}', 1614265330))


# theirs and ours


@given(BODIES)
def test_what_stripe_signs_is_verified(body: bytes):
    header = stripe.WebhookSignature._compute_signature(f"{NOW}.{body.decode()}", SECRET)
    verify.stripe(SECRET).verify(request({"stripe-signature": f"t={NOW},v1={header},v0=1234"}, body))


@given(BODIES)
def test_what_is_verified_stripe_verifies_too(body: bytes):
    header = by_stripe(SECRET, body, NOW)["stripe-signature"]
    assert stripe.WebhookSignature.verify_header(body.decode(), header, SECRET)
    verify.stripe(SECRET).verify(request({"stripe-signature": header}, body))


def test_an_event_of_stripe_is_the_one_that_its_library_reads():
    header = by_stripe(SECRET, STRIPE.raw, NOW)["stripe-signature"]
    theirs = stripe.Webhook.construct_event(STRIPE.raw, header, SECRET, tolerance=10**10)
    ours = STRIPE.verifier().read(STRIPE.request())
    assert ours.time is not None
    assert (theirs.id, f"stripe.{theirs.type}", theirs.created) == (ours.id, ours.type, ours.time.timestamp())


class At(Clock):
    def now(self) -> float:
        return NOW


@given(BODIES)
def test_what_slack_signs_is_verified_and_the_other_way_round(body: bytes):
    theirs = SignatureVerifier(SECRET, clock=At())
    headers = {
        "x-slack-request-timestamp": str(NOW),
        "x-slack-signature": str(theirs.generate_signature(timestamp=str(NOW), body=body)),
    }
    verify.slack(SECRET).verify(request(headers, body))
    ours = by_slack(SECRET, body, NOW)
    assert theirs.is_valid(body, ours["x-slack-request-timestamp"], ours["x-slack-signature"])
    assert ours == headers


@given(BODIES)
def test_what_the_standards_library_signs_is_verified(body: bytes):
    theirs = standardwebhooks.Webhook(STANDARD_SECRET)
    signature = theirs.sign("msg_1", datetime.fromtimestamp(NOW, UTC), body.decode())
    headers = {"webhook-id": "msg_1", "webhook-timestamp": str(NOW), "webhook-signature": signature}
    verify.standard_webhooks(STANDARD_SECRET).verify(request(headers, body))
    assert headers == by_standard_webhooks(STANDARD_SECRET, body, NOW)


def test_what_is_verified_the_standards_library_verifies_too():
    now = int(datetime.now(UTC).timestamp())
    headers = by_standard_webhooks(STANDARD_SECRET, STANDARD.raw, now)
    assert standardwebhooks.Webhook(STANDARD_SECRET).verify(STANDARD.raw, headers) == STANDARD.body
    verify.standard_webhooks(STANDARD_SECRET).verify(request(headers, STANDARD.raw, now))


@given(BODIES)
def test_what_the_channel_http_signs_is_verified(body: bytes):
    key = read_key(STANDARD_SECRET, needed_by="test")
    verify.standard_webhooks(STANDARD_SECRET).verify(request(sign([key], "run.1", NOW, body), body))


def test_the_headers_that_came_before_the_standard():
    headers = {
        name.replace("webhook", "svix"): value
        for name, value in by_standard_webhooks(STANDARD_SECRET, STANDARD.raw, NOW).items()
    }
    verifier = verify.standard_webhooks(STANDARD_SECRET)
    verifier.verify(request(headers, STANDARD.raw))
    assert verifier.read(request(headers, STANDARD.raw)).id == "msg_1"


# a pair of keys


def by_private_key(key: Ed25519PrivateKey, body: bytes) -> dict[str, str]:
    signature = base64.b64encode(key.sign(f"msg_1.{NOW}.".encode() + body)).decode()
    return {"webhook-id": "msg_1", "webhook-timestamp": str(NOW), "webhook-signature": f"v1a,{signature}"}


def public(key: Ed25519PrivateKey) -> str:
    return "whpk_" + base64.b64encode(key.public_key().public_bytes_raw()).decode()


def test_what_a_private_key_signs_is_verified_with_the_public_one():
    key, other = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
    headers = by_private_key(key, STANDARD.raw)
    for secret in (public(key), [public(other), public(key)], [STANDARD_SECRET, public(key)]):
        verifier = verify.standard_webhooks(secret)
        verifier.open("webhook /hooks")
        verifier.verify(request(headers, STANDARD.raw))
        for refused in (
            request(headers, STANDARD.raw + b" "),
            request(headers | {"webhook-id": "msg_2"}, STANDARD.raw),
            request(headers, STANDARD.raw, NOW + 301),
            request(headers | {"webhook-signature": "v1a,AAAA"}, STANDARD.raw),
            request(headers | {"webhook-signature": headers["webhook-signature"].replace("v1a", "v1")}, STANDARD.raw),
        ):
            with pytest.raises(Refused):
                verifier.verify(refused)
    with pytest.raises(Refused):
        verify.standard_webhooks(public(other)).verify(request(headers, STANDARD.raw))


def test_a_public_key_is_no_shared_secret():
    """Everybody knows it: what was signed with it as if it were one proves nothing."""
    key = public(Ed25519PrivateKey.generate())
    for secret in (key, base64.b64decode(key.removeprefix("whpk_"))):
        content = f"msg_1.{NOW}.".encode() + STANDARD.raw
        forged = base64.b64encode(
            hmac.digest(secret.encode() if isinstance(secret, str) else secret, content, "sha256")
        )
        headers = {"webhook-id": "msg_1", "webhook-timestamp": str(NOW)}
        for version in ("v1", "v1a"):
            signed = headers | {"webhook-signature": f"{version},{forged.decode()}"}
            with pytest.raises(Refused):
                verify.standard_webhooks(key).verify(request(signed, STANDARD.raw))


@pytest.mark.parametrize("wrong", ["whpk_", "whpk_c2VjcmV0", "whpk_!"])
def test_what_cannot_be_a_public_key(wrong: str):
    with pytest.raises(ConfigError, match="not a public key"):
        verify.standard_webhooks(wrong)
