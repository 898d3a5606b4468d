"""Read by mypy, and by nobody else: `run.act` and `run.stage` take what the action takes, without its Operation.

Every line that must not pass carries the error that it must give; one that passes all of a sudden is an error itself.
"""

from __future__ import annotations

from typing import assert_type

from wakeful import Operation, Run, action


@action
async def plain(op: Operation, number: int) -> str:
    return f"{op.id} {number}"


@action(safety="idempotent", risk="low", timeout="5s")
async def post(op: Operation, number: int, *, text: str = "") -> list[int]:
    return [number]


@action(safety="at_most_once")
def sync(op: Operation, number: int) -> float:
    return float(number)


async def handler(run: Run) -> None:
    assert_type(await run.act(plain, 7), str)
    assert_type(await run.act(post, 7, text="hello"), list[int])
    assert_type(await run.act(sync, 7), float)
    run.stage(post, 7)
    assert_type(await plain(Operation("id", "plain", "run", 1), 7), str)

    await run.act(plain, "seven")  # type: ignore[arg-type]
    await run.act(plain)  # type: ignore[call-arg]
    await run.act(post, 7, txt="hello")  # type: ignore[call-arg]
    run.stage(post, None)  # type: ignore[arg-type]
    run.stage(post, 7, text=8)  # type: ignore[arg-type]
