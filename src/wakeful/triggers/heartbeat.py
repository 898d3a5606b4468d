"""HEARTBEAT.md: a checklist that people write, and the checks in it.

    # Desk                     text outside the sections applies to every check
    ## Inbox                   a section is a check; its name is `inbox`
    every: 2h                  options follow the heading directly, up to the first line that is not an option
    probe: unread_mail

    Answer what is urgent.     the rest is the task

Nothing runs here: bytes in, checks out, or a ConfigError that names the line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from wakeful.clock import SECOND, Duration, Microseconds, duration
from wakeful.errors import ConfigError, did_you_mean
from wakeful.triggers.every import every
from wakeful.triggers.schedule import Schedule

if TYPE_CHECKING:
    from wakeful.functions.child_environment import ChildEnvironment

OPTIONS = ("every", "active", "days", "probe", "timeout", "session")
LARGEST_FILE = 256 * 1024
LONGEST_NAME = 80
COMMAND = "$"
NO_COMMANDS = (
    "this heartbeat runs no commands (commands=False, the default): commands would give everyone who can edit the file a shell. "
    "Name a function (`probe: name`), or allow commands with app.heartbeat(…, commands=True)"
)

_HEADING = re.compile(r"^ {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$")
_UNDERLINE = re.compile(r"^ {0,3}-{2,}[ \t]*$")
_OPTION = re.compile(r"^([A-Za-z_-]+):(?:[ \t]+(.*))?$")
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})")

Kind = Literal["heading", "option", "text"]


@dataclass(frozen=True, slots=True)
class Usual:
    """The defaults of a section, and the names that its options may use."""

    every: Duration = "30m"
    active: str | None = None
    days: str | None = None
    tz: str | None = None
    timeout: Microseconds = 600 * SECOND
    session: str = "heartbeat"
    probes: Collection[str] = ()
    checklist: bool = True  # there is a function for sections without a probe
    commands: bool = False  # a probe may be a command


@dataclass(frozen=True, slots=True)
class Section:
    """One section: what to check, and how often."""

    name: str
    title: str
    text: str
    line: int
    schedule: Schedule
    spacing: Microseconds
    session: str
    timeout: Microseconds
    probe: str | None = None  # the name of a function
    command: str | None = None  # or a command line


@dataclass(frozen=True, slots=True)
class HeartbeatFile:
    """A whole file."""

    preamble: str
    sections: tuple[Section, ...]


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A file whose checks are kept up to date as schedules: what `app.heartbeat` declares."""

    name: str
    path: Path
    usual: Usual
    checklist: Callable[..., Any] | None = None
    probes: Mapping[str, Callable[..., Any]] = field(default_factory=dict)  # in addition to those of the whole app
    deliver: str = "log"
    owner: str | None = None
    environment: ChildEnvironment | None = None  # for the commands, if they are allowed

    @property
    def shown(self) -> str:
        """The path of the file, relative to the current folder if possible."""
        try:
            return str(self.path.relative_to(Path.cwd()))
        except ValueError:
            return str(self.path)

    def understood(self, content: bytes, probes: Collection[str]) -> HeartbeatFile:
        """The parsed file; `probes` are those of the app."""
        known = {*probes, *self.probes}
        return read_heartbeat(content, file=self.shown, usual=replace(self.usual, probes=known))


@dataclass(slots=True)
class _Lines:
    title: str
    line: int
    options: dict[str, tuple[str, int]] = field(default_factory=dict)
    text: list[str] = field(default_factory=list)


