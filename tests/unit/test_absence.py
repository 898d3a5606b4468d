"""Whether what is expected has happened: each kind of absence, what is still pending, and what was met."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from wakeful.clock import SECOND, Microseconds, duration, from_datetime, to_text
from wakeful.triggers.at import at
from wakeful.triggers.cron import cron
from wakeful.triggers.every import every
from wakeful.watch.absence import (
    Admitted,
    OccurrenceFacts,
    RunFacts,
    WatchedSchedule,
    ends_within,
    judge_by,
    judge_every,
    judge_output,
    judge_run,
    judge_schedule,
    starts_within,
)

HOUR = 3600 * SECOND
DAY = 24 * HOUR
START = from_datetime(datetime(2026, 1, 1, tzinfo=UTC))


def at_hour(hour: float) -> Microseconds:
    return START + round(hour * HOUR)


def a_run(state: Any = "done", **more: Any) -> RunFacts:
    facts = RunFacts("r1", "digest", state, at_hour(8), started_at=at_hour(8), finished_at=at_hour(9))
    return replace(facts, **more)


def judged(run: RunFacts, hour: float, *, output: bool = False) -> tuple[str, str | None]:
    verdict = judge_run(run, at_hour(hour), starts_by=at_hour(9), ends_by=at_hour(10), output=output)
    return verdict.state, verdict.kind


class TestRun:
    @pytest.mark.parametrize(
        ("run", "kind"),
        [
            (a_run("dead", reason="no attempt left"), "failed"),
            (a_run("denied", reason="not at night"), "skipped"),
            (a_run("parked", parked_for="stripe"), "parked"),
            (a_run("held", reason="its output did not pass"), "parked"),
            (a_run("ready", started_at=None, paused_by="ada"), "parked"),
            (a_run("ready", started_at=None), "not-fired"),
            (a_run("ready", started_at=None, workers=0), "not-fired"),
            (a_run("ready"), "too-long"),
            (a_run("running"), "too-long"),
            (a_run("waiting"), "too-long"),
        ],
    )
    def test_that_did_not_go_well(self, run: RunFacts, kind: str):
        assert judged(run, 10) == ("absent", kind)

    @pytest.mark.parametrize("state", ["running", "waiting", "ready", "parked", "held"])
    def test_has_until_its_end(self, state: str):
        assert judged(a_run(state), 9.9) == ("pending", None)

    @pytest.mark.parametrize("state", ["ready", "parked"])
    def test_has_less_time_to_begin(self, state: str):
        assert judged(a_run(state, started_at=None), 8.9) == ("pending", None)
        assert judged(a_run(state, started_at=None), 9)[0] == "absent"

    def test_that_is_done_is_met_when_it_was(self):
        verdict = judge_run(a_run(), at_hour(20), starts_by=0, ends_by=0)
        assert (verdict.state, verdict.met_at) == ("met", at_hour(9))

    def test_without_output_is_met_unless_one_was_expected(self):
        assert judged(a_run(has_output=False), 9) == ("met", None)
        assert judged(a_run(has_output=False), 9, output=True) == ("absent", "no-output")

    def test_that_somebody_cancelled_is_excused(self):
        assert judged(a_run("cancelled"), 20) == ("excused", None)

    def test_the_words_say_what_to_do(self):
        def words(run: RunFacts) -> str:
            return judge_run(run, at_hour(10), starts_by=at_hour(9), ends_by=at_hour(10)).reason

        assert "waits for stripe, whose circuit is not closed" in words(a_run("parked", parked_for="stripe"))
        assert "because ada paused it: `wakeful resume digest`" in words(
            a_run("ready", started_at=None, paused_by="ada")
        )
        assert "no living process has its agent" in words(a_run("ready", started_at=None, workers=0))
        assert "`wakeful why r1`" in words(a_run("dead"))


def a_schedule(**more: Any) -> WatchedSchedule:
    """Daily at 08:00; the one of today is done, the one of tomorrow is next."""
    schedule = cron("0 8 * * *", tz="UTC")
    facts = WatchedSchedule(
        "digest",
        "digest",
        schedule,
        "live",
        at_hour(32),
        at_hour(32),
        last=OccurrenceFacts("fired", at_hour(8)),
        last_at=at_hour(8),
        run=a_run(),
    )
    return replace(facts, **more)


class TestSchedule:
    def test_whose_last_run_is_done_is_met_and_due_with_its_next_instant(self):
        verdict = judge_schedule(a_schedule(), at_hour(20))
        assert (verdict.state, verdict.met_at, verdict.due_at) == ("met", at_hour(9), at_hour(33))

    def test_that_nobody_fires(self):
        facts = a_schedule()
        assert judge_schedule(facts, at_hour(32.9)).state == "met"
        verdict = judge_schedule(facts, at_hour(33))
        assert verdict.kind == "not-fired"
        assert verdict.reason.startswith("its occurrence 2026-01-02T08:00:00Z is due")
        assert "no living process has its agent" in judge_schedule(replace(facts, workers=0), at_hour(33)).reason

    def test_that_never_fired_once(self):
        facts = a_schedule(last=None, last_at=None, run=None)
        assert judge_schedule(facts, at_hour(20)).state == "pending"
        assert judge_schedule(facts, at_hour(33)).kind == "not-fired"

    def test_whose_instant_waits_for_nobody(self):
        facts = a_schedule(queued_from=at_hour(8), run=a_run("done"))
        assert judge_schedule(facts, at_hour(9)).kind == "not-fired"
        waits = replace(facts, run=a_run("running"))
        assert judge_schedule(waits, at_hour(9)).state == "pending"
        assert judge_schedule(waits, at_hour(32.5)).kind == "too-long"

    def test_that_was_missed_is_told_by_the_scheduler(self):
        missed = OccurrenceFacts("missed", at_hour(8), "nobody was there")
        verdict = judge_schedule(a_schedule(last=missed), at_hour(20))
        assert (verdict.kind, verdict.told) == ("not-fired", True)

    def test_that_policy_skipped(self):
        denied = OccurrenceFacts("skipped", at_hour(8), "denied: quiet: it is night")
        assert judge_schedule(a_schedule(last=denied), at_hour(20)).kind == "skipped"

    def test_that_was_skipped_because_its_run_goes_on_is_judged_by_that(self):
        skipped = OccurrenceFacts("skipped", at_hour(8), 'overlap="skip": run r1 was not over')
        assert judge_schedule(a_schedule(last=skipped, run=a_run("running")), at_hour(20)).state == "pending"
        assert judge_schedule(a_schedule(last=skipped), at_hour(20)).state == "met"

    def test_whose_run_failed_or_takes_too_long(self):
        assert judge_schedule(a_schedule(run=a_run("dead")), at_hour(20)).kind == "failed"
        quick = cron("0 8 * * *", tz="UTC", ends_within="2h")
        running = a_schedule(schedule=quick, run=a_run("running"))
        assert judge_schedule(running, at_hour(9.9)).due_at == at_hour(10)
        assert judge_schedule(running, at_hour(10)).kind == "too-long"

    def test_that_somebody_paused_is_excused(self):
        verdict = judge_schedule(a_schedule(state="paused", changed_by="ada"), at_hour(100))
        assert (verdict.state, verdict.reason) == ("excused", "paused by ada")

    def test_that_is_done_still_answers_for_its_last_run(self):
        facts = a_schedule(schedule=at("2026-01-01T08:00", tz="UTC"), state="done", next_at=None, due_at=None)
        assert judge_schedule(facts, at_hour(20)).state == "met"
        assert judge_schedule(replace(facts, run=a_run("dead")), at_hour(20)).kind == "failed"

    @pytest.mark.parametrize(
        ("schedule", "start", "end"),
        [
            (every("1s"), "1m", "10m"),
            (every("20m"), "20m", "20m"),
            (every("7d"), "1h", "1d"),
            (every("20m", grace="5m"), "5m", "20m"),
            (every("20m", starts_within="1s", ends_within="3h"), "1s", "3h"),
            (at("2026-01-01", tz="UTC"), "1h", "1d"),
        ],
    )
    def test_times_that_were_not_declared_follow_from_its_rule(self, schedule: Any, start: str, end: str):
        assert starts_within(schedule, START) == duration(start)
        assert ends_within(schedule, START) == duration(end)


class TestOutput:
    def judge(self, *runs: Admitted, hour: float = 20) -> tuple[str, str | None]:
        verdict = judge_output(runs, 2 * HOUR, at_hour(hour))
        return verdict.state, verdict.kind

    def admitted(self, run: RunFacts | None, state: Any = "started") -> Admitted:
        return Admitted(at_hour(8), state, "because", run)

    def test_the_newest_that_can_be_judged_decides(self):
        good, silent = self.admitted(a_run()), self.admitted(a_run(has_output=False))
        fresh = self.admitted(a_run("running", created_at=at_hour(19), started_at=at_hour(19)))
        assert self.judge(fresh, good, silent) == ("met", None)
        assert self.judge(fresh, silent, good) == ("absent", "no-output")
        assert self.judge(fresh) == ("pending", None)
        assert self.judge(fresh, good, hour=21) == ("absent", "too-long")

    def test_an_event_that_never_became_a_run(self):
        assert self.judge(self.admitted(None, "denied")) == ("absent", "skipped")
        assert self.judge(self.admitted(None, "expired")) == ("absent", "not-fired")
        assert self.judge(self.admitted(None, "superseded"), self.admitted(a_run())) == ("met", None)

    def test_without_any_there_is_nothing_to_judge(self):
        assert self.judge() == ("pending", None)


class TestAtLeastEvery:
    def judge(self, last: float | None, hour: float, why: Any = None) -> tuple[str, str | None, str]:
        given = None if last is None else at_hour(last)
        verdict = judge_every(given, DAY, START, at_hour(hour), "event from stripe", why)
        return verdict.state, verdict.kind, verdict.reason

    def test_is_met_as_long_as_the_last_one_is_near(self):
        assert self.judge(10, 33.9)[:2] == ("met", None)
        assert self.judge(10, 34)[:2] == ("absent", "not-fired")

    def test_what_never_came_counts_from_when_it_was_first_expected(self):
        assert self.judge(None, 23.9)[:2] == ("pending", None)
        state, kind, words = self.judge(None, 24)
        assert (state, kind) == ("absent", "not-fired")
        assert words.startswith("no event from stripe at all, since it is expected")

    def test_what_came_before_it_was_expected_gives_no_less_time(self):
        assert self.judge(-100, 23.9)[:2] == ("met", None)

    def test_the_last_attempt_tells_why(self):
        failed = judge_run(a_run("dead"), START, starts_by=0, ends_by=0)
        assert self.judge(10, 40, failed)[:2] == ("absent", "failed")
        assert self.judge(10, 20, failed)[:2] == ("met", None)


class TestByATimeOfTheDay:
    rule = cron("0 3 * * *", tz="UTC").rule

    def judge(self, *hours: float, now: float, since: float = 0, more: bool = False) -> tuple[str, str | None]:
        verdict = judge_by(
            [at_hour(hour) for hour in hours], self.rule, at_hour(since), at_hour(now), "check-in", None, more=more
        )
        return verdict.state, verdict.kind

    def test_comes_in_time(self):
        assert self.judge(2, now=2.9) == ("met", None)
        assert self.judge(2, now=3.1) == ("met", None)
        assert self.judge(-20, now=2.9) == ("met", None)

    def test_does_not_come(self):
        assert self.judge(now=2.9) == ("pending", None)
        assert self.judge(now=3) == ("absent", "not-fired")
        assert self.judge(2, now=27) == ("absent", "not-fired")

    def test_comes_late_and_settles_that_and_not_the_next(self):
        assert self.judge(4, now=5) == ("met", None)
        assert self.judge(4, now=27) == ("absent", "not-fired")
        assert self.judge(4, 26, now=27) == ("met", None)
        assert self.judge(4, 5, now=27) == ("met", None)  # the second one is that of the day after

    def test_one_late_arrival_ends_any_number_of_misses(self):
        assert self.judge(2, 80, now=81) == ("met", None)
        assert self.judge(2, 80, now=99) == ("absent", "not-fired")
        assert self.judge(2, 80, 98, now=99) == ("met", None)

    def test_was_not_expected_yet(self):
        assert self.judge(now=20, since=4) == ("pending", None)
        assert self.judge(now=27, since=4) == ("absent", "not-fired")

    def test_only_the_last_arrivals_are_known(self):
        assert self.judge(26.5, 26.6, now=27, more=True) == ("met", None)
        assert self.judge(27.5, 27.6, now=28, more=True) == ("met", None)
        assert self.judge(25, 26, now=51, more=True) == ("absent", "not-fired")

    def test_says_when_the_last_one_came(self):
        verdict = judge_by([at_hour(2)], self.rule, START, at_hour(28), "check-in", None)
        assert verdict.reason == (
            f"no check-in by 2026-01-02T03:00:00Z, and the last one came at {to_text(at_hour(2))}"
        )
