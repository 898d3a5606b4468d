"""An act and its author are one transaction: a process that dies leaves both or neither, for every verb of a person."""

from __future__ import annotations

import asyncio
import importlib
import os
import pkgutil
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest
from pydantic_core import to_json
from starlette.applications import Starlette

import wakeful.stores
from support.schemas import later
from support.stores import AGENT, APP, Member, Onlooker, OpenStore, a_step, accept, an_arrival, join, query, reader
from support.tokens import TOKEN
from wakeful.api.agents import agent_routes
from wakeful.api.checkins import checkin_routes
from wakeful.clock import SECOND, SystemClock
from wakeful.http.change import OPERATOR
from wakeful.http.security import ApiSettings
from wakeful.intake.accept import Door
from wakeful.intake.quarantine import keep
from wakeful.intake.route import Router
from wakeful.model import Claim, Delivery, Effect, RunOutcome, digest
from wakeful.policy.decide import ALLOWED
from wakeful.policy.judgement import Judgement
from wakeful.policy.people import read_people
from wakeful.stores.alarm import Alarm, held_alarm
from wakeful.stores.grants import tables
from wakeful.stores.guards import TokenHash
from wakeful.stores.journal import Died
from wakeful.stores.keeping import Keeper
from wakeful.stores.migrations import Migration, migrations
from wakeful.stores.queries import Dialect
from wakeful.stores.request import Actor, Bulk, ByPerson
from wakeful.stores.verbs.accept import AcceptEvents
from wakeful.stores.verbs.alarms import ChangeAlarm
from wakeful.stores.verbs.approvals import AnswerApproval, Approval, AskPerson
from wakeful.stores.verbs.backfill import FillOccurrences
from wakeful.stores.verbs.cancel import CancelRun
from wakeful.stores.verbs.circuits import ChangeCircuit, CircuitChange, CloseCircuit, StoredCircuit
from wakeful.stores.verbs.commit import CommitRun, ReleaseRun
from wakeful.stores.verbs.effects import OpenEffect
from wakeful.stores.verbs.expectations import DeclaredExpectation, KeepExpectations
from wakeful.stores.verbs.feed import FeedEvents
from wakeful.stores.verbs.fork import ForkRun
from wakeful.stores.verbs.grants import AddGrant, RevokeGrant
from wakeful.stores.verbs.halts import ChangeHalt
from wakeful.stores.verbs.keeping import ChangeCiphers, RemoveArchived, ResealPayloads
from wakeful.stores.verbs.links import MakeLink
from wakeful.stores.verbs.outbox import ConfirmDelivery, Delivered, RedoDelivery, WorkLane
from wakeful.stores.verbs.pauses import ChangePause
from wakeful.stores.verbs.people import RaiseAlarm
from wakeful.stores.verbs.persons import ApplyPeople, EnterTokens
from wakeful.stores.verbs.policies import ApplyPolicy
from wakeful.stores.verbs.progress import LeaveRun
from wakeful.stores.verbs.quarantine import EndQuarantine
from wakeful.stores.verbs.redo import RedoRun
from wakeful.stores.verbs.retiring import BringBackApp, RetireApp
from wakeful.stores.verbs.returning import ReturnRun
from wakeful.stores.verbs.schedules import ChangeSchedule, FireSchedule, ScheduleByPerson
from wakeful.stores.verbs.sending import SendEvent
from wakeful.stores.verbs.settling import SettleEffect
from wakeful.stores.verbs.sources import EnterSources, ForgetSource
from wakeful.stores.verbs.state import ChangeState
from wakeful.stores.verbs.take_in import TakeIn
from wakeful.triggers.every import every

ADA = Actor("ada", "cli")
WHY = "it was time"

Case = Callable[[Member], Awaitable[ByPerson[Any]]]


async def close_circuit(member: Member) -> ByPerson[Any]:
    def down(circuit: StoredCircuit) -> CircuitChange:
        return CircuitChange(replace(circuit, state="open", opened_at=circuit.now))

    await member.store.do(ChangeCircuit(APP, "stripe", SECOND, down))
    return CloseCircuit(APP, "stripe", by=ADA, note=WHY)


