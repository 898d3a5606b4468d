"""What a test decides as a person about held effects and held outputs. The store is asked as the commands ask it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from wakeful.errors import InvalidData, NotFound
from wakeful.operations.results import unfit_result
from wakeful.stores.request import Actor, Doer
from wakeful.stores.verbs.commit import ReleaseRun
from wakeful.stores.verbs.returning import ReturnRun
from wakeful.stores.verbs.settling import SettleEffect

TESTER = Actor("a test", "worker")
NOTE = "said in a test"


async def settle(
    store: Doer,
    effect: Mapping[str, Any] | str,
    state: Literal["confirmed", "retrying", "abandoned"],
    result: str | None = None,
) -> None:
    """Settle a held effect. Raises InvalidData if the result does not fit, NotFound if the effect is not held."""
    identifier = effect if isinstance(effect, str) else str(effect["id"])
    settled = await store.do(SettleEffect(identifier, state, result=result, refuse=unfit_result, by=TESTER, note=NOTE))
    if settled is not None and settled.refused is not None:
        message = f"effect {identifier} of {settled.effect.action}: {settled.refused.partition(': give it')[0]}"
        raise InvalidData(message)
    if settled is None or not settled.first:
        found = "does not exist" if settled is None else f"is {settled.effect.state} and not held"
        message = f"effect {identifier} {found}: world.effects(state='held') lists the held ones"
        raise NotFound(message)


async def release(store: Doer, run: str) -> None:
    """Release a held output as it is. Raises NotFound, with the reason, if the run has none."""
    refuse_unheld(run, await store.do(ReleaseRun(run, by=TESTER, note=NOTE)))


async def give_back(store: Doer, run: str, remark: str) -> None:
    """Return a held output with a remark. Raises NotFound, with the reason, if the run has none."""
    refuse_unheld(run, await store.do(ReturnRun(run, remark, by=TESTER)))


def refuse_unheld(run: str, done: Any) -> None:
    if done is None or done.refused is not None:
        why = "does not exist" if done is None else done.refused
        message = f"run {run} {why}: world.runs(state='held') lists the held ones"
        raise NotFound(message)
