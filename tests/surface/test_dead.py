"""Dead letters over HTTP, on both stores: a run and a delivery, looked at, planned, replayed and given up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import httpx2
import pytest

from support.apps import NewApp, go, working
from support.tokens import TOKEN
from wakeful import App, Persistent, Run, on
from wakeful.channels import Channel, Message

HEADERS = {"Authorization": f"Bearer {TOKEN}", "Wakeful-Operator": "ada"}


class Closed(Channel):
    """Takes nothing."""

    async def deliver(self, messages: Sequence[Message]) -> None:
        error = "the office is closed"
        raise Persistent(error)


@pytest.fixture
def office(new_app: NewApp) -> App:
    """Writes letters: those to nobody fail, the others cannot be sent."""
    app = new_app(channels={"post": Closed()})

    @app.agent(on("go"), deliver="post", attempts=1)
    async def write(run: Run) -> str:
        if run.event.data == "nobody":
            error = "no such person"
            raise Persistent(error)
        return f"dear {run.event.data}"

    return app


def client(app: App) -> httpx2.AsyncClient:
    transport: Any = httpx2.ASGITransport(app.asgi(token=TOKEN))
    return httpx2.AsyncClient(transport=transport, base_url="http://localhost", headers=HEADERS)


async def letters(http: httpx2.AsyncClient) -> dict[str, str]:
    """The newest dead letter of each kind."""
    groups = (await http.get("/v1/dead")).json()["groups"]
    return {one["kind"]: (one.get("runs") or one.get("deliveries"))[0] for one in groups}


async def test_a_run_and_a_delivery_are_found_at_one_path(office: App):
    async with working(office) as runtime, client(office) as http:
        await go(runtime, "nobody", id="1")
        await go(runtime, "ada", id="2")
        dead = await letters(http)
        run, delivery = [(await http.get(f"/v1/dead/{dead[kind]}")).json() for kind in ("run", "delivery")]
        missing = await http.get("/v1/dead/nothing")
    assert (run["state"], run["error"]["message"]) == ("dead", "no such person")
    assert (delivery["channel"], delivery["state"]) == ("post", "dead")
    assert missing.status_code == 404


async def test_each_is_planned_then_done(office: App):
    async with working(office) as runtime, client(office) as http:
        await go(runtime, "nobody", id="1")
        await go(runtime, "ada", id="2")
        dead = await letters(http)
        plans = [(await http.post(f"/v1/dead/{one}/replay", json={"plan": True})).json() for one in dead.values()]
        assert [one["count"] for one in plans] == [1, 1]
        assert await letters(http) == dead
        unfit = await http.post(f"/v1/dead/{dead['delivery']}/replay", json={"data": 1})
        assert unfit.status_code == 422
        replayed = await http.post(f"/v1/dead/{dead['run']}/replay", json={"data": "bob", "note": "his name"})
        assert replayed.json() == {"run": dead["run"], "was": "dead", "confirmed_effects": 0}
        discarded = await http.post(f"/v1/dead/{dead['delivery']}/discard")
        assert discarded.json() == {"delivery": dead["delivery"], "was": "dead"}
        await runtime.drain()
        run = (await http.get(f"/v1/runs/{dead['run']}")).json()
        again = await http.post(f"/v1/dead/{dead['run']}/replay")
    assert (run["state"], run["output"]) == ("done", "dear bob")
    assert (again.status_code, again.json()["type"]) == (409, "urn:wakeful:problem:not-over")
    assert '"again": true' in again.json()["detail"]


@pytest.mark.parametrize(("member", "count"), [("filter", 2), ("deliveries", 1)])
async def test_many_of_one_kind(office: App, member: str, count: int):
    async with working(office) as runtime, client(office) as http:
        for number, name in enumerate(("nobody", "nobody", "ada")):
            await go(runtime, name, id=str(number))
        body = {member: {"all": True}}
        assert (await http.post("/v1/dead/discard", json={**body, "plan": True})).json()["count"] == count
        both = await http.post("/v1/dead/discard", json={"filter": {"all": True}, "deliveries": {"all": True}})
        assert (both.status_code, both.json()["field"]) == (400, "filter")
        done = (await http.post("/v1/dead/discard", json=body)).json()
        assert (done["redone"], done["left"]) == (count, 0)
        assert len(await letters(http)) == 1