async def a_run(member: Member) -> Claim:
    await accept(member.store, an_arrival("1"))
    return await member.claim_one()


async def change_pause(_: Member) -> ByPerson[Any]:
    return ChangePause(APP, AGENT, paused=True, by=ADA, note=WHY)


async def add_grant(_: Member) -> ByPerson[Any]:
    return AddGrant("g-one", APP, AGENT, "", None, 1 << 60, 3, by=ADA, note=WHY)


async def revoke_grant(member: Member) -> ByPerson[Any]:
    await member.store.do(AddGrant("g-one", APP, AGENT, "", None, 1 << 60, 3, by=Actor("bob", "http")))
    return RevokeGrant("g-one", APP, by=ADA, note=WHY)


async def change_halt(_: Member) -> ByPerson[Any]:
    return ChangeHalt(APP, AGENT, by=ADA, note=WHY)


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


PEOPLE = read_people("people.yaml", "people: {ada: {groups: [ops], token_env: ADA_TOKEN}}")


async def make_link(_: Member) -> ByPerson[Any]:
    return MakeLink("ff", APP, "approval", "bob", 1, by=ADA, note=WHY)


async def apply_people(_: Member) -> ByPerson[Any]:
    return ApplyPeople(APP, PEOPLE.version, PEOPLE.entries, by=ADA, note=WHY)


async def enter_tokens(member: Member) -> ByPerson[Any]:
    await member.store.do(ApplyPeople(APP, PEOPLE.version, PEOPLE.entries, by=Actor("bob", "cli")))
    return EnterTokens(APP, {"ada": ("ADA_TOKEN", TokenHash("00", "ff"))}, by=ADA, note=WHY)


async def apply_policy(_: Member) -> ByPerson[Any]:
    return ApplyPolicy(APP, "5f1d", [("policy.yaml", "policy: 1")], by=ADA, note=WHY)


async def answer_approval(member: Member) -> ByPerson[Any]:
    claim = await a_run(member)
    question = Approval(digest(claim.id, "ask:"), "Deploy?")
    await member.store.do(AskPerson(claim, APP, a_step("ask:", state="waiting"), question))
    await member.leave(claim, "waiting")
    return AnswerApproval(question.id, "true", by=ADA, note=WHY)


async def settle_effect(member: Member) -> ByPerson[Any]:
    claim = await a_run(member)
    effect = Effect("charge-1", "charge", "m:charge", "at_most_once", "held", "[]", reason="no answer")
    await member.store.do(OpenEffect(claim, APP, effect, Judgement(ALLOWED)))
    await member.store.do(LeaveRun(claim, "held", "held", alarm=Alarm(APP, held_alarm(APP, AGENT, claim.id), "held")))
    return SettleEffect("charge-1", "confirmed", by=ADA, note=WHY)


async def hold_output(member: Member) -> Claim:
    claim = await a_run(member)
    delivery = Delivery(f"{claim.root}-0", "ops", '"hello"', position=0)
    outcome = RunOutcome("ok", "failed", "held")
    await member.store.do(
        CommitRun(claim, APP, '"output"', outcome=outcome, deliveries=[delivery], then="held", reason="no")
    )
    return claim


async def release_run(member: Member) -> ByPerson[Any]:
    return ReleaseRun((await hold_output(member)).id, by=ADA, note=WHY)


async def return_run(member: Member) -> ByPerson[Any]:
    return ReturnRun((await hold_output(member)).id, WHY, by=ADA)


async def redo_delivery(member: Member) -> ByPerson[Any]:
    claim = await hold_output(member)
    await member.store.do(ReleaseRun(claim.id, by=Actor("bob", "http")))
    return RedoDelivery(f"{claim.root}-0", waiting=True, discard=True, by=ADA, note=WHY)


async def confirm_delivery(member: Member) -> ByPerson[Any]:
    claim = await hold_output(member)
    await member.store.do(ReleaseRun(claim.id, by=Actor("bob", "http")))
    lane = WorkLane(APP, "ops", member.process, 1, begins="new")
    taken = await member.store.do(lane)
    lost = Delivered(taken.deliveries[0].seq, "unknown", 1, reason="it may have arrived", doubtful=True)
    await member.store.do(WorkLane(APP, "ops", member.process, 1, taken.token, [lost]))
    return ConfirmDelivery(f"{claim.root}-0", by=ADA, note=WHY)


