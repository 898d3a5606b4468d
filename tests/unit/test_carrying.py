"""The line that says how far a long piece of work is."""

from __future__ import annotations

import io

import pytest

from wakeful.cli.carrying import ProgressLine


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
