"""`?wait=10s`: an answer that carries the outputs of the runs that a request made, if they are over in time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_core import from_json
from starlette.datastructures import QueryParams

from wakeful.api.ports import Results
from wakeful.clock import SECOND, Microseconds, duration
from wakeful.errors import StoreUnavailable
from wakeful.http.parameters import bad_parameter, read_parameters
from wakeful.model import Receipt

LONGEST_WAIT = 60 * SECOND


def read_wait(given: Mapping[str, str]) -> Microseconds | None:
    """How long to wait for the runs; None: not at all."""
    text = given.get("wait")
    if text is None:
        return None
    try:
        wait = duration(text)
    except ValueError as error:
        raise bad_parameter(f"wait: {error}", "wait") from None
    if not 0 <= wait <= LONGEST_WAIT:
        detail = f'wait is "{text}": from 0 to 60s. A run that takes longer is looked up later: GET /v1/runs/ID'
        raise bad_parameter(detail, "wait")
    return wait


def read_wait_alone(query: bytes) -> Microseconds | None:
    """As `read_wait`, of a query string that may hold nothing else."""
    return read_wait(read_parameters(QueryParams(query), ("wait",)))


async def answer_with_outputs(
    receipts: Sequence[Receipt], results: Results | None, wait: Microseconds
) -> tuple[int, dict[str, Any]]:
    """200 and the receipts with outputs once every run is over; 202 and what is known of them when the time is."""
    runs = sorted({run for receipt in receipts for run in receipt.runs})
    try:
        ends = None if results is None or not runs else await results.wait(runs, wait)
    except StoreUnavailable:  # the events are stored all the same
        return 202, {"events": [receipt.to_json() | {"outputs": {}} for receipt in receipts]}
    shown = []
    for receipt in receipts:
        over = {} if ends is None else {run: ends.over[run] for run in receipt.runs if run in ends.over}
        one = receipt.to_json()
        one["outputs"] = {run: from_json(end.output or "null") for run, end in over.items() if end.state == "done"}
        failed = {run: end.shown() for run, end in over.items() if end.state != "done"}
        shown.append(one | ({"failed": failed} if failed else {}))
    whole = not runs or (ends is not None and not ends.open)
    return 200 if whole else 202, {"events": shown}
