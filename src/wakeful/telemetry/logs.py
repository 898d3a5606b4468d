"""Logs: one line for each thing that happened, on stderr; JSON for machines, readable lines for people.

    structlog (Wakeful, run.log) ──┐
                                   ├──► the same processors ──► JSON line, or readable line ──► no secrets ──► stderr
    logging (uvicorn, libraries) ──┘

The executor binds `run`, `agent` and `trace` as context variables, so every line that is written inside a run has them,
also those of libraries.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import sys
import threading
from collections.abc import Mapping
from typing import Any, TextIO, cast

import structlog
from structlog.typing import EventDict, Processor

from wakeful.errors import ConfigError, did_you_mean
from wakeful.escaping import escaped, escaped_json
from wakeful.model import trace_id
from wakeful.redaction import redact

LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "none": logging.CRITICAL,
}
SHOWN_OF_AN_ID = 10


def configure_logs(json: bool | None = None, *, level: str | None = None, stream: TextIO | None = None) -> None:
    """Send structlog and logging to stderr. `json` None: JSON unless stderr is a terminal. `level` None: WAKEFUL_LOG,
    or info.
    """
    out = ForgivingStream(sys.stderr if stream is None else stream)
    threshold = read_level(level)
    as_json = not out.isatty() if json is None else json
    shared = _shared(as_json=as_json)
    renderer = [*(_json_renderer() if as_json else _readable_renderer(out)), _redact]
    structlog.configure(
        processors=[*shared, *renderer],
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        logger_factory=structlog.WriteLoggerFactory(file=cast("TextIO", out)),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.add_logger_name],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderer],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    # Libraries log a lot at info: their lines below a warning are shown only at level debug.
    root.setLevel(threshold if threshold <= logging.DEBUG else max(threshold, logging.WARNING))


def log_everything() -> None:
    """Turn warnings, and exceptions that end a thread, into log lines instead of text on standard error."""
    logging.captureWarnings(capture=True)
    log = logging.getLogger("wakeful")

    def thread_ended(hook: threading.ExceptHookArgs) -> None:
        name = "" if hook.thread is None else hook.thread.name
        problem = (hook.exc_type, hook.exc_value or hook.exc_type(), hook.exc_traceback)
        log.error("a thread ended with an exception: %s", name, exc_info=problem)

    threading.excepthook = thread_ended


class ForgivingStream:
    """A stream for log lines. A line that cannot be written (closed terminal, full disk) is lost: it must not stop the
    work.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError, ValueError):
            return self._stream.write(text)
        return 0

    def flush(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._stream.flush()

    def isatty(self) -> bool:
        return self._stream.isatty()


def read_level(given: str | None = None, environment: Mapping[str, str] | None = None) -> int:
    """The lowest level that is shown: the given one, else WAKEFUL_LOG, else info."""
    surroundings = os.environ if environment is None else environment
    name = (given or surroundings.get("WAKEFUL_LOG") or "info").lower()
    if name not in LEVELS:
        where = "--log-level" if given else "WAKEFUL_LOG"
        message = f'{where}: no level "{name}".{did_you_mean(name, LEVELS)}'
        raise ConfigError(message)
    return LEVELS[name]


def _shared(*, as_json: bool) -> list[Processor]:
    stamp = (
        structlog.processors.TimeStamper(fmt="iso", utc=True)
        if as_json
        else structlog.processors.TimeStamper("%H:%M:%S", utc=False)
    )
    return [structlog.contextvars.merge_contextvars, _name_trace, structlog.processors.add_log_level, stamp]


def _name_trace(_logger: Any, _method: str, line: EventDict) -> EventDict:
    """Replace `trace`, which is bound as the whole traceparent, by the trace id in it, if there is one."""
    if "trace" in line:
        found = trace_id(line.pop("trace"))
        if found is not None:
            line["trace_id"] = found
    return line


def _redact(_logger: Any, _method: str, line: Any) -> Any:
    """The last step: redact known secrets in the finished line, with all its fields and the traceback."""
    return redact(line) if isinstance(line, str) else line


def _json_renderer() -> list[Processor]:
    return [structlog.processors.format_exc_info, _put_first, structlog.processors.JSONRenderer(serializer=_to_json)]


def _put_first(_logger: Any, _method: str, line: EventDict) -> EventDict:
    """Put time, level and message first, then the rest."""
    first = {"time": line.pop("timestamp"), "level": line.pop("level"), "message": line.pop("event")}
    return {**first, **{f"{name}_" if name in first else name: value for name, value in line.items()}}


def _to_json(value: Any, **_: Any) -> str:
    from pydantic_core import to_json

    return escaped_json(to_json(value, fallback=repr, inf_nan_mode="null").decode())


def _readable_renderer(out: ForgivingStream) -> list[Processor]:
    colors = out.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return [
        _shorten_ids,
        _escape,
        structlog.dev.ConsoleRenderer(colors=colors, pad_event_to=0, pad_level=True, exception_formatter=_traceback),
    ]


def _traceback(out: TextIO, error: Any) -> None:
    """The traceback without colours. The message of an error may come from outside, as the fields of a line may."""
    written = io.StringIO()
    structlog.dev.plain_traceback(written, error)
    out.write(escaped(written.getvalue().expandtabs(4)))


def _shorten_ids(_logger: Any, _method: str, line: EventDict) -> EventDict:
    """Shorten a run's id to its beginning, which every command accepts."""
    for name in ("run", "process"):
        value = line.get(name)
        if isinstance(value, str):
            root, dot, generation = value.partition(".")
            line[name] = f"{root[:SHOWN_OF_AN_ID]}{dot}{generation}"
    if (trace := line.get("trace_id")) is not None:
        line["trace_id"] = str(trace)[:SHOWN_OF_AN_ID]
    return line


def _escape(_logger: Any, _method: str, line: EventDict) -> EventDict:
    """Escape control characters, so that text from outside cannot affect the terminal."""
    for name, value in line.items():
        if isinstance(value, str):
            line[name] = escaped(value)
    return line
