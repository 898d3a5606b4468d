"""Heartbeats: sections of a file as checks, each with its schedule and its memory, whatever becomes of the file or of others."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from support.apps import NewApp, pass_time, working
from wakeful import App, Check, ConfigError, Denied, Run, step
from wakeful.clock import VirtualClock
from wakeful.runtime import Runtime
from wakeful.stores.request import Actor
from wakeful.stores.verbs.processes import BuryProcess
from wakeful.triggers.every import every
from wakeful.undeclared import unknown_channels
from wakeful.why import why

START = datetime(2026, 1, 1, 0, 0, 30, tzinfo=UTC)

MAIL = "## Mail\nAnswer what is urgent.\n"
DISK = "## Disk\nevery: 1h\n\nIs it full?\n"


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(START)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "HEARTBEAT.md"


class Desk:
    """A checklist that notes what it was asked, and says what it was told to say."""

    def __init__(self, **says: Any) -> None:
        self.asked: list[Check] = []
        self.says: dict[str, Any] = says

    @property
    def names(self) -> list[str]:
        return [check.name for check in self.asked]

    async def __call__(self, run: Run, check: Check) -> str | None:
        self.asked.append(check)
        said = self.says.get(check.name)
        if isinstance(said, Exception):
            raise said
        text: str | None = said
        return text


def put(file: Path, text: str | bytes) -> None:
    file.write_bytes(text if isinstance(text, bytes) else text.encode())


async def edited(runtime: Runtime, file: Path, text: str | bytes) -> None:
    """An edit, and the looks that it takes."""
    put(file, text)
    await looked(runtime)


async def looked(runtime: Runtime) -> None:
    await runtime.heartbeats.run_once()
    await runtime.heartbeats.run_once()


async def beats(runtime: Runtime) -> list[tuple[str, str]]:
    """(check, result), in order."""
    runs = (await runtime.reader.runs(agent="heartbeat"))["runs"]
    whole = [await runtime.reader.run(run["id"]) for run in reversed(runs)]
    return [(run["output"]["check"], run["output"]["result"]) for run in whole if run is not None]


async def last_beat(runtime: Runtime) -> dict[str, Any]:
    runs = (await runtime.reader.runs(agent="heartbeat"))["runs"]
    run = await runtime.reader.run(runs[0]["id"])
    assert run is not None
    return run


async def memory(runtime: Runtime, check: str, session: str = "heartbeat") -> dict[str, Any]:
    (state,) = [one for one in await runtime.reader.states("heartbeat") if one["key"] == session]
    found: dict[str, Any] = state["value"]["checks"][check]
    return found


async def messages(runtime: Runtime) -> list[Any]:
    deliveries = (await runtime.reader.deliveries())["deliveries"]
    return [one["message"] for one in reversed(deliveries)]


async def alarms(runtime: Runtime, state: str = "open") -> dict[str, str]:
    return {one["key"]: one["text"] for one in (await runtime.reader.alarms(state=state))["alarms"]}


async def schedules(runtime: Runtime) -> dict[str, str]:
    return {one.name: one.state for one in await runtime.schedules.all()}


async def test_each_section_is_a_check_with_its_own_schedule(app: App, file: Path):
    put(file, f"# Desk\nBe short.\n{MAIL}{DISK}")
    desk = Desk()
    app.heartbeat(file, every="30m", checklist=desk, owner="ops")
    async with working(app) as runtime:
        found = {one.name: one for one in await runtime.schedules.all()}
        assert {name: (one.origin, one.agent, one.owner) for name, one in found.items()} == {
            "heartbeat/mail": ("heartbeat", "heartbeat", "ops"),
            "heartbeat/disk": ("heartbeat", "heartbeat", "ops"),
        }
        await pass_time(runtime, "30m")
        assert desk.names == ["mail"]
        await pass_time(runtime, "30m")
        assert sorted(desk.names) == ["disk", "mail", "mail"]
        (mail, *_) = desk.asked
        assert (mail.title, mail.text, mail.preamble) == ("Mail", "Answer what is urgent.", "# Desk\nBe short.")
        assert (await memory(runtime, "mail"))["ran_at"] == "2026-01-01T01:00:30Z"


async def test_a_probe_that_finds_nothing_costs_no_checklist(app: App, file: Path):
    put(file, "## Mail\nprobe: unread\n")
    mails: list[str] = []
    desk = Desk(mail="two mails")

    @app.probe
    def unread() -> list[str]:
        return mails

    app.heartbeat(file, checklist=desk)
    async with working(app) as runtime:
        await pass_time(runtime, "30m")
        assert desk.asked == []
        assert await beats(runtime) == [("mail", "quiet")]
        assert (await last_beat(runtime))["output"]["reason"] == "its probe found nothing to do"
        mails += ["a", "b"]
        await pass_time(runtime, "30m")
        (check,) = desk.asked
        assert check.found == ["a", "b"]
        assert await messages(runtime) == ["two mails"]
        assert (await memory(runtime, "mail"))["processed"] == ["a", "b"]


async def test_a_probe_knows_what_was_processed(app: App, file: Path):
    put(file, "## Mail\nprobe: unread\n")
    inbox = ["a", "b"]

    async def unread(check: Check) -> list[str]:
        return [mail for mail in inbox if mail not in (check.processed or [])]

    app.heartbeat(file, probes={"unread": unread})
    async with working(app) as runtime:
        await pass_time(runtime, "30m")
        await pass_time(runtime, "30m")
        assert await beats(runtime) == [("mail", "told"), ("mail", "quiet")]
        assert await messages(runtime) == ['["a","b"]']


async def test_a_checklist_keeps_what_it_puts_there(app: App, file: Path):
    put(file, MAIL)
    seen: list[Any] = []

    async def checklist(run: Run, check: Check) -> None:
        seen.append(check.processed)
        check.processed = {"upto": len(seen)}

    app.heartbeat(file, checklist=checklist)
    async with working(app) as runtime:
        await pass_time(runtime, "30m")
        await pass_time(runtime, "30m")
        assert seen == [None, {"upto": 1}]


async def test_a_command_is_a_probe(app: App, file: Path):
    put(file, "## Jobs\nprobe: $ cat jobs; test ! -e broken || { echo no disk >&2; exit 3; }\n")
    app.heartbeat(file, commands=True)
    async with working(app) as runtime:
        (file.parent / "jobs").write_text("")
        await pass_time(runtime, "30m")
        (file.parent / "jobs").write_text("job 7 waits\n")
        await pass_time(runtime, "30m")
        (file.parent / "broken").touch()
        await pass_time(runtime, "30m")
        assert await beats(runtime) == [("jobs", "quiet"), ("jobs", "told"), ("jobs", "failed")]
        assert await messages(runtime) == ["job 7 waits"]
        error = (await memory(runtime, "jobs"))["error"]
        assert error.startswith("Persistent: the command ended with 3: cat jobs")
        assert error.endswith("no disk")


async def test_a_file_is_no_shell_unless_the_code_says_so(app: App, file: Path):
    put(file, "## Jobs\nprobe: $ touch ran\n")
    app.heartbeat(file)
    async with working(app) as runtime:
        await looked(runtime)
        await pass_time(runtime, "30m")
        assert await beats(runtime) == []
        (alarm,) = (await runtime.reader.alarms(state="open"))["alarms"]
        assert "HEARTBEAT.md:2: this heartbeat runs no commands" in alarm["text"]
        told = await why(runtime.reader, alarm["key"])
        assert told is not None
        assert "commands=True" in " ".join(told["story"])
    assert not (file.parent / "ran").exists()


async def test_a_pipe_in_the_place_of_the_file_keeps_nobody(app: App, file: Path):
    os.mkfifo(file)
    app.heartbeat(file, checklist=Desk())
    async with working(app) as runtime:
        await looked(runtime)
        (alarm,) = (await runtime.reader.alarms(state="open"))["alarms"]
        assert "HEARTBEAT.md cannot be read: it is not a regular file" in alarm["text"]


async def test_commands_that_were_read_while_they_were_allowed_stop(new_app: NewApp, file: Path):
    put(file, "## Jobs\nprobe: $ echo ran >>ran\n")
    before = new_app()
    before.heartbeat(file, commands=True)
    async with working(before) as runtime:
        await pass_time(runtime, "30m")
        assert await beats(runtime) == [("jobs", "quiet")]
    after = new_app()
    after.heartbeat(file)
    async with working(after) as runtime:
        await pass_time(runtime, "30m")
        assert await beats(runtime) == [("jobs", "quiet"), ("jobs", "failed")]
        assert "this heartbeat runs no commands" in (await memory(runtime, "jobs"))["error"]
        told = await why(runtime.reader, "heartbeat/jobs")
        assert told is not None
        assert "this heartbeat runs no commands" in " ".join(told["story"])
    assert (file.parent / "ran").read_text() == "ran\n"


async def test_a_command_that_takes_too_long_is_killed_with_all_it_started(app: App, file: Path):
    put(file, "## Jobs\ntimeout: 1s\nprobe: $ sleep 600 & echo $! >child; wait\n")
    app.heartbeat(file, commands=True)
    noted = file.parent / "child"
    async with working(app) as runtime:
        while not noted.exists() or not noted.read_text():  # a slow machine may end it before it started anything
            await pass_time(runtime, "30m")
            assert (await memory(runtime, "jobs"))["error"].startswith("StepTimeout: the command took longer than 1 s")
    child = Path("/proc") / noted.read_text().strip() / "stat"
    for _ in range(1000):  # its new parent has to notice
        if not child.exists() or child.read_text().rpartition(")")[2].split()[0] == "Z":
            return
        await asyncio.sleep(0.01)
    pytest.fail("it is still there")


async def test_one_failing_check_does_not_stop_the_others(app: App, file: Path):
    put(file, f"{MAIL}## Disk\nIs it full?\n")
    app.heartbeat(file, checklist=Desk(mail=OSError("no mail server"), disk="full"))
    async with working(app) as runtime:
        await pass_time(runtime, "30m")
        assert sorted(await beats(runtime)) == [("disk", "told"), ("mail", "failed")]
        assert await runtime.reader.counts() == {"done": 2}


async def test_three_failures_in_a_row_are_an_alarm_until_it_goes_well(app: App, file: Path):
    put(file, MAIL)
    desk = Desk(mail=OSError("no mail server"))
    app.heartbeat(file, checklist=desk)
    async with working(app) as runtime:
        await pass_time(runtime, "30m")
        await pass_time(runtime, "30m")
        assert await alarms(runtime) == {}
        await pass_time(runtime, "30m")
        (told,) = (await alarms(runtime)).items()
        assert told[0] == "heartbeat/app/heartbeat/mail"
        assert told[1].startswith(
            "check heartbeat/mail failed 3 times in a row, last with OSError: no mail server. It is tried again"
        )
        desk.says = {}
        await pass_time(runtime, "30m")
        assert await alarms(runtime) == {}
        assert "heartbeat/app/heartbeat/mail" in await alarms(runtime, "resolved")
        assert (await memory(runtime, "mail"))["failures"] == 0


async def test_what_policy_denies_is_no_failure_of_the_check(app: App, file: Path):
    put(file, MAIL)
    app.heartbeat(file, checklist=Desk(mail=Denied("not at night")))
    async with working(app) as runtime:
        await pass_time(runtime, "30m")
        assert await runtime.reader.counts() == {"denied": 1}


async def test_nothing_new_is_not_told_again(app: App, file: Path):
    put(file, MAIL)
    desk = Desk()
    app.heartbeat(file, checklist=desk)
    async with working(app) as runtime:
        for said in ("one mail", "one mail", "two mails", " ", None, "two mails"):
            desk.says["mail"] = said
            await pass_time(runtime, "30m")
        assert [result for _, result in await beats(runtime)] == ["told", "unchanged", "told", "quiet", "quiet", "told"]
        assert await messages(runtime) == ["one mail", "two mails", "two mails"]


async def test_a_failure_does_not_make_old_news_new(app: App, file: Path):
    put(file, MAIL)
    desk = Desk()
    app.heartbeat(file, checklist=desk)
    async with working(app) as runtime:
        for said in ("one mail", OSError("away"), "one mail"):
            desk.says["mail"] = said
            await pass_time(runtime, "30m")
        assert await messages(runtime) == ["one mail"]


async def told_by_why(runtime: Any, name: str) -> str:
    found = await why(runtime.reader, name)
    assert found is not None
    return " ".join(found["story"])


async def test_the_story_of_a_check_tells_its_failures_and_its_alarm(app: App, file: Path):
    put(file, MAIL)
    desk = Desk()
    app.heartbeat(file, checklist=desk)
    desk.says["mail"] = OSError("no mail server")
    async with working(app) as runtime:
        for _ in range(3):
            await pass_time(runtime, "30m")
        story = await told_by_why(runtime, "heartbeat/mail")
        assert "failed: OSError: no mail server. It has failed 3 times in a row." in story
        assert "`wakeful heartbeat run heartbeat/mail` runs it now" in story
        assert "An alarm is open: check heartbeat/mail failed 3 times in a row" in story
        desk.says["mail"] = "one mail"
        await pass_time(runtime, "30m")
        story = await told_by_why(runtime, "heartbeat/mail")
        assert "reported something new, which was sent." in story
        assert "An alarm is open" not in story


async def test_a_check_that_was_fired_by_hand_is_not_run_again_within_its_spacing(app: App, file: Path):
    put(file, MAIL)
    desk = Desk()
    app.heartbeat(file, checklist=desk)
    async with working(app) as runtime:
        await pass_time(runtime, "10m")
        for _ in range(2):  # a person may, at any time
            await runtime.schedules.fire("heartbeat/mail", by=Actor("ada", "cli"))
            await runtime.drain()
            await pass_time(runtime, "1s")
        assert desk.names == ["mail", "mail"]
        await pass_time(runtime, "20m")
        assert (await beats(runtime))[-1] == ("mail", "skipped")
        run = await last_beat(runtime)
        told = await why(runtime.reader, run["id"])
        assert told is not None
        assert (
            "Check heartbeat/mail was skipped: it ran at 2026-01-01T00:10:31Z, and runs once in 30 m 0 s. "
            "`wakeful heartbeat run heartbeat/mail` runs it now." in told["story"]
        )
        await pass_time(runtime, "30m")
        assert desk.names == ["mail"] * 3


async def test_one_that_ran_late_has_just_run(new_app: NewApp, clock: VirtualClock, file: Path):
    put(file, MAIL)
    desk = Desk()
    for by in ("0s", "50m", "10m"):  # 00:30 is made up for at 00:50, and 01:00 is too near to that
        clock.move(by)
        app = new_app()
        app.heartbeat(file, checklist=desk)
        async with working(app) as runtime:
            await runtime.drain()
    assert desk.names == ["mail"]


async def test_an_edit_of_its_spacing_does_not_run_it_again_at_once(app: App, file: Path):
    put(file, "## Mail\nevery: 1h\n")
    desk = Desk()
    app.heartbeat(file, checklist=desk)
    async with working(app) as runtime:
        await pass_time(runtime, "1h")
        await edited(runtime, file, "## Mail\nevery: 40m\n")  # 01:20 is next
        await pass_time(runtime, "20m")
        assert await beats(runtime) == [("mail", "quiet"), ("mail", "skipped")]
        await pass_time(runtime, "40m")
        assert desk.names == ["mail", "mail"]


async def test_checks_of_one_session_go_one_at_a_time_and_others_beside_them(app: App, file: Path):
    put(file, "## A\n\n## B\n\n## C\nsession: other\n")
    begun: dict[str, asyncio.Event] = {name: asyncio.Event() for name in "abc"}
    may_go = asyncio.Event()
    at_work: set[str] = set()
    most: list[set[str]] = []

    async def checklist(run: Run, check: Check) -> None:
        at_work.add(check.name)
        most.append(set(at_work))
        begun[check.name].set()
        await may_go.wait()
        at_work.discard(check.name)

    app.heartbeat(file, checklist=checklist)
    async with working(app) as runtime:
        passing = asyncio.create_task(pass_time(runtime, "30m"))
        async with asyncio.timeout(30):
            await begun["c"].wait()
            await asyncio.wait(
                [asyncio.create_task(begun[name].wait()) for name in "ab"], return_when=asyncio.FIRST_COMPLETED
            )
        assert len({"a", "b"} & at_work) == 1
        may_go.set()
        await passing
        assert sorted(await beats(runtime)) == [("a", "quiet"), ("b", "quiet"), ("c", "quiet")]
        assert not any({"a", "b"} <= together for together in most)


async def test_edits_are_picked_up_and_recorded(app: App, file: Path):
    put(file, f"{MAIL}{DISK}")
    desk = Desk()
    app.heartbeat(file, checklist=desk)
    async with working(app) as runtime:
        await edited(runtime, file, "## Mail\nAnswer everything.\n\n## News\nevery: 10m\n")
        assert await schedules(runtime) == {
            "heartbeat/mail": "live",
            "heartbeat/disk": "removed",
            "heartbeat/news": "live",
        }
        await pass_time(runtime, "10m")
        await pass_time(runtime, "20m")
        assert [check.text for check in desk.asked if check.name == "mail"] == ["Answer everything."]
        stored = await runtime.schedules.find("heartbeat/mail")
        assert stored is not None
        changes = await runtime.database.fetch("changes_of_schedule", stored.seq, 10)
        assert [(row[1], row[2]) for row in changes] == [("edit", "HEARTBEAT.md"), ("add", "HEARTBEAT.md")]
        await edited(runtime, file, MAIL)
        await edited(runtime, file, f"{MAIL}{DISK}")
        assert (await schedules(runtime))["heartbeat/disk"] == "live"


async def test_a_file_that_is_being_written_is_not_acted_upon(app: App, file: Path):
    put(file, MAIL)
    app.heartbeat(file, checklist=Desk())
    async with working(app) as runtime:
        put(file, "")  # an editor is half-way
        await runtime.heartbeats.run_once()
        put(file, f"{MAIL}{DISK}")
        await runtime.heartbeats.run_once()
        assert await schedules(runtime) == {"heartbeat/mail": "live"}
        await runtime.heartbeats.run_once()
        assert await schedules(runtime) == {"heartbeat/mail": "live", "heartbeat/disk": "live"}


async def test_an_empty_file_does_nothing(app: App, file: Path):
    put(file, "# Nothing to look after yet\n")
    app.heartbeat(file, checklist=Desk())
    async with working(app) as runtime:
        await pass_time(runtime, "1h")
        assert await schedules(runtime) == {}
        assert await alarms(runtime) == {}


Damage = Callable[[Path], object]


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (
            lambda file: file.write_text(f"{MAIL}## Disk\nevry: 1h\n"),
            ':4: unknown option "evry". Did you mean "every"?',
        ),
        (lambda file: file.write_bytes(b"## Mail\n\xff"), ":2: byte 9 of the file (0xff) is not UTF-8"),
        (lambda file: file.unlink(), " cannot be read: No such file or directory"),
    ],
)
async def test_a_broken_edit_leaves_the_last_good_version_in_force(
    new_app: NewApp, file: Path, damage: Damage, words: str
):
    desk = Desk()
    put(file, MAIL)
    app = new_app()
    app.heartbeat(file, checklist=desk)
    async with working(app) as runtime:
        damage(file)
        await looked(runtime)
        text = (await alarms(runtime))["heartbeat/app/heartbeat"]
        assert text.startswith(f"heartbeat heartbeat: {file}{words}")
        assert text.endswith("Its checks stay as they were last read")
        await pass_time(runtime, "30m")
        assert desk.names == ["mail"]
    again = new_app()
    again.heartbeat(file, checklist=desk)
    async with working(again) as runtime:  # it has never seen the good one
        await pass_time(runtime, "30m")
        assert [check.text for check in desk.asked] == ["Answer what is urgent."] * 2
        await edited(runtime, file, MAIL)
        assert await alarms(runtime) == {}


async def test_a_file_that_was_never_there_is_an_alarm(app: App, file: Path):
    app.heartbeat(file, checklist=Desk())
    async with working(app) as runtime:
        ((key, text),) = (await alarms(runtime)).items()
        assert key == "heartbeat/app/heartbeat"
        assert text.endswith("It has no checks until the file can be read")
        await edited(runtime, file, MAIL)
        assert await alarms(runtime) == {}
        assert await schedules(runtime) == {"heartbeat/mail": "live"}


async def test_the_alarm_of_a_check_that_is_removed_is_over(app: App, file: Path):
    put(file, MAIL)
    app.heartbeat(file, checklist=Desk(mail=OSError("away")))
    async with working(app) as runtime:
        for _ in range(3):
            await pass_time(runtime, "30m")
        assert list(await alarms(runtime)) == ["heartbeat/app/heartbeat/mail"]
        await edited(runtime, file, "")
        assert await alarms(runtime) == {}


async def test_so_is_that_of_one_that_begins_anew_in_another_session(app: App, file: Path):
    put(file, MAIL)
    app.heartbeat(file, checklist=Desk(mail=OSError("away")))
    async with working(app) as runtime:
        for _ in range(3):
            await pass_time(runtime, "30m")
        assert list(await alarms(runtime)) == ["heartbeat/app/heartbeat/mail"]
        await edited(runtime, file, MAIL.replace("## Mail\n", "## Mail\nsession: other\n"))
        assert await alarms(runtime) == {}


async def test_alarms_go_to_the_owner(app: App, file: Path):
    put(file, MAIL)
    app.heartbeat(file, checklist=Desk(mail=OSError("away")), owner="ada")
    async with working(app) as runtime:
        for _ in range(3):
            await pass_time(runtime, "30m")
        await edited(runtime, file, "## Mail\nevry: 2h\n")
        found = (await runtime.reader.alarms())["alarms"]
        assert {(one["key"], one["agent"], one["owner"]) for one in found} == {
            ("heartbeat/app/heartbeat/mail", "heartbeat", "ada"),
            ("heartbeat/app/heartbeat", "heartbeat", "ada"),
        }


async def test_a_schedule_of_somebody_else_is_not_taken_over(app: App, file: Path):
    @app.agent()
    async def other(run: Run) -> None: ...

    app.heartbeat(file, checklist=Desk())
    async with working(app) as runtime:
        await edited(runtime, file, MAIL)
        await runtime.schedules.add("heartbeat/disk", every("1h"), "other", by=Actor("ada", "cli"))
        await edited(runtime, file, f"## News\n\n{DISK}")
        text = (await alarms(runtime))["heartbeat/app/heartbeat"]
        assert f'{file}:3: agent other already has a schedule "heartbeat/disk"' in text
        assert await schedules(runtime) == {"heartbeat/disk": "live", "heartbeat/mail": "live"}


async def test_checks_that_no_code_declares_any_more_are_an_alarm(new_app: NewApp, file: Path):
    put(file, MAIL)
    app = new_app()
    app.heartbeat(file, checklist=Desk())
    async with working(app):
        pass
    async with working(new_app()) as runtime:
        text = (await alarms(runtime))["heartbeat/app/heartbeat"]
        assert text.startswith("heartbeat heartbeat has 1 check(s) in the store, but app app does not declare it here")
        await runtime.schedules.remove("heartbeat/mail", by=Actor("ada", "cli"))
    async with working(new_app()) as runtime:
        assert await alarms(runtime) == {}


async def test_a_paused_check_stays_paused_through_an_edit(app: App, file: Path):
    put(file, MAIL)
    desk = Desk()
    app.heartbeat(file, checklist=desk)
    async with working(app) as runtime:
        await runtime.schedules.pause("heartbeat/mail", by=Actor("ada", "cli"))
        await edited(runtime, file, "## Mail\nAnswer everything.\n")
        await pass_time(runtime, "2h")
        assert desk.asked == []


async def test_processes_with_the_same_file_do_not_fight(new_app: NewApp, file: Path):
    put(file, f"{MAIL}{DISK}")
    desk = Desk()
    first, second = new_app(), new_app()
    for app in (first, second):
        app.heartbeat(file, checklist=desk)
    async with working(first) as one, working(second) as other:
        put(file, "## Mail\nAnswer everything.\n\n## News\n")
        for _ in range(2):
            await asyncio.gather(one.heartbeats.run_once(), other.heartbeats.run_once())
        assert await alarms(one) == {}
        revisions = {stored.name: stored.revision for stored in await one.schedules.all()}
        for _ in range(3):
            await asyncio.gather(one.heartbeats.run_once(), other.heartbeats.run_once())
        assert {stored.name: stored.revision for stored in await one.schedules.all()} == revisions
        one.clock.move("30m")  # type: ignore[attr-defined]
        await asyncio.gather(one.drain(), other.drain())
        assert sorted(desk.names) == ["mail", "news"]


async def test_a_beat_whose_process_dies_is_done_again_and_told_once(new_app: NewApp, file: Path, clock: VirtualClock):
    put(file, "## Mail\nprobe: unread\n")
    asked: list[str] = []
    begun, never = asyncio.Event(), asyncio.Event()

    async def checklist(run: Run, check: Check) -> str:
        asked.append("checklist")
        if len(asked) == 1:
            begun.set()
            await never.wait()
        return "one mail"

    def unread() -> str:
        probed.append("probe")
        return "a"

    probed: list[str] = []
    first, second = new_app(), new_app()
    for app in (first, second):
        app.heartbeat(file, checklist=checklist, probes={"unread": unread})
    async with working(first) as runtime:
        process = runtime.membership.process
        clock.move("30m")
        dying = asyncio.create_task(runtime.drain())
        async with asyncio.timeout(30):
            await begun.wait()
        await runtime.die()
        dying.cancel()
    async with working(second) as runtime:
        await runtime.store.do(BuryProcess(process, certain=True))
        await runtime.drain()
        assert await messages(runtime) == ["one mail"]
        assert (asked, probed) == (["checklist"] * 2, ["probe"])
        assert (await memory(runtime, "mail"))["result"] == "told"


async def test_a_probe_with_its_own_attempts_keeps_them(app: App, file: Path):
    put(file, "## Mail\nprobe: unread\n")
    tries: list[int] = []

    @app.probe
    @step(attempts=2, backoff="1ms")
    async def unread() -> str:
        tries.append(1)
        if len(tries) == 1:
            raise OSError("away")
        return "one mail"

    app.heartbeat(file)
    async with working(app) as runtime:
        await pass_time(runtime, "30m")
        assert await messages(runtime) == ["one mail"]


async def test_a_checklist_that_returns_something_else_failed(app: App, file: Path):
    put(file, MAIL)
    app.heartbeat(file, checklist=Desk(mail={"text": "hello"}))
    async with working(app) as runtime:
        await pass_time(runtime, "30m")
        assert (await memory(runtime, "mail"))["error"] == (
            "Persistent: the checklist returned dict for check mail: it must return a text, or None for nothing"
        )


def nothing() -> None: ...


def two(first: object, second: object) -> None: ...


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"every": "soon"}, "heartbeat 'heartbeat': every('soon'): 'soon' is not a duration"),
        ({"tz": "Europe/Londn"}, "there is no zone 'Europe/Londn'"),
        ({"timeout": "10ms"}, "timeout must be at least a second"),
        ({"checklist": "no function"}, "checklist must be a function of the run and the check"),
        ({"checklist": nothing}, "checklist takes (run, check), not () -> "),
        ({"probes": [nothing]}, "probes must be names and functions"),
        ({"probes": {"a b": nothing}}, "a probe's name is letters, digits, _ . and -, not 'a b'"),
        ({"probes": {"two": two}}, "probe two must be a function of its check, or of nothing"),
        ({"deliver": None}, "deliver must be the name of a channel"),
        ({"name": "heart beat"}, "an agent's name is letters"),
        ({"name": "taken"}, "app app already has an agent of that name"),
    ],
)
def test_what_cannot_be_meant_is_refused(options: dict[str, Any], words: str):
    app = App("app")

    @app.agent(name="taken")
    async def taken(run: Run) -> None: ...

    with pytest.raises(ConfigError) as caught:
        app.heartbeat("HEARTBEAT.md", **options)
    assert words in str(caught.value)
    assert not app.heartbeats


def test_a_heartbeat_delivers_to_a_channel_that_there_is():
    app = App("app")
    app.heartbeat("HEARTBEAT.md", deliver="opps", checklist=two)
    (problem,) = unknown_channels(app)
    assert problem.startswith('heartbeat heartbeat: deliver="opps": app app has no such channel')


def test_two_probes_of_one_name_are_refused():
    app = App("app")
    app.probe(nothing)
    with pytest.raises(ConfigError, match="a probe nothing is already declared"):
        app.probe(nothing)
