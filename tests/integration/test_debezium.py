"""Changes of rows that Debezium or DMS tells of, called in over HTTP or out of a queue, on both stores."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import httpx2
import pytest
from standardwebhooks.webhooks import Webhook

from support.apps import FOREVER, NewApp, working
from support.clouds import Cloud, Line
from support.envelopes import BESIDE, cloudevent, dms, mysql, postgres, with_schema
from support.tokens import TOKEN
from wakeful import App, Run, debezium
from wakeful.runtime import Runtime
from wakeful.stores.journal import Died
from wakeful.stores.verbs.processes import BuryProcess, other_processes
from wakeful.stores.verbs.sources import find_source
from wakeful.stores.verbs.take_in import TakeIn
from wakeful.testing.waiting import until
from wakeful.verify import bearer, standard_webhooks

PATH = "/hooks/rows"
Seen = list[tuple[str, Any]]


def noting(app: App, seen: Seen, url: str, *, name: str = "note", **options: Any) -> App:
    @app.agent(debezium(url, **options), name=name)
    async def note(run: Run) -> None:
        seen.append((run.event.type, run.event.data["key"].get("id")))

    return app


# out of a queue


def from_queue(app: App, seen: Seen, line: Line, **options: Any) -> App:
    return noting(app, seen, line.address, **line.cloud.where, **options)


async def test_changes_out_of_a_queue_each_once(new_app: NewApp, cloud: Cloud):
    line, seen = await cloud.new_queue(), Seen()
    await line.send(
        postgres(1), postgres(1, "u"), with_schema(postgres(1)), cloudevent(2), postgres(2), dms(3), mysql(4)
    )
    await line.send(*(json.dumps(one) for one in BESIDE), [postgres(5), postgres(6)], postgres(9, "r"))
    async with working(from_queue(new_app(), seen, line), reading="drained") as runtime:
        await runtime.drain()
        assert sorted(seen) == [
            ("dms.orders.insert", 3),
            ("mysql.customers.update", 4),
            ("postgres.orders.insert", 1),
            ("postgres.orders.insert", 2),
            ("postgres.orders.insert", 5),
            ("postgres.orders.insert", 6),
            ("postgres.orders.update", 1),
        ]
        found = await find_source(runtime.store.database, "app", line.address)
        assert found is not None
        assert (found.kind, found.taken, found.repeated, found.quarantined) == ("debezium", 9, 2, 0)
        assert await line.left() == (0, 0)


async def test_each_trigger_on_a_queue_gets_what_it_asks_for(new_app: NewApp, cloud: Cloud):
    line = await cloud.new_queue()
    orders, removed, everything, customers = Seen(), Seen(), Seen(), Seen()
    app = new_app()
    from_queue(app, orders, line, name="orders", table="orders", operations=["insert", "update"])
    from_queue(app, removed, line, name="removed", operations="delete")
    from_queue(app, everything, line, name="everything", snapshot=True)
    from_queue(app, customers, line, name="customers", table="inventory.customers", where="'email' in data.changed")
    await line.send(postgres(1), postgres(2, "d"), postgres(3, "r"), mysql(4), postgres(5, schema="other"))
    async with working(app, reading="drained") as runtime:
        await runtime.drain()
    assert orders == [("postgres.orders.insert", 1)]
    assert removed == [("postgres.orders.delete", 2)]
    assert len(everything) == 5
    assert customers == [("mysql.customers.update", 4)]


async def test_what_is_no_change_is_kept_and_taken_off_the_queue(new_app: NewApp, cloud: Cloud):
    line, seen = await cloud.new_queue(), Seen()
    await line.send("not json", {"id": 1}, [postgres(1), {"id": 2}])
    async with working(from_queue(new_app(), seen, line), reading="drained") as runtime:
        await runtime.drain()
        assert seen == [("postgres.orders.insert", 1)]
        kept = (await runtime.reader.events(state="quarantined", limit=10))["events"]
        assert len(kept) == 3
        assert sum("it is neither a Debezium change" in one["reason"] for one in kept) == 2
        assert await line.left() == (0, 0)


@pytest.mark.parametrize("moment", ["within", "after"])
async def test_a_death_around_the_commit_loses_and_doubles_nothing(new_app: NewApp, cloud: Cloud, moment: str):
    line, seen = await cloud.new_queue(), Seen()
    await line.send(*(postgres(number) for number in range(25)))

    def die(point: str, requests: Sequence[Any]) -> None:
        if point == moment and any(isinstance(one, TakeIn) for one in requests):
            raise Died

    doomed = Runtime(from_queue(new_app(), seen, line), lease=FOREVER, probe=die)
    await doomed.open(migrate=True)
    await doomed.start()
    await until(doomed.store.journal.is_dead)
    await doomed.die()
    async with working(from_queue(new_app(), seen, line), reading="drained") as runtime:
        for process, _, _ in await other_processes(runtime.store.database, runtime.membership.process):
            await runtime.store.do(BuryProcess(process, certain=True))
        await runtime.drain()
    assert sorted(seen) == sorted(("postgres.orders.insert", number) for number in range(25))
    assert await line.left() == (0, 0)


@pytest.mark.slow
async def test_ten_thousand_changes_none_lost_none_doubled(new_app: NewApp, cloud: Cloud):
    line, seen = await cloud.new_queue(visibility=600), Seen()
    parts = [[postgres(number) for number in range(at, at + 100)] for at in range(0, 10_000, 100)]
    await line.send(*parts, *parts[:10])
    async with working(from_queue(new_app(), seen, line), reading="drained") as runtime:
        await runtime.drain()
        assert sorted(number for _, number in seen) == list(range(10_000))
        found = await find_source(runtime.store.database, "app", line.address)
        assert found is not None
        assert found.repeated >= 1_000  # a queue may give out a message twice by itself
        assert found.taken - found.repeated == 10_000


# over HTTP


@asynccontextmanager
async def served(app: App) -> AsyncIterator[tuple[Runtime, httpx2.AsyncClient]]:
    async with working(app) as runtime:
        transport = httpx2.ASGITransport(app.asgi(token=TOKEN))
        headers = {"authorization": "Bearer sesame"}
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost", headers=headers) as http:
            yield runtime, http


def called(app: App, seen: Seen, **options: Any) -> App:
    return noting(app, seen, PATH, verify=bearer("sesame"), **options)


async def test_changes_over_http_each_once(new_app: NewApp):
    seen = Seen()
    async with served(called(new_app(), seen, table="orders")) as (runtime, http):
        answer = await http.post(PATH, json=postgres(1))
        assert answer.status_code == 202
        (receipt,) = answer.json()["events"]
        assert (receipt["source"], receipt["status"]) == (PATH, "accepted")
        again = await http.post(PATH, json=with_schema(postgres(1)))
        assert again.json()["events"][0]["status"] == "duplicate"
        assert again.json()["events"][0]["runs"] == receipt["runs"]
        several = await http.post(PATH, json=[postgres(2), postgres(3), mysql(4), postgres(9, "r")])
        assert [one["status"] for one in several.json()["events"]] == ["accepted", "accepted", "unmatched"]
        for nothing in BESIDE:
            answer = await http.post(PATH, json=nothing)
            assert (answer.status_code, answer.json()) == (202, {"events": []})
        assert (await http.post(PATH, content=b"")).json() == {"events": []}
        await runtime.drain()
        assert sorted(seen) == [("postgres.orders.insert", number) for number in (1, 2, 3)]
        await runtime.webhooks.run_once()
        found = await find_source(runtime.store.database, "app", PATH)
        assert found is not None
        assert (found.taken, found.repeated) == (5, 1)


async def test_debezium_server_signs_by_standard_webhooks(new_app: NewApp):
    """Under an id that is new with every try, also for a change that it has sent before."""
    seen, secret = Seen(), "whsec_" + "c2VjcmV0" * 4
    app = noting(new_app(clock=None), seen, PATH, verify=standard_webhooks(secret=secret))
    async with served(app) as (runtime, http):
        for number in range(2):
            now, body = datetime.now(UTC), json.dumps(postgres(1))
            signed = {
                "webhook-id": f"msg_{number}",
                "webhook-timestamp": str(int(now.timestamp())),
                "webhook-signature": Webhook(secret).sign(f"msg_{number}", now, body),
            }
            answer = await http.post(PATH, content=body, headers=signed)
            assert answer.status_code == 202
        await runtime.drain()
        assert seen == [("postgres.orders.insert", 1)]


async def test_who_cannot_prove_it_is_refused_and_what_is_no_change_is_kept(new_app: NewApp):
    seen = Seen()
    async with served(called(new_app(), seen)) as (runtime, http):
        answer = await http.post(PATH, json=postgres(1), headers={"authorization": "Bearer other"})
        assert answer.status_code == 401
        answer = await http.post(PATH, json=[postgres(2), {"id": 1}])
        assert answer.json()["events"][0]["status"] == "quarantined"
        await runtime.drain()
        assert seen == []
        ((first, _), (second, _)) = runtime.webhooks.read_again(
            PATH, json.dumps([postgres(2), postgres(3)]).encode(), {}, 0, trust=True
        )
        assert (first.subject, second.subject) == ("orders/2", "orders/3")


async def test_the_same_change_in_the_form_that_is_asked_for(new_app: NewApp):
    told: list[Any] = []
    app = new_app()

    @app.agent(debezium(PATH, verify=bearer("sesame"), data="data.new.total", where="data > 15"))
    async def note(run: Run) -> None:
        told.append((run.event.data, run.event.subject))

    async with served(app) as (runtime, http):
        await http.post(PATH, json=[postgres(1), postgres(2)])
        await runtime.drain()
    assert told == [(20, "orders/2")]
