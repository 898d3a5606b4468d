"""Killed with SIGKILL at every boundary of deliveries to PagerDuty: one incident is opened, however often its trigger arrives, and its resolve
comes last.
"""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

from support.fake_pagerduty import KEY, FakePagerDuty
from support.service import served
from wakeful.testing import crash_everywhere

PROGRAM = """
    from wakeful import App, Run, on
    from wakeful.channels import pagerduty

    pager = pagerduty("{key}", base_url="{url}", allow_private=True)
    app = App("desk", store="sqlite:////nowhere/to/be/found.db", channels={{"ops": pager}})


    @app.agent(on("go"))
    async def page(run: Run) -> None:
        run.send("ops", "Disk full", thread="db", urgent=True)
        run.send("ops", {{"event_action": "resolve"}}, thread="db")
        run.send("ops", "Printer on fire", thread="printer")
"""


async def test_pagerduty_killed_at_every_boundary(store_url: str, tmp_path: Path):
    app = tmp_path / "app.py"
    cases: list[tuple[dict[str, int], list[str], int]] = []
    duty = FakePagerDuty()
    with served(duty):
        app.write_text(dedent(PROGRAM).format(key=KEY, url=duty.url))

        def reset() -> None:
            duty.incidents.clear()
            duty.events.clear()

        report = await crash_everywhere(
            str(app),
            "go",
            store=store_url,
            observe=lambda: cases.append((dict(duty.opened), duty.open, len(duty.events))),
            reset=reset,
            deliver=True,
            processes=True,
        )
    report.check()
    assert {"CommitRun", "WorkLane"} <= {name for one in report.crashes for name in one.boundary.requests}
    for opened, still_open, _ in cases:
        assert still_open == ["printer"]
        assert opened["printer"] == 1
        assert opened["db"] == 1
    assert any(events > 3 for _, _, events in cases), "some crash let an event arrive twice"
