"""The journal's lanes, with a backend whose transactions end when the test says so: races are forced, not hoped for."""

import asyncio
from typing import Any

from wakeful.model import Admission, Arrival
from wakeful.stores.base import AcceptEvents, Alarm, Claimed, ClaimRuns, RaiseAlarm, Ready
from wakeful.stores.journal import Journal


class HeldBackend:
    """Answers nothing until it is told to."""

    notifies = False

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes
        self.begun: asyncio.Queue[asyncio.Future[Any]] = asyncio.Queue()

    async def transact(self, transaction: Any) -> Any:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.begun.put_nowait(answer)
        return await answer


def an_alarm(name: str) -> RaiseAlarm:
    return RaiseAlarm(Alarm("app", name, "text"))


def an_event() -> AcceptEvents:
    arrival = Arrival("key", "/source", "1", "type", None, "accepted", "content", "{}")
    arrival.admissions = [Admission("work", "started", "run")]
    return AcceptEvents("app", [arrival])


async def test_what_is_handed_in_while_a_lane_closes_is_not_forgotten() -> None:
    backend = HeldBackend(lanes=1)
    journal = Journal(backend)
    first = journal.submit(an_alarm("first"))
    second: asyncio.Future[asyncio.Future[Any]] = asyncio.get_running_loop().create_future()
    # runs as soon as the first result is there, which is when the lane is about to close
    first.add_done_callback(lambda _: second.set_result(journal.submit(an_alarm("second"))))
    (await backend.begun.get()).set_result([None])
    waiting = await second
    async with asyncio.timeout(10):
        (await backend.begun.get()).set_result([None])
        await waiting


async def test_two_lanes_share_what_is_waiting() -> None:
    backend = HeldBackend(lanes=2)
    journal = Journal(backend)
    waiting = [journal.submit(an_alarm(str(number))) for number in range(64)]
    one, other = await backend.begun.get(), await backend.begun.get()
    one.set_result([None] * 32)
    other.set_result([None] * 32)
    await asyncio.gather(*waiting)
    assert journal.transactions == 2


async def test_runs_made_ready_while_a_claim_looks_are_hinted_at_once_more() -> None:
    backend = HeldBackend(lanes=2)
    journal = Journal(backend)
    heard: list[Ready] = []
    journal.on_ready = heard.append
    claim = journal.submit(ClaimRuns("app", "me", lambda: [("work", 1)], lambda: True))
    looking = await backend.begun.get()
    accepting = journal.submit(an_event())
    accepted = await backend.begun.get()
    # the claim has looked before the event was committed, and comes back empty after its first hint
    looking.set_result([Claimed([], [("work", 1)], None, solo_waiting=False)])
    await claim
    before = len(heard)
    resting = journal.rest(ClaimRuns("app", "me", lambda: [("work", 1)], lambda: True))
    accepted.set_result([[]])
    await accepting
    assert [ready.agents for ready in heard[before:]] == [frozenset({"work"})]
    (await backend.begun.get()).set_result([Claimed([], [], None, solo_waiting=False)])
    await resting
