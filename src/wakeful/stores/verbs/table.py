"""All verbs, by request: one generator per transition, which yields its queries and interprets their rows.

A verb gets all waiting requests of its kind at once and returns one result for each, in order. A result that is an exception is raised
for that caller only. The order of VERBS is the order inside a transaction. It is the same in every process, so that two processes never
lock rows in opposite orders; claims come last, so that they see the runs that were just accepted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from wakeful.stores.transaction import Transaction
from wakeful.stores.verbs.accept import AcceptEvents, accept_events
from wakeful.stores.verbs.agents import KeepAgents, keep_agents
from wakeful.stores.verbs.alarms import (
    ChangeAlarm,
    ResolveAlarms,
    TellAlarms,
    change_alarms,
    resolve_named,
    tell_alarms,
)
from wakeful.stores.verbs.approvals import AnswerApproval, AskPerson, answer_approvals, ask_people
from wakeful.stores.verbs.backfill import FillOccurrences, fill_occurrences
from wakeful.stores.verbs.cancel import CancelRun, FinishCancelled, cancel_runs, finish_cancelled
from wakeful.stores.verbs.change import NoteChange, note_changes
from wakeful.stores.verbs.circuits import ChangeCircuit, change_circuits
from wakeful.stores.verbs.claim import ClaimRuns, ForgetRuns, claim_runs, forget_runs
from wakeful.stores.verbs.commit import CloseRun, CommitRun, ReleaseRun, close_runs, commit_runs, release_runs
from wakeful.stores.verbs.consent import AbandonEffect, SettleEdit, abandon_effects, settle_edits
from wakeful.stores.verbs.effects import OpenEffect, SaveEffect, open_effects, save_effects
from wakeful.stores.verbs.expectations import FinishLook, KeepExpectations, finish_looks, keep_expectations
from wakeful.stores.verbs.feed import FeedEvents, feed_events
from wakeful.stores.verbs.fork import ForkRun, fork_runs
from wakeful.stores.verbs.grants import AddGrant, RevokeGrant, add_grants, revoke_grants
from wakeful.stores.verbs.guards import GuardApp, LockApp, guard_apps, lock_apps
from wakeful.stores.verbs.halts import ChangeHalt, change_halts
from wakeful.stores.verbs.heartbeat import ReportHeartbeat, report_heartbeats
from wakeful.stores.verbs.held_anew import JudgeHeld, judge_held
from wakeful.stores.verbs.keeping import (
    ChangeCiphers,
    EnterCipher,
    NoteBinding,
    RemoveFamilies,
    RemoveTraces,
    ResealPayloads,
    change_ciphers,
    enter_ciphers,
    note_bindings,
    remove_families,
    remove_traces,
    reseal_payloads,
)
from wakeful.stores.verbs.links import MakeLink, RefuseLink, make_links, refuse_links
from wakeful.stores.verbs.locks import FreeLock, TakeLock, free_locks, take_locks
from wakeful.stores.verbs.operation_keys import OpenOnce, SaveOnce, open_once, save_once
from wakeful.stores.verbs.outbox import (
    BeginDelivery,
    ConfirmDelivery,
    RedoDelivery,
    WorkLane,
    begin_deliveries,
    confirm_deliveries,
    redo_deliveries,
    work_lanes,
)
from wakeful.stores.verbs.pauses import ChangePause, change_pauses
from wakeful.stores.verbs.people import RaiseAlarm, RecordOperation, raise_alarms, record_operations
from wakeful.stores.verbs.persons import ApplyPeople, EnterTokens, apply_people, enter_tokens
from wakeful.stores.verbs.policies import ApplyPolicy, apply_policies
from wakeful.stores.verbs.processes import (
    BuryProcess,
    RegisterProcess,
    RetireProcess,
    TakeOver,
    bury_processes,
    register_processes,
    retire_processes,
    take_over_processes,
)
from wakeful.stores.verbs.progress import (
    FinishRun,
    LeaveRun,
    SaveSteps,
    SaveTransacted,
    TransactStep,
    finish_runs,
    leave_runs,
    save_steps,
    save_transacted,
    transact_steps,
)
from wakeful.stores.verbs.quarantine import EndQuarantine, end_quarantined
from wakeful.stores.verbs.quarantine_room import CutQuarantine, cut_quarantine
from wakeful.stores.verbs.redo import RedoRun, redo_runs
from wakeful.stores.verbs.reminders import MakeReminder, make_reminders
from wakeful.stores.verbs.retiring import BringBackApp, RetireApp, bring_apps_back, retire_apps
from wakeful.stores.verbs.returning import ReturnRun, return_runs
from wakeful.stores.verbs.schedules import (
    ChangeSchedule,
    FireSchedule,
    RecordOccurrences,
    change_schedules,
    fire_schedules,
    record_occurrences,
)
from wakeful.stores.verbs.scheduling import ScheduleByRun, schedule_by_runs
from wakeful.stores.verbs.sending import SendEvent, send_events
from wakeful.stores.verbs.settling import SettleEffect, settle_effects
from wakeful.stores.verbs.sources import (
    EnterSources,
    ForgetOld,
    ForgetSource,
    HoldSource,
    LetSourceGo,
    ReportSource,
    ServeSources,
    enter_sources,
    forget_old,
    forget_sources,
    hold_sources,
    let_sources_go,
    report_sources,
    serve_sources,
)
from wakeful.stores.verbs.state import ChangeState, change_states
from wakeful.stores.verbs.take_in import TakeIn, take_in
from wakeful.stores.verbs.tending import TendApprovals, tend_approvals
from wakeful.stores.verbs.waits import EndWait, LookAgain, end_waits, look_again

Verb = Callable[[int | None, Sequence[Any]], Transaction[list[Any]]]

VERBS: dict[type, Verb] = {
    EnterCipher: enter_ciphers,
    ChangePause: change_pauses,
    ChangeHalt: change_halts,
    ApplyPeople: apply_people,
    EnterTokens: enter_tokens,
    ApplyPolicy: apply_policies,
    AddGrant: add_grants,
    RevokeGrant: revoke_grants,
    RetireApp: retire_apps,
    BringBackApp: bring_apps_back,
    GuardApp: guard_apps,
    LockApp: lock_apps,
    RegisterProcess: register_processes,
    BuryProcess: bury_processes,
    TakeOver: take_over_processes,
    FreeLock: free_locks,
    TakeLock: take_locks,
    TransactStep: transact_steps,
    SaveTransacted: save_transacted,
    SaveSteps: save_steps,
    NoteChange: note_changes,
    OpenEffect: open_effects,
    SaveEffect: save_effects,
    OpenOnce: open_once,
    SaveOnce: save_once,
    AbandonEffect: abandon_effects,
    SettleEdit: settle_edits,
    SettleEffect: settle_effects,
    ChangeCircuit: change_circuits,
    EndWait: end_waits,
    AskPerson: ask_people,
    LeaveRun: leave_runs,
    ChangeState: change_states,
    CommitRun: commit_runs,
    CloseRun: close_runs,
    FinishRun: finish_runs,
    FinishCancelled: finish_cancelled,
    CancelRun: cancel_runs,
    ReleaseRun: release_runs,
    ReturnRun: return_runs,
    RedoRun: redo_runs,
    ForkRun: fork_runs,
    FeedEvents: feed_events,
    RedoDelivery: redo_deliveries,
    ConfirmDelivery: confirm_deliveries,
    WorkLane: work_lanes,
    BeginDelivery: begin_deliveries,
    ScheduleByRun: schedule_by_runs,
    MakeReminder: make_reminders,
    ChangeSchedule: change_schedules,
    RecordOccurrences: record_occurrences,
    FireSchedule: fire_schedules,
    FillOccurrences: fill_occurrences,
    EnterSources: enter_sources,
    ServeSources: serve_sources,
    HoldSource: hold_sources,
    LetSourceGo: let_sources_go,
    ForgetSource: forget_sources,
    TakeIn: take_in,
    EndQuarantine: end_quarantined,
    AcceptEvents: accept_events,
    ReportSource: report_sources,
    MakeLink: make_links,
    AnswerApproval: answer_approvals,
    TendApprovals: tend_approvals,
    JudgeHeld: judge_held,
    LookAgain: look_again,
    KeepAgents: keep_agents,
    KeepExpectations: keep_expectations,
    FinishLook: finish_looks,
    RaiseAlarm: raise_alarms,
    ResolveAlarms: resolve_named,
    ChangeAlarm: change_alarms,
    TellAlarms: tell_alarms,
    ReportHeartbeat: report_heartbeats,
    RecordOperation: record_operations,
    RefuseLink: refuse_links,
    SendEvent: send_events,
    RemoveFamilies: remove_families,
    RemoveTraces: remove_traces,
    ForgetOld: forget_old,
    CutQuarantine: cut_quarantine,
    ResealPayloads: reseal_payloads,
    NoteBinding: note_bindings,
    ChangeCiphers: change_ciphers,
    ForgetRuns: forget_runs,
    RetireProcess: retire_processes,
    ClaimRuns: claim_runs,
}

__all__ = ["VERBS", "Verb"]
