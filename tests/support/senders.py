"""Requests as the senders make them: bodies with the fields that they document, signed in their ways by the standard library."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC
from typing import Any
from urllib.parse import urlencode

from wakeful import verify
from wakeful.clock import SECOND
from wakeful.errors import InvalidEvent
from wakeful.intake.cloudevents import TEXT_LIMIT, from_envelope, to_envelope
from wakeful.model import Event
from wakeful.verify import Answer, Challenge, Verifier, WebhookRequest

NOW = 1_790_000_000
SECRET = "a secret with some bytes: äöü"
STANDARD_SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
FORM = {"content-type": "application/x-www-form-urlencoded"}
JSON = {"content-type": "application/json"}

Headers = dict[str, str]


def hexadecimal(secret: str, content: bytes, algorithm: str = "sha256") -> str:
    return hmac.new(secret.encode(), content, algorithm).hexdigest()


def based64(key: bytes, content: bytes) -> str:
    return base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()


def by_github(secret: str, body: bytes, now: int) -> Headers:
    return {"x-hub-signature-256": f"sha256={hexadecimal(secret, body)}"}


def by_stripe(secret: str, body: bytes, now: int) -> Headers:
    return {"stripe-signature": f"t={now},v1={hexadecimal(secret, f'{now}.'.encode() + body)}"}


def by_slack(secret: str, body: bytes, now: int) -> Headers:
    signature = hexadecimal(secret, f"v0:{now}:".encode() + body)
    return {"x-slack-request-timestamp": str(now), "x-slack-signature": f"v0={signature}"}


def by_standard_webhooks(secret: str, body: bytes, now: int) -> Headers:
    key = base64.b64decode(secret.removeprefix("whsec_")) if secret.startswith("whsec_") else secret.encode()
    return {
        "webhook-id": "msg_1",
        "webhook-timestamp": str(now),
        "webhook-signature": f"v1,{based64(key, f'msg_1.{now}.'.encode() + body)}",
    }


def by_token(secret: str, body: bytes, now: int) -> Headers:
    return {"x-gitlab-token": secret.encode().decode("latin-1")}


def by_shopify(secret: str, body: bytes, now: int) -> Headers:
    return {"x-shopify-hmac-sha256": based64(secret.encode(), body)}


def by_jira(secret: str, body: bytes, now: int) -> Headers:
    return {"x-hub-signature": f"sha256={hexadecimal(secret, body)}"}


def by_pagerduty(secret: str, body: bytes, now: int) -> Headers:
    return {"x-pagerduty-signature": f"v1={hexadecimal(secret, body)}"}


def by_bearer(secret: str, body: bytes, now: int) -> Headers:
    return {"authorization": "Bearer " + secret.encode().decode("latin-1")}


def by_basic(secret: str, body: bytes, now: int) -> Headers:
    return {"authorization": "Basic " + base64.b64encode(b"sender:" + secret.encode()).decode()}


def by_plain_hmac(secret: str, body: bytes, now: int) -> Headers:
    return {"x-signature": hexadecimal(secret, body)}


def by_timed_hmac(secret: str, body: bytes, now: int) -> Headers:
    return {"x-time": str(now), "x-signature": "v=" + based64(secret.encode(), f"{now}.".encode() + body)}


@dataclass(frozen=True)
class Sender:
    """One sender: how it is declared, how it signs, and a request of its own."""

    name: str
    declare: Callable[[Any], Verifier]
    sign: Callable[[str, bytes, int], Headers]
    body: Any = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=lambda: JSON)
    secret: str = SECRET
    signs_body: bool = True
    signs_time: bool = False
    aliased: bool = False

    @property
    def raw(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()

    def verifier(self, secret: Any = None) -> Verifier:
        return self.declare(self.secret if secret is None else secret)

    def request(
        self, *, secret: str | None = None, now: int = NOW, received: int | None = None, **more: str
    ) -> WebhookRequest:
        headers = {**self.headers, **self.sign(secret or self.secret, self.raw, now)}
        headers |= {name.replace("_", "-"): value for name, value in more.items()}
        return WebhookRequest("/hooks", headers, self.raw, (now if received is None else received) * SECOND)

    def sending(self, body: Any, **headers: str) -> Sender:
        return replace(
            self,
            body=body,
            headers={**self.headers, **{name.replace("_", "-"): value for name, value in headers.items()}},
        )


REPOSITORY = {
    "id": 1296269,
    "name": "shop",
    "full_name": "octo/shop",
    "private": False,
    "html_url": "https://github.com/octo/shop",
    "default_branch": "main",
    "owner": {"login": "octo", "id": 1, "type": "Organization"},
}
OCTOCAT = {"login": "octocat", "id": 583231, "type": "User", "html_url": "https://github.com/octocat"}
PULL_REQUEST = {
    "action": "opened",
    "number": 7,
    "pull_request": {
        "id": 279147437,
        "number": 7,
        "state": "open",
        "title": "Sell more",
        "body": None,
        "draft": False,
        "merged": False,
        "html_url": "https://github.com/octo/shop/pull/7",
        "user": OCTOCAT,
        "labels": [{"id": 1, "name": "feature", "color": "f29513"}],
        "head": {"ref": "more", "sha": "ec26c3e57ca3a959ca5aad62de7213c562f8c821", "repo": REPOSITORY},
        "base": {"ref": "main", "sha": "f95f852bd8fca8fcc58a9a2d6c842781e32a215e", "repo": REPOSITORY},
        "created_at": "2026-05-01T12:00:00Z",
        "updated_at": "2026-05-01T12:00:00Z",
    },
    "repository": REPOSITORY,
    "sender": OCTOCAT,
}
PUSH = {
    "ref": "refs/heads/main",
    "before": "6113728f27ae82c7b1a177c8d03f9e96e0adf246",
    "after": "0000000000000000000000000000000000000000",
    "created": False,
    "deleted": True,
    "forced": False,
    "base_ref": None,
    "compare": "https://github.com/octo/shop/compare/6113728f27ae...000000000000",
    "commits": [
        {
            "id": "0d1a26e67d8f5eaf1f6ba5c57fc3c7d91ac0fd1c",
            "message": "Update README.md",
            "timestamp": "2026-05-05T19:40:15-04:00",
            "url": "https://github.com/octo/shop/commit/0d1a26e",
            "author": {"name": "Octo Cat", "email": "octo@example.com", "username": "octocat"},
            "added": [],
            "removed": [],
            "modified": ["README.md"],
        }
    ],
    "head_commit": None,
    # A push names the owner and the pusher in another way than other events.
    "repository": {**REPOSITORY, "owner": {"name": "octo", "email": "octo@example.com"}},
    "pusher": {"name": "octocat", "email": "octo@example.com"},
    "sender": OCTOCAT,
}
ISSUE = {
    "id": 73464126,
    "number": 2,
    "title": "Spelling error in the README file",
    "state": "open",
    "body": "It looks like you accidentally spelled 'commit' with two 't's.",
    "user": OCTOCAT,
    "labels": [],
    "assignees": [],
    "comments": 0,
    "html_url": "https://github.com/octo/shop/issues/2",
    "created_at": "2026-05-05T23:40:28Z",
}
STRIPE_EVENT = {
    "id": "evt_1NG8Du2eZvKYlo2CUI79vXWy",
    "object": "event",
    "api_version": "2026-04-22",
    "created": NOW - 3,
    "livemode": False,
    "pending_webhooks": 1,
    "request": {"id": "req_1", "idempotency_key": "3e5c"},
    "type": "payment_intent.succeeded",
    "data": {
        "object": {
            "id": "pi_3MtwBwLkdIwHu7ix28a3tqPa",
            "object": "payment_intent",
            "amount": 2000,
            "amount_received": 2000,
            "currency": "usd",
            "customer": None,
            "description": None,
            "latest_charge": "ch_3MtwBwLkdIwHu7ix",
            "metadata": {"order": "42"},
            "status": "succeeded",
        }
    },
}
SLACK_MENTION = {
    "token": "XXYYZZ",
    "team_id": "T123ABC456",
    "api_app_id": "A123ABC456",
    "type": "event_callback",
    "event_id": "Ev123ABC456",
    "event_time": NOW - 1,
    "authorizations": [{"enterprise_id": None, "team_id": "T123ABC456", "user_id": "U123ABC456", "is_bot": True}],
    "event": {
        "type": "app_mention",
        "user": "U061F7AUR",
        "text": "<@U0LAN0Z89> is it everything a river should be?",
        "ts": "1515449522.000016",
        "channel": "C123ABC456",
        "event_ts": "1515449522000016",
    },
}
SLACK_COMMAND = {
    "token": "gIkuvaNzQIHg97ATvDxqgjtO",
    "team_id": "T0001",
    "team_domain": "example",
    "channel_id": "C2147483705",
    "channel_name": "test",
    "user_id": "U2147483697",
    "user_name": "steve",
    "command": "/weather",
    "text": "94070",
    "response_url": "https://hooks.slack.com/commands/1234/5678",
    "trigger_id": "13345224609.738474920.8088930838d88f008e0",
    "api_app_id": "A123456",
}
SLACK_BUTTON = {
    "type": "block_actions",
    "user": {"id": "UA8RXUSPL", "username": "jtorrance", "team_id": "T9TK3CUKW"},
    "api_app_id": "AABA1ABCD",
    "container": {"type": "message", "message_ts": "1548261231.000200", "channel_id": "CBR2V3XEX"},
    "trigger_id": "12321423423.333649436676.d8c1bb837935619ccad0f624c448ffb3",
    "channel": {"id": "CBR2V3XEX", "name": "review-updates"},
    "response_url": "https://hooks.slack.com/actions/AABA1ABCD/1232321423432/D09sSasdasdAS9091209",
    "actions": [
        {"action_id": "approve", "block_id": "=qXel", "value": "42", "type": "button", "action_ts": "1548426417.840180"}
    ],
}
GITLAB_PROJECT = {
    "id": 1,
    "name": "Test",
    "path_with_namespace": "gitlab-org/test",
    "default_branch": "main",
    "web_url": "https://gitlab.example/test",
}
MERGE_REQUEST = {
    "object_kind": "merge_request",
    "event_type": "merge_request",
    "user": {"id": 1, "name": "Administrator", "username": "root", "email": "[REDACTED]"},
    "project": GITLAB_PROJECT,
    "object_attributes": {
        "id": 99,
        "iid": 1,
        "title": "MS-Viewport",
        "description": "",
        "state": "opened",
        "action": "open",
        "source_branch": "ms-viewport",
        "target_branch": "main",
        "source_project_id": 14,
        "target_project_id": 14,
        "draft": False,
        "url": "https://gitlab.example/test/merge_requests/1",
        "created_at": "2026-12-03T17:23:34Z",
        "last_commit": {"id": "da1560886d4f094c3e6c9ef40349f7d38b5d27d7", "message": "fixed readme"},
    },
    "labels": [{"id": 206, "title": "API"}],
    "changes": {},
}
GITLAB_PIPELINE = {
    "object_kind": "pipeline",
    "object_attributes": {
        "id": 31,
        "iid": 3,
        "ref": "main",
        "tag": False,
        "sha": "bcbb5ec396a2c0f828686f14fac9b80b780504f2",
        "source": "merge_request_event",
        "status": "failed",
        "duration": 63,
    },
    "merge_request": None,
    "user": {"id": 1, "name": "Administrator", "username": "root"},
    "project": GITLAB_PROJECT,
    "commit": {"id": "bcbb5ec396a2c0f828686f14fac9b80b780504f2", "message": "test"},
    "builds": [{"id": 380, "stage": "deploy", "name": "production", "status": "failed"}],
}
GITLAB_PUSH = {
    "object_kind": "push",
    "event_name": "push",
    "before": "95790bf891e76fee5e1747ab589903a6a1f80f22",
    "after": "da1560886d4f094c3e6c9ef40349f7d38b5d27d7",
    "ref": "refs/heads/main",
    "checkout_sha": "da1560886d4f094c3e6c9ef40349f7d38b5d27d7",
    "user_id": 4,
    "user_name": "Jane",
    "user_username": "jane",
    "user_email": None,
    "project_id": 15,
    "project": GITLAB_PROJECT,
    "commits": [
        {
            "id": "b6568db1bc1dcd7f8b4d5a946b0b91f9dacd7327",
            "message": "Update",
            "timestamp": "2026-12-12T14:27:31+02:00",
            "author": {"name": "Jane", "email": "jane@example.com"},
            "added": ["CHANGELOG"],
            "modified": [],
            "removed": [],
        }
    ],
    "total_commits_count": 1,
}
ORDER = {
    "id": 820982911946154508,
    "admin_graphql_api_id": "gid://shopify/Order/820982911946154508",
    "name": "#9999",
    "order_number": 1234,
    "email": "jon@example.com",
    "created_at": "2026-06-01T12:00:00-05:00",
    "updated_at": "2026-06-01T12:00:00-05:00",
    "currency": "USD",
    "total_price": "388.00",
    "subtotal_price": "398.00",
    "total_tax": "0.00",
    "financial_status": "paid",
    "fulfillment_status": None,
    "cancelled_at": None,
    "test": True,
    "customer": {"id": 115310627314723954, "email": "john@example.com", "first_name": "John", "last_name": "Smith"},
    "line_items": [
        {
            "id": 866550311766439020,
            "title": "IPod Nano - 8GB",
            "quantity": 1,
            "price": "199.00",
            "sku": "IPOD2008PINK",
            "product_id": 632910392,
            "variant_id": 808950810,
        }
    ],
}
JIRA_ISSUE = {
    "timestamp": NOW * 1000,
    "webhookEvent": "jira:issue_updated",
    "issue_event_type_name": "issue_generic",
    "user": {"accountId": "99:27935d01-92a7-4687-8272-a9b8d3b2ae2e", "displayName": "Bryan"},
    "issue": {
        "id": "99291",
        "key": "JRA-20002",
        "self": "https://example.atlassian.net/rest/api/2/issue/99291",
        "fields": {
            "summary": "I feel the need for speed",
            "description": None,
            "labels": ["UI", "dialogue"],
            "status": {"id": "3", "name": "In Progress"},
            "issuetype": {"id": "10001", "name": "Bug"},
            "priority": {"id": "3", "name": "Minor"},
            "project": {"id": "10000", "key": "JRA", "name": "Jira"},
            "assignee": None,
            "customfield_10101": 5,
        },
    },
    "changelog": {
        "id": "10124",
        "items": [
            {
                "field": "status",
                "fieldtype": "jira",
                "from": "1",
                "fromString": "Open",
                "to": "3",
                "toString": "In Progress",
            }
        ],
    },
}
INCIDENT = {
    "event": {
        "id": "5ac64822-4adc-4fda-ade0-410becf0de4f",
        "event_type": "incident.triggered",
        "resource_type": "incident",
        "occurred_at": "2026-10-02T18:45:22.169Z",
        "agent": {"id": "PLH1HKV", "type": "user_reference", "summary": "Tenex Engineer"},
        "client": {"name": "PagerDuty"},
        "data": {
            "id": "PGR0VU2",
            "type": "incident",
            "html_url": "https://acme.pagerduty.com/incidents/PGR0VU2",
            "number": 2,
            "status": "triggered",
            "incident_key": "d3640fbd41094207a1c11e58e46b1662",
            "created_at": "2026-10-02T18:45:22Z",
            "title": "A little bump in the road",
            "service": {"id": "PF9KMXH", "type": "service_reference", "summary": "API Service"},
            "assignees": [{"id": "PTUXL6G", "type": "user_reference", "summary": "User 123"}],
            "escalation_policy": {"id": "PUS0KTE", "type": "escalation_policy_reference", "summary": "Default"},
            "priority": None,
            "urgency": "high",
            "teams": [],
        },
    }
}
ALERTS = {
    "version": "4",
    "groupKey": '{}:{alertname="HighLatency"}',
    "truncatedAlerts": 0,
    "status": "firing",
    "receiver": "wakeful",
    "groupLabels": {"alertname": "HighLatency"},
    "commonLabels": {"alertname": "HighLatency", "severity": "page"},
    "commonAnnotations": {},
    "externalURL": "http://alertmanager.example:9093",
    "alerts": [
        {
            "status": "firing",
            "labels": {"alertname": "HighLatency", "instance": name, "severity": "page"},
            "annotations": {"summary": "High latency"},
            "startsAt": "2026-10-12T07:19:38.000Z",
            "endsAt": "0001-01-01T00:00:00Z",
            "generatorURL": "http://prometheus.example:9090/graph",
            "fingerprint": fingerprint,
        }
        for name, fingerprint in (("a", "9d4b1c0f2e"), ("b", "77aa01c3d5"))
    ],
}

GITHUB = Sender(
    "github",
    verify.github,
    by_github,
    PULL_REQUEST,
    {**JSON, "x-github-event": "pull_request", "x-github-delivery": "72d3162e-cc78-11e3-81ab-4c9367dc0958"},
    aliased=True,
)
STRIPE = Sender("stripe", verify.stripe, by_stripe, STRIPE_EVENT, signs_time=True)
SLACK = Sender("slack", verify.slack, by_slack, SLACK_MENTION, signs_time=True)
SLACK_COMMANDS = Sender(
    "slack command", verify.slack, by_slack, urlencode(SLACK_COMMAND).encode(), FORM, signs_time=True
)
SLACK_BUTTONS = Sender(
    "slack interaction",
    verify.slack,
    by_slack,
    urlencode({"payload": json.dumps(SLACK_BUTTON)}).encode(),
    FORM,
    signs_time=True,
)
STANDARD = Sender(
    "standard_webhooks",
    verify.standard_webhooks,
    by_standard_webhooks,
    {"type": "user.created", "timestamp": "2026-11-03T20:26:10.344522Z", "data": {"id": "1f81eb52"}},
    secret=STANDARD_SECRET,
    signs_time=True,
)
GITLAB = Sender(
    "gitlab token",
    verify.gitlab,
    by_token,
    MERGE_REQUEST,
    {**JSON, "x-gitlab-event": "Merge Request Hook", "idempotency-key": "f5e5f430-f57b-4e6e-9fac-d9128cd7232f"},
    signs_body=False,
)
GITLAB_SIGNED = Sender(
    "gitlab signed",
    verify.gitlab,
    by_standard_webhooks,
    MERGE_REQUEST,
    GITLAB.headers,
    STANDARD_SECRET,
    signs_time=True,
)
SHOPIFY = Sender(
    "shopify",
    verify.shopify,
    by_shopify,
    ORDER,
    {
        **JSON,
        "x-shopify-topic": "orders/create",
        "x-shopify-shop-domain": "example.myshopify.com",
        "x-shopify-webhook-id": "b54557e4-bdd9-4b37-8a5f-bf7d70bcd043",
        "x-shopify-event-id": "98880550-7158-44d4-b7cd-2c97c8a091b5",
        "x-shopify-triggered-at": "2026-03-29T18:00:27.877041743Z",
    },
    aliased=True,
)
JIRA = Sender(
    "jira", verify.jira, by_jira, JIRA_ISSUE, {**JSON, "x-atlassian-webhook-identifier": "webhook-id-1"}, aliased=True
)
PAGERDUTY = Sender("pagerduty", verify.pagerduty, by_pagerduty, INCIDENT)
ALERTMANAGER = Sender("alertmanager", verify.alertmanager, by_bearer, ALERTS, signs_body=False)
ALERTMANAGER_BASIC = Sender(
    "alertmanager basic", lambda secret: verify.alertmanager(secret, user="sender"), by_basic, ALERTS, signs_body=False
)
BEARER = Sender("bearer", verify.bearer, by_bearer, {"a": 1}, signs_body=False)
BASIC = Sender("basic", lambda secret: verify.basic("sender", secret), by_basic, {"a": 1}, signs_body=False)
HMAC = Sender("hmac", lambda secret: verify.hmac(secret, header="X-Signature"), by_plain_hmac, {"a": 1}, aliased=True)
HMAC_TIMED = Sender(
    "hmac with a time",
    lambda secret: verify.hmac(secret, header="X-Signature", encoding="base64", prefix="v=", timestamp_header="X-Time"),
    by_timed_hmac,
    {"a": 1},
    signs_time=True,
    aliased=True,
)

SENDERS = (
    GITHUB,
    STRIPE,
    SLACK,
    SLACK_COMMANDS,
    SLACK_BUTTONS,
    STANDARD,
    GITLAB,
    GITLAB_SIGNED,
    SHOPIFY,
    JIRA,
    PAGERDUTY,
    ALERTMANAGER,
    ALERTMANAGER_BASIC,
    BEARER,
    BASIC,
    HMAC,
    HMAC_TIMED,
)


def examine_genuine(sender: Sender, request: WebhookRequest) -> None:
    """Read a request that counts as genuine, and look at what it says."""
    verifier = sender.verifier()
    answer = verifier.challenge(request)
    assert answer is None or isinstance(answer, Challenge)
    try:
        told = verifier.read(request)
    except InvalidEvent:
        return
    for text in (told.type, told.id, told.subject):
        assert text is None or (0 < len(text) <= TEXT_LIMIT and "\x00" not in text and text.encode())
    assert told.time is None or told.time.tzinfo is UTC
    assert told.answer is None or isinstance(told.answer, Answer)
    assert all(len(alias) == 32 for alias in told.aliases)
    event = Event(
        "/hooks", told.id or "1", told.type or "x", told.data, told.subject, told.time, extensions=told.extensions
    )
    assert from_envelope(to_envelope(event)).data == told.data
