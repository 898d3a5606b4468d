"""The log of a program that has an app in it belongs to that program: Wakeful itself prints nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.command_line import environment

PROGRAM = """
import asyncio, logging, os, sys
from wakeful import App, Persistent, env, on

SECRET = env("HOST_SECRET")
app = App("desk", store="sqlite:///desk.db")

@app.agent(on("note"), owner="ops")
async def note(run):
    run.log.info("noted", name="a b", count=2, password=os.environ["HOST_SECRET"])

{configure}

async def main():
    async with app.running() as runtime:
        runtime.log.warning("a warning", part="host")
        try:
            raise ValueError("not " + os.environ["HOST_SECRET"])
        except ValueError:
            runtime.log.exception("an error")
        await app.result((await app.emit("note", {{}})).runs[0], timeout="30s")

asyncio.run(main())
{after}
"""


@dataclass
class Said:
    out: str
    err: str


@pytest.fixture
def host(tmp_path: Path):
    def run(configure: str = "", after: str = "") -> Said:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM.format(configure=configure, after=after)],
            cwd=tmp_path,
            env={**environment(), "HOST_SECRET": "correct-horse-7-battery"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert "correct-horse" not in done.stdout + done.stderr
        return Said(done.stdout, done.stderr)

    return run


def test_without_any_configuration_nothing_is_printed(host):
    assert host() == Said("", "")


def test_with_logging_the_lines_go_where_the_host_says(host):
    said = host(
        "logging.basicConfig(level='INFO', format='%(levelname)s %(name)s %(filename)s %(message)s', stream=sys.stdout)"
    )
    assert said.err == ""
    lines = said.out.splitlines()
    assert "WARNING wakeful <string> a warning app=desk part=host" in lines
    noted = next(line for line in lines if line.startswith("INFO wakeful.run <string> noted "))
    assert " agent=note " in noted
    assert " run=" in noted
    assert noted.endswith("name='a b' count=2 password='[redacted: HOST_SECRET]'")
    assert "ERROR wakeful <string> an error app=desk" in lines
    assert "ValueError: not [redacted: HOST_SECRET]" in lines


def test_the_fields_of_a_line_are_attributes_of_its_record(host):
    keep = """
import json
class Keep(logging.Handler):
    lines = []
    def emit(self, record):
        self.lines.append(vars(record).copy())
logging.getLogger("wakeful").addHandler(Keep())
logging.getLogger("wakeful").setLevel("INFO")
"""
    show = """
wanted = ("event", "name_", "count", "agent", "levelname")
print(json.dumps([{one: line.get(one) for one in wanted} for line in Keep.lines if line["event"] == "noted"]))
"""
    said = host(keep, show)
    # A record has a name of its own: the logger's.
    assert json.loads(said.out) == [
        {"event": "noted", "name_": "a b", "count": 2, "agent": "note", "levelname": "INFO"}
    ]


def test_with_structlog_configured_the_lines_are_its_events(host):
    said = host("""
import structlog
def shown(_logger, _method, line):
    return repr([line.get(one) for one in ("event", "level", "agent", "name", "count")])
structlog.configure(processors=[structlog.contextvars.merge_contextvars, structlog.processors.add_log_level, shown])
""")
    lines = said.out.splitlines()
    assert "['noted', 'info', 'note', 'a b', 2]" in lines
    assert "['an error', 'error', None, None, None]" in lines
    assert said.err == ""


def test_a_host_may_configure_after_the_runtime_has_started(host):
    said = host(
        after="""
import structlog
from wakeful.telemetry.logger import logger_of
log = logger_of(part="late")
log.warning("lost")
structlog.configure(processors=[structlog.processors.KeyValueRenderer()])
log.warning("shown")
structlog.reset_defaults()
logging.basicConfig(stream=sys.stdout, format="%(message)s")
log.warning("by logging")
"""
    )
    assert said.out.splitlines() == ["part='late' event='shown'", "by logging part=late"]
