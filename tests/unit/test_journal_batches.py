"""What the journal puts into one transaction, with a backend whose transactions end when the test says so: races are forced, not hoped for."""

import asyncio
from typing import Any

from wakeful.model import Admission, Arrival, Claim, Step
from wakeful.stores.alarm import Alarm
from wakeful.stores.journal import MOST_CHARACTERS, Journal
from wakeful.stores.request import Ready
from wakeful.stores.verbs.accept import AcceptEvents
from wakeful.stores.verbs.claim import Claimed, ClaimRuns, Wanted
from wakeful.stores.verbs.people import RaiseAlarm
from wakeful.stores.verbs.progress import SaveSteps


class HeldBackend:
    """Answers nothing until it is told to."""

    notifies = False

    def __init__(self) -> None:
        self.begun: asyncio.Queue[asyncio.Future[Any]] = asyncio.Queue()

    async def end_lost(self) -> None: ...

    async def transact(self, transaction: Any, *, plain: bool = False) -> Any:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.begun.put_nowait(answer)
        return await answer


def an_alarm(name: str) -> RaiseAlarm:
    return RaiseAlarm(Alarm("app", name, "text"))


def an_event() -> AcceptEvents:
    arrival = Arrival("key", "/source", "1", "type", None, "accepted", "content", "{}")
    arrival.admissions = [Admission("work", "started", "run")]
    return AcceptEvents("app", [arrival])


async def test_what_is_handed_in_while_it_comes_to_rest_is_not_forgotten() -> None:
    backend = HeldBackend()
    journal = Journal(backend)
    first = journal.submit(an_alarm("first"))
    second: asyncio.Future[asyncio.Future[Any]] = asyncio.get_running_loop().create_future()
    # runs as soon as the first result is there, which is when the journal is about to rest
    first.add_done_callback(lambda _: second.set_result(journal.submit(an_alarm("second"))))
    (await backend.begun.get()).set_result([None])
    waiting = await second
    async with asyncio.timeout(60):
        (await backend.begun.get()).set_result([None])
        await waiting


async def test_what_comes_in_meanwhile_goes_together_into_the_next() -> None:
    backend = HeldBackend()
    journal = Journal(backend)
    first = journal.submit(an_alarm("first"))
    under_way = await backend.begun.get()
    rest = [journal.submit(an_alarm(str(number))) for number in range(64)]
    under_way.set_result([None])
    await first
    (await backend.begun.get()).set_result([None] * 64)
    await asyncio.gather(*rest)
    assert (journal.transactions, journal.transitions) == (2, 65)


async def test_under_load_those_who_were_just_answered_go_along_with_those_who_wait() -> None:
    backend = HeldBackend()
    journal = Journal(backend)
    callers = [asyncio.create_task(twice(journal)) for _ in range(48)]
    under_way = await backend.begun.get()
    waiting = [journal.submit(an_alarm(str(number))) for number in range(16)]
    under_way.set_result([None] * 48)
    (await backend.begun.get()).set_result([None] * 64)
    await asyncio.gather(*callers, *waiting)
    assert journal.transactions == 2


async def twice(journal: Journal) -> None:
    await journal.submit(an_alarm("one"))
    await journal.submit(an_alarm("two"))


async def test_runs_made_ready_while_a_claim_looks_are_hinted_for_the_next() -> None:
    backend = HeldBackend()
    journal = Journal(backend)
    heard: list[Ready] = []
    journal.on_ready = heard.append
    claim = journal.submit(ClaimRuns("app", "me", lambda: Wanted([("work", 1)])))
    looking = await backend.begun.get()
    accepting = journal.submit(an_event())
    looking.set_result([Claimed([], [("work", 1)], None, solo_waiting=False)])
    await claim
    accepted = await backend.begun.get()
    assert [ready.agents for ready in heard] == [frozenset({"work"})]
    accepted.set_result([[]])
    await accepting


async def test_large_results_come_in_smaller_company() -> None:
    backend = HeldBackend()
    journal = Journal(backend)
    large = "x" * (MOST_CHARACTERS // 2)
    claim = Claim(1, "run", "run", "work", 1, "me", 0, 0, 0, 0, 0, True, None, "{}")
    waiting = [journal.submit(SaveSteps(claim, [Step(str(number), "name", "done", large)])) for number in range(5)]
    for expected in (2, 2, 1):
        (await backend.begun.get()).set_result([None] * expected)
    await asyncio.gather(*waiting)
    assert journal.transactions == 3


async def test_when_a_batch_goes_one_by_one_the_claim_comes_last_and_sees_the_rest() -> None:
    backend = HeldBackend()
    journal = Journal(backend)
    claim = journal.submit(ClaimRuns("app", "me", lambda: Wanted([("work", 1)])))
    accepting = journal.submit(an_event())
    (await backend.begun.get()).set_exception(ValueError("one of them is guilty"))
    (await backend.begun.get()).set_result([["receipt"]])
    assert await accepting == ["receipt"]
    assert not claim.done()
    (await backend.begun.get()).set_result([Claimed([], [], None, solo_waiting=False)])
    await claim
