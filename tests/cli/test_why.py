"""The story of every state, told from made-up objects in the shapes that the reader gives."""

from __future__ import annotations

from typing import Any, cast
from unittest.mock import patch

import pytest

from wakeful.clock import SECOND
from wakeful.errors import NotFound
from wakeful.resources.desk import Reads
from wakeful.why import why

NOON = 1_767_268_800 * SECOND  # 2026-01-01 12:00:00 UTC
AT_NOON = "2026-01-01T12:00:00Z"
AT_ONE = "2026-01-01T13:00:00Z"
WORKER = {"id": "p1", "host": "node", "pid": 7, "state": "alive", "lease_left": 10.0}
ERROR = {"type": "Transient", "message": "no answer.\nsecond line", "traceback": "…"}


def event(**changes):
    return {
        "key": "k1", "app": "ops", "source": "/web", "id": "e1", "type": "a", "subject": None, "state": "accepted",
        "reason": None, "duplicates": 0, "accepted_at": AT_NOON, "envelope": {}, "conflicts": [], "decisions": [],
        "waited": [], "same_id": 0, "admissions": [{"agent": "f", "state": "started", "run": "r1", "reason": None}], **changes,
    }  # fmt: skip


def run(**changes):
    return {
        "id": "r1", "agent": "f", "state": "done", "attempts": 1, "crashes": 0, "reason": None, "app": "ops",
        "event": {"source": "/web", "id": "e1", "type": "a", "key": "k1", "data": None}, "created_at": AT_NOON,
        "started_at": AT_NOON, "finished_at": AT_ONE, "due_at": None, "owner": None, "steps": [], "history": [],
        "remedies": [], "effects": [], "deliveries": [], "output": None, "outcome": None, "outdated": False, "error": None,
        "parked_for": None, "expires_at": None, "token": 1,
        "events": [{"source": "/web", "id": "e1", "type": "a", "key": "k1"}], "key": None, "priority": None,
        "gathers_until": None, "ahead": None, "behind": None,
        "parent": None, "children": [], **changes,
    }  # fmt: skip


def attempt(outcome, error=None):
    return {"claim": 1, "process": "p0", "outcome": outcome, "error": error, "started_at": AT_NOON, "ended_at": AT_ONE}


def step(name, state="done", **changes):
    return {"key": name, "name": name, "state": state, "tries": 1, "error": None, "due_at": None, **changes}


def remedy(verb="replay", **changes):
    return {"verb": verb, "operator": "ada", "note": None, "data": None, "error": ERROR, "done_at": AT_ONE, **changes}


def effect(state, **changes):
    return {
        "id": "x1", "run": "r1", "tries": 1, "action": "charge", "state": state, "reason": None, "error": None, "settled_by": None,
        "settled_at": None, "note": None, "executed": None, "approval": None, **changes,
    }  # fmt: skip


class Fake(Reads):
    """Made-up objects instead of rows: `told` hands them to the stories."""

    def __init__(self, one_event, *runs, processes=(), states=(), pauses=(), limits=None):
        super().__init__(cast("Any", self))
        self.limits = {"concurrency": None, "running": 0, "rate": None, "next_start_at": None, **(limits or {})}
        self.event = one_event
        self.runs = {one["id"]: one for one in runs}
        self.views = {"list_processes": processes, "list_states": states, "list_pauses": pauses}

    async def fetch(self, name, *given):
        return [(NOON,)] if name == "read_time" else []

    def read_clock(self):
        return NOON

    async def rows(self, view, query, *given):
        return [one for one in self.views.get(query, ()) if query != "list_states" or one["agent"] == given[0]]


async def told(fake, identifier):
    """The story of an id, told from made-up objects."""

    async def run(_, wanted):
        if wanted == "ambiguous":
            raise NotFound("more than one")
        return next((one for key, one in fake.runs.items() if key.startswith(wanted)), None)

    async def event(_, wanted):
        return fake.event if wanted in {fake.event["id"], fake.event["key"]} else None

    async def delivery(_, wanted):
        sent = [one for run in fake.runs.values() for one in run["deliveries"]]
        return next((one for one in sent if one["id"] == wanted), None)

    async def limits(*_):
        return fake.limits

    with (
        patch("wakeful.resources.runs.find", run),
        patch("wakeful.resources.events.find", event),
        patch("wakeful.resources.deliveries.find", delivery),
        patch("wakeful.why.held_up.limits_of", limits),
    ):
        return await why(fake, identifier)


