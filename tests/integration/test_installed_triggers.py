"""Triggers that other packages bring: found by their entry points, held to the contract, refused in one line."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from docs.pages import page
from support.apps import FOREVER, NewApp, working
from support.packages import Install
from wakeful import App, ConfigError, Run, trigger
from wakeful.runtime import Runtime
from wakeful.stores.journal import Died
from wakeful.stores.verbs.processes import BuryProcess, other_processes
from wakeful.stores.verbs.take_in import TakeIn

SRC = Path(__file__).resolve().parents[2] / "src"


@pytest.fixture
def maildir(install: Install, tmp_path: Path) -> Path:
    """The package that the documentation shows, installed, and a folder for mail."""
    (code,) = [one.text for one in page("docs/how-to/own-triggers.md").blocks if one.file_name == "wakeful_maildir.py"]
    install("maildir", "wakeful_maildir:maildir", code)
    for name in ("new", "cur"):
        (tmp_path / "mail" / name).mkdir(parents=True)
    return tmp_path / "mail"


def deliver(mail: Path, count: int) -> None:
    for number in range(count):
        (mail / "new" / f"{number:06}.host").write_text(f"From: kim@example.com\nSubject: number {number}\n\nhello\n")


def desk(new_app: NewApp, mail: Path, seen: list[str]) -> App:
    app = new_app()

    @app.agent(trigger("maildir", folder=str(mail)))
    async def answer(run: Run, data: dict[str, Any]) -> None:
        seen.append(data["subject"])

    return app


async def test_an_installed_trigger_is_used_like_any_other(new_app: NewApp, maildir: Path):
    deliver(maildir, 450)
    (maildir / "new" / "torn").write_bytes(b"\xff\xfe nothing")
    seen: list[str] = []
    async with working(desk(new_app, maildir, seen), reading="drained") as runtime:
        await runtime.drain()
        assert sorted(seen) == sorted(f"number {number}" for number in range(450))
        assert len((await runtime.reader.events(state="quarantined"))["events"]) == 1
        assert not list((maildir / "new").iterdir())
        assert len(list((maildir / "cur").iterdir())) == 451


async def test_a_death_before_the_acknowledgement_loses_and_doubles_nothing(new_app: NewApp, maildir: Path):
    deliver(maildir, 5)
    seen: list[str] = []
    committed = False

    def die_then(moment: str, requests: Sequence[Any]) -> None:
        nonlocal committed
        if moment == "after" and any(isinstance(one, TakeIn) for one in requests):
            committed = True
            raise Died

    runtime = Runtime(desk(new_app, maildir, seen), lease=FOREVER, probe=die_then)
    await runtime.open(migrate=True)
    await runtime.start()
    async with asyncio.timeout(60):
        while not runtime.store.journal.is_dead():
            await asyncio.sleep(0.01)
    await runtime.die()
    assert committed
    assert len(list((maildir / "new").iterdir())) == 5  # the other side does not know yet
    async with working(desk(new_app, maildir, seen), reading="drained") as again:
        for process, _, _ in await other_processes(again.store.database, again.membership.process):
            await again.store.do(BuryProcess(process, certain=True))
        await again.drain()
        assert sorted(seen) == [f"number {number}" for number in range(5)]
        assert not list((maildir / "new").iterdir())


def test_the_command_line_finds_it_where_it_is_installed(maildir: Path, packages: Path, tmp_path: Path, store_url: str):
    deliver(maildir, 3)
    (tmp_path / "desk.py").write_text(
        dedent(f"""\
        from wakeful import App, Run, trigger

        app = App("desk")

        @app.agent(trigger("maildir", folder={str(maildir)!r}))
        async def answer(run: Run) -> str:
            return run.event.data["subject"]
        """)
    )

    def wakeful(*words: str, may: tuple[int, ...] = (0,)) -> str:
        environment = {**os.environ, "PYTHONPATH": f"{packages}:{SRC}", "WAKEFUL_STORE": store_url}
        done = subprocess.run(
            [sys.executable, "-m", "wakeful.cli", *words],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode in may, done.stdout + done.stderr
        return done.stdout

    wakeful("once", "desk.py")
    assert wakeful("runs", "--json").count('"answer"') == 3
    assert 'trigger("maildir") of wakeful-maildir 1.0' in wakeful("doctor", "desk.py", may=(0, 1))  # fsync is off here


# what is refused


def refusal(kind: Any, **options: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        trigger(kind, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_name_that_nobody_brings(maildir: Path):
    assert "no installed package provides a trigger of that name" in refusal("kafka-ish")
    assert 'Did you mean "maildir"?' in refusal("mailder")
    assert "wakeful doctor" in refusal("mailder")
    assert "from wakeful import cron" in refusal("cron")
    assert "trigger(7)" in refusal(7)


def test_options_that_it_does_not_take(maildir: Path):
    assert "of wakeful-maildir 1.0: TypeError:" in refusal("maildir", path="/tmp")
    assert refusal("maildir", folder="").startswith("maildir: folder is empty")


def test_two_packages_of_one_name(maildir: Path, install: Install):
    install("maildir", "other:maildir", "", package="other-maildir")
    assert "other-maildir 1.0 and wakeful-maildir 1.0 both provide one of that name" in refusal("maildir")


@pytest.mark.parametrize(
    ("value", "code", "words"),
    [
        ("broken:make", "import not_there", "broken:make cannot be loaded: ModuleNotFoundError"),
        ("broken:make", "raise RuntimeError('no\\nway')", "cannot be loaded: RuntimeError: no"),
        ("broken:missing", "", "cannot be loaded: AttributeError"),
        ("broken:make", "make = 7", "broken:make is not a function that returns a trigger, but 7"),
        (
            "broken:make",
            "def make(): return 'cron'",
            "returned 'cron', which is not a trigger: it has no type, no source",
        ),
        ("broken:make", "def make(): raise KeyError('host')", "KeyError"),
        (
            "broken:make",
            """
            class make:
                type, source, where, carries_data = "x", None, None, True
                def describe(self): return "x"
                def matches(self, event): ...
                def reader(self, triggers, context): ...
            """,
            "it has no shared, no problems",
        ),
        (
            "broken:make",
            """
            class make:
                type, source, where, carries_data, shared = "x", None, None, True, ["a list"]
                def describe(self): return "x"
                def matches(self, event): ...
                def reader(self, triggers, context): ...
                async def problems(self): ...
            """,
            "TypeError: unhashable type",
        ),
    ],
)
def test_a_package_that_is_broken_is_one_line(install: Install, value: str, code: str, words: str):
    install("broken", value, code)
    assert words in refusal("broken")


def test_a_broken_package_is_a_finding_of_the_doctor(install: Install):
    from wakeful.cli.doctor import installed_extensions

    install("broken", "broken:make", "import not_there")
    install("fine", "fine:make", "def make(): ...")
    found = {one.text.partition(" of ")[0]: one.verdict for one in installed_extensions()}
    assert found["trigger('broken')"] == "look"
    assert found['trigger("fine")'] == "good"
