"""Errors in the form in which they are stored and shown, and back."""

from __future__ import annotations

import re
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from wakeful.errors import Denied, Failure, FailureClass, NotSent, Persistent, RateLimited, StepFailed, Transient
from wakeful.failures import KNOWN_FAILURE, KNOWN_LASTING, classify
from wakeful.redaction import redact

TRACEBACK_LIMIT = 8_000
MESSAGE_LIMIT = 4_000
# Classes that both Wakeful and the code of an app raise: they do not say whose words the message has.
SHARED = frozenset(kind.__name__ for kind in (Failure, Transient, RateLimited, NotSent, Persistent, Denied, StepFailed))
KNOWN_ORIGIN = "__wakeful_by_wakeful__"
_PACKAGE = Path(__file__).parent
_FRAME = re.compile(r'^\s*File "[^"]*/wakeful/([^"]+)", line \d+|^\s*File "', re.MULTILINE)


def describe(error: BaseException) -> dict[str, Any]:
    """An exception in stored form: its class, message, failure class and the end of its traceback. `by_wakeful`: Wakeful raised it, and
    not the code of the app; for classes that both raise. `decided`: the decision that denied it is stored.
    """
    kind, verdict = type(error), classify(error)
    lines = "".join(traceback.format_exception(kind, error, error.__traceback__))
    return {
        "type": kind.__name__,
        "kind": f"{kind.__module__}:{kind.__qualname__}",
        "message": words_of(error)[:MESSAGE_LIMIT],
        "failure": verdict.failure,
        **({} if verdict.lasting else {"lasting": False}),
        **({"by_wakeful": _raised_here(error)} if _is_ours(kind.__module__) and kind.__name__ in SHARED else {}),
        **({"decided": True} if isinstance(error, Denied) and error.stored else {}),
        "traceback": storable(redact(lines)[-TRACEBACK_LIMIT:]),  # redact before the cut: half a secret is not found
    }


def by_wakeful(stored: Mapping[str, Any]) -> bool:
    """Whether Wakeful raised a stored error: its words are those of a version of Wakeful, and may change with the next one."""
    module, _, name = str(stored.get("kind", "")).partition(":")
    if not _is_ours(module) or name not in SHARED:
        return _is_ours(module)
    told = stored.get("by_wakeful")
    if told is not None:
        return bool(told)
    # An older version stored it: the last frame of its traceback is the place where it was raised.
    frames = _FRAME.findall(str(stored.get("traceback", "")))
    return bool(frames) and "/" in frames[-1] and _is_ours_file(frames[-1])


def _raised_here(error: BaseException) -> bool:
    """Whether the code of Wakeful raised this exception, or made one that was never raised."""
    known = getattr(error, KNOWN_ORIGIN, None)
    if known is not None:
        return bool(known)
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    return last is None or _is_ours(str(last.tb_frame.f_globals.get("__name__", "")))


def _is_ours(module: str) -> bool:
    """Whether this is a module of Wakeful. The demonstration and the test kit stand for the code of an app."""
    package, _, rest = module.partition(".")
    return package == "wakeful" and rest.partition(".")[0] not in {"demo", "testing"}


def _is_ours_file(path: str) -> bool:
    return not path.startswith(("demo/", "testing/")) and (_PACKAGE / path).is_file()


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
    error: Exception = StepFailed(f"{stored.get('type')}: {message}")
    error.__dict__[KNOWN_ORIGIN] = by_wakeful(stored)  # its traceback is lost
    if not (isinstance(found, type) and issubclass(found, Exception)):
        return error
    try:
        error = found.__new__(found, message)
    except Exception:
        return error
    error.args = (message,)
    error.__dict__[KNOWN_ORIGIN] = by_wakeful(stored)
    if stored.get("failure") in get_args(FailureClass):
        error.__dict__[KNOWN_FAILURE] = stored["failure"]
        error.__dict__[KNOWN_LASTING] = stored.get("lasting", True)
    if isinstance(error, Transient):
        error.retry_after = None
    if isinstance(error, Denied):
        error.stored = bool(stored.get("decided"))
    return error