async def end_quarantine(member: Member) -> ByPerson[Any]:
    await member.store.do(EnterSources(APP, [("tape", "tape")]))
    await member.store.do(
        TakeIn(APP, "tape", kept=[keep(APP, "/tape", b"?", "it is no JSON", kind="unreadable", headers={})])
    )
    (kept,) = (await reader(member.store).quarantine())["quarantine"]
    return EndQuarantine(APP, kept["key"], accept=AcceptEvents(APP, [an_arrival("1")]), by=ADA, note=WHY)


async def fill_occurrences(member: Member) -> ByPerson[Any]:
    stored = await member.store.do(a_change())
    assert stored is not None
    accept = AcceptEvents(APP, [an_arrival("1")])
    return FillOccurrences(stored, [1], [None], accept, "filled by ada", by=ADA, note=WHY)


async def send_event(_: Member) -> ByPerson[Any]:
    return SendEvent(AcceptEvents(APP, [an_arrival("1")]), "emit", WHY, by=ADA)


async def remove_archived(member: Member) -> ByPerson[Any]:
    claim = await a_run(member)
    await member.finish(claim)
    await accept(member.store, an_arrival("2"))  # the newest run of all is never removed
    keeper = Keeper(member.store)
    (family,) = await keeper.families({claim.id: await keeper.time()})
    return RemoveArchived([family], WHY, by=ADA)


async def reseal_payloads(_: Member) -> ByPerson[Any]:
    return ResealPayloads([], [("blob", "content")], by=ADA, note=WHY)


async def change_ciphers(_: Member) -> ByPerson[Any]:
    return ChangeCiphers(["key"], [], by=ADA, note=WHY)


# What each verb is asked, once there is something that it can be asked of.
CASES: dict[type[ByPerson[Any]], Case] = {
    CloseCircuit: close_circuit,
    ChangePause: change_pause,
    ChangeHalt: change_halt,
    AddGrant: add_grant,
    RevokeGrant: revoke_grant,
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
    AnswerApproval: answer_approval,
    ApplyPolicy: apply_policy,
    ApplyPeople: apply_people,
    MakeLink: make_link,
    EnterTokens: enter_tokens,
    SettleEffect: settle_effect,
    ReleaseRun: release_run,
    ReturnRun: return_run,
    RedoDelivery: redo_delivery,
    ConfirmDelivery: confirm_delivery,
    EndQuarantine: end_quarantine,
    FillOccurrences: fill_occurrences,
    SendEvent: send_event,
    RemoveArchived: remove_archived,
    ResealPayloads: reseal_payloads,
    ChangeCiphers: change_ciphers,
}


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


def test_every_verb_of_a_person_has_a_case():
    assert set(ALL) == set(CASES)


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
@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
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


@pytest.mark.parametrize("point", ["before", "within", "after"])
async def test_a_slice_of_many_is_counted_with_it_or_not_at_all(stores: OpenStore, store_url: str, point: str):
    """A choice of three has one row. The process dies in its second slice: the row tells what was done, neither more nor less."""
    member = await join(await stores(store_url), lease="1h")
    runs = []
    for number in range(3):
        await accept(member.store, an_arrival(str(number)))
        claim = await member.claim_one()
        await member.finish(claim, "dead", error="{}")
        runs.append(claim.id)
    many = Bulk("replay", APP, of="3 dead letters")
    first, *rest = [RedoRun(run, by=ADA, note=WHY, bulk=many) for run in runs]
    await member.store.do(first)
    dying = await stores(store_url, probe=Dies(point))
    asking = asyncio.gather(*(dying.do(request) for request in rest), return_exceptions=True)
    while not dying.journal.is_dead():
        await asyncio.sleep(0)
        assert not asking.done(), asking
    asking.cancel()
    onlooker = Onlooker(store_url)
    states = [row[0] for row in await onlooker.query("select state from wakeful_run order by seq")]
    rows = await onlooker.query("select operator, way, verb, detail, done from wakeful_operation")
    await onlooker.close()
    done = 1 if point != "after" else states.count("ready")
    assert states.count("ready") == done
    assert [tuple(row) for row in rows] == [("ada", "cli", "replay", f"{done} of 3 dead letters: {WHY}", done)]
    for request in rest:  # whoever comes next goes on with the same row
        await member.store.do(request)
    (row,) = await query(store_url, "select detail, done from wakeful_operation")
    assert tuple(row) == (f"3 of 3 dead letters: {WHY}", 3)


