"""Idempotency keys of requests with events: a repeated key gets the first answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic_core import from_json, to_json

from wakeful.errors import IdempotencyConflict
from wakeful.model import Receipt
from wakeful.stores.transaction import Transaction

if TYPE_CHECKING:
    from wakeful.stores.verbs.accept import AcceptEvents

Result = list[Receipt] | Exception


def take_keys(
    now: int | None, requests: Sequence[AcceptEvents], results: list[Result | None]
) -> Transaction[dict[int, int]]:
    """Take the keys before anything else is stored, so that a refused request leaves nothing behind. If another process is storing a
    request with the same key, the insert waits for its end. Returns which requests repeat another request of this
    transaction.
    """
    keyed = [
        (request.app, request.idempotency, number) for number, request in enumerate(requests) if request.idempotency
    ]
    takers: dict[tuple[str, str], int] = {}
    repeats: dict[int, int] = {}
    for app, (key, digest), number in sorted(keyed, key=lambda one: (one[0], one[1][0], one[2])):
        taker = takers.get((app, key))
        if taker is not None:
            if requests[taker].idempotency == (key, digest):
                repeats[number] = taker
            else:
                results[number] = _refuse_key(key)
        elif (yield "insert_idempotency", [(now, app, key, digest)]):
            takers[app, key] = number
        else:
            found = yield "find_idempotency", [(app, key)]
            results[number] = _answer_again(found[0][1]) if found[0][0] == digest else _refuse_key(key)
    return repeats


def _refuse_key(key: str) -> IdempotencyConflict:
    return IdempotencyConflict(
        f"Idempotency-Key {key!r} was used before for a request with other content: use a new key for a new request"
    )


def _answer_again(response: str) -> list[Receipt]:
    return [Receipt.from_json(one) for one in from_json(response)]


def write_answers(stored: list[tuple[AcceptEvents, Result | None]]) -> Transaction[None]:
    answers = [
        (request.app, request.idempotency[0], to_json([receipt.to_json() for receipt in receipts]).decode())
        for request, receipts in stored
        if request.idempotency is not None and isinstance(receipts, list)
    ]
    if answers:
        yield "answer_idempotency", answers
