"""One look at everything that a process could have to do: what each part would find by a question of its own."""

from __future__ import annotations

from support.stores import AGENT, APP, Member, accept, an_arrival
from wakeful.clock import SECOND, VirtualClock
from wakeful.stores.alarm import Alarm
from wakeful.stores.glance import Glance, glance
from wakeful.stores.verbs.people import RaiseAlarm
from wakeful.stores.verbs.sources import EnterSources, HoldSource


async def look(member: Member) -> Glance:
    return await glance(member.store.database, APP, [AGENT, "other"], ["ops"])


async def test_nothing_to_do(member: Member):
    assert await look(member) == Glance()


async def test_the_next_run_of_each_agent(member: Member, clock: VirtualClock):
    await accept(member.store, an_arrival("1"))
    assert (await look(member)).runs == {AGENT: 0}
    clock.move("2s")
    assert (await look(member)).runs == {AGENT: -2 * SECOND}
    claim = await member.claim_one()
    assert (await look(member)).runs == {}
    await member.leave(claim, "waiting", delay=5 * SECOND)
    assert (await look(member)).runs == {AGENT: 5 * SECOND}


async def test_an_alarm_that_is_to_be_told(member: Member):
    await member.store.do(RaiseAlarm(Alarm(APP, "key", "text")))
    assert (await look(member)).alarms == 0


async def test_sources_that_a_living_process_reads(member: Member, clock: VirtualClock):
    await member.store.do(EnterSources(APP, [("tape", "tape"), ("free", "tape")]))
    await member.store.do(HoldSource(APP, "tape", member.process))
    assert (await look(member)).held == {"tape"}
    clock.move("1h")
    assert (await look(member)).held == frozenset()
