"""The tables of legal transitions, and the identities."""

from __future__ import annotations

from typing import Literal, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakeful import model, transitions
from wakeful.model import CLAIMABLE_RUN_STATES, FINAL_RUN_STATES, RUN_STATES, digest, event_key, run_id
from wakeful.stores.migrations import migrations

TABLES = [
    ("event", Literal["accepted", "expired", "unmatched", "quarantined"], transitions.EVENT_TRANSITIONS),
    ("admission", model.AdmissionState, transitions.ADMISSION_TRANSITIONS),
    ("run", model.RunState, transitions.RUN_TRANSITIONS),
    ("alarm", model.AlarmState, transitions.ALARM_TRANSITIONS),
    ("source", model.SourceState, transitions.SOURCE_TRANSITIONS),
    ("effect", model.EffectState, transitions.EFFECT_TRANSITIONS),
    ("delivery", model.DeliveryState, transitions.DELIVERY_TRANSITIONS),
    ("occurrence", model.OccurrenceState, transitions.OCCURRENCE_TRANSITIONS),
    ("schedule", model.ScheduleState, transitions.SCHEDULE_TRANSITIONS),
]
tables = pytest.mark.parametrize(("noun", "states", "table"), TABLES, ids=[noun for noun, _, _ in TABLES])


class TestTables:
    @tables
    def test_every_state_has_a_row_and_nothing_else_has(self, noun, states, table):
        assert set(table) == {None, *get_args(states)}

    @tables
    def test_every_transition_leads_to_a_state(self, noun, states, table):
        assert {after for row in table.values() for after in row} <= set(get_args(states))

    @tables
    def test_every_state_can_be_reached(self, noun, states, table):
        reached = {None}
        while (more := reached | {after for before in reached for after in table[before]}) != reached:
            reached = more
        assert reached == {None, *get_args(states)}

    @tables
    def test_no_state_follows_itself(self, noun, states, table):
        """A write that leaves the state as it was is no transition."""
        assert not [state for state, after in table.items() if state in after]

    def test_every_event_that_is_stored_has_a_state_of_the_table(self):
        assert set(transitions.EVENT_TRANSITIONS) == {None, *model.STORED_EVENT_STATES}

    def test_a_done_run_stays_done(self):
        assert transitions.RUN_TRANSITIONS["done"] == frozenset()

    def test_what_was_given_up_comes_back_only_as_ready(self):
        for state in FINAL_RUN_STATES - {"done"}:
            assert transitions.RUN_TRANSITIONS[state] <= {"ready", "cancelled"}

    def test_only_what_can_be_claimed_starts_to_run(self):
        assert {
            state for state, after in transitions.RUN_TRANSITIONS.items() if "running" in after
        } == CLAIMABLE_RUN_STATES

    def test_a_run_ends_only_in_a_final_state(self):
        assert FINAL_RUN_STATES < RUN_STATES
        assert not FINAL_RUN_STATES & CLAIMABLE_RUN_STATES

    @pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
    def test_the_schema_knows_the_same_states(self, dialect):
        sql = "".join(migration.sql for migration in migrations(dialect))
        for states in (
            *(states for _, states, _ in TABLES),
            *(model.StepState, model.ProcessState, model.ApprovalState, model.CircuitState),
        ):
            listed = ", ".join(f"'{state}'" for state in get_args(states))
            assert f"state in ({listed})" in sql, states


class TestIdentity:
    def test_the_same_event_for_the_same_agent_is_the_same_run(self):
        assert run_id("app", "agent", "/s", "1") == run_id("app", "agent", "/s", "1")

    def test_ids_do_not_change_between_versions(self):
        """They are stored: with others every event would be new again."""
        assert event_key("app", "/source", "1") == event_key("app", "/source", "1")
        assert run_id("app", "agent", "/source", "1", 2) == run_id("app", "agent", "/source", "1") + ".2"
        assert digest("a", "b") == "7861427b3ab29edfaa01d5ced2"

    @given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), min_size=2, max_size=4))
    def test_parts_do_not_run_together(self, parts):
        joined = ["".join(parts[:2]), *parts[2:]]
        assert digest(*parts) != digest(*joined)
        assert digest(*parts) == digest(*parts)

    def test_ids_are_short_and_plain(self):
        identifier = run_id("app", "agent", "/source" * 100, "ü" * 1_000)
        assert len(identifier) < 40
        assert identifier.isalnum()
        assert identifier.isascii()
