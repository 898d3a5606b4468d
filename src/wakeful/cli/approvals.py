"""`wakeful approvals`: what runs ask people, and the answers.

answer   ANSWER is JSON, @file or - for standard input; also yes or no, a number, and text without quotes where text is asked
"""

from __future__ import annotations

import argparse
import asyncio
from typing import Any, get_args

from rich.text import Text

from wakeful.cli.arguments import Command, Parser, UsageError, actor_of, one_of, read_data
from wakeful.cli.listings import add_listing, paged, say_more
from wakeful.cli.opening import changing, chosen_store, read
from wakeful.cli.person import people_only
from wakeful.cli.terminal import (
    Cell,
    ago,
    clock_time,
    is_piped,
    now,
    plain,
    plain_lines,
    print_json,
    print_table,
    say,
    short,
    state,
    terminal,
    value,
)
from wakeful.errors import NotFound, did_you_mean
from wakeful.model import ApprovalState
from wakeful.operations.answering import answer_question, understand, which_stands
from wakeful.operations.shape import expected, misfits
from wakeful.stores.reading import SHORTEST_PREFIX, Reader
from wakeful.stores.verbs.approvals import Answered

WORDS = {"list": 0, "show": 1, "answer": 2}  # and how many words follow
TAKES = (
    "approvals takes list, show and an ID, or answer, an ID and an ANSWER, like: wakeful approvals answer 3f2a91 yes"
)


def declare(parser: Parser) -> None:
    parser.add_argument("words", metavar="WORD", nargs="*", help="list (the default), show ID, or answer ID ANSWER")
    parser.add_argument("--note", metavar="TEXT", help="with answer: why, for the record")
    known = get_args(ApprovalState)
    parser.add_argument(
        "--state",
        metavar="STATE",
        type=one_of(known, what="state"),
        default="open",
        help=f"with list: {', '.join(known)} (default open)",
    )
    add_listing(parser)


def execute(arguments: argparse.Namespace) -> int:
    verb, *rest = arguments.words or ["list"]
    if verb not in WORDS:
        message = f'there is no "approvals {plain(verb)}".{did_you_mean(verb, WORDS)}'
        raise UsageError(message)
    if len(rest) != WORDS[verb]:
        raise UsageError(TAKES)
    arguments.url = chosen_store(arguments)
    if verb == "list":
        return _list(arguments)
    token = people_only("answer a question", arguments.url) if verb == "answer" else None
    question = find_question(arguments.url, rest[0])
    if token is not None:
        token.opens([question["app"]])
        return _answer(arguments, question, rest[1])
    if arguments.json:
        print_json(question)
    else:
        _show(question)
    return 0


approvals_command = Command(
    declare, execute, "ANSWER is JSON, @file or -; yes, no, a number, or plain text where text is asked for."
)


def find_question(url: str, identifier: str) -> dict[str, Any]:
    found = read(url, lambda reader: reader.approval(identifier))
    if found is None:
        known = read(url, lambda reader: reader.approvals(state="open", limit=100))["approvals"]
        guess = did_you_mean(identifier, [one["id"][: max(len(identifier), SHORTEST_PREFIX)] for one in known])
        guess = guess if "Did" in guess else ""
        more = f"; give {SHORTEST_PREFIX} characters of its id or more" if len(identifier) < SHORTEST_PREFIX else ""
        message = f'there is no question "{plain(identifier)}": see `wakeful approvals`{more}.{guess}'
        raise NotFound(message)
    return found


# looking


def _list(arguments: argparse.Namespace) -> int:
    async def ask(reader: Reader) -> tuple[dict[str, Any], bool]:
        page = await paged(reader.approvals(state=arguments.state, limit=arguments.limit, after=arguments.after))
        return page, bool(page["approvals"] or (await reader.approvals(limit=1))["approvals"])

    page, some = read(arguments.url, ask)
    if arguments.json:
        print_json(page)
        return 0
    if not page["approvals"]:
        print(f"no {arguments.state} questions" if some else "no questions yet. An agent asks one with `run.ask(…)`.")
        return 0
    out, present = terminal(), now()
    rows: list[list[Cell]] = [
        [
            short(one["id"], out),
            plain(one["agent"]),
            state(one["state"]),
            plain(one["to"] or "–"),
            ago(one["asked_at"], present),
            ago(one["due_at"], present) if one["state"] == "open" else plain(one["answered_by"] or "–"),
            plain(one["question"]),
        ]
        for one in page["approvals"]
    ]
    last = "ends" if arguments.state == "open" else "answered by"
    print_table(out, ["question", "agent", "state", "for", "asked", last, "text"], rows, flexible="text")
    if arguments.state == "open":
        print("Answer one with `wakeful approvals answer ID ANSWER`; `wakeful approvals show ID` shows what it takes.")
    say_more(page, "questions")
    return 0


def _show(question: dict[str, Any]) -> None:
    out = terminal()
    head = Text.assemble(("question ", "dim"), (plain(question["id"]), "bold"), "  ", state(question["state"]))
    whom = f" asks {question['to']}" if question["to"] else " asks"
    until = f", until {clock_time(question['due_at'])}" if question["due_at"] else ""
    asked = f"agent {question['agent']}, run {question['run']},{whom} since {clock_time(question['asked_at'])}{until}"
    lines = [head, Text(plain(asked), style="dim"), Text(plain_lines(question["question"]))]
    if question["state"] == "answered":
        note = f" ({plain(question['note'])})" if question["note"] else ""
        who = f"{plain(question['answered_by'])} at {clock_time(question['answered_at'])}{note}"
        lines.append(Text(f"answered by {who}: {value(question['answer'])}"))
    elif question["state"] == "open":
        lines += [Text(f"it was answered before, but {plain(question['note'])}")] if question["note"] else []
        lines.append(Text(f"expected: {plain(expected(question['schema']))}"))
        lines.append(Text(f"answer with `wakeful approvals answer {question['id'][:10]} ANSWER`"))
    for line in lines:
        out.print(line, soft_wrap=is_piped(out))


# answering


def _answer(arguments: argparse.Namespace, question: dict[str, Any], words: str) -> int:
    if question["state"] != "open":
        raise NotFound(which_stands(question))
    given = _read_answer(words, question["schema"])
    wrong = misfits(given, question["schema"])
    if wrong:
        for line in wrong:
            say(plain(line))
        message = f"the answer does not fit, and was not stored: `wakeful approvals show {question['id'][:10]}` shows what is expected"
        raise UsageError(message)

    async def store_it() -> Answered | None:
        async with changing(arguments.url) as store:
            return await answer_question(store, question["id"], given, by=actor_of(arguments), note=arguments.note)

    answered = asyncio.run(store_it())
    if answered is None or not answered.first:
        raise NotFound(which_stands(find_question(arguments.url, question["id"])))
    if arguments.json:
        print_json({"id": answered.id, "run": answered.run, "answer": given})
    else:
        print(f"question {answered.id}: answered with {value(given)}. Run {answered.run} goes on.")
    return 0


def _read_answer(words: str, schema: dict[str, Any] | None) -> Any:
    if words == "-" or words.startswith("@"):
        return read_data(words, what="ANSWER")
    try:
        return understand(words, schema)
    except ValueError as error:
        message = f"ANSWER: {error}"
        raise UsageError(message) from None
