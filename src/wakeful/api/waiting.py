"""`?wait=10s`: answer with the outputs of the runs that a request started, if they finish in time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_core import from_json
from starlette.datastructures import QueryParams

from wakeful.api.ports import ResultsPort
from wakeful.clock import SECOND, Microseconds, duration
from wakeful.errors import StoreUnavailable
from wakeful.http.parameters import bad_parameter, read_parameters
from wakeful.model import Receipt

LONGEST_WAIT = 60 * SECOND


def read_wait(given: Mapping[str, str]) -> Microseconds | None:
    """How long to wait for the runs, or None to answer at once."""
    text = given.get("wait")
    if text is None:
        return None
    try:
        wait = duration(text)
    except ValueError as error:
        raise bad_parameter(f"wait: {error}", "wait") from None
    if not 0 <= wait <= LONGEST_WAIT:
        detail = f'wait is "{text}": use 0 to 60s. For a longer run, query GET /v1/runs/ID later'
        raise bad_parameter(detail, "wait")
    return wait


def read_wait_alone(query: bytes) -> Microseconds | None:
    """As `read_wait`, for a query string that may contain nothing else."""
    return read_wait(read_parameters(QueryParams(query), ("wait",)))


async def answer_with_outputs(
    receipts: Sequence[Receipt], results: ResultsPort | None, wait: Microseconds
) -> tuple[int, dict[str, Any]]:
    """200 and the receipts with outputs once every run has finished; 202 and the results so far when the time is up."""
    runs = sorted({run for receipt in receipts for run in receipt.runs})
    try:
        ends = None if results is None or not runs else await results.wait(runs, wait)
    except StoreUnavailable:  # the events are stored nevertheless
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
