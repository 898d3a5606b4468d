"""The line that says how far a long piece of work is."""

from __future__ import annotations

import asyncio
import io

import pytest

from wakeful.operations.pace import Pace
from wakeful.shell.carrying import ProgressLine


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "shown"),
    [(Screen(), "\rwakeful: 500 of 10,000 (5 %)\rwakeful: 10,000 of 10,000 (100 %)\n"), (io.StringIO(), "")],
)
def test_it_is_written_over_on_a_terminal_and_silent_elsewhere(monkeypatch, stream, shown):
    monkeypatch.setattr("sys.stderr", stream)
    line = ProgressLine()
    line.show(500, 10_000)
    line.show(10_000, 10_000)
    line.end()
    assert stream.getvalue() == shown


@pytest.mark.parametrize(("asked_in", "cut_short"), [(1, True), (2, True), (3, False), (None, False)])
async def test_it_was_stopped_only_if_something_was_left_to_do(asked_in, cut_short):
    stop = asyncio.Event()
    pace = Pace(rate=None, stop=stop)
    pace.batch = 2
    done = 0
    for number, batch in enumerate(pace.batches(range(6)), start=1):
        if not await pace.turn(done):
            break
        if number == asked_in:
            stop.set()
        done += len(batch)
    assert pace.cut_short is cut_short
    assert done == (6 if asked_in is None else 2 * asked_in)
