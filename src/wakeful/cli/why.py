"""why: explain what happened to an event, a run, an effect, a delivery, an alarm, a schedule or a reminder."""

from __future__ import annotations

import argparse

from rich.text import Text

from wakeful.errors import NotFound
from wakeful.shell.arguments import Command, Parser, add_json, add_store
from wakeful.shell.opening import chosen_store, read
from wakeful.shell.terminal import plain, print_json, terminal
from wakeful.why import why


def declare(parser: Parser) -> None:
    parser.add_argument(
        "identifier",
        metavar="ID",
        help="id or key of an event; id, or its beginning, of a run, effect, delivery, approval, alarm or reminder; name of a schedule, source or expectation",
    )
    add_json(parser)
    add_store(parser)


def execute(arguments: argparse.Namespace) -> int:
    answer = read(chosen_store(arguments), lambda reads: why(reads, arguments.identifier))
    if answer is None:
        message = (
            "there is no event, run, effect, delivery, approval, alarm, schedule, source, reminder or expectation "
            f'"{plain(arguments.identifier)}": see `wakeful events`, `wakeful runs`, `wakeful effects`, `wakeful deliveries`, '
            "`wakeful approvals`, `wakeful alarms`, `wakeful schedules`, `wakeful sources`, `wakeful reminders` and `wakeful expectations`"
        )
        raise NotFound(message)
    if arguments.json:
        print_json(answer)
        return 0
    out = terminal()
    for sentence in answer["story"]:
        out.print(Text(plain(sentence)))
    return 0


why_command = Command(declare, execute)
