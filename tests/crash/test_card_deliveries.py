"""Killed with SIGKILL at every boundary of deliveries to Teams: no card is lost, and a repetition says that it may be one."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from textwrap import dedent

from support.fake_teams import FakeTeams
from support.service import served
from wakeful.output.channels.base import MAY_BE_REPEATED
from wakeful.testing import crash_everywhere

PROGRAM = """
    from wakeful import App, Run, on
    from wakeful.channels import teams

    app = App("desk", store="sqlite:////nowhere/to/be/found.db", channels={{"ops": teams({url!r}, allow_private=True)}})


    @app.agent(on("go"))
    async def tell(run: Run) -> None:
        run.send("ops", "routine")
        run.send("ops", "fire", urgent=True)
"""


async def test_teams_killed_at_every_boundary(store_url: str, tmp_path: Path):
    app = tmp_path / "app.py"
    cases: list[list[list[str]]] = []
    flow = FakeTeams()
    with served(flow):
        app.write_text(dedent(PROGRAM).format(url=flow.webhook))
        report = await crash_everywhere(
            str(app),
            "go",
            store=store_url,
            observe=lambda: cases.append(list(flow.cards)),
            reset=flow.cards.clear,
            deliver=True,
            processes=True,
        )
    report.check()
    assert {"CommitRun", "WorkLane"} <= {name for one in report.crashes for name in one.boundary.requests}
    for cards in cases:
        assert {card[0] for card in cards} == {"routine", "fire"}
        first = Counter(card[0] for card in cards if MAY_BE_REPEATED not in card)
        assert max(first.values(), default=1) == 1
    assert any(len(cards) > 2 for cards in cases), "some crash let a card arrive twice"
