"""Killed with SIGKILL at every boundary of a delivery to a real mail server: no email is lost, and none comes twice without a word."""

from __future__ import annotations

from collections import Counter
from email.message import EmailMessage
from pathlib import Path
from textwrap import dedent

import pytest

from support.mail_servers import MailServer, says_that_it_may_be_repeated
from wakeful.testing import crash_everywhere

PROGRAM = """
    from wakeful import App, Run, on
    from wakeful.channels import email

    ops = email(
        "smtp://127.0.0.1:{port}", sender="wakeful@example.com", to="ops@example.com", allow_private=True, on_doubt={on_doubt!r}
    )
    app = App("desk", store="sqlite:////nowhere/to/be/found.db", channels={{"ops": ops}})


    @app.agent(on("go"))
    async def tell(run: Run) -> None:
        run.send("ops", "routine", subject="routine", thread="a")
        run.send("ops", "fire", subject="fire", urgent=True)
"""
BOTH = {"routine", "fire"}


@pytest.mark.parametrize("on_doubt", ["repeat", "hold"])
async def test_killed_at_every_boundary(store_url: str, tmp_path: Path, on_doubt: str):
    cases: list[list[EmailMessage]] = []  # the first without a crash, the last when no boundary was left
    async with MailServer() as server:
        app = tmp_path / "app.py"
        app.write_text(dedent(PROGRAM).format(port=server.port, on_doubt=on_doubt))
        report = await crash_everywhere(
            str(app),
            "go",
            store=store_url,
            observe=lambda: cases.append(list(server.emails)),
            reset=server.emails.clear,
            deliver=True,
            processes=True,
        )
    report.check()
    assert {"CommitRun", "WorkLane"} <= {name for one in report.crashes for name in one.boundary.requests}
    unknown = repeated = 0
    for crash, emails in zip(report.crashes, cases[1:-1], strict=True):
        subjects = Counter(one["Subject"] for one in emails)
        assert len({one["Message-ID"] for one in emails}) == len(subjects), "a repetition has the same Message-ID"
        if on_doubt == "hold":  # a call that the process did not survive may be one that was never made
            unknown += len(crash.held)
            assert max(subjects.values(), default=1) == 1, crash.boundary
            assert len(BOTH - set(subjects)) <= len(crash.held), "what did not arrive waits for a person"
            continue
        assert set(subjects) == BOTH, crash.boundary
        first = Counter(one["Subject"] for one in emails if not says_that_it_may_be_repeated(one))
        assert max(first.values(), default=1) == 1, "a repetition says that it may be one"
        repeated += len(emails) - len(subjects)
    assert repeated if on_doubt == "repeat" else unknown
