"""Requests to a store: a request is a value, and its class says what the journal must know of it.

    await store.do(CloseCircuit(app, name, by=Actor("ada", "cli")))  ──►  the result, typed by the class

The journal puts all waiting requests into one transaction. The generator in `verbs/` for a request's class yields the queries that carry
it out. A change by a person or a token is a `ByPerson`: its row in `wakeful_operation` is written in the same transaction, so that there
is no change without its author.

A method that a class does not override is never called: the journal checks the flag for it, which each class has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Protocol, TypeVar
from uuid import uuid4

from wakeful.errors import CancelAsked
from wakeful.model import Claim
from wakeful.stores.lanes import Lanes

R = TypeVar("R")

# The surface that a person or a token used.
Way = Literal["cli", "http", "code", "worker", "link"]


@dataclass(slots=True)
class Ready:
    """Runs of these agents of this app became ready; without an app: any run may have."""

    app: str | None = None
    agents: frozenset[str] = frozenset()


ANYTHING = Ready()


@dataclass(slots=True)
class Others:
    """The notification of other processes after a transaction: agents with runs that no claim of this transaction took."""

    taken: set[str] = field(default_factory=set)  # ids of the runs that this transaction claimed
    apps: set[str] = field(default_factory=set)
    agents: set[str] = field(default_factory=set)
    joined: str | None = None  # an app with one more process, or with a source that no process reads
    all: bool = False  # any process may have work

    def hear(self, app: str, agent: str) -> None:
        self.apps.add(app)
        self.agents.add(agent)

    @property
    def word(self) -> str | None:
        """The text: "app agent agent …", the name of an app alone, or empty for everyone. None: there is nothing to tell."""
        if self.all:
            return ""
        if not self.agents:
            return self.joined
        few = len(self.apps) == 1 and len(self.agents) <= 50
        return " ".join([*self.apps, *sorted(self.agents)]) if few else ""


@dataclass(slots=True)
class Heard:
    """Callbacks of this process after a request is committed."""

    deliveries: Callable[[], None] = lambda: None  # deliveries may be due that no run of this process has just sent
    waits: Callable[[int], None] = lambda _: None  # a run has registered waits
    stops: Callable[[CancelAsked | None], None] = lambda _: None  # runs were asked to stop; None: it is not known which


def stands_for(path: str) -> Any:
    """An attribute that reads another one, such as `claim.process`, without a Python call."""
    return property(attrgetter(path))


class Request(Generic[R]):
    """A change that a store is asked for, atomic. `R` is its result; a refusal is raised at its caller."""

    __slots__ = ()

    plain: ClassVar[bool] = False  # a batch of this class alone may be one statement
    worth_storing: ClassVar[bool] = False  # it is stored even if its caller has given up
    claims: ClassVar[bool] = False  # it takes runs: it comes last in a transaction, and may rest until runs are ready
    audited: ClassVar[bool] = False  # made by a person or a token (ByPerson)
    carried_with: ClassVar[type[Request[Any]] | None] = (
        None  # carried out by the verb of that class, together with its requests
    )

    # Facts that the journal reads of every request. To a type checker they are properties, so that a subclass may have a field or a
    # property of that name. At run time they are plain values: a request that has nothing to say costs no call.
    if TYPE_CHECKING:

        @property
        def fenced_by(self) -> str | None:
            """The process whose lease must be good, or ClaimLost; None: no lease is needed."""

        @property
        def gate(self) -> str | None:
            """The app whose gate it passes: pauses, halts and the policy that it reads hold until the commit."""

        @property
        def ended(self) -> Claim | None:
            """The run that its agent has no longer after this request."""

        @property
        def woken(self) -> Sequence[tuple[str, str]]:
            """App and agent of each run that no longer waits. The verb writes them."""

        @property
        def rests(self) -> bool:
            """Whether it waits for the next transaction that makes runs ready, or until the journal is poked."""

    else:
        fenced_by = None
        gate = None
        ended = None
        woken = ()
        rests = False

    # Which of the methods below a class overrides.
    has_size: ClassVar[bool] = False
    has_keys: ClassVar[bool] = False
    may_ready: ClassVar[bool] = False
    may_alarm: ClassVar[bool] = False
    may_shut: ClassVar[bool] = False
    may_give_back: ClassVar[bool] = False
    may_tell: ClassVar[bool] = False
    may_follow: ClassVar[bool] = False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for flag, method in FLAGS.items():
            setattr(cls, flag, getattr(cls, method) is not getattr(Request, method))

    @property
    def patient(self) -> bool:
        """Whether it is retried until the database is back, because a run in flight waits for it."""
        return False

    def size(self) -> tuple[int, int]:
        """How many rows it writes in addition to the first, and how many characters: large requests share with fewer others."""
        return 0, 0

    def lock_keys(self, lanes: Lanes) -> None:
        """Add the keys whose order it touches: they are locked first."""

    def readies(self) -> Ready | None:
        """Which agents may have work once it is committed."""
        return None

    def alarming(self) -> bool:
        """Whether an alarm opens or resolves with it, so that people are to be notified once it is committed."""
        return False

    def shuts(self) -> str | None:
        """The app of which no claim may be in flight meanwhile."""
        return None

    def gives_back(self) -> bool:
        """Whether it gives runs back. If so, it waits until no other transaction of its process is in flight."""
        return False

    def tell(self, result: R, others: Others, /) -> None:
        """Add what other processes must be told."""

    def follow(self, result: R, heard: Heard, /) -> None:
        """Call what this process does once it is committed."""


FLAGS = {
    "has_size": "size",
    "has_keys": "lock_keys",
    "may_ready": "readies",
    "may_alarm": "alarming",
    "may_shut": "shuts",
    "may_give_back": "gives_back",
    "may_tell": "tell",
    "may_follow": "follow",
}


class Doer(Protocol):
    """Carries out requests: a store."""

    async def do(self, request: Request[R], /) -> R: ...


@dataclass(slots=True)
class OfRun(Request[R]):
    """A request of a run in flight. It is retried until it is stored or another process owns the run."""

    claim: Claim

    fenced_by = stands_for("claim.process")

    @property
    def process(self) -> str:
        return self.claim.process

    @property
    def patient(self) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class Actor:
    """The author of a change, and the surface."""

    name: str
    way: Way
    proved: bool = False  # by a personal token; otherwise the name is only claimed


@dataclass(frozen=True, slots=True)
class Audit:
    """A row of `wakeful_operation`: the act, its subject and the note."""

    verb: str
    app: str | None = None
    subject: str | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Bulk:
    """An operation carried out in slices: it has one row, which the first slice writes and each later one updates."""

    verb: str
    app: str | None = None
    subject: str | None = None
    of: str | None = None  # the total, in words: the row says "3 of 5 events"; None: it says `tells` or `says`
    tells: str | None = None  # after the number: "3 runs removed"
    says: str | None = None
    begins: str = ""  # before the number
    id: str = field(default_factory=lambda: uuid4().hex)

    def words(self, done: int, note: str | None) -> str | None:
        if self.tells is not None:
            return f"{done} {self.tells}"
        if self.of is None:
            return self.says
        return f"{self.begins}{done} of {self.of}" + (f": {note}" if note else "")


@dataclass(slots=True, kw_only=True)
class ByPerson(Request[R]):
    """A request by a person or a token. Any process may have work afterwards, and an alarm may be resolved."""

    by: Actor
    note: str | None = None
    bulk: Bulk | None = None  # the operation that it is a slice of

    audited = True

    def readies(self) -> Ready | None:
        return ANYTHING

    def alarming(self) -> bool:
        return True

    def tell(self, result: R, others: Others) -> None:
        others.all = others.all or bool(result)

    def audit(self, result: R, /) -> Audit | None:
        """The audit row, written by the same transaction; None if nothing was done."""
        raise NotImplementedError

    def counted(self, result: R, /) -> int:
        """How many items of its bulk operation it has done."""
        return int(self.audit(result) is not None)
