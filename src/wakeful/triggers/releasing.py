"""Reading again what was in quarantine, by the source that it came from: for a person who has mended what was wrong.

A source that is read knows its own bytes; a webhook verifies a request as of when it came, unless the person vouches for it. What
comes out has the identity that it would have had in the first place: if it was delivered again meanwhile, it is a duplicate.
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
# How earlier versions marked bytes that are an event as it is stored. It stood among the headers, where senders write too.
EARLIER_MARK = {"wakeful-event": "yes"}


class Arriving(Protocol):
    """The door: what shall become of an event."""

    def __call__(self, event: Event, /, *, aliases: tuple[str, ...] = ()) -> Arrival: ...


class KnowsWebhooks(Protocol):
    """What is known of the app's webhooks."""

    def read_again(
        self, name: str, raw: bytes, headers: Mapping[str, str], received_at: Microseconds, /, *, trust: bool
    ) -> Sequence[tuple[Event, tuple[str, ...]]]: ...


class Releasing:
    """What the sources of one app make of bytes that they could not take in before."""

    def __init__(
        self,
        app: str,
        arrive: Arriving,
        readers: Callable[[str], Reader | None],
        webhooks: Callable[[], KnowsWebhooks | None],
        event_sources: Callable[[str], Collection[str]] = lambda _: (),
    ) -> None:
        """`event_sources` are those that the events of a source may have; none: any."""
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
        """The events that it holds, at least one, on their way into the store. `kind` is that of the source, `form` and `reason`
        are what Wakeful stored when it kept the bytes (no form: an earlier version did). SourceTrouble says what is still wrong.
        """
        try:
            if form is None:
                form = self._earlier_form(source, raw, headers, reason or "")
            found = self._events(source, kind, raw, headers, received_at, trust=trust, form=form)
            arrivals = [self._arrive(event, aliases=aliases) for event, aliases in found]
        except WakefulError as error:
            raise SourceTrouble(str(error)) from error
        except Exception as error:  # a reader of somebody else's, or a user's function
            message = f"{kind or 'source'} {source}: {type(error).__name__}: {words_of(error)}"
            raise SourceTrouble(message) from error
        if not arrivals:
            message = f"{kind or 'source'} {source}: there is no event in it: discard it"
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
        if reader is not None and form == "event":  # the source had read it, and somebody else could not take it
            return [(from_envelope(raw.decode()), ())]
        if reader is not None:
            return [(event, ()) for event in reader.read_again(raw, headers)]
        webhooks = self._webhooks()
        if kind == WEBHOOK and webhooks is not None:
            return webhooks.read_again(source, raw, headers, received_at, trust=trust)
        message = (
            f"app {self.app} has no source {source} any more, which it came from: "
            "declare it again, or discard what is left of it"
        )
        raise SourceTrouble(message)

    def _earlier_form(self, source: str, raw: bytes, headers: Mapping[str, str], reason: str) -> QuarantineForm:
        """What an earlier version kept. Its mark alone proves nothing, because a sender could write it beside its message. It
        counts where nothing else came along, where the reason is the one that Wakeful itself gave for just this event, and where
        the event has a source that this reader brings. A message of a queue always has its own id beside it.
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
