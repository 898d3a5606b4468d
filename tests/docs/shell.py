"""What stands after a `$` in the documentation, done for real: `wakeful`, `curl`, `cd`, `export`, `pytest`, `pkill -9`, and nothing else.

`serve`, `dev` and `worker` go on in the background until the page is over; whatever is shown below them must have been
printed before the page goes on. They listen on a free port, which the page calls 8765. curl's part is done by httpx, so
that it need not be installed.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx2

from support.forks import Forked, Forks
from wakeful.testing.ports import free_port
from wakeful.tokens import new_token

SHOWN_PORT = "8765"
SHOWN_POSTGRES = "postgresql://localhost/agents"
IN_BACKGROUND = {"serve", "dev", "worker"}
PATIENCE = 60.0
COLUMNS = 240  # wide, so that sentences are not wrapped; a page cuts long lines with …

_ASSIGNMENT = re.compile(r"[A-Z_]+=")
_LOG_LINE = re.compile(r'^\{"time":"|^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \[')


@dataclass(slots=True)
class Background:
    """A command that goes on."""

    process: Forked
    command: str
    output: Path


class Shell:
    """Runs the commands of one page."""

    def __init__(self, forks: Forks, folder: Path, postgres: str | None = None) -> None:
        self.folder = folder
        self._forks = forks
        self._postgres = postgres
        self._outputs = folder.parent / f"{folder.name}-outputs"
        self._outputs.mkdir()
        self._port = str(free_port())
        self._background: list[Background] = []
        self._environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("WAKEFUL_", "PYTEST_"))
        }
        self._environment |= {"COLUMNS": str(COLUMNS), "NO_COLOR": "1"}

    def run(self, block: str, *, fails: bool = False, soon: bool = False) -> None:
        """Every command of a console block, each with what it shall print. `soon`: one that does not print it yet is repeated."""
        for command, expected in commands(block):
            words = shlex.split(self._filled(self.real(command)))
            if words[0] == "cd":
                self.folder = (self.folder / words[1]).resolve(strict=True)
            elif words[0] == "export":
                self._environment |= assignments(words[1:])
            elif words[0] == "curl":
                self._expect(command, expected, curl(words[1:]))
            elif words[0] == "pytest":
                self._expect(command, expected, self._pytest())
            elif words[:3] == ["pkill", "-9", "-f"]:
                self._kill(words[3])
            else:
                self._wakeful(command, words, expected, fails=fails, until=time.monotonic() + PATIENCE * soon)

    def _filled(self, command: str) -> str:
        """With a new token where one is made, and with the variables that the page has exported."""
        command = command.replace("$(wakeful token)", new_token())
        return re.sub(r"\$([A-Z_]+)", lambda found: self._environment.get(found[1], found[0]), command)

    def real(self, text: str) -> str:
        """Text of the page with the addresses that are real here."""
        text = text.replace(f"127.0.0.1:{SHOWN_PORT}", f"127.0.0.1:{self._port}")
        return text if self._postgres is None else text.replace(SHOWN_POSTGRES, self._postgres)

    def close(self) -> None:
        """Ctrl-C for everything that goes on."""
        for one in self._background:
            one.process.send_signal(signal.SIGINT)
        for one in self._background:
            code = one.process.wait(PATIENCE)
            assert code == 0, f"`{one.command}` ended with {code}:\n{one.output.read_text()}"

    def _pytest(self) -> str:
        words = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist"]
        ended = subprocess.run(
            words, check=False, cwd=self.folder, env=self._environment, capture_output=True, text=True, timeout=PATIENCE
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout

    def _kill(self, pattern: str) -> None:
        """The commands of this page that go on and are called so. They cannot say anything any more."""
        killed = [one for one in self._background if pattern in one.command]
        assert killed, f"no command of this page that goes on is called {pattern}"
        for one in killed:
            one.process.kill()
            one.process.wait(PATIENCE)
            self._background.remove(one)

    def _wakeful(self, command: str, words: list[str], expected: list[str], *, fails: bool, until: float) -> None:
        mine = list(itertools.takewhile(_ASSIGNMENT.match, words))
        words = words[len(mine) :]
        assert words[0] == "wakeful", f"`{command}`: not a command that a page may show"
        in_background = words[1] in IN_BACKGROUND and not fails
        if words[1] in {"serve", "dev"} and "--port" not in words:
            words += ["--port", self._port]
        output = self._outputs / f"{len(list(self._outputs.iterdir()))}.txt"
        environment = self._environment | assignments(mine)
        with output.open("a") as file:
            process = self._forks.start(
                words, folder=self.folder, environment=environment, output=file.fileno(), errors=file.fileno()
            )
        if in_background:
            self._background.append(Background(process, command, output))
            self._wait_for(command, expected, output)
            if words[1] in {"serve", "dev"}:
                self._wait_until_it_answers(command, words, output)
            return
        try:
            code = process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        printed = output.read_text(encoding="utf-8")
        assert (code != 0) == fails, f"`{command}` ended with {code}:\n{printed}"
        if time.monotonic() < until and not matches(expected, self._shown(printed)):
            time.sleep(0.02)
            self._wakeful(command, [*mine, *words], expected, fails=fails, until=until)
        else:
            self._expect(command, expected, printed)

    def _wait_for(self, command: str, expected: list[str], output: Path) -> None:
        until = time.monotonic() + PATIENCE
        printed = ""
        while time.monotonic() < until:
            printed = output.read_text(encoding="utf-8") if output.exists() else ""
            if matches(expected, self._shown(printed)):
                return
            time.sleep(0.02)
        raise AssertionError(f"`{command}` did not print what the page shows, but:\n{printed}")

    def _wait_until_it_answers(self, command: str, words: list[str], output: Path) -> None:
        """A page may show nothing of what a server prints, and what comes next may be a request to it."""
        address = ("127.0.0.1", int(words[words.index("--port") + 1]))
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            with contextlib.suppress(ConnectionRefusedError), socket.create_connection(address):
                return
            time.sleep(0.02)
        raise AssertionError(f"`{command}` did not listen:\n{output.read_text(encoding='utf-8')}")

    def _expect(self, command: str, expected: list[str], printed: str) -> None:
        shown = self._shown(printed)
        assert not expected or matches(expected, shown), (
            f"`{command}` printed:\n\n" + "\n".join(shown) + "\n\nand the page shows:\n\n" + "\n".join(expected)
        )

    def _shown(self, printed: str) -> list[str]:
        """What was printed, in the words of the page, without log lines: those are for machines here."""
        text = printed.replace(f":{self._port}", f":{SHOWN_PORT}")
        if self._postgres is not None:
            hidden = re.sub(r":[^:@/]+@", ":…@", self._postgres)  # the password is never shown
            text = text.replace(hidden, SHOWN_POSTGRES).replace(self._postgres, SHOWN_POSTGRES)
        return without_logs(text)


def commands(block: str) -> Iterator[tuple[str, list[str]]]:
    """Each command of a console block, and the lines below it."""
    lines = block.rstrip().splitlines()
    while lines:
        line = lines.pop(0)
        assert line.startswith("$ "), f"a console block is commands after `$ ` and what they print, not: {line}"
        command = line[2:]
        while command.endswith("\\"):
            command = command[:-1] + lines.pop(0).strip()
        expected = []
        while lines and not lines[0].startswith("$ "):
            expected.append(lines.pop(0))
        yield command, [line for line in expected if line.strip()]


def without_logs(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines() if line.strip() and not _LOG_LINE.match(line)]


def matches(expected: list[str], lines: list[str]) -> bool:
    """`…` in a line stands for anything, a line of only `…` for any lines. How many spaces there are does not count."""
    pattern = ""
    for line in expected:
        if line.strip() == "…":
            pattern += r"(?:[^\n]*\n)*?"
        else:
            parts = [re.escape(" ".join(part.split())) for part in line.split("…")]
            pattern += r"[^\n]*?".join(parts) + r"\n"
    text = "".join(" ".join(line.split()) + "\n" for line in lines)
    return re.fullmatch(pattern, text) is not None


def assignments(words: list[str]) -> dict[str, str]:
    return {name: value for name, _, value in (word.partition("=") for word in words)}


def curl(words: list[str]) -> str:
    """What curl would print."""
    parser = argparse.ArgumentParser("curl")
    parser.add_argument("url")
    parser.add_argument("-s", action="store_true")
    parser.add_argument("-X", dest="method")
    parser.add_argument("-H", dest="headers", action="append", default=[])
    parser.add_argument("-d", dest="data")
    given = parser.parse_args(words)
    headers = dict(header.split(": ", 1) for header in given.headers)
    method = given.method or ("GET" if given.data is None else "POST")
    return httpx2.request(method, given.url, headers=headers, content=given.data, timeout=PATIENCE).text