async def story(one_event, *runs, identifier="e1", **more):
    found = await told(Fake(one_event, *runs, **more), identifier)
    assert found is not None
    return "\n".join(found["story"])


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "The run is done: it finished at 2026-01-01 13:00:00 UTC, 1 h 0 m after its first start."),
        ({"attempts": 3}, "on its 3rd attempt."),
        (
            {"state": "dead", "reason": "failed 5 times, 5 allowed", "error": ERROR},
            "The run is dead: it was given up at 2026-01-01 13:00:00 UTC (failed 5 times, 5 allowed). The last error was Transient: no answer.",
        ),
        ({"state": "dead", "error": ERROR}, "`wakeful trace r1 --full`"),
        ({"state": "dead", "error": ERROR}, "then resume it with `wakeful replay r1`"),
        ({"state": "denied", "reason": "not for you"}, "The run was denied at 2026-01-01 13:00:00 UTC: not for you."),
        ({"state": "cancelled", "reason": "expired"}, "The run was cancelled at 2026-01-01 13:00:00 UTC (expired)."),
        ({"state": "running", "owner": "p1"}, "The run is running now, in process p1 (pid 7 on node)."),
        ({"state": "running", "owner": "p9"}, "whose lease has expired: another worker takes it over soon."),
        ({"state": "ready", "reason": "its process died"}, "The run is ready (its process died).\n1 worker is alive"),
        ({"state": "waiting", "due_at": AT_ONE}, "The run waits until 2026-01-01 13:00:00 UTC, 1 h 0 m from now."),
        ({"state": "waiting", "due_at": AT_NOON}, "The run has been due since 2026-01-01 12:00:00 UTC."),
        ({"state": "held"}, "The run is held for a person."),
        ({"state": "parked", "reason": "budget"}, "The run is parked (budget)."),
        ({"history": [attempt("crashed")]}, "Its process p0 died at about 2026-01-01 13:00:00 UTC."),
        (
            {"history": [attempt("retried", ERROR), attempt("retried", ERROR)]},
            "The run failed 2 times, most recently at 2026-01-01 13:00:00 UTC after 1 h 0 m: Transient: no answer.",
        ),
        ({"history": [attempt("released")]}, "Its worker stopped and released it at"),
        ({"history": [attempt("waited", ERROR)]}, "The run was told to wait at 2026-01-01 13:00:00 UTC: Transient: no answer."),
        ({"history": [attempt("waited")]}, "The run was suspended to wait at"),
        ({"state": "ready", "steps": [step("one"), step("two")]}, "2 steps of the run are finished and will not run again: one, two."),
        ({"steps": [step("one", tries=4)]}, "Step one needed 4 tries."),
        (
            {"state": "waiting", "due_at": AT_ONE, "steps": [step("one", "retrying", error=ERROR, due_at=AT_ONE)]},
            "Step one failed 1 time, with Transient: no answer; it is retried at 2026-01-01 13:00:00 UTC.",
        ),
        (
            {"history": [attempt("dead", ERROR)], "remedies": [remedy(note="mended.", data={"x": 1})]},
            ("The run was given up at 2026-01-01 13:00:00 UTC: Transient: no answer.\n"
            "ada replayed it with edited data at 2026-01-01 13:00:00 UTC: mended."),
        ),
        ({"remedies": [remedy("again")]}, "ada ran it again at 2026-01-01 13:00:00 UTC."),
        (
            {"state": "cancelled", "history": [attempt("dead", ERROR)], "remedies": [remedy("discard", note="of no use")]},
            "ada discarded it at 2026-01-01 13:00:00 UTC: of no use.\nThe run was cancelled",
        ),
        ({"remedies": [remedy("release", note="fine")]}, "ada released its output unchanged at 2026-01-01 13:00:00 UTC: fine."),
        (
            {"state": "held", "outcome": {"commit": "held"}, "reason": "too long"},
            "The run is held for a person (too long).\nSee the output with `wakeful trace r1`. `wakeful release r1`",
        ),
        ({"history": [attempt("held")]}, "The run was held for a person at"),
        ({"effects": [effect("confirmed"), effect("confirmed")]}, "2 effects of the run are confirmed and will not be repeated: charge, charge."),
        (
            {"effects": [effect("confirmed", reason="no answer", settled_by="ada", settled_at=AT_ONE, note="seen at the bank")]},
            "Effect charge (x1): ada said at 2026-01-01 13:00:00 UTC that it was done: seen at the bank.",
        ),
        ({"effects": [effect("retrying", settled_by="ada", note="not in the books")]}, "ada had it called again: not in the books."),
        (
            {"effects": [effect("confirmed", settled_by="ada", settled_at=AT_ONE)]},
            "Effect charge (x1): ada had it called again. It was done at 2026-01-01 13:00:00 UTC.",
        ),
        (
            {"state": "held", "effects": [effect("held", reason="amount: too much", tries=0)]},
            "It was not called yet. `wakeful effects repeat x1` calls it,",
        ),
        ({"effects": [effect("abandoned", settled_by="ada", settled_at=AT_ONE)]}, "UTC that it must not be done."),
        ({"effects": [effect("unknown")]}, "The outcome of effect charge (x1) is unknown;"),
        ({"effects": [effect("failed", error=ERROR)]}, "Effect charge (x1) was refused: Transient: no answer."),
        (
            {"state": "held", "effects": [effect("held", reason="no answer")]},
            ("Effect charge (x1) is held: no answer.\nThe run is held for a person.\nFind out whether it was done, then settle it: "
            "`wakeful effects confirm x1` if it was done, `wakeful effects repeat x1` if it was not,"),
        ),
        ({"steps": [step("one", "failed", tries=2, error=ERROR)]}, "Step one failed permanently after 2 tries: Transient: no answer."),
    ],
)  # fmt: skip
async def test_the_states_of_a_run(changes, said):
    assert said in await story(event(), run(**changes), processes=[WORKER])


