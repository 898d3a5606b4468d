"""The people of an app: a YAML file, read into people, or refused with all that is wrong.

people:
  ada: {groups: [ops, leads], token_env: ADA_TOKEN}
  bob: {groups: [ops], token_env: BOB_TOKEN, away: {until: 2026-10-01, instead: ada}}
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time

from wakeful.clock import Microseconds, from_datetime
from wakeful.errors import ConfigError, did_you_mean
from wakeful.policy.approvers import Person
from wakeful.policy.fields import Fields, shown
from wakeful.policy.text import version_of
from wakeful.policy.tree import FileKind, Node, Place, Problems, Scalar, Table, read_tree

__all__ = ["Entry", "PeopleError", "PeopleText", "read_people"]

FILE = ("people",)
PERSON = ("groups", "token_env", "away")
AWAY = ("until", "instead")
LONGEST_NAME = 100
MOST_PEOPLE = 1_000
OURS = "WAKEFUL_"
KIND = FileKind("a people file", "people:")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9._@+-]*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
LIKE = "letters, digits and . _ @ + -, beginning with a letter"


class PeopleError(ConfigError):
    """A people file that cannot be used. `problems` has one line for each mistake: "people.yaml:3:5: …"."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = list(problems)


@dataclass(frozen=True, slots=True)
class Entry:
    """A person of the file, and the environment variable with their token."""

    person: Person
    token_env: str | None = None


@dataclass(frozen=True, slots=True)
class PeopleText:
    """The people of a file, and the version of its text."""

    version: str
    entries: tuple[Entry, ...]

    @property
    def groups(self) -> dict[str, tuple[str, ...]]:
        """The groups of each person, as `Known` takes them."""
        return {one.person.name: one.person.groups for one in self.entries}


def read_people(file: str, text: str) -> PeopleText:
    """Read a people file. PeopleError lists all its mistakes."""
    problems = Problems()
    root = read_tree(0, file, text, problems, KIND)
    entries = () if root is None else _Reader(problems).read(root)
    if len(problems):
        raise PeopleError(problems.lines())
    return PeopleText(version_of([text]), tuple(entries))


