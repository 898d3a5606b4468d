"""An act and its author are one transaction: a process that dies leaves both or neither, for every verb of a person."""

from __future__ import annotations

import asyncio
import importlib
import pkgutil
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from pydantic_core import to_json

import wakeful.stores
from support.stores import AGENT, APP, Member, Onlooker, OpenStore, a_step, accept, an_arrival, join
from wakeful.clock import SECOND
from wakeful.model import Claim
from wakeful.stores.alarm import Alarm
from wakeful.stores.grants import tables
from wakeful.stores.journal import Died
from wakeful.stores.request import Actor, ByPerson
from wakeful.stores.verbs.accept import AcceptEvents
from wakeful.stores.verbs.alarms import ChangeAlarm
from wakeful.stores.verbs.cancel import CancelRun
from wakeful.stores.verbs.circuits import ChangeCircuit, CircuitChange, CloseCircuit, StoredCircuit
from wakeful.stores.verbs.feed import FeedEvents
from wakeful.stores.verbs.fork import ForkRun
from wakeful.stores.verbs.pauses import ChangePause
from wakeful.stores.verbs.people import RaiseAlarm
from wakeful.stores.verbs.redo import RedoRun
from wakeful.stores.verbs.retiring import BringBackApp, RetireApp
from wakeful.stores.verbs.schedules import ChangeSchedule, FireSchedule, ScheduleByPerson
from wakeful.stores.verbs.sources import EnterSources, ForgetSource
from wakeful.stores.verbs.state import ChangeState
from wakeful.triggers.every import every

ADA = Actor("ada", "cli")
WHY = "it was time"

Case = Callable[[Member], Awaitable[ByPerson[Any]]]


async def close_circuit(member: Member) -> ByPerson[Any]:
    def down(circuit: StoredCircuit) -> CircuitChange:
        return CircuitChange(replace(circuit, state="open", opened_at=circuit.now))

    await member.store.change_circuit(ChangeCircuit(APP, "stripe", SECOND, down))
    return CloseCircuit(APP, "stripe", by=ADA, note=WHY)


async def a_run(member: Member) -> Claim:
    await accept(member.store, an_arrival("1"))
    return await member.claim_one()


async def change_pause(_: Member) -> ByPerson[Any]:
    return ChangePause(APP, AGENT, paused=True, by=ADA, note=WHY)


async def change_state(_: Member) -> ByPerson[Any]:
    return ChangeState(APP, AGENT, "", "7", by=ADA, note=WHY)


async def retire_app(_: Member) -> ByPerson[Any]:
    return RetireApp(APP, by=ADA, note=WHY)


async def bring_back_app(member: Member) -> ByPerson[Any]:
    await member.store.do(RetireApp(APP, by=Actor("bob", "http")))
    return BringBackApp(APP, by=ADA, note=WHY)


async def change_alarm(member: Member) -> ByPerson[Any]:
    await member.store.do(RaiseAlarm(Alarm(APP, "key", "something broke")))
    return ChangeAlarm("key", "acknowledge", by=ADA, note=WHY)


async def cancel_run(member: Member) -> ByPerson[Any]:
    return CancelRun((await a_run(member)).id, by=ADA, note=WHY)


async def redo_run(member: Member) -> ByPerson[Any]:
    claim = await a_run(member)
    await member.finish(claim, "dead", error="{}")
    return RedoRun(claim.id, by=ADA, note=WHY)


async def fork_run(member: Member) -> ByPerson[Any]:
    claim = await a_run(member)
    await member.save(claim, a_step("fetch:"))
    await member.finish(claim)
    return ForkRun(claim.id, "fetch:", "fetch", by=ADA, note=WHY)


async def feed_events(member: Member) -> ByPerson[Any]:
    claim = await a_run(member)
    found = await member.store.database.fetch("seq_of_run", claim.id)
    assert found
    return FeedEvents(APP, "later", "replayed by ada", [(1, "run-1")], by=ADA, note=WHY)


async def forget_source(member: Member) -> ByPerson[Any]:
    await member.store.do(EnterSources(APP, [("tape", "tape")]))
    return ForgetSource(APP, "tape", by=ADA, note=WHY)


