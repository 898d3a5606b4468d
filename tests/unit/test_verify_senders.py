"""What each sender's requests become: type, id, subject, time and data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

import pytest

from support.senders import (
    ALERTMANAGER,
    ALERTS,
    BEARER,
    FORM,
    GITHUB,
    GITLAB,
    GITLAB_PIPELINE,
    GITLAB_PUSH,
    GITLAB_SIGNED,
    HMAC,
    INCIDENT,
    ISSUE,
    JIRA,
    JIRA_ISSUE,
    NOW,
    ORDER,
    PAGERDUTY,
    PULL_REQUEST,
    PUSH,
    REPOSITORY,
    SENDERS,
    SHOPIFY,
    SLACK,
    SLACK_BUTTON,
    SLACK_BUTTONS,
    SLACK_COMMANDS,
    SLACK_MENTION,
    STANDARD,
    STRIPE,
    STRIPE_EVENT,
    Sender,
)
from wakeful.errors import InvalidEvent
from wakeful.verify import Answer, Challenge, Delivered, WebhookRequest


def told(sender: Sender, **headers: str) -> Delivered:
    request = sender.sending(sender.body, **headers).request()
    sender.verifier().verify(request)
    return sender.verifier().read(request)


def unreadable(sender: Sender, **headers: str) -> InvalidEvent:
    request = sender.sending(sender.body, **headers).request()
    sender.verifier().verify(request)
    with pytest.raises(InvalidEvent) as caught:
        sender.verifier().read(request)
    assert "\n" not in str(caught.value)
    return caught.value


# github


def test_a_pull_request_at_github():
    event = told(GITHUB)
    assert event.type == "github.pull_request.opened"
    assert event.id == "72d3162e-cc78-11e3-81ab-4c9367dc0958"
    assert event.subject == "octo/shop#7"
    assert event.data == PULL_REQUEST


@pytest.mark.parametrize(
    ("event", "body", "kind", "subject"),
    [
        ("push", PUSH, "github.push", "octo/shop"),
        (
            "issues",
            {"action": "opened", "issue": ISSUE, "repository": REPOSITORY},
            "github.issues.opened",
            "octo/shop#2",
        ),
        (
            "issue_comment",
            {"action": "created", "issue": ISSUE, "repository": REPOSITORY},
            "github.issue_comment.created",
            "octo/shop#2",
        ),
        ("ping", {"zen": "Design for failure.", "hook_id": 1, "repository": REPOSITORY}, "github.ping", "octo/shop"),
        ("member_invitation", {"action": 7, "organization": {"login": "octo"}}, "github.member_invitation", "octo"),
        ("meta", {"number": 1}, "github.meta", None),
    ],
)
def test_other_events_of_github(event: str, body: Any, kind: str, subject: str | None):
    found = told(GITHUB.sending(body), x_github_event=event)
    assert (found.type, found.subject) == (kind, subject)


def test_github_sends_a_form_unless_it_is_told_otherwise():
    sender = GITHUB.sending(
        urlencode({"payload": json.dumps(PULL_REQUEST)}).encode(), content_type=FORM["content-type"]
    )
    event = told(sender)
    assert (event.type, event.data) == ("github.pull_request.opened", PULL_REQUEST)
    assert "payload" in str(unreadable(sender.sending(b"a=b")))
    assert "payload" in str(unreadable(sender.sending(b"payload=1&payload=2")))


def test_a_request_that_does_not_say_what_happened():
    headers = {name: value for name, value in GITHUB.headers.items() if name != "x-github-event"}
    request = GITHUB.request()
    bare = WebhookRequest(
        "/", {**headers, "x-hub-signature-256": request.headers["x-hub-signature-256"]}, request.body, 0
    )
    with pytest.raises(InvalidEvent, match="X-GitHub-Event"):
        GITHUB.verifier().read(bare)
    for odd in ("a b", "", "é", "x" * 500):
        assert unreadable(GITHUB, x_github_event=odd).field == "X-GitHub-Event"


# stripe


def test_a_payment_at_stripe():
    event = told(STRIPE)
    assert (event.type, event.id) == ("stripe.payment_intent.succeeded", STRIPE_EVENT["id"])
    assert event.subject == "pi_3MtwBwLkdIwHu7ix28a3tqPa"
    assert event.time == datetime.fromtimestamp(NOW - 3, UTC)
    assert event.data == STRIPE_EVENT


def test_a_thin_event_of_stripe():
    thin = {
        "id": "evt_test_65R9",
        "object": "v2.core.event",
        "type": "v1.billing.meter.error_report_triggered",
        "created": "2026-09-17T06:20:52.246Z",
        "related_object": {"id": "mtr_1", "type": "billing.meter", "url": "/v1/billing/meters/mtr_1"},
    }
    event = told(STRIPE.sending(thin))
    assert (event.type, event.subject) == ("stripe.v1.billing.meter.error_report_triggered", "mtr_1")
    assert event.time == datetime(2026, 9, 17, 6, 20, 52, 246000, UTC)


# slack


def test_a_mention_in_slack():
    event = told(SLACK)
    assert (event.type, event.id, event.subject) == ("slack.app_mention", "Ev123ABC456", "C123ABC456")
    assert event.time == datetime.fromtimestamp(NOW - 1, UTC)
    assert event.data == SLACK_MENTION
    assert event.answer == Answer(b"")


@pytest.mark.parametrize(
    ("event", "subject"),
    [
        ({"type": "channel_created", "channel": {"id": "C1", "name": "fun"}}, "C1"),
        ({"type": "reaction_added", "item": {"type": "message", "channel": "C2"}}, "C2"),
        ({"type": "team_join"}, None),
    ],
)
def test_the_channel_of_other_events(event: dict[str, Any], subject: str | None):
    found = told(SLACK.sending({**SLACK_MENTION, "event": event}))
    assert (found.type, found.subject) == (f"slack.{event['type']}", subject)


def test_a_command_and_a_button_in_slack():
    command = told(SLACK_COMMANDS)
    assert (command.type, command.subject) == ("slack.command", "C2147483705")
    assert command.id == "13345224609.738474920.8088930838d88f008e0"
    assert (command.data["command"], command.data["text"]) == ("/weather", "94070")
    button = told(SLACK_BUTTONS)
    assert (button.type, button.subject) == ("slack.interaction.block_actions", "CBR2V3XEX")
    assert button.id == SLACK_BUTTON["trigger_id"]
    assert button.data == SLACK_BUTTON
    assert command.answer == button.answer == Answer(b"")


def test_the_challenge_of_slack_is_answered_and_is_no_event():
    asked = SLACK.sending({"token": "Jhj5", "challenge": "3eZbrw1a ä", "type": "url_verification"})
    assert SLACK.verifier().challenge(asked.request()) == Challenge("3eZbrw1a ä".encode())
    assert SLACK_COMMANDS.verifier().challenge(SLACK_COMMANDS.sending(b"ssl_check=1&token=x").request()) == Challenge(
        b""
    )


@pytest.mark.parametrize(
    "sender",
    [
        SLACK,
        SLACK_COMMANDS,
        SLACK.sending({**SLACK_MENTION, "event": {"type": "message", "text": "url_verification"}}),
        SLACK.sending({"type": "url_verification"}),
        SLACK.sending({"type": "url_verification", "challenge": 7}),
        SLACK.sending(b"url_verification"),
        SLACK_COMMANDS.sending(b"text=ssl_check"),
        SLACK_COMMANDS.sending(b"ssl_check=\xff"),
    ],
)
def test_what_is_no_challenge(sender: Sender):
    assert sender.verifier().challenge(sender.request()) is None


@pytest.mark.parametrize("sender", SENDERS, ids=lambda sender: sender.name)
def test_an_event_is_no_challenge(sender: Sender):
    assert sender.verifier().challenge(sender.request()) is None


def test_a_form_that_is_none_of_slacks():
    assert "neither a Slack command nor an interaction" in str(unreadable(SLACK_COMMANDS.sending(b"a=b")))
    unreadable(SLACK_COMMANDS.sending(b"payload=1&payload=2"))
    unreadable(SLACK_COMMANDS.sending(b"payload=[]"))


# the standard


def test_an_event_of_the_standard():
    event = told(STANDARD)
    assert (event.type, event.id) == ("user.created", "msg_1")
    assert event.time == datetime(2026, 11, 3, 20, 26, 10, 344522, UTC)
    assert event.data == STANDARD.body


def test_a_sender_of_the_standard_need_not_say_a_type():
    assert told(STANDARD.sending({"a": 1})).type is None


# gitlab


def test_a_merge_request_at_gitlab():
    event = told(GITLAB)
    assert (event.type, event.subject) == ("gitlab.merge_request.open", "gitlab-org/test!1")
    assert event.id == "f5e5f430-f57b-4e6e-9fac-d9128cd7232f"
    assert told(GITLAB_SIGNED).id == "msg_1"


@pytest.mark.parametrize(
    ("body", "kind", "subject"),
    [
        (GITLAB_PUSH, "gitlab.push", "gitlab-org/test"),
        (GITLAB_PIPELINE, "gitlab.pipeline.failed", "gitlab-org/test"),
        (
            {
                "object_kind": "issue",
                "object_attributes": {"iid": 3, "action": "close"},
                "project": {"path_with_namespace": "a/b"},
            },
            "gitlab.issue.close",
            "a/b#3",
        ),
        ({"object_kind": "build", "build_status": "created"}, "gitlab.build.created", None),
        (
            {"object_kind": "deployment", "status": "success", "project": {"path_with_namespace": "a/b"}},
            "gitlab.deployment.success",
            "a/b",
        ),
        ({"object_kind": "release", "action": "create"}, "gitlab.release.create", None),
        ({"event_name": "project_create", "path_with_namespace": "a/b"}, "gitlab.project_create", "a/b"),
    ],
)
def test_other_events_of_gitlab(body: Any, kind: str, subject: str | None):
    event = told(GITLAB.sending(body))
    assert (event.type, event.subject) == (kind, subject)


def test_an_older_gitlab_gives_an_id_that_several_requests_share():
    request = GITLAB.request(x_gitlab_event_uuid="one")
    headers = {name: value for name, value in request.headers.items() if name != "idempotency-key"}
    read = GITLAB.verifier().read
    first = read(WebhookRequest("/", headers, request.body, 0)).id
    assert first
    assert read(WebhookRequest("/", headers, request.body, 0)).id == first
    assert read(WebhookRequest("/", headers, json.dumps(GITLAB_PUSH).encode(), 0)).id != first


# shopify, jira, pagerduty


def test_an_order_at_shopify():
    event = told(SHOPIFY)
    assert event.type == "shopify.orders.create"
    assert event.id == "b54557e4-bdd9-4b37-8a5f-bf7d70bcd043"
    assert event.subject == "820982911946154508"
    assert event.extensions == {"shop": "example.myshopify.com"}
    assert event.time == datetime(2026, 3, 29, 18, 0, 27, 877041, UTC)
    assert event.data == ORDER


def test_an_issue_in_jira():
    event = told(JIRA)
    assert (event.type, event.id, event.subject) == ("jira.issue.updated", "webhook-id-1", "JRA-20002")
    assert event.time == datetime.fromtimestamp(NOW, UTC)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("comment_created", "jira.comment.created"),
        ("jira:version_released", "jira.version.released"),
        ("issue_property_set", "jira.issue_property.set"),
        ("sprint_started", "jira.sprint.started"),
        ("odd", "jira.odd"),
    ],
)
def test_other_events_of_jira(name: str, kind: str):
    assert told(JIRA.sending({**JIRA_ISSUE, "webhookEvent": name})).type == kind


def test_an_incident_at_pagerduty():
    event = told(PAGERDUTY)
    assert (event.type, event.subject) == ("pagerduty.incident.triggered", "PGR0VU2")
    assert event.id == "5ac64822-4adc-4fda-ade0-410becf0de4f"
    assert event.time == datetime(2026, 10, 2, 18, 45, 22, 169000, UTC)


def test_a_note_at_pagerduty_belongs_to_its_incident():
    note = {
        **INCIDENT["event"],
        "event_type": "incident.annotated",
        "data": {"id": "N1", "incident": {"id": "PGR0VU2"}},
    }
    assert told(PAGERDUTY.sending({"event": note})).subject == "PGR0VU2"


# alertmanager


TWO: list[dict[str, Any]] = ALERTS["alerts"]  # type: ignore[assignment]


def alerts(**changes: Any) -> str | None:
    return told(ALERTMANAGER.sending({**ALERTS, **changes})).id


def test_a_group_of_alerts():
    event = told(ALERTMANAGER)
    assert (event.type, event.subject) == ("alertmanager.firing", "HighLatency")
    assert told(ALERTMANAGER.sending({**ALERTS, "status": "resolved"})).type == "alertmanager.resolved"
    assert unreadable(ALERTMANAGER.sending({**ALERTS, "status": "x"})).field == "data.status"


def test_a_group_that_is_told_again_is_the_same_event():
    first, second = TWO
    assert alerts() == alerts(alerts=[second, first]) == alerts(receiver="another", truncatedAlerts=0)
    later = [{**one, "endsAt": "2026-10-12T07:29:38.000Z"} for one in TWO]
    assert alerts() == alerts(alerts=later)


def test_a_group_in_which_something_changed_is_another_event():
    first, second = TWO
    ended = {**second, "status": "resolved", "endsAt": "2026-10-12T07:29:38.000Z"}
    known = {
        alerts(),
        alerts(groupKey="another"),
        alerts(alerts=[first]),
        alerts(alerts=[first, ended]),
        alerts(alerts=[first, {**ended, "endsAt": "2026-10-12T09:29:38.000Z"}]),
        alerts(alerts=[first, {**second, "startsAt": "2026-10-13T07:19:38.000Z"}]),
        alerts(status="resolved"),
    }
    assert len(known) == 7


# bodies


@pytest.mark.parametrize(
    ("content_type", "body", "data"),
    [
        ("application/json", b'{"a": 1}', {"a": 1}),
        ("application/vnd.api+json; charset=utf-8", b"[1]", [1]),
        ("", b'{"a": 1}', {"a": 1}),
        ("application/x-www-form-urlencoded", b"a=1&b=2&a=3&a=&c=%C3%A4", {"a": ["1", "3", ""], "b": "2", "c": "ä"}),
        ("application/x-www-form-urlencoded", b' {"a": 1}', {"a": 1}),
        ("text/plain", "grüße".encode(), "grüße"),
        ("application/octet-stream", b"\x00\xff", "AP8="),
        ("application/json", b"", None),
    ],
)
def test_what_a_body_may_be(content_type: str, body: bytes, data: Any):
    assert told(HMAC.sending(body, content_type=content_type)).data == data


@pytest.mark.parametrize(
    ("content_type", "body", "said"),
    [
        ("application/json", b"{", "not JSON"),
        ("application/json", b'"\\u0000"', "NUL"),
        ("application/json", b"1e999", "finite"),
        ("application/json", b"9" * 30, "64 bits"),
        ("application/json", b"[" * 101 + b"]" * 101, "too deep"),
        ("application/json", b"\xff", "UTF-8"),
        ("application/x-www-form-urlencoded", b"a=%00", "NUL"),
        ("application/x-www-form-urlencoded", b"a=%FF", "UTF-8"),
        ("application/x-www-form-urlencoded", b"\xff", "UTF-8"),
        ("application/x-www-form-urlencoded", b"&".join([b"a=1"] * 1_001), "more than 1,000 fields"),
        ("text/plain; charset=utf-16", b"a", "charset"),
    ],
)
def test_what_a_body_may_not_be(content_type: str, body: bytes, said: str):
    assert said in str(unreadable(BEARER.sending(body, content_type=content_type)))


PRESETS = [
    one
    for one in SENDERS
    if one.name not in {"bearer", "basic", "hmac", "hmac with a time"}
    and one.headers.get("content-type") != FORM["content-type"]
]


@pytest.mark.parametrize("sender", PRESETS, ids=lambda sender: sender.name)
@pytest.mark.parametrize("body", [b"", b"[]", b"1", b"null", b'"text"', b"{", b"\xff", b'{"a": 1e999}'])
def test_a_sender_that_sends_something_else(sender: Sender, body: bytes):
    unreadable(sender.sending(body))


@pytest.mark.parametrize("sender", [GITHUB, SHOPIFY, JIRA], ids=lambda sender: sender.name)
def test_an_id_that_is_missing_or_could_not_be_one_is_left_to_the_webhook(sender: Sender):
    name = next(one for one in sender.headers if one.endswith(("delivery", "webhook-id", "identifier")))
    for odd in ("", "x" * 2_000, "a\x85b"):
        assert told(sender, **{name: odd}).id is None


@pytest.mark.parametrize("sender", SENDERS, ids=lambda sender: sender.name)
def test_what_a_person_trusts_is_read_without_a_proof(sender: Sender):
    """It stood in quarantine, without what could pass for the sender."""
    request = sender.request()
    proofs = {name for name in sender.sign(sender.secret, sender.raw, NOW) if name != "webhook-id"}
    bare = replace(request, headers={name: text for name, text in request.headers.items() if name not in proofs})
    trusted, genuine = sender.verifier().read(bare), sender.verifier().read(request)
    assert trusted.aliases == ()
    assert (trusted.type, trusted.id, trusted.data) == (genuine.type, genuine.id, genuine.data)


class Noted(dict[str, str]):
    """Headers that note which of them are asked for."""

    def __init__(self, headers: Mapping[str, str]) -> None:
        super().__init__(headers)
        self.asked: set[str] = set()

    def get(self, name: str, default: Any = None) -> Any:
        self.asked.add(name)
        return super().get(name, default)

    def __getitem__(self, name: str) -> str:
        self.asked.add(name)
        return super().__getitem__(name)

    def __contains__(self, name: object) -> bool:
        self.asked.add(str(name))
        return super().__contains__(name)


@pytest.mark.parametrize("sender", SENDERS, ids=lambda sender: sender.name)
def test_every_header_that_is_read_is_declared(sender: Sender):
    """Of a request in quarantine no other is stored: with these alone it can be verified and read again."""
    verifier = sender.verifier()
    reads = verifier.reads()
    assert reads is not None
    declared = {name.lower() for name in reads} | {"content-type"}
    whole = sender.request()
    noted = Noted(whole.headers)
    request = replace(whole, headers=noted)
    verifier.verify(request)
    verifier.challenge(request)
    verifier.read_all(request)
    assert noted.asked <= declared
    kept = replace(whole, headers={name: value for name, value in whole.headers.items() if name in declared})
    verifier.verify(kept)
    assert verifier.read_all(kept) == verifier.read_all(whole)
