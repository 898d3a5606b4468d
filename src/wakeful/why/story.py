"""The answer of `why`: the same shape for every kind of story."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, NotRequired, cast

from typing_extensions import TypedDict

from wakeful.resources.events import Admission, StoredEvent
from wakeful.resources.fields import About, InPlace
from wakeful.resources.reminders import Reminder
from wakeful.resources.run_views import RunDetail
from wakeful.resources.schedule_views import ScheduleDetail
from wakeful.why.words import Shown

RUN = "22290ae6d7fc693079e167a06b"
TOLD = [
    "Event t1 of type ticket.created about 8841 came from /desk/tickets at 2026-08-01T08:00:00Z and was stored.",
    f"Agent triage took it as run {RUN} (on ticket.created).",
    "The run is done: it finished at 2026-08-01T08:00:01Z, 420 ms after its first start.",
]
SubjectKind = Literal[
    "event", "run", "delivery", "effect", "question", "reminder", "schedule", "source", "expectation", "alarm"
]


class Subject(TypedDict):
    """The object that a story is about."""

    kind: SubjectKind
    id: str


class Story(TypedDict):
    """What happened to an object, in sentences, with the stored objects that the sentences are about."""

    subject: Annotated[
        Annotated[Subject, InPlace()], About("What the story is about", example={"kind": "run", "id": RUN})
    ]
    event: Annotated[StoredEvent | None, About("The event it began with; null for an alarm, a schedule or a source")]
    admissions: Annotated[list[Annotated[Admission, InPlace()]], About("What happened to that event, by agent")]
    runs: list[RunDetail]
    schedule: NotRequired[ScheduleDetail]
    reminder: NotRequired[Reminder]
    story: Annotated[list[str], About("The sentences, in order", example=TOLD)]


def story_about(
    kind: SubjectKind,
    identifier: str,
    story: Sequence[str],
    *,
    event: Shown | None = None,
    admissions: Sequence[Any] = (),
    runs: Sequence[Any] = (),
    **more: Any,
) -> Story:
    """A story with the objects that it is about. `more`: the schedule or the reminder."""
    told = {
        "subject": {"kind": kind, "id": identifier},
        **more,
        "event": event,
        "admissions": list(admissions),
        "runs": list(runs),
        "story": list(story),
    }
    return cast("Story", told)