@dataclass
class _Reader:
    problems: Problems
    names: dict[str, Place] = field(default_factory=dict)
    variables: dict[str, Place] = field(default_factory=dict)
    instead: dict[str, Scalar] = field(default_factory=dict)

    def read(self, root: Node) -> list[Entry]:
        if not isinstance(root, Table):
            self.problems.add(root.place, f"a people file is a map that begins with people:, not {shown(root)}")
            return []
        fields = Fields(root, FILE, "a people file", self.problems)
        if "people" not in fields:
            self.problems.add(root.place, 'the field "people" is missing: begin the file with people:')
        table = fields.table("people")
        if table is None:
            return []
        self.names = {name: place for name, (place, _) in table.fields.items()}
        if len(self.names) > MOST_PEOPLE:
            self.problems.add(table.place, f"people: {len(self.names):,} are more than {MOST_PEOPLE:,}")
            return []  # each of them would be compared with all others
        entries = [self._person(name, place, node) for name, (place, node) in table.fields.items()]
        self._check_instead()
        return entries

    def _person(self, name: str, place: Place, node: Node) -> Entry:
        if not _NAME.fullmatch(name) or len(name) > LONGEST_NAME:
            problem = f'"{name[:LONGEST_NAME]}" is not a name: write {LIKE}, at most {LONGEST_NAME}'
            self.problems.add(place, problem)
        if isinstance(node, Scalar) and node.kind == "nothing":  # `ada:` is a person of no group
            return Entry(Person(name))
        if not isinstance(node, Table):
            if not (isinstance(node, Scalar) and node.kind == "broken"):
                self.problems.add(node.place, f"{name} must be a map like {{groups: [ops]}}, not {shown(node)}")
            return Entry(Person(name))
        fields = Fields(node, PERSON, "a person", self.problems)
        groups = self._groups(fields)
        variable = self._variable(fields)
        until, instead = self._away(name, fields)
        return Entry(Person(name, groups, until, instead), variable)

    def _groups(self, fields: Fields) -> tuple[str, ...]:
        found: dict[str, Scalar] = {}
        for one in fields.texts("groups") or ():
            if not _NAME.fullmatch(one.text) or len(one.text) > LONGEST_NAME:
                problem = f'groups: "{one.text[:LONGEST_NAME]}" is not a name: write {LIKE}, at most {LONGEST_NAME}'
                self.problems.add(one.place, problem)
            elif one.text in self.names:
                problem = (
                    f'groups: "{one.text}" is the name of a person (at {self.names[one.text]}): a rule that names it would '
                    "mean either; choose another name"
                )
                self.problems.add(one.place, problem)
            elif one.text in found:
                first = found[one.text].place
                self.problems.add(one.place, f'groups: "{one.text}" is given twice; the first one is at {first}')
            found.setdefault(one.text, one)
        return tuple(found)

    def _variable(self, fields: Fields) -> str | None:
        found = fields.scalar("token_env")
        if found is None:
            return None
        if not _VARIABLE.fullmatch(found.text):
            # It may be the token itself: do not repeat it.
            problem = 'token_env must be the name of an environment variable (letters, digits, "_"), not the token'
            self.problems.add(found.place, problem)
        elif found.text.upper().startswith(OURS):
            problem = f"token_env: {found.text} belongs to Wakeful itself; choose a name like ADA_TOKEN"
            self.problems.add(found.place, problem)
        elif found.text in self.variables:
            first = self.variables[found.text]
            problem = f'token_env: "{found.text}" is the token of two people; the first one is at {first}'
            self.problems.add(found.place, problem)
        else:
            self.variables[found.text] = found.place
        return found.text

    def _away(self, name: str, fields: Fields) -> tuple[Microseconds | None, str | None]:
        table = fields.table("away")
        if table is None:
            return None, None
        inner = Fields(table, AWAY, "away", self.problems)
        if "until" not in inner:
            self.problems.add(table.place, 'away: the field "until" is missing: a date like 2026-10-01')
        until = self._until(inner)
        instead = inner.scalar("instead")
        if instead is None:
            return until, None
        if instead.text == name:
            self.problems.add(instead.place, f"instead: {name} cannot answer instead of {name}")
        elif instead.text not in self.names:
            guess = did_you_mean(instead.text, self.names.keys() - {name})
            self.problems.add(instead.place, f'instead: there is no person "{instead.text}".{guess}')
        else:
            self.instead[name] = instead
        return until, instead.text

    def _until(self, fields: Fields) -> Microseconds | None:
        node = fields.node("until")
        if node is None or (isinstance(node, Scalar) and node.kind == "broken"):
            return None
        found = moment(node.text) if isinstance(node, Scalar) else None
        if found is None:
            like = "write a date like 2026-10-01, or a time with its zone like 2026-10-01T09:00+02:00"
            self.problems.add(node.place, f"until: {shown(node)} is not a date: {like}")
        return found

    def _check_instead(self) -> None:
        """Each circle of people who answer instead of each other is one problem. Each person is passed once."""
        order = {name: number for number, name in enumerate(self.instead)}
        passed: set[str] = set()
        for name in self.instead:
            chain: dict[str, int] = {}
            following = name
            while following in self.instead and following not in passed:
                passed.add(following)
                chain[following] = len(chain)
                following = self.instead[following].text
            if following not in chain:
                continue
            circle = list(chain)[chain[following] :]
            first = circle.index(min(circle, key=order.__getitem__))
            told = " → ".join([*circle[first:], *circle[: first + 1]])
            problem = f"instead: {told} is a circle: while all of them are away, no person answers"
            self.problems.add(self.instead[circle[first]].place, problem)


def moment(text: str) -> Microseconds | None:
    """A date, which means the beginning of that day in UTC, or a time with its zone; None for anything else.

    >>> moment("2026-10-01") == moment("2026-10-01T02:00+02:00"), moment("2026-10-01T09:00"), moment("2026-02-30")
    (True, None, None)
    """
    try:
        if re.fullmatch(r"\d{4}-\d{2}-\d{2}", text):
            return from_datetime(datetime.combine(date.fromisoformat(text), time(), UTC))
        found = datetime.fromisoformat(text)
        return None if found.tzinfo is None or not re.match(r"\d{4}-\d{2}-\d{2}[T ]", text) else from_datetime(found)
    except (ValueError, OverflowError):
        return None
