"""The secrets that this process knows, and their removal from text that people see.

    env("SHOP")  ─ declared ─┐
    reveal(…)    ─ used ─────┤
    WAKEFUL_TOKEN, …_KEYS, … ├──► forms: as it is, in JSON, in a URL, in base64 ──► redact(text): `[redacted: SHOP]`
    passwords of addresses ──┤
    GITHUB_TOKEN, DESK_KEY … ┘    variables with the name of a credential

There is one set for the whole process, like its environment and its log: the output of one app must not show the
secrets of another. A value stays known when its variable changes, since older text may still contain it. Text without a
secret is returned unchanged, after one search for each form; nothing is compiled or copied.
"""

from __future__ import annotations

import os
import re
import threading
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping
from urllib.parse import parse_qsl, quote, quote_plus, unquote, urlsplit

LEAST = 8  # characters; a shorter value would also be found in unrelated words
LEAST_WORD = (
    16  # for lowercase letters only: "postgres" and "password" are passwords in many tests, and words in every log
)
LINE = 16  # the shortest line of a multi-line secret that is searched for
MOST_VALUES = 64  # under one name, for a variable that changes: the latest ones
LOOK_EVERY = 1.0

TOKENS = ("WAKEFUL_TOKEN", "WAKEFUL_PING")
KEYS = ("WAKEFUL_ENCRYPTION_KEYS",)
_CREDENTIAL = re.compile(
    r"(?:^|_)(?:TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|KEY|DSN)(?:_NEXT|_OLD|_\d+)?$",
    re.IGNORECASE,
).search
_SECRET_OPTION = re.compile(r"pass|pwd|token|secret|key|signature|credential", re.IGNORECASE).search
_SEVERAL = re.compile(r"[\s,]+").split


