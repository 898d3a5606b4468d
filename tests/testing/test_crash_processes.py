"""The same with real processes and SIGKILL. The services outside are files."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from testing.shop import Bank, build
from wakeful.errors import ConfigError
from wakeful.testing import crash_everywhere

PROGRAM = """
    import asyncio
    from pathlib import Path

    from wakeful import App, Backoff, Operation, Run, Transient, action, every, on, step

    app = App("files", store="sqlite:////nowhere/to/be/found.db")
    HERE = Path(__file__).parent


    def write(name, text):
        with (HERE / name).open("a") as file:
            file.write(text + "\\n")


    async def find(op: Operation, text: str) -> str | None:
        lines = (HERE / "letters").read_text().splitlines() if (HERE / "letters").exists() else []
        return "sent" if f"{op.id} {text}" in lines else None


    @action(safety="reconcile", find=find, settle="1h")
    async def send(op: Operation, text: str) -> str:
        print("an app may print what it wants")
        write("letters", f"{op.id} {text}")
        return "sent"


    @step(attempts=3, backoff=Backoff(first="3h", cap="3h"))
    async def fetch(name: str) -> str:
        if BUG:
            write("fetched", name)
        if not (HERE / "tried").exists():
            write("tried", name)
            raise Transient("the first try always fails")
        return f"dear {name}"


    @app.agent(every("1d"))
    async def daily(run: Run) -> str:
        return await run.act(send, run.scheduled_for.isoformat())


    @app.agent(on("letter.wanted"))
    async def answer(run: Run, data: dict[str, str]) -> str:
        text = await run.step(fetch, data["name"])
        return await run.act(send, text)
"""
WANTED = ("letter.wanted", {"name": "customer"})


class Files:
    def __init__(self, folder: Path, *, bug: bool) -> None:
        self.folder = folder
        self.app = folder / "letters_app.py"
        self.app.write_text(dedent(PROGRAM).replace("BUG", str(bug)))

    def lines(self) -> dict[str, list[str]]:
        return {
            name: (self.folder / name).read_text().splitlines() if (self.folder / name).exists() else []
            for name in ("letters", "fetched")
        }

    def clear(self) -> None:
        for name in ("letters", "fetched", "tried"):
            (self.folder / name).unlink(missing_ok=True)


@pytest.mark.crash
@pytest.mark.parametrize("bug", [False, True])
async def test_real_processes_are_killed(store_url: str, tmp_path: Path, bug: bool):
    files = Files(tmp_path, bug=bug)
    report = await crash_everywhere(
        str(files.app), WANTED, processes=True, store=store_url, observe=files.lines, reset=files.clear
    )
    assert len(files.lines()["letters"]) == 1
    assert len(report.crashes) > 12
    assert {one.boundary.point for one in report.crashes} == {"before", "within", "after"}
    assert all(one.states == {"answer": "done"} for one in report.crashes)
    if bug:
        assert any("outside has fetched: customer" in problem.what for problem in report.problems)
        assert {problem.kind for problem in report.problems} == {"twice"}
    else:
        report.check()


@pytest.mark.crash
async def test_an_agent_that_wakes_by_time_is_killed_too(tmp_path: Path):
    files = Files(tmp_path, bug=False)
    report = await crash_everywhere(
        str(files.app), agent="daily", processes=True, observe=files.lines, reset=files.clear
    )
    report.check()
    assert all(one.states == {"daily": "done"} for one in report.crashes)


async def test_a_program_that_cannot_work_is_told(tmp_path: Path):
    program = tmp_path / "broken_app.py"
    program.write_text('from wakeful import App\napp = App("empty")\n')
    with pytest.raises(ConfigError, match=r"no agent handles letter\.wanted"):
        await crash_everywhere(str(program), WANTED, processes=True)
    with pytest.raises(ConfigError, match=r"there is no file .*missing\.py"):
        await crash_everywhere(str(tmp_path / "missing.py"), WANTED, processes=True)
    with pytest.raises(ConfigError, match=r"pass app shop as file\.py or module:app"):
        await crash_everywhere(build(Bank()), WANTED, processes=True)
