"""The legal transitions of the states in model.py, a table for each noun."""

from __future__ import annotations

from wakeful.model import (
    AdmissionState,
    AlarmState,
    DeliveryState,
    EffectState,
    EventState,
    OccurrenceState,
    RunState,
    ScheduleState,
    SourceState,
)

# The tables of transitions list every change of a stored state that the code can make, and no other; None stands for a new row. A
# write that leaves the state as it was is no transition. In tests, triggers made of these tables refuse all other changes.

# A duplicate is never a row of its own: it is counted on the event that it repeats.
EVENT_TRANSITIONS: dict[EventState | None, frozenset[EventState]] = {
    None: frozenset({"accepted", "expired", "unmatched", "quarantined"}),
    "unmatched": frozenset({"accepted"}),  # a person handed it to an agent
    # A released event is a new event with an identity of its own.
    "quarantined": frozenset(),
    "accepted": frozenset(),
    "expired": frozenset(),
}

# A person may hand an event to an agent that skipped it, got it too late or was denied it. If another run has its business key by then,
# it joins that run.
ADMISSION_TRANSITIONS: dict[AdmissionState | None, frozenset[AdmissionState]] = {
    None: frozenset({"started", "joined", "superseded", "skipped", "expired", "denied"}),
    "started": frozenset({"joined", "superseded", "expired"}),
    "joined": frozenset({"expired"}),
    "superseded": frozenset(),
    "skipped": frozenset({"started"}),
    "expired": frozenset({"started"}),
    "denied": frozenset({"started"}),
}

# Only a person can move a run on from `dead`, `denied` or `cancelled`: a replay makes it ready again, and so does the
# cancel of a dead letter that has effects to undo. A run with on_failure="undo" is running while its effects are
# undone, then dead. A run is held, parked or put away only by its owner, so only while it is running.
RUN_TRANSITIONS: dict[RunState | None, frozenset[RunState]] = {
    None: frozenset({"ready"}),
    "ready": frozenset({"running", "cancelled", "held"}),  # held: policy wants a person to decide whether it begins
    "running": frozenset({"done", "dead", "denied", "cancelled", "ready", "waiting", "held", "parked"}),
    "waiting": frozenset({"running", "ready", "cancelled"}),
    "held": frozenset({"ready", "cancelled", "denied"}),  # denied: a person said that it must not begin
    "parked": frozenset({"ready", "cancelled"}),
    "done": frozenset(),
    "dead": frozenset({"ready", "cancelled"}),
    "denied": frozenset({"ready"}),
    "cancelled": frozenset({"ready"}),
}

# staged: released with the run's commit. intent: about to be called, or in flight. retrying: certainly not done, will
# be called again. waiting: a rule wants an approval before it is called. unknown: it may or may not have been done, and its action's declared safety settles it. held: a
# person must decide. A confirmed effect is never called again.
# Of an action with a business key, an effect that follows the key's holder is retrying while it waits, and then has the holder's
# result. In a run that was restored from a backup, an effect begins as unknown.
EFFECT_TRANSITIONS: dict[EffectState | None, frozenset[EffectState]] = {
    None: frozenset({"staged", "waiting", "intent", "unknown", "held", "retrying", "confirmed", "abandoned"}),
    "staged": frozenset({"waiting", "intent", "unknown", "held", "retrying", "confirmed", "abandoned"}),
    # abandoned: a person said no, no answer came in time, policy denies it by now, or its run asks for something else.
    "waiting": frozenset({"intent", "retrying", "unknown", "held", "confirmed", "abandoned"}),
    "intent": frozenset({"confirmed", "failed", "retrying", "unknown", "held", "abandoned"}),
    # unknown: it was certainly not done when the store was backed up, but perhaps since.
    "retrying": frozenset({"intent", "waiting", "unknown", "confirmed", "failed", "held", "abandoned"}),
    "unknown": frozenset({"intent", "confirmed", "retrying", "held", "abandoned"}),
    "held": frozenset({"confirmed", "retrying", "abandoned"}),
    "confirmed": frozenset({"undone", "held"}),  # held: a person confirmed it with a result that does not fit
    "failed": frozenset({"retrying"}),  # its run is replayed
    # Only an effect that was never begun: when its run is replayed, or its handler asks for it again.
    "abandoned": frozenset({"staged", "waiting", "intent", "unknown", "held", "retrying", "confirmed"}),
    "undone": frozenset(),
}

# held: the output of its run did not pass its checks. unknown: it may have arrived, and its channel repeats nothing in doubt. Only a person
# can move an unknown delivery or a dead letter on. A pending delivery is discarded if another one has closed its thread. A person may
# discard a delivery while it is in flight; if it arrives all the same, it is delivered.
DELIVERY_TRANSITIONS: dict[DeliveryState | None, frozenset[DeliveryState]] = {
    None: frozenset({"pending", "held"}),
    "held": frozenset({"pending", "discarded"}),
    "pending": frozenset({"delivered", "unknown", "dead", "discarded"}),
    "unknown": frozenset({"delivered", "pending", "discarded"}),
    "delivered": frozenset(),
    "dead": frozenset({"pending", "discarded"}),
    "discarded": frozenset({"delivered"}),
}

# An occurrence becomes a row when it is decided; until then it is `next_at` of its schedule, or queued there. Its state is final, except
# that a fired run that has not started may be superseded by a newer occurrence. A reminder that is moved when it was due is superseded.
OCCURRENCE_TRANSITIONS: dict[OccurrenceState | None, frozenset[OccurrenceState]] = {
    None: frozenset({"fired", "missed", "coalesced", "skipped", "superseded"}),
    "fired": frozenset({"superseded"}),
    "missed": frozenset(),
    "coalesced": frozenset(),
    "skipped": frozenset(),
    "superseded": frozenset(),
}

# done: no occurrence is left, which may be so from the start. A schedule that is done may get a later time; a removed one may be added
# again.
SCHEDULE_TRANSITIONS: dict[ScheduleState | None, frozenset[ScheduleState]] = {
    None: frozenset({"live", "done"}),
    "live": frozenset({"paused", "done", "removed"}),
    "paused": frozenset({"live", "done", "removed"}),
    "done": frozenset({"live", "removed"}),
    "removed": frozenset({"live", "done"}),
}

# idle: no process reads it now. paused: the backlog must be worked off first. A webhook is read while a server runs.
# A failing source stays failing, also when a process stops, until it is read again or paused.
SOURCE_TRANSITIONS: dict[SourceState | None, frozenset[SourceState]] = {
    None: frozenset({"idle"}),
    "idle": frozenset({"reading", "paused", "failing"}),
    "reading": frozenset({"paused", "failing", "idle"}),
    "paused": frozenset({"reading", "failing", "idle"}),
    "failing": frozenset({"reading", "paused"}),
}

# A resolved alarm opens again as the next incident.
ALARM_TRANSITIONS: dict[AlarmState | None, frozenset[AlarmState]] = {
    None: frozenset({"open"}),
    "open": frozenset({"acknowledged", "resolved"}),
    "acknowledged": frozenset({"resolved"}),
    "resolved": frozenset({"open"}),
}
