"""An outbox table that is read out of the server's log."""

from __future__ import annotations

from support.apps import NewApp, working
from support.shop import Shop
from wakeful import Event, Run, outbox


async def test_rows_of_an_outbox_come_by_replication_too(new_app: NewApp, shop: Shop):
    seen: list[Event] = []
    app = new_app()

    @app.agent(outbox(shop.dsn, via="replication", type="order.*"))
    async def note(run: Run) -> None:
        seen.append(run.event)

    await shop.execute(
        "create table outbox (id uuid primary key, aggregatetype text, aggregateid text, type text, payload jsonb)"
    )
    number = "00000000-0000-4000-8000-000000000001"
    async with working(app, reading="drained") as runtime:
        await runtime.drain()
        await shop.execute(
            f"insert into outbox values ('{number}', 'order', '7', 'order.placed', '{{\"total\": 5}}')",
            "insert into outbox values (gen_random_uuid(), 'order', '7', 'parcel.sent', '{}')",
            "insert into outbox values (gen_random_uuid(), 'order', '7', null, '{}')",
            "delete from outbox",
        )
        await runtime.drain()
        (event,) = seen
        assert (event.id, event.type, event.subject, event.data) == (number, "order.placed", "7", {"total": 5})
        (kept,) = (await runtime.reader.events(state="quarantined", limit=10))["events"]
        assert "column type" in kept["reason"]
