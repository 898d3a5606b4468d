"""A program that failed: each place that tells of it says why."""

from __future__ import annotations

import pytest

DESK = """
from wakeful import App, on

app = App("desk")
app.command("report", on("go"), "echo Traceback >&2; echo >&2; echo 'KeyError: DATABASE' >&2; exit 1", owner="ops")
"""
HEAD = "CommandFailed: exit code 1. The end of its stderr:"


@pytest.fixture
def failed(folder, wakeful) -> str:
    """Why a program failed stands in the last line of what it complained about. The run that it failed in."""
    (folder / "desk.py").write_text(DESK)
    said = wakeful("run", "desk.py", "report", "--wait", code=1).err
    assert f"wakeful: dead: {HEAD}\n  Traceback\n\n  KeyError: DATABASE\n" in said
    (run,) = wakeful("runs", "--json").json["runs"]
    assert f"see `wakeful trace {run['id'][:10]}`" in said
    return run["id"]


def test_one_line_about_it_ends_with_its_last_line(failed, wakeful):
    assert f"The last error was {HEAD} KeyError: DATABASE." in wakeful("why", failed).out
    (alarm,) = wakeful("alarms", "--json").json["alarms"]
    assert "The end of its stderr: KeyError: DATABASE)" in alarm["text"]
    assert f"{HEAD} KeyError: DATABASE\n" in wakeful("dead").out


def test_elsewhere_its_lines_are_lines(failed, wakeful):
    traced = wakeful("trace", failed).out
    assert "\\n" not in traced
    assert traced.count("KeyError: DATABASE\n") == 2  # whole with the step, in one line at the end
    assert traced.count("Traceback\n") == 1
    shown = wakeful("dead", "show", failed).out
    assert f"error: {HEAD}\n  Traceback\n\n  KeyError: DATABASE\n" in shown
    assert shown.count("KeyError") == 1
