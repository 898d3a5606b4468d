"""Arguments: a parser with "did you mean", the Command class, and the options that many commands share."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from wakeful.errors import WakefulError, did_you_mean

if TYPE_CHECKING:
    from wakeful.stores.request import Actor

APP_HELP = "file.py, file.py:name or module:name"
USUAL_APP = "default: WAKEFUL_APP, else ./app.py"
NO_APP = "Without APP, WAKEFUL_APP or ./app.py is used"


class UsageError(WakefulError):
    """A command was called in a wrong way; the exit code is 2."""


class Parser(argparse.ArgumentParser):
    """Raises UsageError instead of exiting, and suggests corrections."""

    needs_app = False  # APP is required; if omitted, the default app is used

    def error(self, message: str) -> NoReturn:
        command = self.prog.removeprefix("wakeful ")
        missing = message.removeprefix("the following arguments are required: ")
        if missing != message:
            *others, last = missing.split(", ")
            what = f"{', '.join(others)} and {last} are" if others else f"{last} is"
            message = f"{what} missing: {self.format_usage().removeprefix('usage: ').strip()}"
            raise UsageError(message)
        raise UsageError(f"{command}: {message.removeprefix('argument ')}")

    def read(self, words: Sequence[str]) -> argparse.Namespace:
        """Parse the arguments; unknown ones are refused with a suggestion."""
        arguments, unknown = self.parse_known_args(list(words))
        if unknown:
            command = self.prog.removeprefix("wakeful ")
            first = unknown[0]
            if not first.startswith("-"):
                raise UsageError(f'{command}: unexpected argument "{first}"; see {self.prog} --help')
            known = [option for action in self._actions for option in action.option_strings]
            hint = did_you_mean(first.partition("=")[0], known)
            raise UsageError(f'{command}: there is no option "{first}".{hint}')
        if self.needs_app:
            from wakeful.settings import default_app

            arguments.app = arguments.app or default_app()
            if arguments.app is None:
                raise UsageError(f"APP is missing: {self.format_usage().removeprefix('usage: ').strip()}. {NO_APP}")
        return arguments


class Wrapped(argparse.RawDescriptionHelpFormatter):
    """Also wraps the text below the options, and keeps its line breaks."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        from textwrap import fill

        lines = text.splitlines()
        return "\n".join(fill(line, width, initial_indent=indent, subsequent_indent=indent) for line in lines)


@dataclass(frozen=True, slots=True)
class Command:
    """One command: its arguments and its function."""

    declare: Callable[[Parser], None]
    execute: Callable[[argparse.Namespace], int]
    more: str = ""
    usage: str | None = None

    def call(self, name: str, summary: str, words: Sequence[str]) -> int:
        parser = Parser(
            prog=f"wakeful {name}",
            usage=None if self.usage is None else f"wakeful {name} {self.usage}",
            description=f"{summary[:1].upper()}{summary[1:]}.",
            epilog=self.more or None,
            allow_abbrev=False,
            formatter_class=Wrapped,
        )
        self.declare(parser)
        return self.execute(parser.read(words))


# options that several commands share


def add_app(parser: Parser, *, optional: bool = False) -> None:
    """Add APP. Unless it is optional, a command without APP uses the app of the current folder."""
    parser.needs_app = not optional
    parser.add_argument("app", metavar="APP", nargs="?", help=APP_HELP if optional else f"{APP_HELP} ({USUAL_APP})")


def app_and(words: list[str], *, like: str) -> tuple[str, str]:
    """APP and one more word. With one word, APP is WAKEFUL_APP or ./app.py. `like` is an example for the error message."""
    from wakeful.settings import default_app

    if len(words) == 2:
        return words[0], words[1]
    if len(words) == 1 and (app := default_app()) is not None and words[0] != app:
        return app, words[0]
    command, what, example = like.split(" ", 2)
    message = f"{command} takes APP and {what}, like: wakeful {command} app.py {example}. {NO_APP}"
    raise UsageError(message)


def add_store(parser: Parser) -> None:
    """Add the options for the store and the operator."""
    parser.add_argument(
        "--store",
        metavar="URL",
        help="the store, sqlite:///file.db or postgresql://… (default: WAKEFUL_STORE, else sqlite:///wakeful.db)",
    )
    parser.add_argument(
        "--as", dest="operator", metavar="NAME", help="the operator recorded with each change (default: the login name)"
    )


def add_json(parser: Parser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON, as the HTTP API answers")


def add_logs(parser: Parser) -> None:
    parser.add_argument(
        "--log-level", metavar="LEVEL", help="debug, info, warning, error or none (default: WAKEFUL_LOG, else info)"
    )
    parser.add_argument(
        "--log-format",
        metavar="FORMAT",
        type=one_of(("json", "text"), what="format"),
        help="json or text (default: text on a terminal, else json)",
    )


def add_data(parser: Parser) -> None:
    parser.add_argument("--data", metavar="JSON", help="the event's data: JSON, @file, or - for standard input")


# values


def one_of(known: Iterable[str], *, what: str) -> Callable[[str], str]:
    """Accept one of a few values."""
    names = tuple(known)

    def read(text: str) -> str:
        if text not in names:
            message = f'no {what} "{text}".{did_you_mean(text, names)}'
            raise argparse.ArgumentTypeError(message)
        return text

    return read


def whole_number(least: int, most: int | None = None) -> Callable[[str], int]:
    def read(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if number < least or (most is not None and number > most):
            reach = f"from {least} up" if most is None else f"from {least} to {most}"
            message = f'"{text}" is not a whole number {reach}'
            raise argparse.ArgumentTypeError(message)
        return number

    return read


def seconds(text: str) -> float:
    """Parse a duration: "10s", "2m", or a plain number of seconds."""
    from wakeful.clock import SECOND, duration

    try:
        value = duration(float(text)) if text.replace(".", "", 1).isdigit() else duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return value / SECOND


def read_data(text: str | None, *, what: str = "--data", shown: str | None = None) -> Any:
    """The value of --data, or of another argument that is JSON, @file or -. `shown`: the text as typed, if it differs."""
    if text is None:
        return None
    from wakeful.errors import InvalidEvent
    from wakeful.intake.untrusted import DEPTH_LIMIT, read_json

    try:
        if text == "-":
            raw = sys.stdin.buffer.read()
        elif text.startswith("@"):
            raw = Path(text[1:]).read_bytes()
        else:
            raw = text.encode()
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise UsageError(f"{what} {text if shown is None else shown}: {reason}") from None
    try:
        return read_json(raw, depth=DEPTH_LIMIT, inside=(what.removeprefix("--") if what.startswith("--") else "data",))
    except InvalidEvent as error:
        hint = f""". Text needs quotes: {what} '"{text}"'""" if text.isalnum() else ""
        raise UsageError(f"{what}: {error}{hint}") from None


def actor_of(arguments: argparse.Namespace) -> Actor:
    """The operator at a shell, as an Actor."""
    from wakeful.stores.request import Actor

    return Actor(operator_of(arguments), "cli")


def operator_of(arguments: argparse.Namespace) -> str:
    """The operator: --as, else the login name."""
    given: str | None = arguments.operator
    if given:
        return given
    import getpass

    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a user id without a name, as in many containers
        return f"uid {os.getuid()}"
