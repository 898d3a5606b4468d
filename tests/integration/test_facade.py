"""What a handler sees of its run: the names that are documented, and no others."""

from __future__ import annotations

from support.apps import go, working
from wakeful import App, Run, on

NAMES = [
    "act",
    "agent",
    "ask",
    "attempt",
    "call",
    "cause",
    "decide",
    "emit",
    "event",
    "events",
    "facts",
    "id",
    "interval",
    "key",
    "late",
    "lock",
    "log",
    "map",
    "now",
    "progress",
    "random",
    "remarks",
    "remind",
    "replaying",
    "schedule",
    "scheduled_for",
    "send",
    "sleep",
    "sleep_until",
    "stage",
    "state",
    "step",
    "transaction",
    "unschedule",
    "uuid",
    "wait_for",
]


async def test_a_handler_sees_the_documented_names_and_no_others(app: App):
    seen: list[list[str]] = []

    @app.agent(on("go"))
    async def agent(run: Run) -> None:
        seen.append([name for name in dir(run) if not name.startswith("_")])

    async with working(app) as runtime:
        await go(runtime)
    assert seen == [NAMES]


async def test_every_name_is_explained():
    unexplained = [name for name in NAMES if name in vars(Run) and not getattr(Run, name).__doc__]
    assert unexplained == []


async def test_a_mistyped_name_is_told_with_the_one_that_was_meant(app: App):
    @app.agent(on("go"), attempts=1)
    async def agent(run: Run) -> None:
        await run.slep("1s")  # type: ignore[attr-defined]

    async with working(app) as runtime:
        run = await go(runtime)
    assert run["error"]["type"] == "AttributeError"
    assert run["error"]["message"] == """'Run' object has no attribute 'slep'. Did you mean "sleep"?"""
    assert not hasattr(Run, "slep")