async def test_nobody_works():
    gone = {**WORKER, "lease_left": -1.0}
    assert "No worker is alive on this store" in await story(event(), run(state="ready"), processes=[gone])


@pytest.mark.parametrize(
    ("state", "reason", "said"),
    [
        ("skipped", "data.x is missing", "Agent f did nothing, because its condition was not met: data.x is missing."),
        ("expired", "expired at noon", "Agent f did nothing, because the event expired at noon."),
        ("denied", "quiet: it is night", "Agent f did nothing, because policy denied it: quiet: it is night."),
        ("superseded", "a newer one", "Agent f did nothing, because a newer event replaced this one: a newer one."),
        ("joined", "batch 7", "Agent f takes it together with others: batch 7."),
    ],
)
async def test_did_nothing_because(state, reason, said):
    admission = {"agent": "f", "state": state, "run": None, "reason": reason}
    assert said in await story(event(admissions=[admission]))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"subject": "printer"},
            "Event e1 of type a about printer came from /web at 2026-01-01 12:00:00 UTC and was stored.",
        ),
        ({"envelope": {"causationid": "e0"}}, "It was caused by event e0."),
        ({"duplicates": 1}, "It was delivered 1 more time, which started nothing"),
        ({"same_id": 2}, "2 other events from other sources have the same id"),
        ({"conflicts": [{"seen_at": AT_ONE}]}, "At 2026-01-01 13:00:00 UTC it arrived again with different content"),
        (
            {"state": "unmatched", "reason": "no agent takes type a", "admissions": []},
            'add a trigger to an agent: on("a").',
        ),
        ({"state": "expired", "reason": "it was late", "admissions": []}, "Nothing ran, because it was late."),
        ({"state": "quarantined", "reason": "odd", "admissions": []}, "It is quarantined: odd."),
    ],
)
async def test_the_states_of_an_event(changes, said):
    assert said in await story(event(**changes), run())


async def test_a_run_by_the_beginning_of_its_id_tells_its_own_story():
    other = {"agent": "g", "state": "skipped", "run": None, "reason": "no"}
    told = await story(event(admissions=[event()["admissions"][0], other]), run(), identifier="r")
    assert "Agent f took it" in told
    assert "Agent g" not in told


async def test_what_is_not_there():
    assert await told(Fake(event(), run()), "nothing") is None
    with pytest.raises(NotFound):
        await told(Fake(event(), run()), "ambiguous")


def delivery(state, **changes):
    return {
        "id": "r1-d1", "channel": "ops", "state": state, "reason": None, "message": "hi", "subject": None, "error": None,
        "tries": 1, "due_at": None, "committed_at": AT_NOON, "settled_at": AT_ONE, "run": "r1", "agent": "f", "evidence": None,
        **changes,
    }  # fmt: skip


