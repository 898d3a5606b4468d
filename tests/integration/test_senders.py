"""Every sender that Wakeful knows, over HTTP and on both stores: its requests wake an agent once, typed, and forgeries do not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

from support.apps import working
from support.senders import (
    ALERTMANAGER,
    GITHUB,
    GITLAB_SIGNED,
    JIRA,
    PAGERDUTY,
    SENDERS,
    SHOPIFY,
    SLACK,
    SLACK_BUTTONS,
    SLACK_COMMANDS,
    STRIPE,
    Sender,
)
from support.stores import count
from wakeful import App, Run, webhook
from wakeful.clock import SECOND, VirtualClock
from wakeful.runtime import Runtime
from wakeful.senders import alertmanager, github, gitlab, jira, pagerduty, shopify, slack, stripe

MODELS: dict[str, Any] = {
    GITHUB.name: github.PullRequestEvent,
    STRIPE.name: stripe.PaymentIntentEvent,
    SLACK.name: slack.AppMentionEvent,
    SLACK_COMMANDS.name: slack.Command,
    SLACK_BUTTONS.name: slack.Interaction,
    GITLAB_SIGNED.name: gitlab.MergeRequestEvent,
    SHOPIFY.name: shopify.Order,
    JIRA.name: jira.IssueEvent,
    PAGERDUTY.name: pagerduty.IncidentEvent,
    ALERTMANAGER.name: alertmanager.AlertGroup,
}


def path_of(sender: Sender) -> str:
    return "/hooks/" + sender.name.replace(" ", "-")


def take(app: App, sender: Sender, seen: list[tuple[str, Any]]) -> None:
    """An agent for one sender, with the model for it, if there is one."""
    model = MODELS.get(sender.name, Any)

    async def handle(run: Run, data) -> None:
        seen.append((sender.name, data))

    handle.__annotations__["data"] = model
    app.agent(webhook(path_of(sender), verify=sender.verifier()), name=sender.name.replace(" ", "_"))(handle)


@asynccontextmanager
async def served(app: App) -> AsyncIterator[tuple[Runtime, httpx2.AsyncClient]]:
    async with working(app) as runtime:
        transport = httpx2.ASGITransport(app.asgi(open_to="loopback"))
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as http:
            yield runtime, http


async def send(http: httpx2.AsyncClient, sender: Sender, clock: VirtualClock, **how: Any) -> httpx2.Response:
    request = sender.request(now=clock.now() // SECOND, **how)
    headers = [(name.encode(), value.encode("latin-1")) for name, value in request.headers.items()]
    return await http.post(path_of(sender), content=request.body, headers=headers)


async def test_every_sender_wakes_its_agent_once(app: App, clock: VirtualClock, store_url: str):
    seen: list[tuple[str, Any]] = []
    for sender in SENDERS:
        take(app, sender, seen)
    async with served(app) as (runtime, http):
        for _ in range(2):
            for sender in SENDERS:
                answer = await send(http, sender, clock)
                assert answer.status_code == (200 if "slack" in sender.name else 202), (sender.name, answer.text)
            await runtime.drain()
        for sender in SENDERS:
            forged = await send(http, sender, clock, secret="whsec_Zm9yZ2Vk")
            assert forged.status_code == 401, sender.name
        await runtime.drain()
        assert sorted(name for name, _ in seen) == sorted(sender.name for sender in SENDERS)
        assert await count(store_url, "wakeful_event where state = 'accepted'") == len(SENDERS)
    for name, data in seen:
        assert isinstance(data, MODELS.get(name, object)), name


@pytest.mark.parametrize("sender", [one for one in SENDERS if one.aliased], ids=lambda one: one.name)
async def test_a_replay_under_another_id_wakes_nobody(app: App, clock: VirtualClock, sender: Sender):
    seen: list[tuple[str, Any]] = []
    take(app, sender, seen)
    async with served(app) as (runtime, http):
        changes = {
            "x_github_delivery": "other",
            "x_shopify_webhook_id": "other",
            "x_atlassian_webhook_identifier": "other",
        }
        first = (await send(http, sender, clock)).json()["events"][0]
        again = (await send(http, sender, clock, **changes)).json()["events"][0]
        assert (first["status"], again["status"]) == ("accepted", "duplicate")
        await runtime.drain()
        assert len(seen) == 1


@pytest.mark.parametrize("sender", [one for one in SENDERS if one.signs_time], ids=lambda one: one.name)
async def test_a_request_that_somebody_kept_is_refused_later(app: App, clock: VirtualClock, sender: Sender):
    seen: list[tuple[str, Any]] = []
    take(app, sender, seen)
    request = sender.request(now=clock.now() // SECOND)
    headers = [(name.encode(), value.encode("latin-1")) for name, value in request.headers.items()]
    async with served(app) as (runtime, http):
        clock.move("301s")
        answer = await http.post(path_of(sender), content=request.body, headers=headers)
        assert answer.status_code == 401
        await runtime.drain()
        assert seen == []


async def test_slack_is_answered_what_it_asks_and_no_event_is_made(app: App, clock: VirtualClock, store_url: str):
    take(app, SLACK, [])
    asked = SLACK.sending({"type": "url_verification", "challenge": "3eZbrw1a"})
    async with served(app) as (_, http):
        answer = await send(http, asked, clock)
        assert (answer.status_code, answer.text) == (200, "3eZbrw1a")
        assert await count(store_url, "wakeful_event") == 0
        forged = await send(http, asked, clock, secret="another")
        assert forged.status_code == 401
