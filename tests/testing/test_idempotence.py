"""Actions that keep what they declare, and actions that do not."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from wakeful import Operation, action
from wakeful.errors import ConfigError, NotAnAction
from wakeful.testing import assert_idempotent


class Service:
    def __init__(self) -> None:
        self.done: dict[str, Any] = {}
        self.lines: list[Any] = []

    def look(self) -> list[Any]:
        return self.lines


@pytest.fixture
def service() -> Service:
    return Service()


async def test_what_keeps_its_word_passes(service: Service):
    @action(safety="idempotent")
    async def charge(op: Operation, amount: int, *, note: str) -> str:
        if op.id not in service.done:
            service.done[op.id] = f"charge {len(service.done)}"
            service.lines.append((amount, note))
        return str(service.done[op.id])

    await assert_idempotent(charge, 20, note="hello", observe=service.look)
    assert service.lines == [(20, "hello")] * 2


async def test_a_sync_action_and_an_async_look_pass_too(service: Service):
    @action(safety="idempotent")
    def charge(op: Operation, amount: int) -> None:
        service.done.setdefault(op.id, amount)

    async def look() -> int:
        return len(service.done)

    await assert_idempotent(charge, 20, observe=look)


async def test_one_that_ignores_its_id_is_told(service: Service):
    @action(safety="idempotent")
    async def charge(op: Operation, amount: int) -> None:
        service.lines.append(amount)

    with pytest.raises(
        AssertionError, match=r"action charge \(.*called again with the same operation id, it happened again"
    ):
        await assert_idempotent(charge, 20, observe=service.look)


async def test_one_that_does_nothing_is_told(service: Service):
    @action(safety="idempotent")
    async def charge(op: Operation, amount: int) -> None: ...

    with pytest.raises(AssertionError, match="nothing changed when it was called"):
        await assert_idempotent(charge, 20, observe=service.look)


async def test_one_that_goes_by_its_arguments_is_told(service: Service):
    """Two orders of the same amount are two charges."""

    @action(safety="idempotent")
    async def charge(op: Operation, amount: int) -> None:
        if amount not in service.lines:
            service.lines.append(amount)

    with pytest.raises(AssertionError, match="called with another operation id, it did not happen"):
        await assert_idempotent(charge, 20, observe=service.look)


async def test_one_that_looks_before_it_leaps_is_told(service: Service):
    @action(safety="idempotent")
    async def charge(op: Operation, amount: int) -> None:
        if op.id in service.done:
            return
        await asyncio.sleep(0)
        service.done[op.id] = amount
        service.lines.append(amount)

    with pytest.raises(AssertionError, match="changed 2 things instead of 1: are two that come together"):
        await assert_idempotent(charge, 20, observe=service.look)


async def test_one_that_returns_something_else_is_told(service: Service):
    @action(safety="idempotent")
    async def charge(op: Operation, amount: int) -> str:
        if op.id in service.done:
            return "known already"
        service.done[op.id] = amount
        return "charged"

    with pytest.raises(AssertionError, match='returned "known already" instead of "charged"'):
        await assert_idempotent(charge, 20, observe=lambda: len(service.done))


def with_find(service: Service, find: Any) -> Any:
    @action(safety="reconcile", find=find)
    async def transfer(op: Operation, amount: int) -> str:
        service.done[op.id] = amount
        return "done"

    return transfer


async def test_a_find_that_finds_passes(service: Service):
    async def find(op: Operation, amount: int) -> str | None:
        return "done" if op.id in service.done else None

    await assert_idempotent(with_find(service, find), 20, observe=lambda: service.done)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (lambda service, op: None, "find returned None after the call"),
        (lambda service, op: "done", "find returned done before the call"),
        (lambda service, op: "done" if service.done else None, "find returned done for another operation id"),
    ],
)
async def test_a_find_that_is_wrong_is_told(service: Service, answer: Any, told: str):
    async def find(op: Operation, amount: int) -> Any:
        return answer(service, op)

    with pytest.raises(AssertionError, match=told):
        await assert_idempotent(with_find(service, find), 20, observe=lambda: service.done)


async def test_mistakes_are_told(service: Service):
    async def plain(op: Operation) -> None: ...

    @action
    async def once(op: Operation) -> None: ...

    with pytest.raises(NotAnAction, match="assert_idempotent takes an action, and plain is not one"):
        await assert_idempotent(plain, observe=service.look)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="once is at_most_once: it is never repeated"):
        await assert_idempotent(once, observe=service.look)
