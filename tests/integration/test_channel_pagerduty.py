"""`pagerduty(…)` against a server with PagerDuty's rules: one incident for each thread or alarm, and no trigger behind its resolve."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from support.apps import NewApp, go, pass_time, working
from support.fake_pagerduty import KEY, FakePagerDuty
from support.messages import NOWHERE, message
from support.receiver import Reply
from support.service import LOST, reply
from wakeful import App, ConfigError, Persistent, Run, env, on
from wakeful.channels import Message, Sent, pagerduty
from wakeful.output.channels.pagerduty import PagerDuty
from wakeful.runtime import Runtime
from wakeful.stores.request import Actor
from wakeful.stores.verbs.outbox import RedoDelivery
from wakeful.stores.verbs.redo import RedoRun
from wakeful.testing.ports import free_port

ADA = Actor("ada", "code")


@pytest.fixture
async def duty() -> AsyncIterator[FakePagerDuty]:
    async with FakePagerDuty() as duty:
        yield duty


def at(duty: FakePagerDuty, **options: Any) -> PagerDuty:
    return pagerduty(KEY, base_url=duty.url, allow_private=True, **options)


async def deliver(channel: PagerDuty, *messages: Message) -> list[Sent]:
    await channel.open(NOWHERE)
    try:
        return [sent for one in messages for sent in await channel.deliver([one])]
    finally:
        await channel.close()


def an_alarm(what: str = "opened", **fields: Any) -> dict[str, Any]:
    told = {"what": what, "key": "dead/desk/triage", "incident": 3, "number": 1, "loud": False, "text": "It died."}
    return {**told, "subject": "Agent triage has a dead letter", **fields}


class TestEvents:
    async def test_a_message_opens_an_incident(self, duty: FakePagerDuty):
        (sent,) = await deliver(at(duty), message(body={"pages": 7}, subject="order\n7"))
        (incident,) = duty.incidents
        assert (sent, incident.key) == (Sent("0f9e11ba70"), "0f9e11ba70")
        assert incident.alerts[0]["payload"] == {
            "summary": "order 7",
            "source": "billing",
            "severity": "error",
            "timestamp": "2026-01-01T00:00:00.123456Z",
            "component": "remind",
            "custom_details": {"pages": 7},
        }

    async def test_a_text_is_summary_and_details(self, duty: FakePagerDuty):
        await deliver(at(duty), message(body="Disk full\non db-1"))
        payload = duty.incidents[0].alerts[0]["payload"]
        assert payload["summary"] == "Disk full on db-1"
        assert payload["custom_details"] == {"text": "Disk full\non db-1"}

    async def test_the_body_may_say_more(self, duty: FakePagerDuty):
        links = ["https://example.com/runbook", {"href": "https://example.com/graph", "text": "Graph"}]
        body = {"severity": "warning", "source": "db-1", "class": "disk", "group": "prod", "links": links, "free": 0}
        await deliver(at(duty), message(body=body))
        event = duty.incidents[0].alerts[0]
        assert event["payload"]["custom_details"] == {"free": 0}
        told = [event["payload"][name] for name in ("severity", "source", "class", "group")]
        assert told == ["warning", "db-1", "disk", "prod"]
        assert event["links"][0] == {"href": "https://example.com/runbook", "text": "https://example.com/runbook"}
        assert event["links"][1] == {"href": "https://example.com/graph", "text": "Graph"}

    @pytest.mark.parametrize(
        ("fields", "severity"),
        [({}, "warning"), ({"urgent": True}, "critical"), ({"body": an_alarm(loud=True)}, "critical")],
    )
    async def test_what_is_urgent_is_critical(self, duty: FakePagerDuty, fields: dict[str, Any], severity: str):
        await deliver(at(duty, severity="warning"), message(**fields))
        assert duty.incidents[0].alerts[0]["payload"]["severity"] == severity

    async def test_messages_of_a_thread_are_one_incident(self, duty: FakePagerDuty):
        body = [{"event_action": one} for one in ("trigger", "acknowledge", "trigger", "resolve")]
        sent = await deliver(at(duty), *(message(str(n), one, thread="db") for n, one in enumerate(body)))
        assert duty.events == [("trigger", "db"), ("acknowledge", "db"), ("trigger", "db"), ("resolve", "db")]
        assert (duty.opened, duty.open) == ({"db": 1}, [])
        assert [one.closes for one in sent] == [None, None, None, "earlier"]

    async def test_an_alarm_opens_and_resolves_its_incident(self, duty: FakePagerDuty):
        told = [an_alarm("opened"), an_alarm("still open", number=2), an_alarm("resolved", number=3)]
        sent = await deliver(at(duty), *(message(str(n), one) for n, one in enumerate(told)))
        assert duty.events == [(one, "billing/dead/desk/triage/3") for one in ("trigger", "trigger", "resolve")]
        assert [one.closes for one in sent] == [None, None, "thread"]
        await deliver(at(duty), message("4", an_alarm("opened", incident=4)))
        assert duty.open == ["billing/dead/desk/triage/4"], "the next incident is another one"

    async def test_other_messages_that_say_resolved_resolve(self, duty: FakePagerDuty):
        await deliver(at(duty), message("1", thread="db"), message("2", {"what": "resolved"}, thread="db"))
        assert duty.open == []

    async def test_long_texts_are_bounded(self, duty: FakePagerDuty):
        long = an_alarm(key="dead/" + "k" * 500, text="t" * 900_000)
        await deliver(at(duty), message("1", long, subject="s" * 5_000), message("2", "ž" * 600_000))
        await deliver(at(duty), message("3", an_alarm("resolved", key=long["key"])))
        assert len(duty.open) == 1, "the key of a resolve is that of its trigger"
        assert len(duty.incidents[0].alerts[0]["payload"]["summary"]) == 1_024
        assert "longer than PagerDuty takes" in json.dumps(duty.incidents[0].alerts[0])

    @pytest.mark.parametrize(
        ("body", "said"),
        [
            ({"event_action": "close"}, "event_action must be one of trigger, acknowledge, resolve"),
            ({"event_action": ["resolve"]}, "event_action must be one of"),
            ({"event_action": "resolve"}, "which incident is to resolve"),
            ({"event_action": "acknowledge"}, "which incident is to acknowledge"),
            ({"what": "resolved"}, "which incident is to resolve"),
            ({"severity": "bad"}, "severity must be one of critical"),
            ({"severity": ["bad"]}, "severity must be one of critical"),
            ({"links": ["javascript:alert(1)"]}, "a link is"),
            ({"links": [7]}, "a link is"),
        ],
    )
    async def test_what_concerns_no_incident_is_refused(self, duty: FakePagerDuty, body: Any, said: str):
        with pytest.raises(Persistent, match=said):
            await deliver(at(duty), message(body=body))
        assert duty.requests == []

    @pytest.mark.parametrize(
        "body", [None, 7, [], {}, {"what": {}}, {"what": []}, {"source": 7}, {"class": {}, "component": 1}], ids=repr
    )
    async def test_any_body_is_a_valid_event(self, duty: FakePagerDuty, body: Any):
        await deliver(at(duty), message(body=body))
        assert len(duty.incidents) == 1


def paging(app: App) -> App:
    @app.agent(on("go"))
    async def page(run: Run) -> None:
        run.send("ops", run.event.data, thread="db")

    return app


async def the_delivery(runtime: Runtime, run: dict[str, Any]) -> dict[str, Any]:
    found = await runtime.reader.run(run["id"])
    assert found is not None
    assert KEY not in json.dumps(found)
    (one,) = found["deliveries"]
    return one


async def outcome(new_app: NewApp, channel: PagerDuty) -> dict[str, Any]:
    """What became of one message after a few minutes."""
    async with working(paging(new_app(channels={"ops": channel}))) as runtime:
        run = await go(runtime, "disk full")
        for _ in range(3):
            await pass_time(runtime, "2m")
        return await the_delivery(runtime, run)


class TestVerdicts:
    async def test_delivered_with_evidence(self, new_app: NewApp, duty: FakePagerDuty):
        one = await outcome(new_app, at(duty))
        assert (one["state"], one["tries"], one["evidence"]) == ("delivered", 1, {"id": "db", "url": None})

    @pytest.mark.parametrize(
        "trouble", [LOST, reply(500, {}), reply(502, {}), reply(503, {}), reply(408, {})], ids=repr
    )
    async def test_an_answer_that_is_lost_opens_nothing_twice(
        self, new_app: NewApp, duty: FakePagerDuty, trouble: Reply
    ):
        duty.after = [trouble, trouble]
        one = await outcome(new_app, at(duty))
        assert (one["state"], one["tries"], one["doubt_at"], duty.opened) == ("delivered", 3, None, {"db": 1})

    async def test_no_answer_in_time_goes_again(self, new_app: NewApp, duty: FakePagerDuty):
        duty.before = [Reply(silent=True)]
        one = await outcome(new_app, at(duty, timeout="200ms"))
        assert (one["state"], one["tries"], duty.opened) == ("delivered", 2, {"db": 1})

    @pytest.mark.parametrize("status", [429, 503])
    async def test_it_waits_as_long_as_it_is_told(self, new_app: NewApp, duty: FakePagerDuty, status: int):
        duty.before = [reply(status, {"status": "throttle exceeded"}, retry_after="90")]
        async with working(paging(new_app(channels={"ops": at(duty)}))) as runtime:
            run = await go(runtime, "disk full")
            await pass_time(runtime, "80s")
            assert (await the_delivery(runtime, run))["state"] == "pending"
            await pass_time(runtime, "11s")
            assert (await the_delivery(runtime, run))["state"] == "delivered"

    @pytest.mark.parametrize("status", [400, 401, 403, 404, 413])
    async def test_a_refusal_is_a_dead_letter(self, new_app: NewApp, duty: FakePagerDuty, status: int):
        duty.before = [reply(status, {"status": "invalid event", "errors": [f"'routing_key' {KEY} is invalid"]})]
        one = await outcome(new_app, at(duty))
        assert (one["state"], duty.incidents) == ("dead", [])
        assert f"pagerduty(…) answered {status}" in one["error"]["message"]

    async def test_no_connection_is_no_doubt(self, new_app: NewApp):
        channel = pagerduty(KEY, base_url=f"http://127.0.0.1:{free_port()}", allow_private=True)
        one = await outcome(new_app, channel)
        assert (one["state"], one["doubt_at"]) == ("pending", None)


class TestResolves:
    async def test_a_trigger_that_is_replayed_after_its_resolve_opens_nothing(
        self, new_app: NewApp, duty: FakePagerDuty
    ):
        duty.before = [reply(400, {"message": "Event object is invalid"})]
        async with working(paging(new_app(channels={"ops": at(duty)}))) as runtime:
            run = await go(runtime, "disk full")
            await go(runtime, {"event_action": "resolve"})
            await runtime.store.do(RedoDelivery((await the_delivery(runtime, run))["id"], by=ADA))
            await runtime.drain()
            one = await the_delivery(runtime, run)
            assert (one["state"], duty.incidents) == ("discarded", [])
            await go(runtime, "disk full again")
        assert duty.open == ["db"], "a later trigger is a new incident"

    async def test_a_trigger_whose_answer_was_lost_goes_before_its_resolve(self, new_app: NewApp, duty: FakePagerDuty):
        duty.after = [LOST]
        async with working(paging(new_app(channels={"ops": at(duty)}))) as runtime:
            await go(runtime, "disk full")
            await go(runtime, {"event_action": "resolve"})
            await pass_time(runtime)
        assert [action for action, _ in duty.events] == ["trigger", "trigger", "resolve"]
        assert (duty.opened, duty.open) == ({"db": 1}, [])

    async def test_an_alarm_is_one_incident_from_its_opening_to_its_end(self, new_app: NewApp, duty: FakePagerDuty):
        app = new_app(alarms="ops", channels={"ops": at(duty)}, alarm_repeat="1h")
        trouble: list[Exception] = [Persistent("no")]

        @app.agent(on("go"))
        async def agent(run: Run) -> None:
            if trouble:
                raise trouble[0]

        async with working(app) as runtime:
            run = await go(runtime)
            await pass_time(runtime)
            assert len(duty.open) == 1
            assert duty.incidents[0].alerts[0]["payload"]["summary"] == "Agent agent has a dead letter"
            trouble.clear()
            await runtime.store.do(RedoRun(run["id"], by=ADA))
            await runtime.drain()
            await pass_time(runtime, "1m")
        assert [action for action, _ in duty.events] == ["trigger", "trigger", "resolve"]
        assert (len(duty.incidents), duty.open) == (1, [])


class TestDeclared:
    @pytest.mark.parametrize(
        ("options", "said"),
        [
            ({"routing_key": None}, 'routing_key must be a text or env("NAME")'),
            ({"severity": "bad"}, "severity must be one of critical, error, warning, info"),
            ({"source": ""}, "source must be a text"),
            ({"base_url": "http://events.example.com"}, "would be sent without encryption"),
            ({"base_url": "https://10.0.0.1"}, "a private address"),
            ({"timeout": None}, "a request needs a time limit"),
        ],
    )
    def test_mistakes_are_told_at_once(self, options: dict[str, Any], said: str):
        with pytest.raises(ConfigError, match=r"^pagerduty\(…\): ") as caught:
            pagerduty(**{"routing_key": KEY, **options})
        assert said in str(caught.value)

    async def test_a_missing_key_is_told_at_the_start(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.delenv("DUTY_KEY", raising=False)
        channel = pagerduty(env("DUTY_KEY"))
        assert "DUTY_KEY is not set" in channel.missing()[0]
        with pytest.raises(ConfigError, match="routing_key: the environment variable DUTY_KEY is not set"):
            await channel.open(NOWHERE)

    def test_what_it_says_of_itself_holds_no_secret(self):
        channel = pagerduty(KEY, severity="warning", source="db-1")
        assert channel.describe() == {
            "kind": "pagerduty",
            "url": "https://events.pagerduty.com",
            "severity": "warning",
            "source": "db-1",
            "allow_private": False,
        }
        assert repr(channel) == 'pagerduty("https://events.pagerduty.com")'
