"""Secrets that are known are taken out of text, however they are written there."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode, urlsafe_b64encode
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakeful import env
from wakeful.errors import Persistent
from wakeful.redaction import KNOWN, LEAST, LOOK_EVERY, KnownSecrets, is_distinctive
from wakeful.stored_errors import describe, words_of
from wakeful.stores.redacting import shown_places, without_secrets


class Time:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def around():
    return {}


@pytest.fixture
def clock():
    return Time()


@pytest.fixture
def known(around, clock):
    return KnownSecrets(around, clock)


WAYS: dict[str, Callable[[str], str]] = {
    "as it is": lambda secret: secret,
    "JSON": json.dumps,
    "JSON in JSON": lambda secret: json.dumps({"text": json.dumps(secret, ensure_ascii=False)}),
    "Python": repr,
    "Python in JSON": lambda secret: json.dumps(repr({"secret": secret})),
    "URL": lambda secret: quote(secret, safe=""),
    "path": quote,
    "query": quote_plus,
    "base64": lambda secret: b64encode(secret.encode()).decode(),
    "basic": lambda secret: b64encode(f"ada:{secret}".encode()).decode(),
    "urlsafe": lambda secret: urlsafe_b64encode(f"u:{secret}!".encode()).decode(),
}


SECRETS = [
    "s3cret-value",
    'a/b+"c"\\d&e f=%',
    "schlüssel-wörter",
    "line one of it\nline two of it",
    "\udc80binary-value",
]


def can_be_written(way: str, secret: str) -> bool:
    try:
        WAYS[way](secret)
    except UnicodeEncodeError:
        return False
    return True


@pytest.mark.parametrize(
    ("way", "secret"), [(way, secret) for way in WAYS for secret in SECRETS if can_be_written(way, secret)]
)
def test_every_way_to_write_it(known, way, secret):
    known.learn("KEY", secret)
    text = f"before {WAYS[way](secret)} after"
    cleaned = known.redact(text)
    assert cleaned != text
    assert "[redacted: KEY]" in cleaned
    assert cleaned.startswith("before ")
    assert cleaned.endswith(" after")
    assert known.redact_bytes(text.encode("utf-8", "replace")) == cleaned.encode("utf-8", "replace")


@given(
    st.text(st.characters(codec="utf-8"), min_size=LEAST, max_size=40).filter(is_distinctive),
    st.binary(max_size=4),
    st.binary(max_size=4),
)
def test_in_the_middle_of_base64(secret, before, after):
    known = KnownSecrets({})
    known.learn("KEY", secret)
    text = b64encode(before + secret.encode() + after).decode()
    assert "[redacted: KEY]" in known.redact(text)
    assert secret.encode() not in b64decode(known.redact_base64(text))


def test_text_without_secrets_is_the_same_object(known):
    known.learn("KEY", "s3cret-value")
    text = "nothing to see here"
    assert known.redact(text) is text
    content = text.encode()
    assert known.redact_bytes(content) is content
    encoded = b64encode(content).decode()
    assert known.redact_base64(encoded) is encoded


def test_short_values_are_left(known, around):
    around["API_KEY"] = "short"
    known.declare("MODE")
    around["MODE"] = "live"
    assert known.redact("short lives") == "short lives"


def test_words_are_left(known, around):
    around |= {
        "DB_PASSWORD": "postgres",
        "DATABASE_URL": "postgresql://postgres:postgres@db/x",
        "API_KEY": "sesameopensesame",
    }
    text = "postgresql://postgres@db is postgres"
    assert known.redact(text) is text
    assert known.redact("sesameopensesame") == "[redacted: API_KEY]"


def test_a_secret_within_another_one(known):
    known.learn("INNER", "s3cret-value")
    known.learn("OUTER", "https://s3cret-value.example")
    assert known.redact("to https://s3cret-value.example") == "to [redacted: OUTER]"


def test_variables_that_are_known_by_name(known, around):
    around |= {
        "GITHUB_TOKEN": "gh-value-1",
        "DESK_KEY": "desk-value-1",
        "DB_PASSWORD_OLD": "db-value-1",
        "WAKEFUL_TOKEN": "token-value-1",
        "WAKEFUL_TOKEN_NEXT": "token-value-2",
        "WAKEFUL_ENCRYPTION_KEYS": "key-value-1, key-value-2",
        "APPLICATION_CREDENTIALS": "/etc/keys/app.json",  # where they are
        "EDITOR": "an-ordinary-value",
        "TOKENIZER": "another-ordinary-value",
    }
    text = " ".join(around.values())
    assert known.redact(text) == (
        "[redacted: GITHUB_TOKEN] [redacted: DESK_KEY] [redacted: DB_PASSWORD_OLD] [redacted: WAKEFUL_TOKEN] "
        "[redacted: WAKEFUL_TOKEN_NEXT] [redacted: WAKEFUL_ENCRYPTION_KEYS], [redacted: WAKEFUL_ENCRYPTION_KEYS] "
        "/etc/keys/app.json an-ordinary-value another-ordinary-value"
    )


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ada:p%40ss-w0rd@db/ops",
        "postgresql://ada@db/ops?password=p%40ss-w0rd",
        "postgresql://ada:p@ss-w0rd@db/ops",
        "https://h.example/x?api_token=p@ss-w0rd",
    ],
)
def test_of_an_address_the_password(known, around, url):
    around["WAKEFUL_STORE"] = url
    assert known.redact("ada on db: p@ss-w0rd is wrong") == "ada on db: [redacted: WAKEFUL_STORE] is wrong"


def test_a_secret_that_changes_is_known_before_and_after(known, around, clock):
    known.declare("PLAIN")
    around["PLAIN"] = "value-before"
    assert known.redact("value-before") == "[redacted: PLAIN]"
    around["PLAIN"] = "value-after"
    clock.now += LOOK_EVERY
    assert known.redact("value-before value-after") == "[redacted: PLAIN] [redacted: PLAIN]"


def test_a_secret_that_is_read_is_known_at_once(monkeypatch):
    monkeypatch.setenv("PLAIN", "value-before")
    secret = env("PLAIN")
    secret.reveal()
    monkeypatch.setenv("PLAIN", "value-after")
    assert KNOWN.redact("value-after") in {"value-after", "[redacted: PLAIN]"}  # within a second
    secret.reveal()
    assert KNOWN.redact("value-before value-after") == "[redacted: PLAIN] [redacted: PLAIN]"


def test_errors_are_redacted_before_they_are_cut():
    KNOWN.learn("KEY", "s3cret-value")
    error = Persistent("x" * 3995 + "s3cret-value")
    assert "s3cr" not in describe(error)["message"]
    assert "s3cret" not in describe(error)["traceback"]
    assert words_of(Persistent("with s3cret-value")) == "with [redacted: KEY]"


def test_rows_are_cleaned_where_they_are_only_shown():
    KNOWN.learn("KEY", "s3cret-value")
    names = ("key", "arguments", "result", "error", "reason")
    step, effect = "insert into wakeful_step (…)", "insert into wakeful_effect (…)"
    row = ("k", '["s3cret-value"]', '"s3cret-value"', '{"message":"s3cret-value"}', None)
    clean = ("k", '["[redacted: KEY]"]', '"s3cret-value"', '{"message":"[redacted: KEY]"}', None)
    assert without_secrets([row], shown_places(step, names)) == [clean]
    assert without_secrets([row], shown_places(effect, names)) == [(*row[:3], *clean[3:])]
    rows = [("k", "[]", None, None, "as usual")]
    assert without_secrets(rows, shown_places(step, names)) is rows
