"""A schedule: a rule of time, and what happens to occurrences that could not fire in time.

    cron("0 8 * * 1-5")  every("30m", active="08:00-20:00")  at("2026-12-24T18:00")
         └────────────── Rule: next, previous, count ──────────────┘
                                    +
         overlap, catch_up, grace, jitter, expires: Timing

Together they are a trigger that can be written as JSON. The whole definition is stored, so that a process without the app's code
knows every occurrence.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol, get_args

from pydantic_core import from_json

from wakeful.cel import Match
from wakeful.clock import SECOND, Microseconds, duration, written
from wakeful.errors import ConfigError, did_you_mean
from wakeful.model import Event, digest

ScheduleOverlap = Literal["queue_one", "skip", "queue_all", "replace", "allow"]
CatchUp = Literal["latest", "none", "all"]

TYPE = "wakeful.schedule"
# Default grace of the latest missed occurrence: half the distance to the next one, within these bounds.
SHORTEST_GRACE: Microseconds = 60 * SECOND
LONGEST_GRACE: Microseconds = 12 * 3600 * SECOND
# With catch_up="none" only occurrences on time are fired. Some tolerance is needed.
GRACE_WITHOUT_CATCH_UP: Microseconds = 60 * SECOND
MAX_AGE: Microseconds = 7 * 86400 * SECOND
MAX_COUNT = 100
NAME_LIMIT = 200
# A century: a longer duration is a mistake.
LONGEST: Microseconds = 36_525 * 86400 * SECOND


class Rule(Protocol):
    """A rule of time. Occurrences are in microseconds; a rule gives the same ones to every caller at every time."""

    @property
    def kind(self) -> str: ...

    def next(self, after: Microseconds) -> Microseconds | None:
        """The first occurrence after this; None: there is none."""
        ...

    def previous(self, before: Microseconds) -> Microseconds | None:
        """The last occurrence before this."""
        ...

    def count(self, first: Microseconds, last: Microseconds, most: int) -> tuple[int, Microseconds]:
        """The number of occurrences from `first`, which is one, up to and including `last`; and the last one counted. A rule
        that has to walk over them stops at `most`.
        """
        ...

    def describe(self) -> str:
        """The rule as a person would write it, with its zone."""
        ...

    def definition(self) -> dict[str, Any]:
        """The rule as JSON, with everything that determines its occurrences."""
        ...


def counted(rule: Rule, first: Microseconds, last: Microseconds, most: int) -> tuple[int, Microseconds]:
    """`Rule.count` by walking over the occurrences."""
    count, seen = 0, first
    for occurrence in occurrences(rule, first, last):
        if count == most:
            break
        count, seen = count + 1, occurrence
    return count, seen


def occurrences(rule: Rule, first: Microseconds, last: Microseconds) -> Iterator[Microseconds]:
    """The occurrences from `first` up to and including `last`."""
    occurrence = rule.next(first - 1)
    while occurrence is not None and occurrence <= last:
        yield occurrence
        occurrence = rule.next(occurrence)


@dataclass(frozen=True, slots=True)
class Timing:
    """What happens to occurrences that come due while the last one is still in progress, or while no worker was running."""

    overlap: ScheduleOverlap = "queue_one"
    catch_up: CatchUp = "latest"
    grace: Microseconds | None = None  # None: derived from the distance between occurrences
    max_age: Microseconds = MAX_AGE
    max_count: int = MAX_COUNT
    jitter: Microseconds = 0
    expires: Microseconds | None = None
    starts_within: Microseconds | None = None  # an alarm is raised if it starts later than that
    ends_within: Microseconds | None = None

    def definition(self) -> dict[str, Any]:
        return {name: value for name in TIMING_FIELDS if (value := getattr(self, name)) is not None}


TIMING_FIELDS = (
    "overlap",
    "catch_up",
    "grace",
    "max_age",
    "max_count",
    "jitter",
    "expires",
    "starts_within",
    "ends_within",
)


@dataclass(frozen=True, slots=True)
class Schedule:
    """A trigger of time. Its events are addressed to its agent, so no event of another sender matches it."""

    rule: Rule
    timing: Timing = field(default_factory=Timing)
    name: str | None = None

    type: ClassVar[str] = TYPE
    where: ClassVar[str | None] = None
    carries_data: ClassVar[bool] = False
    source: ClassVar[str | None] = None

    def describe(self) -> str:
        return self.rule.describe()

    def matches(self, event: Event) -> Match:  # noqa: ARG002 a trigger's shape
        return Match(matched=False, reason=f"{self.describe()} starts its runs by itself")

    def definition(self) -> dict[str, Any]:
        """Everything that determines its occurrences and what happens to them."""
        return {"rule": self.rule.definition(), **self.timing.definition()}

    @property
    def fires_all(self) -> bool:
        """Whether each occurrence gets a run of its own, however late."""
        return self.timing.catch_up == "all"

    def grace_at(self, occurrence: Microseconds) -> Microseconds:
        """How late this occurrence may still fire: as declared, else half the distance to the next one.

        The last occurrence of a rule takes the distance to the one before it, and a single one (`at`) has the longest grace.
        The distance is real time, so a day on which the clocks change counts 23 or 25 hours.
        """
        if self.timing.grace is not None:
            return self.timing.grace
        following = self.rule.next(occurrence)
        if following is None:
            before = self.rule.previous(occurrence)
            following = occurrence + LONGEST if before is None else occurrence + occurrence - before
        return min(LONGEST_GRACE, max(SHORTEST_GRACE, (following - occurrence) // 2))

    def offset(self, app: str, name: str) -> Microseconds:
        """How much later than its occurrences it fires: constant for one schedule, different between schedules."""
        jitter = self.timing.jitter
        return int(digest(app, name), 16) % (jitter // 1000 + 1) * 1000 if jitter else 0


# Names of options in other schedulers, with ours.
OTHER_NAMES = {"timezone": "tz", "time_zone": "tz", "zone": "tz"}


def read_timing(options: dict[str, Any], *, where: str, also: tuple[str, ...] = ("tz",)) -> tuple[Timing, str | None]:
    """The options that every schedule takes, and its name. Raises ConfigError for invalid ones. `also`: the options of this
    kind of schedule; they are read elsewhere, and suggested here when an unknown option is refused.
    """
    known = (*TIMING_FIELDS, "name", *also)
    for option in options:
        if option not in known:
            hint = did_you_mean(OTHER_NAMES.get(option, option), known)
            raise ConfigError(f'{where}: unknown option "{option}".{hint}')
    given = {option: value for option, value in options.items() if value is not None}
    catch_up = _choice("catch_up", given.get("catch_up", "latest"), get_args(CatchUp), where)
    usual = "queue_all" if catch_up == "all" else "queue_one"
    overlap = _choice("overlap", given.get("overlap", usual), get_args(ScheduleOverlap), where)
    if catch_up == "all" and overlap in {"queue_one", "skip", "replace"}:
        raise ConfigError(
            f'{where}: catch_up="all" fires every missed occurrence, but overlap="{overlap}" would keep only one of them: '
            'write overlap="queue_all" or "allow"'
        )
    max_count = given.get("max_count", MAX_COUNT)
    if type(max_count) is not int or not 1 <= max_count <= 100_000:
        raise ConfigError(f"{where}: max_count must be a whole number from 1 to 100,000, not {max_count!r}")
    for option in ("max_age", "max_count"):
        if option in given and catch_up != "all":
            raise ConfigError(f'{where}: {option} limits catch_up="all", but this schedule has catch_up="{catch_up}"')
    timing = Timing(
        overlap,
        catch_up,
        _grace(given, catch_up, where),
        _duration("max_age", given, MAX_AGE, where),
        max_count,
        _duration("jitter", given, 0, where),
        _duration("expires", given, 0, where) if "expires" in given else None,
        _duration("starts_within", given, 0, where) if "starts_within" in given else None,
        _duration("ends_within", given, 0, where) if "ends_within" in given else None,
    )
    if timing.expires is not None and timing.jitter >= timing.expires:
        raise ConfigError(
            f"{where}: jitter={written(timing.jitter)} may delay an occurrence past expires={written(timing.expires)}, so it "
            "would never start. Make jitter shorter, or expires longer"
        )
    return timing, _name(given.get("name"), where)


def _name(name: Any, where: str) -> str | None:
    if name is None:
        return None
    if not isinstance(name, str) or len(name) > NAME_LIMIT:
        raise ConfigError(f"{where}: a schedule's name is a text of at most {NAME_LIMIT} characters, not {name!r:.60}")
    if not name.strip() or name != name.strip() or not name.isprintable():
        raise ConfigError(
            f"{where}: the name {name!r} is empty, has spaces around it or characters that cannot be printed"
        )
    return str.__str__(name)


def _choice(option: str, value: Any, choices: tuple[Any, ...], where: str) -> Any:
    if value in choices:
        return value
    listed = ", ".join(f'"{one}"' for one in choices)
    raise ConfigError(f"{where}: {option} is one of {listed}, not {value!r}.{did_you_mean(str(value), choices)}")


def _grace(given: dict[str, Any], catch_up: CatchUp, where: str) -> Microseconds | None:
    if "grace" in given:
        return _duration("grace", given, 0, where)
    return GRACE_WITHOUT_CATCH_UP if catch_up == "none" else None


def _duration(option: str, given: dict[str, Any], usual: Microseconds, where: str) -> Microseconds:
    if option not in given:
        return usual
    try:
        span = duration(given[option])
    except (ValueError, TypeError, OverflowError) as error:
        raise ConfigError(f"{where}: {option}: {error}") from None
    if span < 0 or (span == 0 and option not in {"jitter", "grace"}):
        raise ConfigError(f"{where}: {option} must be longer than zero, not {given[option]!r}")
    if span > LONGEST:
        raise ConfigError(f"{where}: {option} must be {written(LONGEST)} or less, not {given[option]!r}")
    return span


def read_definition(definition: dict[str, Any]) -> Schedule:
    """A schedule from its stored definition."""
    from wakeful.triggers.at import At
    from wakeful.triggers.cron import Cron
    from wakeful.triggers.every import Every

    kinds: dict[str, Any] = {"cron": Cron, "every": Every, "at": At}
    stored = dict(definition["rule"])
    kind = stored.pop("kind")
    if kind not in kinds:
        raise ConfigError(f'a stored schedule has the kind "{kind}", which this version does not know: upgrade wakeful')
    rule = kinds[kind](**stored)
    return Schedule(rule, Timing(**{name: definition[name] for name in TIMING_FIELDS if name in definition}))


@dataclass(frozen=True, slots=True)
class UnreadableRule:
    """A stored rule that cannot be read here: its zone is unknown to this machine, or its kind is from a later version. The
    schedule can be shown, changed and removed; firing it reports the problem.
    """

    problem: str

    kind: ClassVar[str] = "unreadable"

    def next(self, after: Microseconds) -> Microseconds | None:  # noqa: ARG002 a rule's shape
        return None

    def previous(self, before: Microseconds) -> Microseconds | None:  # noqa: ARG002 a rule's shape
        return None

    def count(self, first: Microseconds, last: Microseconds, most: int) -> tuple[int, Microseconds]:  # noqa: ARG002 a rule's shape
        return 0, first

    def describe(self) -> str:
        return f"an unreadable rule ({self.problem})"

    def definition(self) -> dict[str, Any]:
        return {"kind": self.kind, "zone": "UTC"}


def as_stored(definition: str) -> Schedule:
    """Like `read_definition`, for showing or changing a schedule: an unreadable rule does not raise."""
    try:
        return read_definition(from_json(definition))
    except (ConfigError, KeyError, TypeError, ValueError, AttributeError) as error:
        problem = str(error) if isinstance(error, ConfigError) else f"{type(error).__name__}: {error}"
        return Schedule(UnreadableRule(problem))
