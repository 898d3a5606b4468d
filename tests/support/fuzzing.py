"""Fuzz: seeds that are kept, mutations of their bytes, and a watchdog for each input.

    tests/fuzz/corpus/TARGET/   one input a file: real messages, and every input that ever found a fault
         │                 └──► replayed as plain tests, always
         └──► mutated ──► FUZZ_INPUTS inputs (`make test-all`: 10,000; else a few), each under a watchdog

An input is bytes for every target. A target raises for a fault only: what it may refuse, it catches itself.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

CORPUS = Path(__file__).parents[1] / "fuzz/corpus"
FEW = 150
ALARM = 10.0  # seconds of this process's own CPU time, so that a busy machine does not count
END = 120.0  # seconds on the wall: for code that never comes back to Python
MOST_MUTATIONS = 8
LONGEST = 64 * 1024
SHOWN = 4096  # bytes of an input that took too long

# What breaks parsers of bytes, of JSON and of text: ends of ranges, halves of characters, openings without an end.
TOKENS = (
    *(b"\0", b"\xff", b"\x80", b"\r\n", b"\n\n", b"\xef\xbb\xbf", "é".encode(), "\u2028".encode(), b"\xed\xa0\x80"),
    *(b"\\u0000", b"\\ud800", b"\\", b'"', b"'", b"{", b"}", b"[" * 40, b"]", b"(", b")", b",", b":", b"%", b"%00"),
    *(b"0", b"-1", b"1e999", b"-0.0", b"9223372036854775808", b"99999999999999999999", b"1" * 400, b"NaN", b"null"),
    *(b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\0\0\0\0", b"\x80\0\0\0", "٣²".encode(), b" " * 30, b"A" * 1100),
)


class Hung(BaseException):
    """One input took too long. No Exception: code under test that catches everything must not swallow it."""


def inputs(usual: int = FEW) -> settings:
    """How many inputs a test takes: `usual`, or what FUZZ_INPUTS says."""
    return settings(
        max_examples=int(os.environ.get("FUZZ_INPUTS", usual)),
        deadline=None,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
    )


def corpus(target: str) -> list[Path]:
    return sorted(path for path in (CORPUS / target).iterdir() if path.is_file())


def seeds(target: str) -> list[bytes]:
    return [path.read_bytes() for path in corpus(target)]


@some.composite
def mutated(draw: some.DrawFn, seeds: Sequence[bytes], tokens: Sequence[bytes] = ()) -> bytes:
    """A seed with some of its bytes changed, removed, repeated, or replaced by a piece of another seed."""
    known = [*TOKENS, *tokens]
    content = draw(some.sampled_from(seeds))
    for _ in range(draw(some.integers(0, MOST_MUTATIONS))):
        at = draw(some.integers(0, len(content)))
        length = draw(some.integers(0, 16))
        how = draw(some.integers(0, 7))
        if how == 0:  # cut the end off
            content = content[:at]
        elif how == 1:  # remove
            content = content[:at] + content[at + length :]
        elif how == 2:  # repeat
            content = content[: at + length] + content[at:]
        elif how == 3:  # flip one bit
            if at < len(content):
                content = content[:at] + bytes([content[at] ^ 1 << length % 8]) + content[at + 1 :]
        elif how == 4:  # a piece of another seed, in the place of as much
            other = draw(some.sampled_from(seeds))
            start = draw(some.integers(0, len(other)))
            content = content[:at] + other[start : start + 4 * length] + content[at + length :]
        elif how == 5:  # any bytes
            content = content[:at] + draw(some.binary(max_size=8)) + content[at + length :]
        else:  # a word that means something: put in, or in the place of something
            content = content[:at] + draw(some.sampled_from(known)) + content[at + (length if how == 6 else 0) :]
    return content[:LONGEST]


@contextmanager
def bounded(content: bytes, target: str, alarm: float | None = None) -> Iterator[None]:
    """A watchdog over one input. One that takes more than `alarm` seconds (ALARM) of CPU time and comes back to Python raises Hung; one
    that never comes back ends the process, and the input stays in build/fuzz.
    """
    seconds = ALARM if alarm is None else alarm
    kept = _kept(target)
    os.pwrite(kept, content, 0)
    os.ftruncate(kept, len(content))

    def ring(*_: object) -> None:
        raise Hung(f"{target}: over {seconds:g} seconds of CPU time for {content[:SHOWN]!r}")

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    faulthandler.dump_traceback_later(END, exit=True, file=sys.__stderr__ or sys.stderr)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


_files: dict[str, int] = {}


def _kept(target: str) -> int:
    """The file of the input that is being tried, one for each process and target."""
    if target not in _files:
        folder = Path("build/fuzz")
        folder.mkdir(parents=True, exist_ok=True)
        _files[target] = os.open(folder / f"{target}-{os.getpid()}", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    return _files[target]


def forget_kept() -> None:
    """The process came to its end: none of its inputs hung."""
    for target, file in _files.items():
        os.close(file)
        Path(f"build/fuzz/{target}-{os.getpid()}").unlink(missing_ok=True)
    _files.clear()


def fuzzed(target: str, *more: bytes, tokens: Sequence[bytes] = ()) -> Callable[[Callable[..., None]], Any]:
    """A test that takes `content: bytes`: mutations of what the corpus holds, and of `more` seeds."""

    def decorate(test: Callable[..., None]) -> Any:
        strategy = mutated([*seeds(target), *more], tokens)
        return pytest.mark.timeout(7200)(inputs()(given(content=strategy)(test)))

    return decorate


def replayed(target: str) -> Any:
    """A test that takes `content: bytes`: every file of the corpus, as it is."""
    return pytest.mark.parametrize(
        "content", [pytest.param(path.read_bytes(), id=path.name) for path in corpus(target)]
    )


def headers_and_body(content: bytes) -> tuple[dict[str, str], bytes]:
    """A message as a file holds it: lines `name: value`, an empty line, and the body. As servers give it: names in lower case, and
    what came several times joined.
    """
    head, _, body = content.partition(b"\n\n")
    headers: dict[str, str] = {}
    for line in head.split(b"\n"):
        name, colon, value = line.decode("latin-1").partition(":")
        if colon and name.strip():
            key = name.strip().lower()
            headers[key] = f"{headers[key]}, {value.strip()}" if key in headers else value.strip()
    return headers, body


def message(headers: dict[str, str], body: bytes) -> bytes:
    """The other way round."""
    return "".join(f"{name}: {value}\n" for name, value in headers.items()).encode("latin-1") + b"\n" + body
