"""Killed with SIGKILL at every boundary of a delivery to a service that creates things: each is created once, by real requests."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from textwrap import dedent

import pytest

from support import fake_github, fake_jira
from support.fake_github import FakeGitHub
from support.fake_jira import FakeJira
from support.service import served
from wakeful.testing import crash_everywhere

PROGRAM = """
    from wakeful import App, Run, on
    from wakeful.channels import github, jira

    app = App("desk", store="sqlite:////nowhere/to/be/found.db", channels={{"ops": {channel}}})


    @app.agent(on("go"))
    async def tell(run: Run) -> None:
        run.send("ops", "first", thread="a")
        run.send("ops", "second", thread="a")
"""


@pytest.mark.parametrize("kind", ["github", "jira"])
async def test_killed_at_every_boundary(store_url: str, tmp_path: Path, kind: str):
    app = tmp_path / "app.py"
    cases: list[list[int]] = []  # the first without a crash, the last when no boundary was left
    hub, desk = FakeGitHub(), FakeJira()
    hub.at = datetime(2026, 1, 1, tzinfo=UTC)  # where the virtual clock begins
    service: FakeGitHub | FakeJira = hub if kind == "github" else desk

    def reset() -> None:
        for rows in (hub.entries, hub.comments, desk.issues, desk.comments):
            rows.clear()

    with served(service):
        github = f'github("octo/desk", "{fake_github.TOKEN}", base_url="{service.url}", allow_private=True)'
        jira = f'jira("{service.url}", "OPS", "{fake_jira.USER}", "{fake_jira.TOKEN}", allow_private=True)'
        app.write_text(dedent(PROGRAM).format(channel=github if kind == "github" else jira))
        report = await crash_everywhere(
            str(app),
            "go",
            store=store_url,
            observe=lambda: cases.append(sorted(service.arrived.values())),
            reset=reset,
            deliver=True,
            processes=True,
        )
    report.check()
    assert {"CommitRun", "WorkLane"} <= {name for one in report.crashes for name in one.boundary.requests}
    assert all(arrived == [1, 1] for arrived in cases), [one.boundary for one in report.crashes]
    assert len(cases) > 5
    looked = "direction=asc" if kind == "github" else "search/jql"
    assert any(looked in one.path for one in service.asked("GET")), "some crash left a message to be looked for"
