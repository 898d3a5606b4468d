"""How long a command takes that only looks, and how soon a process is ready to work."""

import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from bench.plan import Figure, Places

LOOKS = ("runs", "alarms", "why T-1", "schedules", "dead")
READY = ("wakeful: working", "wakeful: serving")
# What an app, its logs and its server load in any case: no start can be quicker.
LIBRARIES = "import apsw, asyncio, pydantic, structlog, uvloop; pydantic.BaseModel"
APP = """
from wakeful import App, Run, on

app = App("starts")


@app.agent(on("ticket.created"))
async def triage(run: Run) -> str:
    return "done"
"""


class Starts(Places):
    """The measurements of short lives and of first moments."""

    def looks(self) -> Iterator[Figure]:
        store, app = self.sqlite(), self._app()
        took([sys.executable, "-m", "wakeful", "emit", app, "ticket.created", "--id", "T-1", "--store", store])
        took([sys.executable, "-m", "wakeful", "once", app, "--store", store])
        floors: list[float] = []
        looks: dict[str, list[float]] = {look: [] for look in LOOKS}
        for _ in range(self.plan.turns):
            floors.append(took([sys.executable, "-m", "wakeful", "--help"]))
            for look, times in looks.items():
                times.append(took([sys.executable, "-m", "wakeful", *look.split(), "--store", store]))
        medians = {look: statistics.median(times) for look, times in looks.items()}
        slowest = max(medians, key=lambda look: medians[look])
        yield Figure(
            "a command that only looks, SQLite", f"{medians[slowest]:.2f} s", f"{statistics.median(floors):.2f} s", None,
            "0.4 s", "", medians[slowest] <= 0.4,
            f"`wakeful {slowest}`, the slowest of {len(LOOKS)}; `wakeful runs` {medians['runs']:.2f} s; the floor is "
            "`wakeful --help`",
        )  # fmt: skip

    def starts(self) -> Iterator[Figure]:
        app = self._app()
        for name, store, _ in self._both():
            url = store()
            took([sys.executable, "-m", "wakeful", "migrate", "--store", url])
            for command, more in (("worker", []), ("serve", ["--port", "0"])):
                floors, mine = [], []
                for _ in range(self.plan.turns):
                    floors.append(took([sys.executable, "-c", LIBRARIES]))
                    mine.append(until_ready([sys.executable, "-m", "wakeful", command, app, "--store", url, *more]))
                start, floor = statistics.median(mine), statistics.median(floors)
                yield Figure(
                    f"`wakeful {command}` until it is ready, {name}", f"{start:.2f} s", f"{floor:.2f} s", start / floor,
                    "", "", None, "the floor only imports pydantic, structlog and the drivers",
                )  # fmt: skip

    def _app(self) -> str:
        file = Path(self.folder) / "starts.py"
        file.write_text(APP)
        return str(file)


def took(command: list[str]) -> float:
    """Seconds from a command's start to its end."""
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60)
    return time.perf_counter() - began


def until_ready(command: list[str]) -> float:
    """Seconds from a process's start until it says that it works."""
    began = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        ready = any(line.startswith(READY) for line in process.stdout)
        elapsed = time.perf_counter() - began
        process.terminate()
        process.stdout.read()
    assert ready, command
    return elapsed
