"""PostgreSQL keeps the plan of a statement for as long as the connection lives: one that was made while a table was small
must still find its rows by key when a hundred thousand others wait in it.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any

import asyncpg
import pytest

from support.transitions import look_away
from wakeful.stores.postgres import ONLY_POINT_LOOKUPS
from wakeful.stores.queries import load_queries

pytestmark = pytest.mark.postgres

MANY = 10_000
LOOKED_AT = 100  # rows, at most, to find a few

# Whose rows wait by the thousand, and what each query is asked.
ASKED: dict[str, tuple[object, ...]] = {
    "save_delivery": (None, "{7}", "{delivered}", "{1}", "{0}", "{NULL}", "{NULL}", "{0}", "{NULL}", "{0}"),
    "begin_delivery": (None, 7),
    "confirm_delivery": (None, 8, "confirmed", None),
    "redo_delivery": (None, 8, "pending", "replayed"),
    "release_deliveries": (None, 9),
    "discard_deliveries": (None, 10, "discarded"),
    "load_sent": ("run-11",),
    "find_deliveries": ("run-12", "delivery-12"),
    "first_delivery": (None, "app", "ops", 0),
    "glance": (None, "app", '["agent"]', '["ops"]', 10),
    "next_deliveries": (None, "app", "ops", 0, 5),
    "insert_delivery": (
        *(None, "{new}", "{13}", "{1}", "{app}", "{ops}", "{pending}", '{""}', "{NULL}", "{0}", "{0}"),
        "{ticket}",
    ),
    "save_step": (*("{23}", "{1}", "{key}", "{name}", "{done}", "{0}", "{1}", "{1}"), *("{NULL}",) * 3, "{1}", "{1}"),
    "finish_well": (None, "{24}", "{1}", "{NULL}", "{NULL}"),
    "finish_run": (None, "{25}", "{1}", "{dead}", *("{NULL}",) * 4, "{1}", "{0}"),
    "lock_to_commit": ("{28}", "{1}"),
    "find_run_to_cancel": ("run-29",),
    "done_outside": ("run-30", 30),
    "effects_to_undo": ("run-26", 26),
    "undone_of_run": ("run-26", 26),
    "undo_failed": (None, 26, 1, "on_failure", "note", "{}", 1),
    "revive_to_undo": (None, 26, "ada", None, "cancelled"),
    "end_undoing": (26,),
    "forget_commit": (26,),
    "failed_with": (26,),
    "give_up_retrying": (None, "run-27", 27, "{}"),
    "withdraw_held": (None, "run-28", 28, "cancelled"),
    "mark_undone": (None, "effect-29", "effect-30"),
    "withdraw_approvals": (None, 29, "cancelled"),
    "children_at_work": (7,),
    "cancelled_runs": ("app", "process"),
    "save_effect": (
        None,
        "{effect-14}",
        "{14}",
        "{1}",
        "{confirmed}",
        *("{NULL}",) * 3,
        "{1}",
        "{1}",
        "{NULL}",
        "{0}",
        *("{NULL}",) * 2,
    ),
    "family_at_work": ("run-26", 26),
    "revive_staged": ("run-27", 27),
    "stage_effect": (None, "effect-15", "run-15", 15, 1, "app", "agent", "book", "m:book", "idempotent", "[]", 1, 0),
    "drop_effect": (None, "effect-16", 16, 1),
    "open_staged_effect": (None, "effect-17", 17, 1, "intent", None, 0, 1, "rule", None),
    "abandon_staged": (None, "run-18", 18, "discarded"),
    "load_effects": ("run-19",),
    "settle_effect": (None, "effect-20", "confirmed", None, "somebody", None, "confirmed"),
    "result_wanted": ("effect-20",),
    "find_effects_by_operation": ("operation-20", "operation-20\x01"),
    "stored_of_family": ("run-20",),
    "stored_before": ("effect-20",),
    "note_stored_before": ("effect-20", "digest"),
    "lock_family_of_effect": ("run-20",),
    "correct_effect": (None, "effect-20", "1", "ada", None),
    "clear_failed_effects": ("{run-21}",),
    "release_held_runs": (None, "run-22"),
    "look_at_lock": ("app", "lock-5"),
    "find_lock": ("app", "lock-5"),
    "check_lock": ("app", "lock-5", 1, 5, 1),
    "take_lock": (None, "app", "lock-5", 5, 1),
    "free_lock": ("app", "lock-5", 5, 1),
    "end_wait_for_lock": (5, "lock-5"),
    "find_circuit": (None, "app", "stripe"),
    "unpark_runs": (None, "app", "stripe", 4, "recovers"),
    "unpark_probe": (None, "app", "stripe", 1, "probes"),
    "not_closed": ("app", "stripe"),
    "note_parked": (6, 1, "stripe"),
    "register_step": (28, 1, "step", "sleep", 0, 1, "[]", "{}", 1, 1),
    "find_waits": ("app", "paid", "subject-29"),
    "waits_of_run": (30,),
    "awaited_about": ("app", "t", "subject-31", 0, 31),
    "came_since": ("app", "paid", "1:1:", "0/0"),
    "take_event": (32, "wait", 32),
    "lock_waits": (32,),
    "lock_approvals": (32,),
    "seq_of_run": ("run-29",),
    "lock_run": (29,),
    "note_misfit": (32, "wait", 31, "no field data.amount"),
    "misfits_of_run": (32,),
    "answer_step": (None, 33, "step", "done", "{}", None),
    "wake_run": (None, 34, "it came"),
    "answered_steps": (35, "step"),
    "end_step": (None, 29, 1, "step", "{}"),
    "close_waits": (36,),
    "mark_rechecked": (37,),
    "end_of_run": ("run-38",),
    "old_runs": ("app", 0, 50, 1_000_000),
    "lock_family": ("{run-31}", "{1000000}"),
    "unsettled_of_family": ("run-32",),
    "unsettled_of_families": ("{run-32}",),
    "remove_steps": ("{33}",),
    "remove_attempts": ("{33}",),
    "remove_effects": ("{run-33}",),
    "remove_deliveries": ("{33}",),
    "remove_remedies": ("{33}",),
    "remove_batch": ("{33}",),
    "remove_waits": ("{33}",),
    "remove_approvals": ("{33}",),
    "remove_decisions": ("{33}", "{33}"),
    "remove_run": ("{33}",),
    "lock_event": ("{34}",),
    "forget_payload": ("{34}",),
    "forget_conflicts": ("{34}",),
    "events_with_payload": (34,),
    "remove_event": (34, 1_000_000),
    "remove_admissions": (34,),
    "remove_decisions_of_event": (34,),
    "remove_idempotency": ("app", "key-35", 1_000_000),
    "remove_key": ("app", "agent", "key-36"),
    "find_blob": ("blob-37",),
    "remove_blob": ("blob-38", 1_000_000),
    "known_events": ('["key-39", "key-40"]',),
    "not_begun": ('["run-39", "run-40"]',),
    "redo_occurrence": (39, 1),
    "lock_reasons_of_family": ("run-32",),
    "settle_effect_anew": (None, "effect-33", "confirmed", None, "ada", None, "confirmed"),
    "mark_not_undone": ("effect-33",),
    "app_of_subject": ("run-33",),
    "old_operations": ("app", 0, 50, 1_000_000, 1_000_000),
    "remove_operations": ("{34}", "{1000000}"),
    "ledger_between": (40, 0, 100, -1, -1, 1_000),
}

FILL = [
    """insert into wakeful_event (key, app, source, id, type, subject, state, content, envelope, accepted_at)
    select 'key-' || n, 'app', '/s', 'event-' || n, 't', 'subject-' || n, 'accepted', '', '{}', n
    from generate_series($1::bigint, $2::bigint) n""",
    """insert into wakeful_run (id, root, app, agent, event_seq, state, owner, token, due_at, created_at)
    select 'run-' || n, 'run-' || n, 'app', 'agent', n, case when n <= 30 then 'running' else 'done' end,
      case when n <= 30 then 'process' end, 1, null, n
    from generate_series($1::bigint, $2::bigint) n""",
    """insert into wakeful_delivery (id, run_seq, app, channel, state, message, position, due_at, created_at)
    select 'delivery-' || n, n, 'app', 'ops', 'pending', '""', 0, 0, n from generate_series($1::bigint, $2::bigint) n""",
    """insert into wakeful_effect (id, root, run_seq, app, agent, action, reference, safety, state, arguments, tries, attempt,
      position, opened_at, staged)
    select 'effect-' || n, 'run-' || n, n, 'app', 'agent', 'book', 'm:book', 'idempotent', $3, '[]', 0, 1, 0, n, 1
    from generate_series($1::bigint, $2::bigint) n""",
    """insert into wakeful_run (id, root, app, agent, event_seq, state, parked_for, token, created_at)
    select 'parked-' || n, 'parked-' || n, 'app', 'agent', n, 'parked', 'stripe', 1, n
    from generate_series($1::bigint, $2::bigint) n""",
    """insert into wakeful_circuit (app, name, state, failures, rest, next_at, probe_seq, changed_at)
    select 'app', case n when 1 then 'stripe' else 'other-' || n end, 'open', 5, 1, 1, n, 1
    from generate_series($1::bigint, $2::bigint) n""",
    """insert into wakeful_lock (app, name, token, run_seq, run_token, taken_at)
    select 'app', 'lock-' || n, 1, n, 1, n from generate_series($1::bigint, $2::bigint) n""",
    """insert into wakeful_lock_wait (run_seq, name, app, run_token, since)
    select n, 'lock-' || n, 'app', 1, n from generate_series($1::bigint, $2::bigint) n""",
    """insert into wakeful_step (run_seq, key, name, state, position, tries, attempt, started_at, finished_at)
    select n, 'step', 'sleep', 'waiting', 0, 0, 1, n, n from generate_series($1::bigint, $2::bigint) n""",
    """insert into wakeful_wait (run_seq, key, app, type, subject, settled, registered_at)
    select n, 'wait', 'app', 'paid', 'subject-' || n, case when n <= 20 then 0 else 1 end, n
    from generate_series($1::bigint, $2::bigint) n""",
    """insert into wakeful_step (run_seq, key, name, state, position, tries, attempt, started_at, finished_at)
    select n, 'kept', 'kept', 'done', 0, 1, 1, n, n from generate_series($1::bigint, $2::bigint) n""",
    """insert into wakeful_admission (event_seq, agent, state, run_id)
    select n, 'agent', 'started', 'run-' || n from generate_series($1::bigint, $2::bigint) n""",
    """insert into wakeful_decision (event_seq, run_seq, agent, answer, rule, version, reason, decided_at)
    select n, n, 'agent', 'deny', 'rule', '1', '', n from generate_series($1::bigint, $2::bigint) n""",
    """insert into wakeful_idempotency (app, key, request, response, created_at)
    select 'app', 'key-' || n, '', '[]', n from generate_series($1::bigint, $2::bigint) n""",
    """insert into wakeful_key (app, agent, key, counter)
    select 'app', 'agent', 'key-' || n, 1 from generate_series($1::bigint, $2::bigint) n""",
    """insert into wakeful_blob (id, content, created_at)
    select 'blob-' || n, '', n from generate_series($1::bigint, $2::bigint) n""",
    """insert into wakeful_operation (app, operator, verb, target, done_at)
    select 'app', 'token', 'emit', case when n % 2 = 0 then 'event-' else 'gone-' end || n, n
    from generate_series($1::bigint, $2::bigint) n""",
    """insert into wakeful_occurrence (schedule_seq, state, from_at, to_at, count, revision, settled_at)
    select n, 'missed', n, n, 1, 1, n from generate_series($1::bigint, $2::bigint) n""",
]


async def fill(connection: Any, inserts: Sequence[str], first: int, last: int, state: str | None) -> None:
    for insert in inserts:
        more = (state,) if "$3" in insert else ()
        await connection.execute(insert, first, last, *more)


def quoted(value: object) -> str:
    return (
        "null" if value is None else str(value) if isinstance(value, int) else "'" + str(value).replace("'", "''") + "'"
    )


@pytest.fixture
async def connection(postgres_url: str) -> AsyncIterator[Any]:
    connected = await asyncpg.connect(postgres_url, server_settings=ONLY_POINT_LOOKUPS, statement_cache_size=0)
    await look_away(connected)  # rows of all states are made, without their history
    yield connected
    await connected.close()


def scans(plan: dict[str, Any]) -> Iterator[tuple[str, int]]:
    """Every place where rows of a table are looked at, and how many were."""
    if "Relation Name" in plan and "Scan" in plan["Node Type"]:
        loops = plan["Actual Loops"]
        removed = plan.get("Rows Removed by Filter", 0) + plan.get("Rows Removed by Index Recheck", 0)
        place = f"{plan['Node Type']} of {plan['Relation Name']} by {plan.get('Index Name')}"
        yield place, round((plan["Actual Rows"] + removed) * loops)
    for inner in plan.get("Plans", []):
        yield from scans(inner)


async def wide_plans(
    connection: Any,
    asked: Mapping[str, tuple[object, ...]],
    inserts: Sequence[str],
    *,
    few: int,
    analysed: bool,
    state: str | None = None,
) -> dict[str, list[str]]:
    """The queries whose plans, made when there were few rows, look at many once there are, and where they do."""
    queries = load_queries("postgres")
    calls = {name: f"execute {name}({', '.join(map(quoted, given))})" for name, given in asked.items()}
    await fill(connection, inserts, 1, few, state)
    if analysed:
        await connection.execute("analyze")
    for name, call in calls.items():
        await connection.execute(f"prepare {name} as {queries[name].sql}; begin; {call}; rollback")
    await fill(connection, inserts, few + 1, MANY, state)
    wide: dict[str, list[str]] = {}
    for name, call in calls.items():
        await connection.execute("begin")
        (row,) = await connection.fetch(f"explain (analyze, format json) {call}")
        await connection.execute("rollback")
        (plan,) = json.loads(row[0])
        found = [f"{place}: {rows}" for place, rows in scans(plan["Plan"]) if rows > LOOKED_AT]
        if found:
            wide[name] = found
    return wide


class TestPlansMadeWhileTheTableWasSmall:
    @pytest.mark.parametrize("analysed", [False, True], ids=["unknown", "known to be small"])
    @pytest.mark.parametrize("few", [1, 30, 300])
    @pytest.mark.parametrize("waiting", ["staged", "retrying", "held", "failed"])
    async def test_find_their_rows_by_key(self, connection: Any, waiting: str, few: int, analysed: bool):
        wide = await wide_plans(connection, ASKED, FILL, few=few, analysed=analysed, state=waiting)
        if few == 1 and analysed:
            # In a table that is known to have one row no plan is worse than another; the next ANALYZE makes a new one.
            wide.pop("awaited_about", None)
        assert wide == {}


# Ten thousand keys, each with a run in its place and one that gathers.
ASKED_OF_KEYS: dict[str, tuple[object, ...]] = {
    "lock_keys": ("{app,app}", "{agent,agent}", "{key-7,key-8}", "{1,0}", "{1,1}"),
    "keys_of_runs": ("{run-9,run-10}",),
    "take_places": ("{app,app}", "{agent,agent}", "{key-11,key-12}", "{1,2}"),
    "let_go": ("{13,14}",),
    "next_of_key": ("{app,app}", "{agent,agent}", "{key-15,key-16}"),
    "promote": (None, "{15,16}", "{0,0}"),
    "places_of_family": ("run-17",),
    "queue_again": (17, 5),
    "open_of_key": ("app", "agent", "key-18"),
    "gathering_of_key": ("app", "agent", "key-19"),
    "supersede_run": (None, "{20,21}", "{gone,gone}", "{NULL,NULL}"),
    "supersede_admission": (22, "gone"),
    "expire_admission": (23, "late"),
    "ask_to_stop": (None, 24, "overlap", "gone"),
    "join_run": (None, "{25}", "{1}", "{9}", "{NULL}", "{NULL}", "{NULL}"),
    "load_members": (26,),
    "copy_members": (27, 1_000_000),
    "state_of_key": ("app", "agent", "key-28"),
}
FILL_KEYS = [
    FILL[0],
    """insert into wakeful_run (id, root, app, agent, event_seq, state, due_at, created_at, key, place, gathering_since)
    select 'run-' || n, 'run-' || n, 'app', 'agent', n, 'ready', null, n, 'key-' || n, 1, n
    from generate_series($1::bigint, $2::bigint) n""",
    """insert into wakeful_admission (event_seq, agent, state, run_id)
    select n, 'agent', 'started', 'run-' || n from generate_series($1::bigint, $2::bigint) n""",
    """insert into wakeful_key (app, agent, key, counter)
    select 'app', 'agent', 'key-' || n, 1 from generate_series($1::bigint, $2::bigint) n""",
    """insert into wakeful_batch (run_seq, event_seq, position)
    select n, n, 0 from generate_series($1::bigint, $2::bigint) n""",
    """insert into wakeful_state (app, agent, key)
    select 'app', 'agent', 'key-' || n from generate_series($1::bigint, $2::bigint) n""",
]


class TestPlansOfKeys:
    @pytest.mark.parametrize("analysed", [False, True], ids=["unknown", "known to be small"])
    @pytest.mark.parametrize("few", [1, 30, 300])
    async def test_find_their_rows_by_key(self, connection: Any, few: int, analysed: bool):
        assert await wide_plans(connection, ASKED_OF_KEYS, FILL_KEYS, few=few, analysed=analysed) == {}


# Ten thousand decisions, one each second; the last ones are asked for.
ASKED_OF_DECISIONS: dict[str, tuple[object, ...]] = {
    "page_of_decisions": (None, 51, None, None, None, None, None),
    "find_decision": (9_000,),
}
SINCE = {"page_of_decisions": (None, 51, "other", None, None, None, (MANY - 10) * 1_000_000)}
AFTER = {"page_of_decisions": (60, 51, None, None, None, None, None)}
LATER = {"page_of_decisions": (None, 51, None, None, None, None, (MANY + 100) * 1_000_000)}
FILL_DECISIONS = [
    FILL[0],
    """insert into wakeful_run (id, root, app, agent, event_seq, state, token, created_at)
    select 'run-' || n, 'run-' || n, 'app', 'agent', n, 'denied', 1, n from generate_series($1::bigint, $2::bigint) n""",
    """insert into wakeful_admission (event_seq, agent, state, run_id)
    select n, 'agent', 'started', 'run-' || n from generate_series($1::bigint, $2::bigint) n""",
    """insert into wakeful_decision (event_seq, run_seq, agent, answer, rule, version, reason, decided_at)
    select n, case when n % 2 = 0 then n end, 'agent', 'deny', 'rule', '1', '', n * 1000000
    from generate_series($1::bigint, $2::bigint) n""",
]


class TestPlansOfDecisions:
    @pytest.mark.parametrize(
        "asked", [ASKED_OF_DECISIONS, SINCE, AFTER, LATER], ids=["newest", "since", "after", "later"]
    )
    @pytest.mark.parametrize("few", [30, 300])
    async def test_find_their_rows_by_key(self, connection: Any, asked: dict[str, tuple[object, ...]], few: int):
        assert await wide_plans(connection, asked, FILL_DECISIONS, few=few, analysed=True) == {}


# An agent with a long backlog, many limits, and many starts that are out of sight.
LIMITED: dict[str, tuple[object, ...]] = {
    "claim_facts": (None, "app"),
    "claim_solo": (None, "app", "queue", "process", None),
    "take_limit": ("app", "agent-7"),
    "insert_limit": ("app", "new"),
    "set_limit": ("app", "agent-8", 3, None, None),
    "clear_limit": ("app", "agent-9"),
    "count_running": ("app", "queue"),
    "count_due": (None, "app", "queue", 50),
    "peek_due": (None, "app", "queue", 5),
    "claim_resumed": (None, "app", "queue", 5, "process", None),
    "claim_runs": (None, "app", "queue", 5, "process", None),
    "count_starts": (None, "app", "queue", 60_000_000),
    "next_start": (None, "app", "queue", 20, 60_000_000),
    "insert_start": ("app", "queue", 1, 1, 1),
    "forget_starts": (None, "app", "other", 60_000_000),
    "find_pause": ("app", "agent-7"),
    "lift_rate": ("app", "agent-7", "1/s"),
}

FILL_LIMITED = [
    """insert into wakeful_event (key, app, source, id, type, state, content, envelope, accepted_at)
    select 'key-' || n, 'app', '/s', 'event-' || n, 't', 'accepted', '', '{}', n from generate_series($1::bigint, $2::bigint) n""",
    """insert into wakeful_run (id, root, app, agent, event_seq, state, owner, token, due_at, created_at)
    select 'run-' || n, 'run-' || n, 'app', 'queue', n, case when n between 4 and 9 then 'running' else 'ready' end,
      case when n between 4 and 9 then 'process' end, case when n < 10 then 1 else 0 end, n, n
    from generate_series($1::bigint, $2::bigint) n""",
    """insert into wakeful_limit (app, agent, concurrency) select 'app', 'agent-' || n, 1
    from generate_series($1::bigint, $2::bigint) n""",
    """insert into wakeful_start (app, agent, started_at, run_seq, token) select 'app', 'queue', n, n, 1
    from generate_series($1::bigint, $2::bigint) n""",
    """insert into wakeful_pause (app, agent, paused, operator, changed_at) select 'app-' || n, '', 1, 'ada', n
    from generate_series($1::bigint, $2::bigint) n""",
]


class TestPlansOfLimits:
    @pytest.mark.parametrize("analysed", [False, True], ids=["unknown", "known to be small"])
    @pytest.mark.parametrize("few", [1, 30, 300])
    async def test_find_their_rows_by_key(self, connection: Any, few: int, analysed: bool):
        assert await wide_plans(connection, LIMITED, FILL_LIMITED, few=few, analysed=analysed) == {}


# Ten thousand alarms, most of them over; and as many dead letters and agents that fail.
ASKED_OF_ALARMS: dict[str, tuple[object, ...]] = {
    "raise_alarm": (None, "alarm-7", "app", "text", "agent", None, 0, None, None, None),
    "note_cause": ("alarm-7", "cause"),
    "open_keys_below": ("app", "alarm-7"),
    "error_of_dead_run": ("alarm-10",),
    "error_of_dead_delivery": ("alarm-10",),
    "resolve_alarm": (None, "alarm-8", None),
    "lock_alarm": ("alarm-9",),
    "dead_of_alarm": ("alarm-10",),
    "note_alarm_of_run": (11, "alarm-11"),
    "note_alarm_of_delivery": (12, "alarm-12"),
    "alarms_of_runs": (13,),
    "alarms_of_deliveries": (14,),
    "find_alarm_to_change": (None, "alarm-15"),
    "acknowledge_alarm": (None, "alarm-16", "ada", None),
    "mute_alarm": (None, "alarm-17", 1),
    "first_to_tell": (None, "app"),
    "alarms_to_tell": (None, "app", 5),
    "note_told": (None, "alarm-18", 1),
    "replayed_runs": (19,),
    "count_failures": (None, "app-20", "agent", 1),
    "forget_failures": ("app-21", "agent"),
    "restart_failures": ("app-22", "agent"),
    "claim_facts": (None, "app-23"),
}
FILL_ALARMS = [
    FILL[0],
    """insert into wakeful_alarm (key, app, state, text, count, opened_at, last_at, tell_at)
    select 'alarm-' || n, 'app', case when n <= 20 then 'open' else 'resolved' end, '', 1, n, n, case when n <= 20 then n end
    from generate_series($1::bigint, $2::bigint) n""",
    """insert into wakeful_run (id, root, app, agent, event_seq, state, token, created_at, alarm)
    select 'run-' || n, 'run-' || n, 'app', 'agent', n, 'dead', 1, n, 'alarm-' || n
    from generate_series($1::bigint, $2::bigint) n""",
    """insert into wakeful_delivery (id, run_seq, app, channel, state, message, position, due_at, created_at, alarm)
    select 'delivery-' || n, n, 'app', 'ops', 'dead', '""', 0, 0, n, 'alarm-' || n from generate_series($1::bigint, $2::bigint) n""",
    """insert into wakeful_remedy (run_seq, verb, operator, done_at)
    select n, 'replay', 'ada', n from generate_series($1::bigint, $2::bigint) n""",
    """insert into wakeful_failing (app, agent, count, since, last_at)
    select 'app-' || n, 'agent', 1, n, n from generate_series($1::bigint, $2::bigint) n""",
]


class TestPlansOfAlarms:
    @pytest.mark.parametrize("analysed", [False, True], ids=["unknown", "known to be small"])
    @pytest.mark.parametrize("few", [1, 30, 300])
    async def test_find_their_rows_by_key(self, connection: Any, few: int, analysed: bool):
        assert await wide_plans(connection, ASKED_OF_ALARMS, FILL_ALARMS, few=few, analysed=analysed) == {}