def read_heartbeat(content: bytes, *, file: str, usual: Usual) -> HeartbeatFile:
    """The checks of a file. Raises ConfigError for the first mistake, with its line."""
    preamble: list[str] = []
    found: list[_Lines] = []
    inside: _Lines | None = None
    for number, kind, name, words in _parts(_decoded(content, file)):
        where = f"{file}:{number}"
        if kind == "heading":
            inside = _Lines(words, number)
            found.append(inside)
        elif kind == "option" and inside is not None:
            _enter(inside, name, words, number, where)
        else:
            if name == "#":  # a heading above the sections
                inside = None
            elif name == "-":
                raise ConfigError(f'{where}: write the heading of a check as "## {words}", not underlined')
            (preamble if inside is None else inside.text).append(words)
    sections: dict[str, Section] = {}
    for lines in found:
        section = _section(lines, file, usual)
        if (first := sections.get(section.name)) is not None:
            raise ConfigError(
                f'{file}:{section.line}: there is already a section "{first.title}" in line {first.line}, and both would be '
                f"check {section.name}: a check's memory is stored under its name. Give one of them another title"
            )
        sections[section.name] = section
    return HeartbeatFile(_trimmed(preamble), tuple(sections.values()))


def data_of(file: HeartbeatFile, section: Section) -> dict[str, Any]:
    """The data of a check's events: everything that any process needs to do the check."""
    return {
        "check": section.name,
        "title": section.title,
        "text": section.text,
        "preamble": file.preamble,
        "spacing": section.spacing,
        "timeout": section.timeout,
        "session": section.session,
        "rhythm": section.schedule.describe(),
        "probe": section.probe,
        "command": section.command,
    }


def check_name(title: str) -> str:
    """A title as a name: `Unread mail!` is `unread-mail`."""
    return "-".join("".join(one if one.isalnum() else " " for one in title.casefold()).split())


def _decoded(content: bytes, file: str) -> str:
    if len(content) > LARGEST_FILE:
        raise ConfigError(f"{file}: larger than {LARGEST_FILE:,} bytes, the limit for a heartbeat")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        looks = " It looks like UTF-16." if content[:2] in {b"\xff\xfe", b"\xfe\xff"} else ""
        raise ConfigError(
            f"{file}:{line}: byte {error.start + 1} of the file (0x{content[error.start]:02x}) is not UTF-8.{looks} "
            "Save it as UTF-8"
        ) from None
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise ConfigError(f"{file}:{line}: contains a NUL character, which databases cannot store: remove it")
    return text


def _parts(text: str) -> Iterator[tuple[int, Kind, str, str]]:
    """Each line with its number and kind. Headings inside code blocks are text; comments are left out."""
    fence: str | None = None
    comment = False
    heading = 0  # the line of a heading whose options may still come
    before = ""
    for number, whole in enumerate(text.split("\n"), start=1):
        line = whole
        if fence is None:
            line, comment = _without_comments(line, comment=comment)
            if not line.strip() and whole.strip():
                continue
        opening = _FENCE.match(line)
        if fence is not None:
            if opening is not None and opening[1].startswith(fence) and not line.strip().strip(fence[0]):
                fence = None
        elif opening is not None:
            fence, heading = opening[1], 0
        elif (found := _HEADING.match(line)) is not None and len(found[1]) <= 2:
            before = ""
            if len(found[1]) == 2:
                heading = number
                yield number, "heading", "##", (found[2] or "").strip()
            else:
                heading = 0
                yield number, "text", "#", line
            continue
        elif heading and (option := _OPTION.match(line.rstrip())) is not None:
            # After an empty line only known names are options: people also write `Note: …`.
            if heading == number - 1 or option[1].lower() in OPTIONS:
                heading = number
                yield number, "option", option[1].lower(), (option[2] or "").strip()
                continue
            heading = 0
        elif _UNDERLINE.match(line) and before.strip() and not before.lstrip().startswith(("|", ">", "- ", "* ")):
            yield number, "text", "-", before.strip()
        elif line.strip():
            heading = 0
        yield number, "text", "", line
        before = line


def _without_comments(line: str, *, comment: bool) -> tuple[str, bool]:
    """The line without <!-- … --> comments, and whether a comment continues on the next line."""
    kept = ""
    rest = line
    while rest:
        if comment:
            _, end, rest = rest.partition("-->")
            comment = not end
        else:
            before, start, rest = rest.partition("<!--")
            kept += before
            comment = bool(start)
    return kept, comment


