"""What listings share that are not made from the table of resources."""

from __future__ import annotations

from typing import Any

from wakeful.shell.arguments import Parser, UsageError, add_json, add_limit, add_store


def add_listing(parser: Parser) -> None:
    add_limit(parser)
    parser.add_argument("--after", metavar="CURSOR", help='go on after an earlier page: its "next"')
    add_json(parser)
    add_store(parser)


async def paged(page: Any) -> dict[str, Any]:
    """A page, or a word about a cursor that is none."""
    try:
        answer: dict[str, Any] = await page
    except ValueError:
        message = '--after: not a cursor of this listing; it is the "next" of an earlier page'
        raise UsageError(message) from None
    return answer


def say_more(page: dict[str, Any], what: str) -> None:
    if page["next"] is not None:
        print(f"more {what}: --after {page['next']}")
