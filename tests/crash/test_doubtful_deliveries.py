"""Killed with SIGKILL at every boundary of a delivery: nothing is lost, and nothing arrives twice without a word."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from textwrap import dedent

import pytest

from wakeful.testing import crash_everywhere

PROGRAM = """
    from pathlib import Path

    from wakeful import App, Run, on
    from wakeful.channels import Channel, Sent

    HERE = Path(__file__).parent


    class Side(Channel):
        repeats = {repeats!r}
        on_doubt = {on_doubt!r}
        settle = "1m"

        async def deliver(self, messages):
            with (HERE / "arrived").open("a") as file:
                for one in messages:
                    file.write(f"{{one.body}} {{'again' if one.doubtful else 'first'}}\\n")
            return [Sent(one.id) for one in messages]

        async def find(self, message):
            there = HERE / "arrived"
            lines = there.read_text().splitlines() if there.exists() else []
            return Sent(message.id) if any(line.startswith(f"{{message.body}} ") for line in lines) else None


    app = App("desk", store="sqlite:////nowhere/to/be/found.db", channels={{"ops": Side()}})


    @app.agent(on("go"))
    async def tell(run: Run) -> None:
        run.send("ops", "routine", thread="a")
        run.send("ops", "fire", urgent=True)
"""
BOTH = {"routine", "fire"}


@pytest.mark.parametrize("kind", ["known", "find", "repeat", "hold"])
async def test_killed_at_every_boundary(store_url: str, tmp_path: Path, kind: str):
    repeats, on_doubt = ("doubt", kind) if kind in {"repeat", "hold"} else (kind, "repeat")
    app = tmp_path / "app.py"
    app.write_text(dedent(PROGRAM).format(repeats=repeats, on_doubt=on_doubt))
    arrived = tmp_path / "arrived"
    cases: list[list[str]] = []  # the first without a crash, the last when no boundary was left

    def observe() -> None:
        cases.append(arrived.read_text().splitlines() if arrived.exists() else [])

    report = await crash_everywhere(
        str(app),
        "go",
        store=store_url,
        observe=observe,
        reset=lambda: arrived.unlink(missing_ok=True),
        deliver=True,
        processes=True,
    )
    report.check()
    assert {"CommitRun", "WorkLane"} <= {name for one in report.crashes for name in one.boundary.requests}
    unknown = 0
    for crash, lines in zip(report.crashes, cases[1:-1], strict=True):
        texts = Counter(line.split()[0] for line in lines)
        first = Counter(line.split()[0] for line in lines if line.endswith("first"))
        if kind == "hold":  # a call that the process did not survive may be one that was never made
            unknown += len(crash.held)
            assert max(texts.values(), default=1) == 1, crash.boundary
            assert len(BOTH - set(texts)) <= len(crash.held), "what did not arrive waits for a person"
            continue
        assert set(texts) == BOTH, crash.boundary
        if kind == "find":
            assert max(texts.values()) == 1, crash.boundary
        if kind == "repeat":
            assert max(first.values(), default=1) == 1, "a repetition says that it may be one"
    if kind == "hold":
        assert unknown, "some crash left a delivery to a person"
    else:
        assert any(len(lines) > len(BOTH) for lines in cases[1:]) == (kind != "find")
