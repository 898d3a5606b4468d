"""Completion scripts for shells, generated from the table of resources and the parsers of the other commands.

The scripts contain every suggestion; they run no command while a person types.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Literal

from wakeful.cli import COMMANDS, TABLE
from wakeful.resources import alias_of, resource_of
from wakeful.shell.arguments import Parser
from wakeful.surface.command import parser_of
from wakeful.surface.offers import offers_of

Shell = Literal["bash", "zsh", "fish"]
SHELLS: tuple[Shell, ...] = ("bash", "zsh", "fish")


@dataclass(frozen=True, slots=True)
class Option:
    """An option, and the values it takes: none, a fixed list, or any text."""

    flags: tuple[str, ...]
    help: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Completions:
    """The sub-commands of a command with the options of each; the options under "" need no sub-command."""

    summary: str
    words: Mapping[str, tuple[Option, ...]]


def everything() -> dict[str, Completions]:
    """The sub-commands and options of every command."""
    return {name: Completions(summary, dict(_words(name, home))) for name, (home, summary) in COMMANDS.items()}


def _words(name: str, home: str) -> Iterator[tuple[str, tuple[Option, ...]]]:
    if home != TABLE:
        parser = Parser(prog=f"wakeful {name}")
        getattr(import_module(f"wakeful.cli.{home}"), f"{name}_command").declare(parser)
        yield "", _options(parser, {})
        return
    alias = alias_of(name)
    resource = resource_of(name if alias is None else alias.noun)
    for offer in offers_of(resource):
        values = {one.flag: one.choices for one in offer.options if one.choices}
        options = _options(parser_of(resource, offer), values)
        if alias is not None:
            if offer.name == alias.verb:
                yield "", (*options, *(Option((flag,), told) for flag, _, told in alias.instead))
            continue
        if offer.kind == "list":
            yield "", options
        yield offer.word, options


def _options(parser: Parser, values: Mapping[str, tuple[str, ...]]) -> tuple[Option, ...]:
    found = []
    for action in parser._actions:  # noqa: SLF001 argparse offers no public list
        if not action.option_strings or action.help == argparse.SUPPRESS:
            continue
        flags = tuple(action.option_strings)
        chosen = next((values[flag] for flag in flags if flag in values), ())
        found.append(Option(flags, (action.help or "").replace("%%", "%"), chosen))
    return tuple(found)


def script_for(shell: Shell) -> str:
    """The completion script for a shell, to be read with `source <(wakeful completion bash)`."""
    match shell:
        case "bash":
            return f"# wakeful: completion for bash\n{_bash()}"
        case "zsh":
            return f"#compdef wakeful\nautoload -U +X bashcompinit && bashcompinit\n{_bash()}"
        case "fish":
            return _fish()


def _bash() -> str:
    known = everything()
    words = {name: [word for word in typed.words if word] for name, typed in known.items()}
    all_words = "|".join(f'"{name} {word}"' for name, found in words.items() for word in found) or '""'
    offered, values = [], []
    for name, typed in known.items():
        for word, options in typed.words.items():
            shown = [flag for option in options for flag in option.flags]
            if not word:
                shown = [*words[name], *shown]
            offered.append(f'    "{name} {word}") offered="{" ".join(shown)}" ;;')
        chosen = {
            flag: option.values
            for options in typed.words.values()
            for option in options
            for flag in option.flags
            if option.values
        }
        values += [f'    "{name} {flag}") values="{" ".join(of)}" ;;' for flag, of in chosen.items()]
    return "\n".join(
        [
            "_wakeful() {",
            '  local current="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD-1]}"',
            '  local command="${COMP_WORDS[1]}" word="" values="" offered="" place',
            "  COMPREPLY=()",
            '  if [ "$COMP_CWORD" -eq 1 ]; then',
            f'    COMPREPLY=($(compgen -W "{" ".join(["help", *known])} --help --version" -- "$current"))',
            "    return",
            "  fi",
            "  for ((place = 2; place < COMP_CWORD; place++)); do",
            '    case "$command ${COMP_WORDS[place]}" in',
            f'      {all_words}) word="${{COMP_WORDS[place]}}"; break ;;',
            "    esac",
            "  done",
            '  case "$command $previous" in',
            *(values or ['    "") ;;']),
            "  esac",
            '  if [ -n "$values" ]; then',
            '    COMPREPLY=($(compgen -W "$values" -- "$current"))',
            "    return",
            "  fi",
            '  case "$command $word" in',
            *offered,
            "  esac",
            '  COMPREPLY=($(compgen -W "$offered" -- "$current"))',
            "}",
            "complete -o default -F _wakeful wakeful",
            "",
        ]
    )


def _fish() -> str:
    lines = ["# wakeful: completion for fish"]
    known = everything()
    for name, typed in known.items():
        lines.append(f"complete -c wakeful -n __fish_use_subcommand -f -a {name} -d {_quoted(typed.summary)}")
    for name, typed in known.items():
        own = [word for word in typed.words if word]
        seen = f"__fish_seen_subcommand_from {name}"
        none = f"{seen}; and not __fish_seen_subcommand_from {' '.join(own)}" if own else seen
        if own:
            lines.append(f"complete -c wakeful -n {_quoted(none)} -a {_quoted(' '.join(own))}")
        for word, options in typed.words.items():
            when = none if not word else f"{seen}; and __fish_seen_subcommand_from {word}"
            for option in options:
                flags = " ".join(f"-l {one[2:]}" if one.startswith("--") else f"-s {one[1:]}" for one in option.flags)
                values = f" -x -a {_quoted(' '.join(option.values))}" if option.values else ""
                lines.append(f"complete -c wakeful -n {_quoted(when)} {flags}{values} -d {_quoted(option.help)}")
    return "\n".join([*lines, ""])


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