class TestMigrate:
    """`wakeful migrate` has no journal: its process is killed for real, by SQLite's own thread or together with its connection."""

    FIRST = later(9001, "alter table wakeful_run add column later text;", "first")
    SECOND = later(9002, "alter table wakeful_run add column latest text;", "second")
    DIES = later(9003, "alter table wakeful_run add column dying text; {die};", "dies")
    IN_AN_INDEX = later(9004, "create index wakeful_migration_dies on wakeful_migration (die(number));", "in_an_index")

    async def test_the_operator_is_stored_with_the_schema(self, stores: OpenStore, store_url: str, dialect: str):
        assert await migrate(store_url, self.FIRST, self.SECOND) == 0
        assert await authors(store_url) == [("ada", "cli", "migrate", "9001_first, 9002_second")]
        assert await migrate(store_url, self.FIRST, self.SECOND) == 0  # nothing is left to do
        assert len(await authors(store_url)) == 1

    async def test_a_new_store_has_the_operator_who_made_it(self, new_url: str, dialect: Dialect):
        assert await migrate(new_url) == 0
        labels = ", ".join(one.label for one in migrations(dialect))
        assert await authors(new_url) == [("ada", "cli", "migrate", labels)]

    async def test_a_death_at_the_author_leaves_the_schema_as_it_was(self, store_url: str, dialect: str):
        for statement in AT_THE_AUTHOR[dialect]:
            await query(store_url, statement)
        assert await migrate(store_url, self.FIRST) != 0
        assert await applied(store_url) == []
        assert await authors(store_url) == []

    async def test_a_death_in_a_later_file_leaves_the_author_of_those_before(self, store_url: str, dialect: str):
        """SQLite applies all files in one transaction, PostgreSQL each in its own."""
        die = {"sqlite": "select die()", "postgres": "select pg_terminate_backend(pg_backend_pid())"}[dialect]
        dies = later(9003, self.DIES.sql.format(die=die), "dies")
        assert await migrate(store_url, self.FIRST, self.SECOND, dies) != 0
        done = await applied(store_url)
        assert done == ([] if dialect == "sqlite" else ["9001_first", "9002_second"])
        assert await authors(store_url) == ([("ada", "cli", "migrate", ", ".join(done))] if done else [])
        assert await migrate(store_url, self.FIRST, self.SECOND) == 0  # the next one has a row of its own, for the rest
        told = [row[3] for row in await authors(store_url)]
        assert told == (["9001_first, 9002_second"])

    @pytest.mark.postgres
    async def test_a_death_while_an_index_is_built_leaves_the_author_of_what_was_begun(self, postgres_url: str):
        await query(postgres_url, DIES)
        assert await migrate(postgres_url, self.FIRST, self.IN_AN_INDEX) != 0
        assert await authors(postgres_url) == [("ada", "cli", "migrate", "9001_first, 9004_in_an_index (begun)")]
        await query(postgres_url, DIES.replace("perform pg_terminate_backend(pg_backend_pid());", ""))
        assert await migrate(postgres_url, self.FIRST, self.IN_AN_INDEX, by="bob") == 0
        assert [row[::3] for row in await authors(postgres_url)][1:] == [("bob", "9004_in_an_index")]


DIES = """create or replace function die(number bigint) returns bigint immutable language plpgsql as
  $$ begin perform pg_terminate_backend(pg_backend_pid()); return number; end $$"""
