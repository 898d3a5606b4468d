"""`hmac`: for any sender that signs requests with a shared secret; configured by what is signed and where the signature is."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar, Literal, cast

from wakeful.clock import SECOND, Duration, Microseconds, written
from wakeful.connect.verifiers.proof import (
    ALGORITHMS,
    TOLERANCE,
    after_prefix,
    aliases_of,
    from_base64,
    from_hexadecimal,
    raw,
    read_tolerance,
    require_near,
    require_signature,
    required,
)
from wakeful.connect.verifiers.reading import read_body
from wakeful.connect.verifiers.secrets import GivenSecret, Secrets
from wakeful.errors import ConfigError, did_you_mean
from wakeful.triggers.verifier import Delivered, Refused, Verifier, WebhookRequest

Encoding = Literal["hex", "base64"]
PARTS = ("body", "timestamp", "method", "path", "header:…")

_PART = re.compile(r"\{([^{}]*)\}")
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+").fullmatch
_TIME = re.compile(r"[0-9]{1,13}").fullmatch
_MILLISECONDS = 13  # digits of milliseconds since 1970, from 2001 to 2286


@dataclass(frozen=True, repr=False)
class Hmac(Verifier):
    """A signature over the body and the other parts that `signed` names."""

    name: ClassVar[str] = "hmac"
    secrets: Secrets
    header: str
    algorithm: str
    encoding: Encoding
    prefix: str
    timestamp_header: str | None
    tolerance: Microseconds
    signed: str

    def open(self, where: str) -> None:
        self.secrets.open(f"{where}: {self.name}")

    def verify(self, request: WebhookRequest) -> None:
        given = self._signature(request)
        if self.timestamp_header is not None:
            require_near(self._sent_at(self.timestamp_header, request), request, self.tolerance)
        content = request.body if self.signed == "{body}" else self._content(request)
        require_signature([given], self.secrets.as_keys(), content, name=self.header, algorithm=self.algorithm)

    def read(self, request: WebhookRequest) -> Delivered:
        return Delivered(read_body(request), aliases=aliases_of(self.name, request, self._signature))

    def reads(self) -> tuple[str, ...]:
        named = [part.removeprefix("header:") for part in _PART.findall(self.signed) if part.startswith("header:")]
        return (self.header, *named, *([] if self.timestamp_header is None else [self.timestamp_header]))

    def describe(self) -> str:
        words = [f"secret={self.secrets!r}", f'header="{self.header}"']
        words += [f'algorithm="{self.algorithm}"'] if self.algorithm != "sha256" else []
        words += [f'encoding="{self.encoding}"'] if self.encoding != "hex" else []
        words += [f'prefix="{self.prefix}"'] if self.prefix else []
        if self.timestamp_header is not None:
            words += [f'timestamp_header="{self.timestamp_header}"', f'tolerance="{written(self.tolerance)}"']
        words += [f'signed="{self.signed}"'] if self.signed != "{body}" else []
        return f"hmac({', '.join(words)})"

    __repr__ = describe

    def _signature(self, request: WebhookRequest) -> bytes:
        text = after_prefix(required(request, self.header), self.prefix, self.header)
        return (from_hexadecimal if self.encoding == "hex" else from_base64)(text, self.header)

    def _content(self, request: WebhookRequest) -> bytes:
        parts = _PART.split(self.signed)
        content = [parts[0].encode()]
        for part, text in zip(parts[1::2], parts[2::2], strict=True):
            content += [self._part(part, request), text.encode()]
        return b"".join(content)

    def _part(self, part: str, request: WebhookRequest) -> bytes:
        if part == "body":
            return request.body
        if part == "method":
            return request.method.encode("utf-8", "replace")
        if part == "path":
            return request.path.encode("utf-8", "replace")
        name = cast("str", self.timestamp_header) if part == "timestamp" else part.removeprefix("header:")
        return raw(required(request, name), name)

    @staticmethod
    def _sent_at(name: str, request: WebhookRequest) -> Microseconds:
        """Seconds since 1970, or milliseconds."""
        text = required(request, name)
        if not _TIME(text):
            message = f"the time in {name} is neither a number of seconds nor of milliseconds"
            raise Refused(message)
        return int(text) * 1_000 if len(text) == _MILLISECONDS else int(text) * SECOND


def hmac(
    secret: GivenSecret,
    *,
    header: str,
    algorithm: str = "sha256",
    encoding: Encoding = "hex",
    prefix: str = "",
    timestamp_header: str | None = None,
    tolerance: Duration = TOLERANCE,
    signed: str | None = None,
) -> Verifier:
    """Requests whose `header` contains the HMAC of `signed`, in which `{body}`, `{timestamp}`, `{method}`, `{path}` and
    `{header:X-Name}` are replaced. Default: `{timestamp}.{body}` with a `timestamp_header`, else `{body}`.

    If no time is signed and the event's id is in a header, a replayed request would look like a new one. So requests with the same
    signature are the same event. A sender that means two events by two equal bodies must sign a time.
    """
    chosen = signed if signed is not None else "{body}" if timestamp_header is None else "{timestamp}.{body}"
    if algorithm not in ALGORITHMS:
        raise ConfigError(f'hmac: unknown algorithm "{algorithm}".{did_you_mean(str(algorithm), ALGORITHMS)}')
    if encoding not in {"hex", "base64"}:
        raise ConfigError(f'hmac: encoding must be "hex" or "base64", not "{encoding}"')
    for one, value in (("header", header), ("timestamp_header", timestamp_header)):
        if value is not None and not (isinstance(value, str) and _HEADER_NAME(value)):
            raise ConfigError(f'hmac: {one} must be the name of a header, like "X-Signature", not {value!r}')
    _check_signed(chosen, timestamp_header)
    return Hmac(
        Secrets.of(secret, where="hmac"),
        header,
        algorithm,
        encoding,
        prefix,
        timestamp_header,
        read_tolerance(tolerance, where="hmac"),
        chosen,
    )


def _check_signed(signed: str, timestamp_header: str | None) -> None:
    parts = _PART.findall(signed)
    for part in parts:
        if part not in PARTS[:-1] and not (part.startswith("header:") and _HEADER_NAME(part.removeprefix("header:"))):
            raise ConfigError(f'hmac: signed names "{{{part}}}", which is unknown.{did_you_mean(part, PARTS)}')
    if re.search(r"[{}]", _PART.sub("", signed)):
        raise ConfigError(f'hmac: signed has an unmatched brace: "{signed}"')
    if "body" not in parts:
        raise ConfigError("hmac: signed must name {body}: else any body could be sent with a captured signature")
    if "timestamp" in parts and timestamp_header is None:
        raise ConfigError("hmac: signed names {timestamp}: name its header with timestamp_header=")
    if "timestamp" not in parts and timestamp_header is not None:
        raise ConfigError(
            "hmac: a time that is not signed proves nothing: name {timestamp} in signed=, or leave it out"
        )