class KnownSecrets:
    """The secrets that this process knows, by value."""

    def __init__(
        self, environment: Mapping[str, str] | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._environment = environment
        self._clock = clock
        self._lock = threading.Lock()
        self._declared: set[str] = set()
        self._values: dict[str, dict[str, None]] = {}  # by name, the latest last
        self._forms: tuple[tuple[str, str], ...] = ()
        self._forms_in_bytes: tuple[tuple[bytes, bytes], ...] = ()
        self._look_at = 0.0

    def declare(self, name: str) -> None:
        """Declare that an environment variable holds a secret, now or later."""
        if name not in self._declared:
            with self._lock:
                self._declared.add(name)
            self._look_at = 0.0

    def learn(self, name: str, *values: str) -> None:
        """Add secrets. `name` is shown in their place."""
        known = self._values.get(name, {})
        if all(value in known or not is_distinctive(value) for value in values):
            return
        with self._lock:
            known = self._values.setdefault(name, {})
            for value in values:
                if is_distinctive(value):
                    known.pop(value, None)
                    known[value] = None
            for old in list(known)[:-MOST_VALUES]:
                del known[old]
            self._make_forms()

    def learn_secret(self, name: str, value: str) -> None:
        """Add the value of a secret; if it is an address, its password too."""
        if value not in self._values.get(name, ()):
            self.learn(name, value, *passwords_of(value))

    def learn_address(self, name: str, url: str) -> None:
        """Add the passwords in an address; the rest of it is not secret."""
        if found := list(passwords_of(url)):
            self.learn(name, *found)

    def forget(self) -> None:
        """Forget everything. For tests, which change the environment."""
        with self._lock:
            self._declared.clear()
            self._values.clear()
            self._forms, self._forms_in_bytes = (), ()
            self._look_at = 0.0

    def forms(self) -> tuple[tuple[str, str], ...]:
        """The texts to search for, and their replacements. For callers that search many texts at once."""
        if self._clock() >= self._look_at:
            self._look()
        return self._forms

    def redact(self, text: str) -> str:
        """The text with known secrets replaced."""
        for form, shown in self.forms():
            if form in text:
                text = text.replace(form, shown)
        return text

    def redact_bytes(self, content: bytes) -> bytes:
        """Like `redact`, for encoded text such as JSON on its way out."""
        if self._clock() >= self._look_at:
            self._look()
        for form, shown in self._forms_in_bytes:
            if form in content:
                content = content.replace(form, shown)
        return content

    def redact_base64(self, text: str) -> str:
        """Like `redact`, for the content of base64 text; the result is valid base64."""
        content = b64decode(text)
        cleaned = self.redact_bytes(content)
        return text if cleaned is content else b64encode(cleaned).decode()

    def _look(self) -> None:
        """Read the secrets of the current environment."""
        self._look_at = self._clock() + LOOK_EVERY
        try:
            there = dict(os.environ if self._environment is None else self._environment)
        except KeyError:  # another thread has just removed a variable
            self._look_at = 0.0
            return
        for name, value in there.items():
            if len(value) < LEAST:
                continue
            if name in self._declared or name in TOKENS:
                self.learn_secret(name, value)
            elif name in KEYS:
                self.learn(name, *_SEVERAL(value))
            elif _CREDENTIAL(name) and not value.startswith(("/", "~", ".")):  # the path of a secret file is not secret
                self.learn_secret(name, value)
            elif "://" in value:
                self.learn_address(name, value)

    def _make_forms(self) -> None:
        found: dict[str, str] = {}
        for name, values in self._values.items():
            for value in values:
                for form in forms_of(value):
                    found.setdefault(form, f"[redacted: {name}]")
        # The longest first: one secret may be part of another.
        ordered = sorted(found.items(), key=lambda one: -len(one[0]))
        self._forms_in_bytes = tuple((form.encode("utf-8", "replace"), shown.encode()) for form, shown in ordered)
        self._forms = tuple(ordered)


def is_distinctive(value: str) -> bool:
    """Whether a value is unlike ordinary text, so that it can be searched for."""
    return len(value) >= LEAST and not (
        len(value) < LEAST_WORD and value.isascii() and value.isalpha() and value.islower()
    )


def forms_of(value: str) -> Iterable[str]:
    """The forms of a value in text: as it is, escaped as in JSON and in Python, in a URL, and in base64."""
    from json import dumps

    raw = value.encode("utf-8", "surrogateescape")
    written = {value, raw.decode("utf-8", "replace"), repr(value)[1:-1]}
    for _ in range(2):  # JSON may hold text that is JSON itself
        written |= {dumps(one, ensure_ascii=ascii_only)[1:-1] for one in written for ascii_only in (True, False)}
    forms = {*written, quote(raw, safe=""), quote(raw), quote_plus(raw)}
    forms.update(line for line in value.splitlines() if len(line) >= LINE)
    for before in range(3):  # base64 groups bytes by three, so the bytes before the secret change its form
        whole = b64encode(b"\0" * before + raw).decode().rstrip("=")
        first, last = -(-before * 8 // 6), (before + len(raw)) * 8 // 6
        forms.add(whole[first:last])
        forms.add(whole[first:last].replace("+", "-").replace("/", "_"))
    return [form for form in forms if len(form) >= LEAST]


def passwords_of(url: str) -> Iterable[str]:
    """The secrets in an address: the password before the host, and options like `password=`; both raw and decoded."""
    if "://" not in url:
        return
    try:
        parts = urlsplit(url)
        found = [parts.password or ""]
    except ValueError:
        return
    if "@" in parts.path:  # a password with a "/" in it
        found.append(url.partition("://")[2].rpartition("@")[0].partition(":")[2])
    options = [*parse_qsl(parts.query), *(pair.partition("=")[::2] for pair in re.split("[&;]", parts.query))]
    found += [value for option, value in options if _SECRET_OPTION(option)]
    for one in found:
        yield one
        yield unquote(one)


KNOWN = KnownSecrets()
redact, redact_bytes, redact_base64 = KNOWN.redact, KNOWN.redact_bytes, KNOWN.redact_base64