class TestMessages:
    async def test_those_that_were_discarded_were_not_sent(self):
        gone, one = delivery("discarded"), delivery("delivered")
        assert "The run had 1 delivery, which was discarded." in await story(event(), run(deliveries=[gone]))
        assert "The run had 2 deliveries, which were discarded." in await story(event(), run(deliveries=[gone] * 2))
        assert "The run has 2 deliveries: 1 delivered, 1 discarded." in await story(
            event(), run(deliveries=[gone, one])
        )

    async def test_one_that_is_tried_again(self):
        late = delivery("pending", error=ERROR, tries=2, due_at=AT_ONE)
        told = await story(event(), run(deliveries=[late, delivery("delivered")]))
        assert "The run has 2 deliveries: 1 delivered, 1 pending." in told
        assert "The delivery to ops (r1-d1) failed 2 times with Transient: no answer; it is retried at" in told

    async def test_many_dead_ones_are_not_all_told(self):
        told = await story(event(), run(deliveries=[delivery("dead", error=ERROR) for _ in range(9)]))
        assert told.count("wakeful deliveries replay") == 3
        assert "6 more are dead; `wakeful dead list` groups them" in told

    @pytest.mark.parametrize(
        ("one", "words"),
        [
            (delivery("delivered", tries=2), "the channel accepted it at 2026-01-01 13:00:00 UTC, on the 2nd try."),
            (
                delivery("delivered", evidence={"id": "L-7", "url": "https://example.com/L-7"}),
                "The other side calls it L-7.\nIt is at https://example.com/L-7.",
            ),
            (
                delivery("delivered", reason="found there: an earlier try had arrived"),
                "It is delivered, since 2026-01-01 13:00:00 UTC: found there: an earlier try had arrived.",
            ),
            (
                delivery("unknown", reason="it may have arrived: TimeoutError: no answer"),
                "It is unknown whether it arrived, after 1 try: it may have arrived: TimeoutError: no answer.",
            ),
            (delivery("discarded", reason="discarded by ada: old"), "It will not be sent: discarded by ada: old, at"),
            (delivery("pending", tries=0), "It is due: a worker of its app"),
            (
                delivery("pending", tries=3, error=ERROR, due_at=AT_ONE),
                "It is retried at 2026-01-01 13:00:00 UTC, 1 h 0 m from now; the deliveries behind it wait.",
            ),
            (
                delivery("held"),
                "It is held, because the output of its run did not pass its checks. `wakeful why r1` explains why",
            ),
        ],
    )
    async def test_the_story_of_one(self, one, words):
        told = await story(event(), run(deliveries=[one]), identifier="r1-d1")
        assert "Delivery r1-d1 goes to channel ops. It comes from run r1 of agent f, which handled event e1" in told
        assert words in told


@pytest.mark.parametrize(("app", "waits"), [("ops", True), ("another", False)])
async def test_a_run_waits_for_the_one_that_has_the_state(app, waits):
    held = {"app": app, "agent": "f", "key": "", "run": "r0"}
    told = await story(event(), run(state="ready", finished_at=None), states=[held], processes=[WORKER])
    assert ("run r0 holds the state" in told) is waits
    assert ("The run is ready" in told) is not waits


AHEAD = {"count": 1, "run": "r0", "state": "running"}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"state": "ready", "key": "shop", "ahead": AHEAD}, "runs of key shop execute in order, and run r0 is ahead of it, which is running."),
        ({"state": "ready", "key": "shop", "ahead": {**AHEAD, "count": 3}}, "3 are ahead of it, run r0 first, which is running."),
        ({"state": "ready", "ahead": AHEAD}, "runs of its agent execute in order"),
        ({"state": "ready", "key": "shop", "ahead": {**AHEAD, "state": "dead"}}, "`wakeful dead discard r0` lets the runs behind it pass."),
        ({"state": "dead", "error": ERROR, "key": "shop", "behind": 2}, "2 runs of key shop wait behind it until then."),
        ({"state": "dead", "error": ERROR, "key": "shop", "behind": 0}, "later runs of key shop wait"),
        ({"state": "ready", "gathers_until": AT_ONE}, "The run waits for more events, or for a newer one, until 2026-01-01 13:00:00 UTC"),
        ({"events": [{"id": "e1"}, {"id": "e2"}, {"id": "e3"}]}, "The run handles 3 events: e1, then e2, e3."),
    ],
)  # fmt: skip
async def test_order_and_what_gathers(changes, words):
    assert words in await story(event(), run(**changes))


async def test_an_event_that_came_too_many():
    skipped = {"agent": "f", "state": "skipped", "run": None, "reason": 'overlap="skip": run r0 was not over'}
    told = await story(event(admissions=[skipped]))
    assert 'still busy with an earlier event (overlap="skip": run r0 was not over)' in told


async def test_what_another_key_has_keeps_nobody():
    held = {"app": "ops", "agent": "f", "key": "a", "run": "r0"}
    told = await story(event(), run(state="ready", finished_at=None, key="b"), states=[held], processes=[WORKER])
    assert "r0" not in told


async def test_a_called_run_that_failed_is_mended_first():
    error = {"type": "ChildFailed", "message": "run r7 is dead: Persistent: no", "traceback": ""}
    children = [{"id": "r6", "agent": "g", "state": "done"}, {"id": "r7", "agent": "g", "state": "dead"}]
    told = await story(event(), run(state="dead", error=error, children=children))
    assert "`wakeful replay r7` first" in told
    assert "r6" not in told
