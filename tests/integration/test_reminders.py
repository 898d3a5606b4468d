"""Reminders: told once, late rather than never, not when they are needless; moved and cancelled while they fire."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest
from structlog.testing import capture_logs

from support.apps import NewApp, ended, go, pass_time, working
from support.intercepting import instead
from support.locks import waiting_for_a_lock
from support.stores import query
from wakeful import App, ConfigError, Run, VirtualClock, on
from wakeful.channels import Channel, Message
from wakeful.errors import IdempotencyConflict, InvalidTime, NotFound, TooLate
from wakeful.runtime import Runtime
from wakeful.stores.journal import Died
from wakeful.stores.request import Actor
from wakeful.stores.verbs.schedules import RecordOccurrences, ScheduleByPerson
from wakeful.testing import World, crash_everywhere
from wakeful.triggers.reminders import Reminders

START = datetime(2026, 11, 15, 16, 0, tzinfo=UTC)


class Post(Channel):
    """Keeps what it was given."""

    def __init__(self) -> None:
        self.got: list[Any] = []

    async def deliver(self, messages: Sequence[Message]) -> None:
        self.got += [one.body for one in messages]


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(START)


@pytest.fixture
def post() -> Post:
    return Post()


@pytest.fixture
def app(new_app: NewApp, post: Post) -> App:
    return new_app(channels={"reminders": post})


async def the_reminder(runtime: Runtime, identifier: str) -> dict[str, Any]:
    found = await runtime.reader.reminder(identifier)
    assert found is not None
    return found


async def became(runtime: Runtime, identifier: str) -> tuple[str, str | None]:
    found = await the_reminder(runtime, identifier)
    return found["state"], found["reason"]


async def ledger(runtime: Runtime, name: str) -> list[str]:
    stored = await runtime.schedules.find(name)
    assert stored is not None
    return [row[1] for row in reversed(await runtime.database.fetch("occurrences_of_schedule", stored.seq, 2**62, 100))]


# firing


async def test_it_is_told_once_at_its_time_and_kept_as_told(app: App, post: Post):
    async with working(app) as runtime:
        made = await app.remind("in 20 minutes", "call the bank", tz="Europe/London")
        assert (made.due_at, made.zone, made.to) == (START + timedelta(minutes=20), "Europe/London", "reminders")
        await pass_time(runtime, "19m")
        assert post.got == []
        assert await became(runtime, made.id) == ("pending", None)
        await pass_time(runtime, "1m")
        assert post.got == ["call the bank"]
        await pass_time(runtime, "30d")
        assert len(post.got) == 1
        told = await the_reminder(runtime, made.id)
        assert (told["state"], told["told_at"], told["late"]) == ("told", "2026-11-15T16:20:00Z", None)
        assert await ledger(runtime, made.id) == ["fired"]


async def test_one_that_was_told_is_not_expected_any_more(app: App):
    """Else all that ever were would be listed among what is to come."""
    async with working(app) as runtime:
        made = await app.remind("in 20 minutes", "call the bank")
        assert [one["name"] for one in await runtime.reader.expectations()] == [made.id]
        await pass_time(runtime, "20m")
        assert await runtime.reader.expectations() == []


async def test_one_that_nobody_was_there_for_is_told_late_and_says_so(
    app: App, new_app: NewApp, post: Post, clock: VirtualClock
):
    made = await app.remind("in 20 minutes", "call the bank")
    clock.move("700d")
    async with working(new_app(channels={"reminders": post})) as runtime:
        await runtime.drain()
        assert post.got == ["call the bank (699 d 23 h late)"]
        assert (await became(runtime, made.id))[0] == "told"
        assert (await runtime.reader.alarms(state="open"))["alarms"] == []


async def test_without_a_channel_of_that_name_it_goes_to_the_log(new_app: NewApp):
    assert (await new_app().remind("at 5pm", "tea")).to == "log"


async def test_who_does_not_know_the_channels_leaves_it_to_who_tells_it(app: App, new_app: NewApp, post: Post):
    async with working(app) as runtime:
        made = await Reminders(app.name, runtime.store).make("in 20 minutes", "call the bank", by=Actor("ada", "cli"))
        await pass_time(runtime, "20m")
        assert post.got == ["call the bank"]
        again = await Reminders(app.name, runtime.store).make(
            "in 20 minutes", "call them again", by=Actor("ada", "cli")
        )
    async with working(new_app()) as runtime:
        await pass_time(runtime, "20m")
        assert {(await became(runtime, one.id))[0] for one in (made, again)} == {"told"}
        assert [one["channel"] for one in (await runtime.reader.deliveries())["deliveries"]] == ["log", "reminders"]


async def test_two_processes_that_race_tell_it_once(app: App, new_app: NewApp, post: Post, clock: VirtualClock):
    async with working(app) as first, working(new_app(channels={"reminders": post})) as second:
        await app.remind("in 20 minutes", "call the bank")
        clock.move("20m")
        await asyncio.gather(first.scheduler.tick(), second.scheduler.tick())
        await asyncio.gather(first.drain(), second.drain())
        assert post.got == ["call the bank"]


async def test_a_channel_that_is_gone_leaves_a_dead_letter_and_no_silence(
    app: App, new_app: NewApp, clock: VirtualClock
):
    made = await app.remind("in 20 minutes", "call the bank")
    clock.move("20m")
    async with working(new_app()) as runtime:
        await runtime.drain()
        state, reason = await became(runtime, made.id)
        assert state == "failed"
        assert 'no channel "reminders"' in str(reason)


@pytest.mark.parametrize("boundary", ["RecordOccurrences", "SaveSteps", "CommitRun", "WorkLane"])
@pytest.mark.parametrize("point", ["before", "within", "after"])
async def test_a_crash_at_any_commit_of_its_firing_loses_nothing_and_doubles_nothing(
    store_url: str, clock: VirtualClock, boundary: str, point: str
):
    loop, dead = asyncio.get_running_loop(), asyncio.Event()
    armed = died = False

    def probe(where: str, requests: Sequence[Any]) -> None:
        nonlocal died
        if armed and (died or (where == point and boundary in {type(one).__name__ for one in requests})):
            died = True
            loop.call_soon_threadsafe(dead.set)
            raise Died

    app = App("app")
    async with World(app, store=store_url, clock=clock, probe=probe) as world:
        made = await world.runtime.reminders.make(
            "in 20 minutes", "call the bank", unless="paid", by=Actor("ada", "cli")
        )
        armed = True
        skipping = asyncio.ensure_future(world.skip("20m"))
        await asyncio.wait_for(dead.wait(), 20)
        skipping.cancel()
        armed = False
        await world.crash()
        await world.skip("20m")
        assert [one.body for one in world.messages()] == ["call the bank"]
        assert await became(world.runtime, made.id) == ("told", None)
        assert await ledger(world.runtime, made.id) == ["fired"]


# unless


async def test_one_that_is_needless_says_so_and_sends_nothing(app: App, post: Post):
    async with working(app) as runtime:
        before = await app.emit("ci.passed", id="earlier")
        made = await app.remind("at 5pm", "look at CI", unless="ci.passed")
        assert before.status == "unmatched"
        await app.emit("ci.failed")
        await pass_time(runtime, "30m")
        await app.emit("ci.passed", id="green")
        await pass_time(runtime, "1h")
        assert post.got == []
        assert await became(runtime, made.id) == (
            "unneeded",
            "event green of type ci.passed came at 2026-11-15T16:30:00Z",
        )
        story = " ".join((await runtime.reader.why(made.id) or {})["story"])
        assert "It was not sent, because it was no longer needed: event green of type ci.passed came at" in story
        run = (await the_reminder(runtime, made.id))["run"]
        of_run = " ".join((await runtime.reader.why(run) or {})["story"])
        assert f"It sent nothing, because reminder {made.id} was no longer needed: event green" in of_run


async def test_what_came_before_it_was_made_does_not_make_it_needless(app: App, post: Post):
    async with working(app) as runtime:
        await app.emit("ci.passed")
        await app.remind("at 5pm", "look at CI", unless="ci.passed")
        await pass_time(runtime, "1h")
        assert post.got == ["look at CI"]


async def test_a_condition_decides_which_event_makes_it_needless(app: App, post: Post):
    async with working(app) as runtime:
        where = 'data.branch == "main"'
        first = await app.remind("at 5pm", "look at main", unless="ci.passed", where=where)
        second = await app.remind("at 6pm", "look at main again", unless="ci.passed", where=where)
        for number in range(150):  # more than a page
            await app.emit("ci.passed", {"branch": f"other-{number}"})
        await app.emit("ci.passed")
        await pass_time(runtime, "1h")
        assert post.got == ["look at main"]
        await app.emit("ci.passed", {"branch": "main"}, id="green")
        await pass_time(runtime, "1h")
        assert post.got == ["look at main"]
        assert (await became(runtime, first.id))[0] == "told"
        assert (await became(runtime, second.id))[0] == "unneeded"


async def test_a_condition_that_runs_out_of_its_budget_is_logged_and_the_reminder_is_told(app: App, post: Post):
    async with working(app) as runtime:
        await app.remind("at 5pm", "look at CI", unless="ci.passed", where="data.many.exists(x, x == 1)")
        await app.emit("ci.passed", {"many": [0] * 10_100}, id="large")
        with capture_logs() as logs:
            await pass_time(runtime, "1h")
        assert post.got == ["look at CI"]
    (line,) = [one for one in logs if one["event"] == "it is unknown whether an event makes the reminder unnecessary"]
    assert (line["log_level"], line["event_id"]) == ("warning", "large"), line
    assert "ran out of its budget" in line["reason"]


async def test_an_event_whose_clock_is_wrong_still_counts(app: App, post: Post, clock: VirtualClock):
    """What came is known by its place in the store, not by a clock, which may be set back."""
    async with working(app) as runtime:
        made = await app.remind("at 5pm", "look at CI", unless="ci.passed")
        clock.move(timedelta(hours=-2))
        await app.emit("ci.passed")
        await pass_time(runtime, "3h")
        assert (await became(runtime, made.id))[0] == "unneeded"
        assert post.got == []


@pytest.mark.postgres
async def test_an_event_that_was_being_stored_when_it_was_made_counts(
    postgres_url: str, clock: VirtualClock, post: Post
):
    """Its number was given before the reminder was made, and it became visible after that."""
    app = App("app", store=postgres_url, clock=clock, channels={"reminders": post})
    async with working(app) as runtime:
        connection = await asyncpg.connect(postgres_url)
        try:
            transaction = connection.transaction()
            await transaction.start()
            await app.emit("ci.passed", within=connection)
            await app.emit("other")  # a later number, which is visible at once
            made = await app.remind("at 5pm", "look at CI", unless="ci.passed")
            await transaction.commit()
        finally:
            await connection.close()
        await pass_time(runtime, "1h")
        assert (await became(runtime, made.id))[0] == "unneeded"
        assert post.got == []


async def test_a_condition_longer_than_events_are_kept_is_refused(new_app: NewApp):
    app = new_app(retention="7d", deduplication="30d")
    with pytest.raises(ConfigError, match=r"due in 8 d 0 h, but event data is kept for only 7 d 0 h"):
        await app.remind("in 8 days", "look", unless="ci.passed", where="data.green")
    assert (await app.remind("in 8 days", "look", unless="ci.passed")).unless == "ci.passed"
    with pytest.raises(ConfigError, match=r"events are kept for only 30 d"):
        await app.remind("in 31 days", "look", unless="ci.passed")


# moving and cancelling


async def test_it_can_be_moved_as_often_as_one_likes(app: App, post: Post):
    async with working(app) as runtime:
        made = await app.remind("in 20 minutes", "call the bank", tz="America/New_York")
        moved = await runtime.reminders.move(made.id, "tomorrow 9am", by=Actor("ada", "cli"))
        assert moved.due_at == datetime(2026, 11, 16, 14, 0, tzinfo=UTC)  # in its own zone
        await runtime.reminders.move(made.id, "in 2 hours", tz="UTC", by=Actor("ada", "cli"), note="sooner")
        await pass_time(runtime, "1h")
        assert post.got == []
        await pass_time(runtime, "1h")
        assert post.got == ["call the bank"]
        with pytest.raises(TooLate, match=r"cannot be moved: its time came, on Sun 15 Nov 2026 18:00 UTC"):
            await runtime.reminders.move(made.id, "in 2 hours", by=Actor("ada", "cli"))
        with pytest.raises(TooLate, match=r"cannot be cancelled: its time came"):
            await runtime.reminders.cancel(made.id, by=Actor("ada", "cli"))
        assert (await became(runtime, made.id))[0] == "told"


async def test_one_that_is_cancelled_is_never_told(app: App, post: Post):
    async with working(app) as runtime:
        made = await app.remind("in 20 minutes", "call the bank")
        await runtime.reminders.cancel(made.id, by=Actor("ada", "cli"))
        await pass_time(runtime, "1h")
        assert post.got == []
        assert await became(runtime, made.id) == ("cancelled", "cancelled by ada")
        with pytest.raises(TooLate, match=r"cannot be moved: ada cancelled it"):
            await runtime.reminders.move(made.id, "in 2 hours", by=Actor("ada", "cli"))
        with pytest.raises(NotFound, match=r'no reminder "r-nothing"'):
            await runtime.reminders.cancel("r-nothing", by=Actor("ada", "cli"))


@pytest.mark.parametrize("verb", ["move", "cancel"])
async def test_changed_between_being_seen_as_due_and_being_fired_it_does_not_fire(
    app: App, post: Post, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch, verb: str
):
    async with working(app) as runtime:
        made = await app.remind("in 20 minutes", "call the bank")
        await runtime.scheduler.stop()  # only the test looks what is due
        clock.move("20m")
        settle = runtime.store.do

        async def too_late(request: Any) -> Any:
            monkeypatch.setattr(runtime.store, "do", settle)
            await change(runtime, verb, made.id)
            return await settle(request)

        monkeypatch.setattr(runtime.store, "do", instead(runtime.store, RecordOccurrences, too_late))
        await runtime.drain()
        assert post.got == []
        await pass_time(runtime, "1h")
        assert post.got == (["call the bank"] if verb == "move" else [])
        assert await ledger(runtime, made.id) == (["superseded", "fired"] if verb == "move" else ["skipped"])


@pytest.mark.parametrize("verb", ["move", "cancel"])
async def test_fired_between_being_looked_at_and_being_changed_it_stays_fired(
    app: App, post: Post, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch, verb: str
):
    async with working(app) as runtime:
        made = await app.remind("in 20 minutes", "call the bank")
        await runtime.scheduler.stop()
        clock.move("20m")
        write = runtime.store.do

        async def too_late(request: Any) -> Any:
            if isinstance(request, ScheduleByPerson):
                monkeypatch.setattr(runtime.store, "do", write)
                await runtime.scheduler.tick()
            return await write(request)

        monkeypatch.setattr(runtime.store, "do", too_late)
        with pytest.raises(TooLate):
            await change(runtime, verb, made.id)
        await pass_time(runtime, "2h")
        assert len(post.got) == 1
        assert await ledger(runtime, made.id) == ["fired"]


async def change(runtime: Runtime, verb: str, identifier: str) -> None:
    if verb == "move":
        await runtime.reminders.move(identifier, "in 1 hour", by=Actor("ada", "cli"))
    else:
        await runtime.reminders.cancel(identifier, by=Actor("ada", "cli"))


@pytest.mark.postgres
@pytest.mark.parametrize("verb", ["move", "cancel"])
async def test_changed_and_fired_in_the_same_moment_it_has_one_outcome(
    postgres_url: str, clock: VirtualClock, post: Post, verb: str
):
    """Both transactions wait for the one row, held by a third; whoever gets it first has it."""

    def new() -> App:
        return App("app", store=postgres_url, clock=clock, channels={"reminders": post})

    async with working(new()) as due, working(new()) as changing:
        made = await due.reminders.make("in 20 minutes", "call the bank", by=Actor("ada", "cli"))
        await due.scheduler.stop()
        await changing.scheduler.stop()
        clock.move("20m")
        connection = await asyncpg.connect(postgres_url)
        try:
            transaction = connection.transaction()
            await transaction.start()
            await connection.execute("select 1 from wakeful_schedule where name = $1 for update", made.id)
            both = [asyncio.ensure_future(due.scheduler.tick()), asyncio.ensure_future(change(changing, verb, made.id))]
            await waiting_for_a_lock(postgres_url, like="%wakeful_schedule%", sessions=2)
            await transaction.commit()
        finally:
            await connection.close()
        _, changed = await asyncio.gather(*both, return_exceptions=True)
        assert changed is None or isinstance(changed, TooLate)
        await asyncio.gather(due.drain(), changing.drain())
        fired_at_once = isinstance(changed, TooLate)
        assert post.got == (["call the bank"] if fired_at_once else [])
        clock.move("1h")
        await asyncio.gather(due.drain(), changing.drain())
        assert len(post.got) == (0 if verb == "cancel" and not fired_at_once else 1)


# making


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"text": "  "}, "its text must have 1 to"),
        ({"text": "x" * 3000}, "1 to 2,000 characters"),
        ({"to": "rimenders"}, 'no channel "rimenders". Did you mean "reminders"?'),
        ({"tz": "Europe/Londn"}, 'Did you mean "Europe/London"?'),
        ({"where": "data.x"}, "name its type with unless="),
        ({"unless": "ci.*"}, "without *"),
        ({"unless": "ci.passed", "where": "data.x =="}, "reminder: "),
        ({"id": "a b"}, "letters, digits"),
    ],
)
async def test_what_cannot_be_meant_is_refused_and_nothing_is_made(app: App, arguments: dict[str, Any], complaint: str):
    async with working(app) as runtime:
        with pytest.raises(ConfigError) as refused:
            await app.remind("in 20 minutes", **({"text": "call the bank"} | arguments))
        assert complaint in str(refused.value)
        with pytest.raises(InvalidTime, match=r"is past"):
            await app.remind("at 3pm", "call the bank")
        with pytest.raises(InvalidTime, match=r"is past"):
            await app.remind(START - timedelta(minutes=1), "call the bank")
        assert (await runtime.reader.reminders())["reminders"] == []


async def test_a_datetime_will_do_and_counts_as_one_of_the_zone(app: App):
    made = await app.remind(datetime(2026, 12, 1, 9, 0), "tea", tz="America/New_York")
    assert made.due_at == datetime(2026, 12, 1, 14, 0, tzinfo=UTC)


async def test_an_id_of_ones_own_makes_asking_again_safe(app: App):
    async with working(app) as runtime:
        first = await app.remind("in 20 minutes", "call the bank", id="bank-7")
        again = await app.remind("in 30 minutes", "call the bank", id="bank-7")
        assert again == first
        with pytest.raises(IdempotencyConflict, match=r"bank-7 is the name of another reminder"):
            await app.remind("in 20 minutes", "call the doctor", id="bank-7")
        assert len((await runtime.reader.reminders())["reminders"]) == 1


async def test_what_it_says_is_not_readable_in_an_encrypted_store(new_app: NewApp, store_url: str, post: Post):
    from wakeful import env

    app = new_app(channels={"reminders": post}, encryption=[env("REMINDER_KEY")])
    with pytest.MonkeyPatch.context() as patch:
        from wakeful.stores.keyring import new_key

        patch.setenv("REMINDER_KEY", new_key())
        async with working(app) as runtime:
            made = await app.remind("in 20 minutes", "call the bank", unless="paid", where="data.ok")
            rows = await query(store_url, "select data from wakeful_schedule")
            assert "bank" not in str(rows)
            await app.emit("paid", {"ok": True})
            await pass_time(runtime, "20m")
            assert (await became(runtime, made.id))[0] == "unneeded"


# from runs


def reminding(app: App, **options: Any) -> list[Any]:
    made: list[Any] = []

    @app.agent(on("go"), **options)
    async def chase(run: Run) -> str:
        reminder = await run.remind("in 20 minutes", "call the bank", unless="paid")
        made.append(reminder)
        return reminder.id

    return made


async def test_a_run_makes_one_and_finds_it_again_on_resume(app: App, post: Post):
    made: list[Any] = []

    @app.agent(on("go"), attempts=2, backoff="10m")
    async def chase(run: Run) -> str:
        made.append(await run.remind("in 20 minutes", "call the bank"))
        made.append(await run.remind("in 20 minutes", "call the bank"))
        if run.attempt == 1:
            raise ConnectionError
        return "done"

    async with working(app) as runtime:
        await go(runtime)
        await pass_time(runtime, "11m")
        first, second, *again = made
        assert first.id != second.id
        assert again == [first, second]
        assert first.due_at == START + timedelta(minutes=20)
        await pass_time(runtime, "9m")
        assert post.got == ["call the bank"] * 2
        shown = await the_reminder(runtime, first.id)
        assert shown["made_by"].endswith("of agent chase")


async def test_a_run_that_is_done_again_makes_no_second_one(app: App, post: Post):
    from wakeful.stores.verbs.redo import RedoRun

    made = reminding(app)
    async with working(app) as runtime:
        run = await go(runtime)
        await runtime.store.do(RedoRun(run["id"], again=True, by=Actor("ada", "code")))
        await runtime.drain()
        assert len(made) == 2
        assert made[0] == made[1]
        assert len((await runtime.reader.reminders())["reminders"]) == 1


async def test_a_run_that_crashes_anywhere_makes_one_reminder(store_url: str):
    app = App("app")
    reminding(app)
    worlds: list[World] = []

    async def observe() -> list[str]:
        return [one["text"] for one in (await worlds[-1].runtime.reader.reminders())["reminders"]]

    report = await crash_everywhere(app, "go", store=store_url, observe=observe, arrange=worlds.append)
    report.check()
    assert any("MakeReminder" in one.boundary.requests for one in report.crashes)


async def test_what_a_run_cannot_mean_is_a_dead_letter(app: App):
    @app.agent(on("go"))
    async def chase(run: Run) -> None:
        await run.remind("at 3", "call the bank")

    async with working(app) as runtime:
        run = await go(runtime)
        assert run["state"] == "dead"
        assert "3 am or 3 pm?" in run["error"]["message"]


# looking


async def test_reminders_are_listed_by_state_and_page_by_page(app: App):
    async with working(app) as runtime:
        needless = await app.remind("in 10 minutes", "first", unless="paid")
        told = [await app.remind("in 10 minutes", f"told {number}") for number in range(3)]
        gone = await app.remind("in 1 hour", "second")
        await runtime.reminders.cancel(gone.id, by=Actor("ada", "cli"))
        later = await app.remind("in 2 hours", "third")
        await app.emit("paid")
        await pass_time(runtime, "10m")

        async def listed(**wanted: Any) -> list[str]:
            return [one["id"] for one in (await runtime.reader.reminders(**wanted))["reminders"]]

        assert await listed(state="pending") == [later.id]
        assert await listed(state="cancelled") == [gone.id]
        assert await listed(state="unneeded") == [needless.id]
        assert await listed(state="told") == [one.id for one in reversed(told)]
        assert len(await listed()) == 6
        page = await runtime.reader.reminders(state="told", limit=2)
        assert [one["id"] for one in page["reminders"]] == [told[2].id, told[1].id]
        assert await listed(state="told", limit=2, after=page["next"]) == [told[0].id]
        assert await listed(app="other") == []


async def test_why_tells_the_story_of_a_reminder(app: App, post: Post):
    async with working(app) as runtime:
        made = await app.remind("in 20 minutes", "call the bank", unless="paid", operator="ada")
        await runtime.reminders.move(made.id, "in 30 minutes", by=Actor("ben", "cli"), note="busy")
        waiting = (await runtime.reader.why(made.id) or {})["story"]
        assert waiting[0].startswith(f'Reminder {made.id}, "call the bank", was created by ada')
        assert "ben moved it to Sun 15 Nov 2026 16:30 UTC (busy)" in " ".join(waiting)
        assert f"`wakeful reminders move {made.id} WHEN`" in waiting[-1]
        await pass_time(runtime, "30m")
        told = " ".join((await runtime.reader.why(made.id) or {})["story"])
        assert "was delivered" in told or "delivered" in told


async def test_one_made_while_the_app_runs_elsewhere_is_heard_of(
    app: App, new_app: NewApp, post: Post, clock: VirtualClock
):
    """Whoever makes it needs neither the agents nor a worker."""
    async with working(app) as runtime:
        other = new_app(channels={"reminders": Post()})
        await other.remind("in 20 minutes", "call the bank")
        await pass_time(runtime, "20m")
        assert post.got == ["call the bank"]
        assert await ended(runtime, await app.start("wakeful.remind", {"text": "x", "to": "reminders", "by": "ada"}))
