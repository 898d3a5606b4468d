"""Errors in the form in which they are stored and shown, and back."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Mapping
from typing import Any, get_args

from wakeful.errors import FailureClass, StepFailed, Transient
from wakeful.failures import KNOWN_FAILURE, KNOWN_LASTING, classify
from wakeful.redaction import redact

TRACEBACK_LIMIT = 8_000
MESSAGE_LIMIT = 4_000


def describe(error: BaseException) -> dict[str, Any]:
    """An exception in stored form: its class, message, failure class and the end of its traceback."""
    kind, verdict = type(error), classify(error)
    lines = "".join(traceback.format_exception(kind, error, error.__traceback__))
    return {
        "type": kind.__name__,
        "kind": f"{kind.__module__}:{kind.__qualname__}",
        "message": words_of(error)[:MESSAGE_LIMIT],
        "failure": verdict.failure,
        **({} if verdict.lasting else {"lasting": False}),
        "traceback": storable(redact(lines)[-TRACEBACK_LIMIT:]),  # redact before the cut: half a secret is not found
    }


def words_of(error: BaseException) -> str:
    """The message of an exception, with known secrets redacted, in characters that any database can store."""
    try:
        words = redact(str(error))
    except Exception:
        words = ""
    return storable(words) or type(error).__name__


def in_one_line(message: str) -> str:
    """The first line of a message; if it only announces more ("The end of its stderr:"), the last line too."""
    lines = [line for line in map(str.strip, message.splitlines()) if line]
    if not lines:
        return ""
    return f"{lines[0]} {lines[-1]}" if lines[0].endswith(":") and len(lines) > 1 else lines[0]


def storable(text: str) -> str:
    """The text without NUL and lone surrogates: no database stores the former, no encoding the latter."""
    return text.replace("\0", "␀").encode("utf-8", "replace").decode()


def restore(stored: Mapping[str, Any]) -> Exception:
    """A stored error as an exception of its own class, so that `except` clauses work on resume as they did before.

    Only classes that the program has imported are used. Their `__init__` is not called, because its signature is
    unknown.
    """
    message = str(stored.get("message", ""))
    module, _, name = str(stored.get("kind", "")).partition(":")
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    if not (isinstance(found, type) and issubclass(found, Exception)):
        return StepFailed(f"{stored.get('type')}: {message}")
    try:
        error = found.__new__(found, message)
    except Exception:
        return StepFailed(f"{stored.get('type')}: {message}")
    error.args = (message,)
    if stored.get("failure") in get_args(FailureClass):
        error.__dict__[KNOWN_FAILURE] = stored["failure"]
        error.__dict__[KNOWN_LASTING] = stored.get("lasting", True)
    if isinstance(error, Transient):
        error.retry_after = None
    return error
