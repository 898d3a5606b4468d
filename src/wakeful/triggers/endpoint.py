"""An endpoint: all webhooks of one path, and how a request to it becomes events.

    request ──► verifier.verify ──► verifier.read ──► type ──► id ──► data= ──► event, its aliases, an answer

No I/O, and nothing is stored here. Raises InvalidEvent if a request cannot become an event.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple, Protocol

from wakeful.errors import ConfigError, InvalidEvent
from wakeful.intake.cloudevents import ATTRIBUTES, EXTENSION_NAME_LIMIT, TEXT_LIMIT
from wakeful.intake.route import WILDCARD
from wakeful.intake.untrusted import DEPTH_LIMIT, find_fault, refuse_faults
from wakeful.model import Event
from wakeful.stored_errors import words_of
from wakeful.triggers.allowance import Allowance
from wakeful.triggers.base import Trigger
from wakeful.triggers.identity import content_of, header_of, read_identity
from wakeful.triggers.mapping import apply_mapping, plain, read_mapping
from wakeful.triggers.verifier import Answer, Challenge, Delivered, WebhookRequest
from wakeful.triggers.webhook import Webhook

RECEIVED = "webhook.received"
ALWAYS_READ = frozenset({"content-type"})
Aliases = tuple[str, ...]


class Brought(NamedTuple):
    """One event of a request, its aliases, and the answer that the sender expects."""

    event: Event
    aliases: Aliases
    answer: Answer | None


class DeclaresWebhooks(Protocol):
    """The parts of an agent that endpoints read."""

    @property
    def name(self) -> str: ...

    @property
    def triggers(self) -> Sequence[Trigger]: ...

    @property
    def written_at(self) -> str: ...


class Endpoint:
    """One path. `webhooks` are those of all agents that name it; they agree about its options."""

    def __init__(self, webhooks: Sequence[Webhook]) -> None:
        first = webhooks[0]
        self.path = first.path
        self.place = first.place
        self.source = first.source
        self.verifier = first.verify
        self.body_limit = first.body_limit
        self.allowance = None if first.rate is None else Allowance(first.rate)
        self._named = sorted({one.type for one in webhooks if WILDCARD not in one.type})
        self._identify = read_identity(first.id, where=first.place)
        self._mapping = read_mapping(first.data, where=first.place)
        self.headers = kept_headers(first)
        # Our own verifiers check what they parse (connect/verifiers/reading.py); a second check would cost as much as parsing.
        self._looked_at = type(first.verify).__module__.startswith("wakeful.connect.")
        self._plain = type(first.verify).__module__.startswith("wakeful.")

    def challenge(self, request: WebhookRequest) -> Challenge | None:
        """The answer to a verified request that is a challenge and not an event."""
        with unreadable():
            return self.verifier.challenge(request)

    def read(self, request: WebhookRequest) -> list[Brought]:
        """The events of a verified request: usually one, more if the sender puts several into one request."""
        with unreadable():
            delivered = self.verifier.read_all(request)
            brought = [self._bring(request, told) for told in delivered]
        if len(brought) > 1 and any(one.aliases for one in brought):
            message = f"verify={self.verifier.name} gives aliases to several events of one request, which would make them one event"
            raise InvalidEvent(message, field="aliases")
        return brought

    def _bring(self, request: WebhookRequest, told: Delivered) -> Brought:
        event = Event(self.source, "", told.type or self._type(), told.data, told.subject)
        if self._identify is not None:
            event.id = self._identify(request, event)
        else:
            event.id = told.id or content_of(request)
        refuse_attributes(event, told)
        if self._mapping is not None:
            apply_mapping(self._mapping, event)
        elif not self._looked_at:
            refuse_faults(event.data, depth=DEPTH_LIMIT, inside=("data",))
            if not self._plain:  # a foreign verifier may return objects that only look like JSON
                event.data = plain(event.data)
                refuse_faults(event.data, depth=DEPTH_LIMIT, inside=("data",))
        return Brought(event, told.aliases, told.answer)

    def _type(self) -> str:
        """The type of an event whose sender names none."""
        if len(self._named) > 1:
            message = (
                f"the sender names no type, and the agents name several ({', '.join(self._named)}): use one type in all of them, "
                "and tell events apart with where="
            )
            raise InvalidEvent(message, field="type")
        return self._named[0] if self._named else RECEIVED


def kept_headers(webhook: Webhook) -> frozenset[str] | None:
    """The headers, in lower case, that verification and routing of this path read; None if its verifier does not declare them.

    Quarantine keeps no other header: one of them may be a credential under a name that only a proxy knows.
    """
    reads = webhook.verify.reads()
    if reads is None:
        return None
    of_identity = header_of(webhook.id)
    return ALWAYS_READ.union(name.lower() for name in (*reads, *([] if of_identity is None else [of_identity])))


@contextlib.contextmanager
def unreadable() -> Iterator[None]:
    """Turn any exception of a verifier into InvalidEvent, so that the input is kept with a reason."""
    try:
        yield
    except InvalidEvent:
        raise
    except Exception as error:
        message = f"unreadable: {type(error).__name__}: {words_of(error)}"
        raise InvalidEvent(message) from error


def refuse_attributes(event: Event, told: Delivered) -> None:
    """Check attributes that come from headers and bodies against the limits of every event."""
    refuse_text("id", event.id)
    refuse_text("type", event.type)
    if event.subject is not None:
        refuse_text("subject", event.subject)
    if told.time is not None:
        event.time = moment(told.time)
    for name, value in told.extensions.items():
        if not (name.isascii() and name.isalnum() and name.lower() == name and len(name) <= EXTENSION_NAME_LIMIT):
            message = f"{name!r:.100} is not the name of an attribute"
            raise InvalidEvent(message, field="extensions")
        if name in ATTRIBUTES:
            message = f"{name} is not an extension: it is an attribute of every event"
            raise InvalidEvent(message, field="extensions")
        if type(value) is str:
            refuse_text(name, value)
        elif type(value) not in {bool, int} or find_fault(value, depth=1) is not None:
            message = f"{name} is not text, a boolean or an integer of 64 bits"
            raise InvalidEvent(message, field="extensions")
    if told.extensions:
        event.extensions = told.extensions
    if not all(type(alias) is str for alias in told.aliases):
        raise InvalidEvent("aliases are not all text", field="aliases")
    if told.answer is not None and not isinstance(told.answer, Answer):
        raise InvalidEvent("answer is not an Answer", field="answer")


def refuse_text(name: str, text: Any) -> None:
    if type(text) is not str or not 0 < len(text) <= TEXT_LIMIT:
        message = f"{name} is not text of 1 to {TEXT_LIMIT:,} characters"
        raise InvalidEvent(message, field=name)
    if text.isascii() and text.isprintable():
        return
    if (fault := find_fault(text, depth=1)) is not None:
        message = f"{name} {fault.message}"
        raise InvalidEvent(message, field=name)


def moment(time: datetime) -> datetime:
    try:
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except OverflowError:
        message = "time is beyond the calendar"
        raise InvalidEvent(message, field="time") from None


def webhooks_of(agents: Iterable[DeclaresWebhooks]) -> dict[str, list[tuple[DeclaresWebhooks, Webhook]]]:
    """The webhooks of each path, with their agents."""
    found: dict[str, list[tuple[DeclaresWebhooks, Webhook]]] = {}
    for agent in agents:
        for trigger in agent.triggers:
            if isinstance(trigger, Webhook):
                found.setdefault(trigger.path, []).append((agent, trigger))
    return found


def endpoint_problems(agents: Iterable[DeclaresWebhooks]) -> list[str]:
    """Conflicts: two agents differ about one path, or give two paths one source. One line each, with both places."""
    agents = list(agents)
    problems = []
    for path, named in webhooks_of(agents).items():
        first_agent, first = named[0]
        for agent, other in named[1:]:
            differing = [name for name, value in other.endpoint.items() if value != first.endpoint[name]]
            if differing:
                problems.append(
                    f'webhook("{path}"): agents {first_agent.name} ({first_agent.written_at}) and {agent.name} '
                    f"({agent.written_at}) differ in {', '.join(f'{name}=' for name in differing)}: one path is one endpoint, so "
                    "use the same options in both, or give one of them another path"
                )
                break
    firsts: dict[str, tuple[DeclaresWebhooks, Webhook]] = {}
    for path, named in webhooks_of(agents).items():
        agent, one = named[0]
        first_agent, first = firsts.setdefault(one.source, named[0])
        if first.path != path:
            # The source decides which agents wake: an agent that requires a signature would get unsigned requests to the other path.
            problems.append(
                f'webhook("{path}"): agents {first_agent.name} ({first_agent.written_at}) and {agent.name} ({agent.written_at}) give '
                f'two paths the source "{one.source}": requests to {first.path} would wake agents of {path}, so set another '
                "source= in one of them"
            )
    return problems


def read_endpoints(agents: Iterable[DeclaresWebhooks]) -> Mapping[str, Endpoint]:
    """All endpoints of an app, by path. Raises ConfigError if two agents disagree about one."""
    declared = list(agents)
    for message in endpoint_problems(declared):
        raise ConfigError(message)
    return {path: Endpoint([one for _, one in named]) for path, named in webhooks_of(declared).items()}


def missing_secrets(endpoints: Iterable[Endpoint]) -> list[str]:
    """The secrets that verifiers would not find here; a server would refuse to start without them."""
    found = []
    for one in endpoints:
        try:
            one.verifier.open(one.place)
        except ConfigError as error:
            found.append(str(error))
    return found
