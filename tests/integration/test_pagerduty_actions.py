"""`wakeful.actions.pagerduty` against a server with PagerDuty's rules: an incident is opened once, however often an answer is lost."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from support.apps import NewApp, go, pass_time, working
from support.fake_pagerduty import KEY, FakePagerDuty
from support.receiver import Reply
from support.service import LOST, reply
from wakeful import App, ConfigError, Run, on
from wakeful.actions import pagerduty
from wakeful.outside.pagerduty import PagerDutyActions


@pytest.fixture
async def duty() -> AsyncIterator[FakePagerDuty]:
    async with FakePagerDuty() as duty:
        yield duty


def on_duty(duty: FakePagerDuty, **options: Any) -> PagerDutyActions:
    return pagerduty(KEY, base_url=duty.url, allow_private=True, **options)


async def outcome(app: App) -> dict[str, Any]:
    async with working(app) as runtime:
        identifier = (await go(runtime))["id"]
        for _ in range(4):
            await pass_time(runtime, "2m")
        run = await runtime.reader.run(identifier)
    assert run is not None
    assert KEY not in json.dumps(run)
    return dict(run)


def acting(new_app: NewApp, actions: PagerDutyActions, *arguments: Any, **named: Any) -> App:
    app = new_app()

    @app.agent(on("go"))
    async def act(run: Run) -> str:
        key: str = await run.act(actions.trigger, *arguments, **named)
        await run.act(actions.acknowledge, key)
        return await run.act(actions.resolve, key)

    return app


async def test_an_incident_has_the_id_of_its_operation(new_app: NewApp, duty: FakePagerDuty):
    run = await outcome(acting(new_app, on_duty(duty, source="db-1"), "Disk\nfull", details={"free": 0}))
    first = run["effects"][0]["id"]
    assert duty.events == [("trigger", first), ("acknowledge", first), ("resolve", first)]
    assert run["output"] == first
    payload = duty.incidents[0].alerts[0]["payload"]
    assert payload == {"summary": "Disk full", "source": "db-1", "severity": "error", "custom_details": {"free": 0}}
    assert {one["action"] for one in run["effects"]} == {
        "pagerduty.trigger",
        "pagerduty.acknowledge",
        "pagerduty.resolve",
    }


async def test_or_the_key_that_was_given(new_app: NewApp, duty: FakePagerDuty):
    run = await outcome(acting(new_app, on_duty(duty), "Disk full", key="k" * 300, severity="critical"))
    assert run["state"] == "done"
    assert (len(duty.incidents), duty.open) == (1, [])


@pytest.mark.parametrize("trouble", [LOST, reply(500, {}), reply(503, {})], ids=repr)
async def test_a_lost_answer_opens_nothing_twice(new_app: NewApp, duty: FakePagerDuty, trouble: Reply):
    duty.after = [trouble]
    run = await outcome(acting(new_app, on_duty(duty), "Disk full"))
    assert run["state"] == "done"
    assert [action for action, _ in duty.events] == ["trigger", "trigger", "acknowledge", "resolve"]
    assert list(duty.opened.values()) == [1]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"summary": " \n"}, "a trigger needs a summary"),
        ({"summary": "a", "key": ""}, "a trigger needs a summary"),
        ({"summary": "a", "severity": "bad"}, "severity must be one of critical"),
        ({"summary": "a", "links": ["javascript:alert(1)"]}, "a link is"),
    ],
)
async def test_what_pagerduty_would_refuse_is_not_sent(
    new_app: NewApp, duty: FakePagerDuty, arguments: dict[str, Any], said: str
):
    run = await outcome(acting(new_app, on_duty(duty), **arguments))
    assert run["state"] == "dead"
    assert said in run["error"]["message"]
    assert duty.requests == []


async def test_a_refusal_is_a_dead_letter(new_app: NewApp, duty: FakePagerDuty):
    duty.before = [reply(400, {"status": "invalid event", "errors": [f"{KEY} is invalid"]})]
    run = await outcome(acting(new_app, on_duty(duty), "Disk full"))
    assert run["state"] == "dead"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"routing_key": None}, "routing_key must be a text"),
        ({"base_url": "http://example.com"}, "would be sent without encryption"),
        ({"name": ""}, "name must be a text"),
        ({"source": ""}, "source must be a text"),
    ],
)
def test_mistakes_are_told_at_once(options: dict[str, Any], said: str):
    with pytest.raises(ConfigError, match=said):
        pagerduty(**{"routing_key": KEY, **options})
