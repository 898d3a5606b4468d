"""Signatures by Standard Webhooks, held to the example that the specification's own libraries are tested with."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from wakeful.errors import ConfigError
from wakeful.signing import read_key, sign

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
IDENTIFIER = "msg_p5jXN8AQM9LWM0D4loKWxJek"
SIGNATURE = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_the_published_example():
    key = read_key(SECRET, needed_by="test")
    assert sign([key], IDENTIFIER, 1614265330, b'{"test": 2432232314}') == {
        "webhook-id": IDENTIFIER,
        "webhook-timestamp": "1614265330",
        "webhook-signature": SIGNATURE,
    }


def test_every_key_signs_in_its_order():
    keys = [read_key(SECRET, needed_by="test"), read_key("plain text", needed_by="test")]
    first, second = sign(keys, IDENTIFIER, 1614265330, b'{"test": 2432232314}')["webhook-signature"].split(" ")
    assert first == SIGNATURE
    content = f'{IDENTIFIER}.1614265330.{{"test": 2432232314}}'.encode()
    assert second == "v1," + base64.b64encode(hmac.digest(b"plain text", content, hashlib.sha256)).decode()


def test_without_a_key_there_is_no_signature():
    assert sign([], "a", 7, b"") == {"webhook-id": "a", "webhook-timestamp": "7"}


@pytest.mark.parametrize(
    ("secret", "said"),
    [
        ("whsec_not base64!", "is not base64"),
        ("whsec_ä", "is not base64"),
        ("whsec_", "the secret is empty"),
        ("", "the secret is empty"),
        ("whsk_c2VjcmV0", "asymmetric"),
        ("whpk_c2VjcmV0", "asymmetric"),
    ],
)
def test_a_secret_that_is_none_is_refused_and_not_repeated(secret: str, said: str):
    with pytest.raises(ConfigError, match=said) as caught:
        read_key(secret, needed_by="http(https://example.com)")
    assert str(caught.value).startswith("http(https://example.com): ")
    assert len(secret) < 8 or secret not in str(caught.value)