AT_THE_AUTHOR = {
    "sqlite": ["create trigger dies before insert on wakeful_operation begin select die(); end"],
    "postgres": [
        """create function die() returns trigger language plpgsql as
        $$ begin perform pg_terminate_backend(pg_backend_pid()); return new; end $$""",
        "create trigger dies before insert on wakeful_operation for each row execute function die()",
    ],
}
# A process of its own: `die()` in SQL kills it on the spot.
MIGRATE = """
import json, os, signal, sys
import apsw
from support.schemas import knowing, later
from wakeful.cli import main

apsw.connection_hooks.append(
    lambda connection: connection.create_scalar_function("die", lambda: os.kill(os.getpid(), signal.SIGKILL), 0)
)
url, by, files = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
with knowing(*(later(*one) for one in files)):
    sys.exit(main(["migrate", "--store", url, "--as", by]))
"""


@pytest.fixture
def new_url(dialect: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An address without a store."""
    return f"sqlite:///{tmp_path / 'new.db'}" if dialect == "sqlite" else request.getfixturevalue("postgres_dsn")


async def migrate(url: str, *files: Migration, by: str = "ada") -> int:
    """The exit code of `wakeful migrate` of a version that knows these files."""
    known = to_json([(one.number, one.sql, one.name) for one in files]).decode()
    path = {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])}
    words = [sys.executable, "-c", MIGRATE, url, by, known]
    process = await asyncio.create_subprocess_exec(*words, env={**os.environ, **path})
    return await process.wait()


async def authors(url: str) -> list[Any]:
    return await query(url, "select operator, way, verb, detail from wakeful_operation order by seq")


async def applied(url: str) -> list[str]:
    """The labels of the files of a later version that count as applied."""
    rows = await query(url, "select number, name from wakeful_migration where number > 9000 order by number")
    return [f"{number}_{name}" for number, name in rows]


class TestOverHttp:
    """Paths that are no verb of a resource: the event and its sender come together."""

    @pytest.mark.parametrize("point", ["before", "within", "after"])
    async def test_a_check_in(self, stores: OpenStore, store_url: str, point: str):
        store = await stores(store_url)
        expected = to_json({"name": "nightly backup", "subject": "nightly backup"}).decode()
        await store.do(KeepExpectations(APP, [DeclaredExpectation("nightly backup", "by", expected)]))
        dying = await stores(store_url, probe=Dies(point))
        door = Door(APP, Router([]), dying, SystemClock(), owners={})
        routes = checkin_routes(door, reader(dying), SimpleNamespace(name=APP), ApiSettings(token=TOKEN))
        await ask(dying, routes, "/v1/checkins/nightly%20backup?id=1")
        assert await events_and_authors(store_url) == (
            (["1"], [("ada", "http", "checkin", "1", "nightly backup: unmatched")]) if point == "after" else ([], [])
        )

    @pytest.mark.parametrize("point", ["before", "within", "after"])
    async def test_a_run_that_is_started(self, stores: OpenStore, store_url: str, point: str):
        await stores(store_url)
        dying = await stores(store_url, probe=Dies(point))
        door = Door(APP, Router([(AGENT, [])]), dying, SystemClock(), owners={AGENT: None})
        agents = SimpleNamespace(name=APP, refuse_unknown=lambda _: None)
        await ask(dying, agent_routes(door, agents, None, ApiSettings(token=TOKEN)), f"/v1/agents/{AGENT}/runs?id=1")
        events, rows = await events_and_authors(store_url)
        assert events == (["1"] if point == "after" else [])
        runs = [row[0] for row in await query(store_url, "select id from wakeful_run")]
        told = [("ada", "http", "run", run, f"agent {AGENT}: accepted") for run in runs]
        assert rows == told
        assert len(runs) == (point == "after")


async def ask(dying: Any, routes: Any, path: str) -> None:
    """Send a request to a server that dies while it answers."""
    http = httpx2.AsyncClient(transport=httpx2.ASGITransport(Starlette(routes=routes)), base_url="http://localhost")
    asking = asyncio.create_task(http.post(path, json={}, headers={OPERATOR: "ada"}))
    while not dying.journal.is_dead():
        await asyncio.sleep(0)
        assert not asking.done(), asking
    asking.cancel()


async def events_and_authors(url: str) -> tuple[list[str], list[Any]]:
    events = [row[0] for row in await query(url, "select id from wakeful_event")]
    return events, await query(url, "select operator, way, verb, target, detail from wakeful_operation")
