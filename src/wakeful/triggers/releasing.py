"""Reads input from quarantine again, with the source that it came from, after a person has fixed the cause.

A reader re-reads its own bytes; a webhook verifies the request as of its arrival, unless the person vouches for it. The events have
the identity that they would have had in the first place: if the input was delivered again meanwhile, they are duplicates.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from wakeful.clock import Microseconds
from wakeful.errors import WakefulError
from wakeful.intake.cloudevents import from_envelope
from wakeful.intake.quarantine import could_not_be_taken_in
from wakeful.model import Arrival, Event
from wakeful.stored_errors import words_of
from wakeful.stores.verbs.take_in import QuarantineForm
from wakeful.triggers.source import Reader, SourceTrouble

WEBHOOK = "webhook"
# Mark of earlier versions for bytes that are a stored event. It was among the headers, where senders can write too.
EARLIER_MARK = {"wakeful-event": "yes"}


class Arriving(Protocol):
    """Intake: decides what happens to an event."""

    def __call__(self, event: Event, /, *, aliases: tuple[str, ...] = ()) -> Arrival: ...


class KnowsWebhooks(Protocol):
    """The part of an app's webhooks that a release needs."""

    def read_again(
        self, name: str, raw: bytes, headers: Mapping[str, str], received_at: Microseconds, /, *, trust: bool
    ) -> Sequence[tuple[Event, tuple[str, ...]]]: ...


class Releasing:
    """Re-reads, with the sources of one app, bytes that could not be taken in before."""

    def __init__(
        self,
        app: str,
        arrive: Arriving,
        readers: Callable[[str], Reader | None],
        webhooks: Callable[[], KnowsWebhooks | None],
        event_sources: Callable[[str], Collection[str]] = lambda _: (),
    ) -> None:
        """`event_sources`: the `source` values that events of a source may have; empty: any."""
        self.app = app
        self._arrive = arrive
        self._readers = readers
        self._webhooks = webhooks
        self._event_sources = event_sources

    def read(
        self,
        source: str,
        kind: str | None,
        raw: bytes,
        headers: Mapping[str, str],
        received_at: Microseconds,
        *,
        trust: bool = False,
        form: QuarantineForm | None = None,
        reason: str | None = None,
    ) -> list[Arrival]:
        """The events in it, at least one, ready to be stored. `kind` is that of the source; `form` and `reason` are what Wakeful
        stored with the bytes (no form: an earlier version stored them). Raises SourceTrouble if it is still unreadable.
        """
        try:
            if form is None:
                form = self._earlier_form(source, raw, headers, reason or "")
            found = self._events(source, kind, raw, headers, received_at, trust=trust, form=form)
            arrivals = [self._arrive(event, aliases=aliases) for event, aliases in found]
        except WakefulError as error:
            raise SourceTrouble(str(error)) from error
        except Exception as error:  # a foreign reader or a user's function may raise anything
            message = f"{kind or 'source'} {source}: {type(error).__name__}: {words_of(error)}"
            raise SourceTrouble(message) from error
        if not arrivals:
            message = f"{kind or 'source'} {source}: it contains no event: discard it"
            raise SourceTrouble(message)
        return arrivals

    def _events(
        self,
        source: str,
        kind: str | None,
        raw: bytes,
        headers: Mapping[str, str],
        received_at: Microseconds,
        *,
        trust: bool,
        form: QuarantineForm,
    ) -> Sequence[tuple[Event, tuple[str, ...]]]:
        reader = self._readers(source)
        if reader is not None and form == "event":  # the source had read it, but intake refused it
            return [(from_envelope(raw.decode()), ())]
        if reader is not None:
            return [(event, ()) for event in reader.read_again(raw, headers)]
        webhooks = self._webhooks()
        if kind == WEBHOOK and webhooks is not None:
            return webhooks.read_again(source, raw, headers, received_at, trust=trust)
        message = (
            f"app {self.app} no longer has the source {source} that this came from: "
            "declare it again, or discard its quarantine"
        )
        raise SourceTrouble(message)

    def _earlier_form(self, source: str, raw: bytes, headers: Mapping[str, str], reason: str) -> QuarantineForm:
        """The form of bytes that an earlier version kept. Its mark alone proves nothing, because a sender could write it too. The
        mark counts only if there are no other headers, the reason is the one that Wakeful gave for exactly this event, and the
        event has a source that this reader brings. A queue message always has its own id among the headers.
        """
        if dict(headers) != EARLIER_MARK:
            return "raw"
        try:
            event = from_envelope(raw.decode())
        except (ValueError, KeyError, AttributeError, TypeError):
            return "raw"
        brought = self._event_sources(source)
        ours = reason.startswith(could_not_be_taken_in(event.id)) and (not brought or event.source in brought)
        return "event" if ours else "raw"
