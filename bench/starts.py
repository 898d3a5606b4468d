"""How long a command takes that only looks, and how soon a process is ready to work."""

import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from bench.plan import Figure, Places, code_of

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
        app = self._app()
        stores = {code: self._filled(app, code) for code in self._codes()}
        floors: list[float] = []
        looks: dict[tuple[Path | None, str], list[float]] = {(code, look): [] for code in stores for look in LOOKS}
        for _ in range(self.plan.turns):
            floors.append(took([sys.executable, "-m", "wakeful", "--help"]))
            for (code, look), times in looks.items():
                times.append(took([sys.executable, "-m", "wakeful", *look.split(), "--store", stores[code]], code))
        medians = {place: statistics.median(times) for place, times in looks.items()}
        slowest = max(LOOKS, key=lambda look: medians[None, look])
        mine, before = medians[None, slowest], medians[self.plan.before, slowest]
        yield Figure(
            "a command that only looks, SQLite", f"{mine:.2f} s", f"{statistics.median(floors):.2f} s", None,
            "0.4 s", "", mine <= 0.4,
            f"`wakeful {slowest}`, the slowest of {len(LOOKS)}; `wakeful runs` {medians[None, 'runs']:.2f} s; the floor is "
            f"`wakeful --help`{self._before(before)}",
        )  # fmt: skip

    def _filled(self, app: str, code: Path | None) -> str:
        """A store with one run, made by that code."""
        store = self.sqlite()
        took([sys.executable, "-m", "wakeful", "emit", app, "ticket.created", "--id", "T-1", "--store", store], code)
        took([sys.executable, "-m", "wakeful", "once", app, "--store", store], code)
        return store

    def starts(self) -> Iterator[Figure]:
        app = self._app()
        for name, store, _ in self._both():
            urls = {code: store() for code in self._codes()}
            for code, url in urls.items():
                took([sys.executable, "-m", "wakeful", "migrate", "--store", url], code)
            for command, more in (("worker", []), ("serve", ["--port", "0"])):
                floors: list[float] = []
                times: dict[Path | None, list[float]] = {code: [] for code in urls}
                for _ in range(self.plan.turns):
                    floors.append(took([sys.executable, "-c", LIBRARIES]))
                    for code, url in urls.items():
                        start = [sys.executable, "-m", "wakeful", command, app, "--store", url, *more]
                        times[code].append(until_ready(start, code))
                medians = {code: statistics.median(found) for code, found in times.items()}
                mine, floor = medians[None], statistics.median(floors)
                yield Figure(
                    f"`wakeful {command}` until it is ready, {name}", f"{mine:.2f} s", f"{floor:.2f} s", mine / floor,
                    "", "", None,
                    "the floor only imports pydantic, structlog and the drivers"
                    f"{self._before(medians[self.plan.before])}",
                )  # fmt: skip

    def _codes(self) -> list[Path | None]:
        """Whose code is measured, in turns: this one (None), and that of another checkout if one is named."""
        return [None] if self.plan.before is None else [None, self.plan.before]

    def _before(self, seconds: float) -> str:
        return "" if self.plan.before is None else f"; before: {seconds:.2f} s"

    def _app(self) -> str:
        file = Path(self.folder) / "starts.py"
        file.write_text(APP)
        return str(file)


def took(command: list[str], code: Path | None = None) -> float:
    """Seconds from a command's start to its end, perhaps of the code of another checkout."""
    began = time.perf_counter()
    subprocess.run(
        command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60, env=code_of(code)
    )
    return time.perf_counter() - began


def until_ready(command: list[str], code: Path | None = None) -> float:
    """Seconds from a process's start until it says that it works."""
    began = time.perf_counter()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=code_of(code)
    ) as process:
        assert process.stdout is not None
        ready = any(line.startswith(READY) for line in process.stdout)
        elapsed = time.perf_counter() - began
        process.terminate()
        process.stdout.read()
    assert ready, command
    return elapsed
