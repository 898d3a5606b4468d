"""`wakeful completion SHELL`: print a script that completes commands, words and options."""

from __future__ import annotations

import argparse
import sys

from wakeful.shell.arguments import Command, Parser, one_of

SHELLS = ("bash", "zsh", "fish")


def declare(parser: Parser) -> None:
    parser.add_argument("shell", metavar="SHELL", type=one_of(SHELLS, what="shell"), help="bash, zsh or fish")


def execute(arguments: argparse.Namespace) -> int:
    from wakeful.cli.completing import script_for

    sys.stdout.write(script_for(arguments.shell))
    return 0


completion_command = Command(
    declare,
    execute,
    "bash: source <(wakeful completion bash), in ~/.bashrc.\n"
    "zsh: source <(wakeful completion zsh), in ~/.zshrc, after compinit.\n"
    "fish: wakeful completion fish > ~/.config/fish/completions/wakeful.fish",
)
