"""Tests whether an action keeps its declared safety, on the action itself, without a run."""

from __future__ import annotations

import asyncio
import copy
import itertools
import secrets
from collections.abc import Callable
from typing import Any, cast

from wakeful.errors import ConfigError, NotAnAction
from wakeful.execution.actions import Action, Operation
from wakeful.functions.call import call
from wakeful.functions.options import name_of
from wakeful.testing.report import shown, total
from wakeful.values import digest_of_arguments, to_text

Observe = Callable[[], Any]


async def assert_idempotent(action: Action[..., Any], *arguments: Any, observe: Observe, **keywords: Any) -> None:
    """Test whether an action can be repeated as its safety declares. AssertionError says what it did instead.

    idempotent   called again with the same operation id, also twice at once, it changes nothing and returns the same;
                 with another id it happens again
    reconcile    `find` returns nothing before the call, finds the operation after it, and never finds another one

    `observe` returns the state of the outside world, sync or async: a list, a mapping, a number. It must change when the
    action happens; otherwise nothing can be tested.
    """
    if not isinstance(cast("object", action), Action):
        name = name_of(action)
        message = f"assert_idempotent takes an action, and {name} is not one. Add @action(safety=…) above it"
        raise NotAnAction(message)
    trial = Trial(action, arguments, keywords, observe)
    match action.options.safety:
        case "idempotent":
            await trial.repeat()
        case "reconcile":
            await trial.find()
        case "at_most_once":
            message = f"action {action.name} is at_most_once: it is never repeated, so there is nothing to test"
            raise ConfigError(message)


class Trial:
    """One action and its arguments, as a run would pass them."""

    def __init__(
        self, action: Action[..., Any], arguments: tuple[Any, ...], keywords: dict[str, Any], observe: Observe
    ) -> None:
        _, text = digest_of_arguments(arguments, keywords, of=f"action {action.name}")
        self._action = action
        self._arguments, self._keywords = action.read(text)
        self._observe = observe

    async def repeat(self) -> None:
        first, second = self._operation(), self._operation()
        before = await self._look()
        answer = await self._call(first)
        once = await self._look()
        self._refuse_no_change(before, once)
        again = await self._call(first)
        self._expect_same(once, await self._look(), "called again with the same operation id, it happened again")
        together = await asyncio.gather(self._call(first), self._call(first))
        self._expect_same(
            once, await self._look(), "called twice at once with the same operation id, it happened again"
        )
        for one in (again, *together):
            if one != answer:
                self._fail(
                    f"called again with the same operation id, it returned {shown(one)} instead of {shown(answer)}"
                )
        await asyncio.gather(self._call(second), self._call(second))
        twice = await self._look()
        if twice == once:
            self._fail("called with another operation id, it did not happen: two equal operations would be done as one")
        sizes = [size for one in (before, once, twice) if (size := total(one)) is not None]
        grown = [later - earlier for earlier, later in itertools.pairwise(sizes)]
        if len(set(grown)) > 1:
            self._fail(
                f"called twice at once with a new operation id, it changed {grown[1]} things instead of {grown[0]}: "
                "are two that come together both taken for the first?"
            )

    async def find(self) -> None:
        operation, other = self._operation(), self._operation()
        if (early := await self._find(operation)) is not None:
            self._fail(
                f"find returned {shown(early)} before the call: an operation that was never done would count as done"
            )
        before = await self._look()
        await self._call(operation)
        self._refuse_no_change(before, await self._look())
        if await self._find(operation) is None:
            self._fail("find returned None after the call: the operation would be done again after every crash")
        if (mistaken := await self._find(other)) is not None:
            self._fail(
                f"find returned {shown(mistaken)} for another operation id: an operation that was never done would count as done"
            )

    def _operation(self) -> Operation:
        return Operation(secrets.token_hex(13), self._action.name, "assert-idempotent", 1)

    async def _call(self, operation: Operation) -> str:
        action = self._action
        value = await call(action.function, (operation, *self._arguments), self._keywords, what=f"action {action.name}")
        return to_text(value, what=f"the result of action {action.name}")

    async def _find(self, operation: Operation) -> Any:
        find = self._action.options.find
        assert find is not None  # noqa: S101 -- reconcile has one
        return await call(find, (operation, *self._arguments), self._keywords, what=f"find of {self._action.name}")

    async def _look(self) -> Any:
        return copy.deepcopy(await call(self._observe, (), {}, what="observe"))

    def _refuse_no_change(self, before: Any, after: Any) -> None:
        if before == after:
            self._fail(
                f"nothing changed when it was called: either it does nothing, or observe looks at something else ({shown(after)})"
            )

    def _expect_same(self, before: Any, after: Any, what: str) -> None:
        if before != after:
            self._fail(f"{what}: outside there was {shown(before)}, and now {shown(after)}")

    def _fail(self, what: str) -> None:
        raise AssertionError(f"action {self._action.name} ({self._action.written_at}): {what}")