def a_change(name: str = "morning") -> ChangeSchedule:
    rule = to_json(every("1h").definition()).decode()
    return ChangeSchedule(
        APP, name, "add", ADA.name, None, AGENT, "runtime", "live", rule, 0, note=WHY, next_at=1, due_at=1
    )


async def schedule_by_person(_: Member) -> ByPerson[Any]:
    return ScheduleByPerson(a_change(), by=ADA, note=WHY)


async def fire_schedule(member: Member) -> ByPerson[Any]:
    stored = await member.store.do(a_change())
    assert stored is not None
    return FireSchedule(stored, 1, AcceptEvents(APP, [an_arrival("1")]), by=ADA, note=WHY)


# What each verb is asked, once there is something that it can be asked of.
CASES: dict[type[ByPerson[Any]], Case] = {
    CloseCircuit: close_circuit,
    ChangePause: change_pause,
    ChangeState: change_state,
    RetireApp: retire_app,
    BringBackApp: bring_back_app,
    ChangeAlarm: change_alarm,
    CancelRun: cancel_run,
    RedoRun: redo_run,
    ForkRun: fork_run,
    FeedEvents: feed_events,
    ForgetSource: forget_source,
    ScheduleByPerson: schedule_by_person,
    FireSchedule: fire_schedule,
}
# Those of which a test of their own, beside their noun, shows what they do; here they have no case yet.
ELSEWHERE = {"AnswerApproval", "FillInstants", "RedoDelivery", "ReleaseRun", "SettleEffect", "SettleQuarantine"}


def verbs() -> Iterator[type[ByPerson[Any]]]:
    """All classes of requests that people make, wherever in the stores they stand."""
    for one in pkgutil.walk_packages(wakeful.stores.__path__, "wakeful.stores."):
        importlib.import_module(one.name)
    found: list[type[Any]] = [ByPerson]
    for kind in found:
        found += kind.__subclasses__()
    for kind in found[1:]:
        # `slots=True` makes a class anew: the first one may not be collected yet.
        module = importlib.import_module(kind.__module__)
        if getattr(module, kind.__name__, None) is kind:
            yield kind


ALL = sorted(set(verbs()), key=lambda kind: kind.__name__)
VERBS = [kind for kind in ALL if kind.__name__ not in ELSEWHERE]


def test_every_verb_of_a_person_has_a_case():
    assert {kind.__name__ for kind in ALL} == {kind.__name__ for kind in CASES} | ELSEWHERE


@dataclass
class Dies:
    """A probe: the process is dead at this point of the first transaction that carries a verb of a person."""

    point: str

    def __call__(self, point: str, requests: Sequence[Any]) -> None:
        if point == self.point and any(isinstance(request, ByPerson) for request in requests):
            raise Died


async def everything(url: str) -> dict[str, list[str]]:
    """What each table holds."""
    onlooker = Onlooker(url)
    found = {table: sorted(map(repr, await onlooker.query(f"select * from {table}"))) for table in tables()}
    await onlooker.close()
    return found


@pytest.mark.parametrize("point", ["before", "within", "after"])
@pytest.mark.parametrize("kind", VERBS, ids=lambda kind: kind.__name__)
async def test_a_death_leaves_the_act_and_its_author_or_neither(
    stores: OpenStore, store_url: str, kind: type[ByPerson[Any]], point: str
):
    request = await CASES[kind](await join(await stores(store_url), lease="1h"))
    assert type(request) is kind
    was = await everything(store_url)
    dying = await stores(store_url, probe=Dies(point))
    asking = asyncio.create_task(dying.do(request))
    while not dying.journal.is_dead():
        await asyncio.sleep(0)
        assert not asking.done(), asking
    asking.cancel()
    now = await everything(store_url)
    new = set(now.pop("wakeful_operation")) - set(was.pop("wakeful_operation"))
    if point == "after":
        assert now != was
        (author,) = new
        assert "'ada'" in author
        assert "'cli'" in author
        assert WHY in author
    else:
        assert now == was
        assert not new