def _enter(lines: _Lines, name: str, words: str, number: int, where: str) -> None:
    if name not in OPTIONS:
        raise ConfigError(
            f'{where}: unknown option "{name}".{did_you_mean(name, OPTIONS)} If it is text, put an empty line above it'
        )
    if name in lines.options:
        raise ConfigError(f"{where}: {name} is set twice, first in line {lines.options[name][1]}")
    if not words:
        raise ConfigError(f"{where}: {name} is empty: give it a value, or remove the line")
    lines.options[name] = words, number


def _section(lines: _Lines, file: str, usual: Usual) -> Section:
    where = f"{file}:{lines.line}"
    name = check_name(lines.title)
    if not name or len(name) > LONGEST_NAME:
        raise ConfigError(
            f'{where}: "{lines.title[:LONGEST_NAME]}" is not a title of a check: it needs letters or digits, at most '
            f"{LONGEST_NAME} of them"
        )
    probe, command = _probe(lines, file, usual)
    if probe is None and command is None and not usual.checklist:
        raise ConfigError(
            f'{where}: section "{lines.title}" has no probe, and there is no checklist function for it: write '
            "`probe: name` under its heading, or app.heartbeat(…, checklist=function)"
        )
    spacing, schedule = _schedule(lines, file, usual)
    session, _ = lines.options.get("session", (usual.session, 0))
    return Section(
        name,
        lines.title,
        _trimmed(lines.text),
        lines.line,
        schedule,
        spacing,
        session,
        _timeout(lines, file, usual),
        probe,
        command,
    )


def _probe(lines: _Lines, file: str, usual: Usual) -> tuple[str | None, str | None]:
    """The name of a function, or a command line."""
    words, number = lines.options.get("probe", (None, 0))
    if words is None:
        return None, None
    where = f"{file}:{number}"
    if words.startswith("`") and words.endswith("`"):
        words = words.strip("`").strip()
    if not words.startswith(COMMAND):
        if words not in usual.probes:
            known = did_you_mean(words, usual.probes)
            command = ", or write a command: `probe: $ …`" if usual.commands else ""
            raise ConfigError(
                f'{where}: there is no probe "{words}".{known} Declare it with @app.probe or app.heartbeat(…, '
                f'probes={{"{words}": function}}){command}'
            )
        return words, None
    command = words.removeprefix(COMMAND).strip()
    if not command:
        raise ConfigError(f"{where}: `probe: $` has no command after the $")
    if not usual.commands:
        raise ConfigError(f"{where}: {NO_COMMANDS}")
    return None, command


def _schedule(lines: _Lines, file: str, usual: Usual) -> tuple[Microseconds, Schedule]:
    """Interval and schedule. Raises ConfigError with the line of the option that is wrong."""
    interval, line = lines.options.get("every", (usual.every, lines.line))
    chosen: dict[str, Any] = {"tz": usual.tz}
    try:
        schedule = every(interval, **chosen)
        for name, words in (("active", usual.active), ("days", usual.days)):
            chosen[name], line = lines.options.get(name, (words, line))
            schedule = every(interval, **chosen, overlap="skip")
    except ConfigError as error:
        raise ConfigError(f"{file}:{line}: {error}") from None
    return duration(interval), schedule


def _timeout(lines: _Lines, file: str, usual: Usual) -> Microseconds:
    words, number = lines.options.get("timeout", (None, 0))
    if words is None:
        return usual.timeout
    try:
        span = duration(words)
    except ValueError as error:
        raise ConfigError(f"{file}:{number}: timeout: {error}") from None
    if span < SECOND:
        raise ConfigError(f"{file}:{number}: timeout must be at least a second, not {words}")
    return span


def _trimmed(text: list[str]) -> str:
    return "\n".join(line.rstrip() for line in text).strip("\n")
