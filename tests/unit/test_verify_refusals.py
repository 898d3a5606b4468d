"""What is not genuine is refused, for every sender in the same ways; and no secret is ever shown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest

from support.senders import (
    BASIC,
    BEARER,
    GITHUB,
    GITLAB,
    GITLAB_SIGNED,
    HMAC,
    HMAC_TIMED,
    NOW,
    PAGERDUTY,
    SECRET,
    SENDERS,
    SHOPIFY,
    SLACK,
    STANDARD,
    STANDARD_SECRET,
    STRIPE,
    Sender,
    based64,
    hexadecimal,
)
from wakeful import ConfigError, env, verify
from wakeful.clock import SECOND
from wakeful.verify import Refused, Verifier, WebhookRequest

every_sender = pytest.mark.parametrize("sender", SENDERS, ids=lambda sender: sender.name)
signing_body = pytest.mark.parametrize("sender", [one for one in SENDERS if one.signs_body], ids=lambda one: one.name)
signing_time = pytest.mark.parametrize("sender", [one for one in SENDERS if one.signs_time], ids=lambda one: one.name)


LISTS = {"x-pagerduty-signature", "webhook-signature"}  # which may come in parts, some of them of no use


def proofs(sender: Sender) -> list[str]:
    """The headers in which a sender proves itself."""
    return list(sender.sign(sender.secret, sender.raw, NOW))


def with_headers(request: WebhookRequest, **headers: str) -> WebhookRequest:
    return replace(
        request, headers={**request.headers, **{name.replace("_", "-"): text for name, text in headers.items()}}
    )


def refused(verifier: Verifier, request: WebhookRequest) -> str:
    with pytest.raises(Refused) as caught:
        verifier.verify(request)
    return str(caught.value)


@every_sender
def test_a_genuine_request_is_believed(sender: Sender):
    verifier = sender.verifier()
    verifier.open("webhook /hooks")
    verifier.verify(sender.request())


@every_sender
def test_another_secret_is_refused(sender: Sender):
    for other in ("another", sender.secret[:-1] + "x", sender.secret + "x"):
        reason = refused(sender.verifier("whsec_c2VjcmV0" if "whsec" in sender.secret else other), sender.request())
        assert "\n" not in reason


@signing_body
def test_every_changed_byte_of_the_body_is_refused(sender: Sender):
    verifier, request = sender.verifier(), sender.request()
    for position in range(len(request.body)):
        changed = bytearray(request.body)
        changed[position] ^= 1
        refused(verifier, replace(request, body=bytes(changed)))
    refused(verifier, replace(request, body=request.body + b" "))
    refused(verifier, replace(request, body=request.body[:-1]))
    refused(verifier, replace(request, body=b""))


@every_sender
def test_every_changed_character_of_a_proof_is_refused(sender: Sender):
    verifier, request = sender.verifier(), sender.request()
    for name in proofs(sender):
        value = request.headers[name]
        for position, character in enumerate(value):
            other = "b" if character in "aA" else "a"
            changed = value[:position] + other + value[position + 1 :]
            if name == "authorization" and position < len("Bearer"):
                continue  # the scheme: see below
            refused(verifier, replace(request, headers={**request.headers, name: changed}))


@every_sender
def test_a_proof_that_is_missing_empty_or_there_twice_is_refused(sender: Sender):
    verifier, request = sender.verifier(), sender.request()
    for name in proofs(sender):
        rest = {one: value for one, value in request.headers.items() if one != name}
        assert "missing" in refused(verifier, replace(request, headers=rest))
        assert "empty" in refused(verifier, replace(request, headers={**rest, name: ""}))
        refused(verifier, replace(request, headers={**rest, name: " "}))
        if name in LISTS:
            continue
        twice = f"{request.headers[name]}, {request.headers[name]}"
        refused(verifier, replace(request, headers={**rest, name: twice}))


ODD = [
    "\x00",
    "é",
    "\udcff",
    "☃",
    "sha256=",
    "v0=",
    "v1,",
    "v1=",
    "t=,v1=",
    "Bearer",
    "Bearer ",
    "Basic",
    "Basic !",
    "=" * 9,
]


@every_sender
@pytest.mark.parametrize("odd", [*ODD, "a" * 100_000, "1" * 5_000, "٣" * 10])
def test_odd_values_are_refused_like_any_other(sender: Sender, odd: str):
    verifier, request = sender.verifier(), sender.request()
    for name in proofs(sender):
        value = request.headers[name]
        for changed in (odd, value + odd, odd + value, value[: len(value) // 2] + odd):
            if changed != value and not (name in LISTS and odd.endswith(" ")):
                refused(verifier, replace(request, headers={**request.headers, name: changed}))


@every_sender
def test_while_secrets_change_each_is_tried(sender: Sender):
    new = "whsec_bmV3IHNlY3JldA==" if "whsec" in sender.secret else "new secret"
    for order in ([new, sender.secret], [sender.secret, new], (sender.secret, new)):
        verifier = sender.verifier(order)
        verifier.open("webhook /hooks")
        verifier.verify(sender.request())
        verifier.verify(sender.request(secret=new))
    refused(sender.verifier([new]), sender.request())


@signing_time
def test_the_edges_of_the_tolerance(sender: Sender):
    verifier = sender.verifier()
    for apart in (-300, -299, 0, 299, 300):
        verifier.verify(sender.request(received=NOW + apart))
    assert "at most 5m is allowed" in refused(verifier, sender.request(received=NOW + 301))
    assert "in the future" in refused(verifier, sender.request(received=NOW - 301))
    one_more = replace(sender.request(), received_at=(NOW + 300) * SECOND + 1)
    refused(verifier, one_more)


@pytest.mark.parametrize("declare", [verify.stripe, verify.slack, verify.standard_webhooks, verify.gitlab])
def test_a_tolerance_of_ones_own(declare: Callable[..., Verifier]):
    assert 'tolerance="10s"' in declare(STANDARD_SECRET, tolerance="10s").describe()
    for wrong in ("soon", "0s", -1, None):
        with pytest.raises(ConfigError, match="tolerance"):
            declare(STANDARD_SECRET, tolerance=wrong)


def test_a_time_that_was_not_signed_does_not_help():
    """An old request with a new time is a forgery."""
    for sender, name in ((SLACK, "x_slack_request_timestamp"), (STANDARD, "webhook_timestamp"), (HMAC_TIMED, "x_time")):
        late = replace(sender.request(), received_at=(NOW + 1000) * SECOND)
        assert "does not match" in refused(sender.verifier(), with_headers(late, **{name: str(NOW + 1000)}))


def test_a_time_in_other_digits_is_none():
    for text in ("٣" * 10, "+1790000000", "1_790_000_000", " 1790000000", "1790000000.0", "-1", "1e9", "0x10"):
        assert "time" in refused(SLACK.verifier(), with_headers(SLACK.request(), x_slack_request_timestamp=text))


def test_a_time_may_be_in_milliseconds():
    content = f"{NOW}123.".encode() + HMAC_TIMED.raw
    headers = {"x-time": f"{NOW}123", "x-signature": "v=" + based64(SECRET.encode(), content)}
    HMAC_TIMED.verifier().verify(WebhookRequest("/", headers, HMAC_TIMED.raw, NOW * SECOND))


# signatures: the forms in which they come


def test_a_signature_in_capitals_is_the_same_and_so_is_its_alias():
    request = GITHUB.request()
    signature = request.headers["x-hub-signature-256"]
    loud = with_headers(request, x_hub_signature_256="sha256=" + signature.removeprefix("sha256=").upper())
    verifier = GITHUB.verifier()
    verifier.verify(loud)
    assert verifier.read(loud).aliases == verifier.read(request).aliases


def test_another_algorithm_is_not_taken_for_ours():
    for prefix, algorithm in (("sha1=", "sha1"), ("sha512=", "sha512"), ("SHA256=", "sha256"), ("", "sha256")):
        value = prefix + hexadecimal(SECRET, GITHUB.raw, algorithm)
        refused(GITHUB.verifier(), with_headers(GITHUB.request(), x_hub_signature_256=value))
    refused(GITHUB.verifier(), with_headers(GITHUB.request(), x_hub_signature_256="sha256=" + "0" * 64))


def test_one_of_several_signatures_is_enough():
    wrong = "0" * 64
    for sender, name, several in (
        (PAGERDUTY, "x-pagerduty-signature", "v1={wrong},{right}"),
        (PAGERDUTY, "x-pagerduty-signature", "{right}, v1={wrong},v2=1"),
        (STRIPE, "stripe-signature", "{right},v1={wrong},v0=1"),
        (STANDARD, "webhook-signature", "v1,AAAA {right} v1a,BBBB v2,zz"),
        (GITLAB_SIGNED, "webhook-signature", "v1,AAAA {right}"),
    ):
        request = sender.request()
        value = several.format(wrong=wrong, right=request.headers[name])
        sender.verifier().verify(replace(request, headers={**request.headers, name: value}))
        only_others = value.replace(request.headers[name], "").replace("v1", "v9")
        refused(sender.verifier(), replace(request, headers={**request.headers, name: only_others}))


def test_a_header_full_of_signatures_is_not_worked_off():
    for sender, name, one in (
        (PAGERDUTY, "x-pagerduty-signature", "v1=00,"),
        (STANDARD, "webhook-signature", "v1,AAAA "),
    ):
        request = sender.request()
        value = one * 1_000 + request.headers[name]
        refused(sender.verifier(), replace(request, headers={**request.headers, name: value}))


def test_stripe_says_its_time_once():
    header = STRIPE.request().headers["stripe-signature"]
    refused(STRIPE.verifier(), with_headers(STRIPE.request(), stripe_signature=f"t={NOW - 5_000},{header}"))


# credentials


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER", "Bearer "])
def test_schemes_are_read_in_any_case(scheme: str):
    value = f"{scheme} {SECRET.encode().decode('latin-1')}"
    BEARER.verifier().verify(with_headers(BEARER.request(), authorization=value))


@pytest.mark.parametrize(
    "value", ["Basic {}", "Bearer{}", "{}", "Bearer\t{}", "Bearer {} x", "Bearer x {}", "Token {}"]
)
def test_what_is_no_bearer_token_is_refused(value: str):
    text = value.format(SECRET.encode().decode("latin-1"))
    refused(BEARER.verifier(), with_headers(BEARER.request(), authorization=text))


def test_a_user_must_fit_as_well():
    refused(verify.basic("another", SECRET), BASIC.request())
    wrong: list[Any] = ["", "a:b", "a\nb", None, 7]
    for user in wrong:
        with pytest.raises(ConfigError, match="basic: user"):
            verify.basic(user, SECRET)


def test_gitlab_goes_over_from_one_token_to_the_other():
    """With both secrets, requests of a webhook with either or both of them are believed."""
    both = verify.gitlab([STANDARD_SECRET, SECRET])
    both.verify(GITLAB.request())
    both.verify(GITLAB_SIGNED.request())
    together = with_headers(GITLAB_SIGNED.request(), **GITLAB.sign(SECRET, b"", NOW))
    both.verify(together)
    both.verify(with_headers(together, webhook_signature="v1,AAAA"))
    refused(both, with_headers(GITLAB_SIGNED.request(), webhook_signature="v1,AAAA"))
    refused(verify.gitlab(STANDARD_SECRET), GITLAB.request())
    refused(verify.gitlab(STANDARD_SECRET), with_headers(GITLAB.request(), x_gitlab_token=STANDARD_SECRET))
    refused(verify.gitlab(SECRET), GITLAB_SIGNED.request())


def test_gitlab_signs_no_id_under_a_name_that_the_id_is_not_read_from():
    """Else whoever has seen a request could send it again under any Idempotency-Key, while its time is near."""
    genuine = GITLAB_SIGNED.request()
    renamed = {name.replace("webhook-", "svix-"): value for name, value in genuine.headers.items()}
    replay = replace(genuine, headers=renamed | {"idempotency-key": "made up"})
    refused(GITLAB_SIGNED.verifier(), replay)
    refused(verify.gitlab([STANDARD_SECRET, SECRET]), replay)
    verify.standard_webhooks(STANDARD_SECRET).verify(replay)


def test_anybody_is_believed_only_where_it_is_said():
    verifier = verify.none()
    verifier.open("webhook /hooks")
    request = WebhookRequest("/hooks", {}, b'{"a": 1}', 0)
    verifier.verify(request)
    assert verifier.read(request).data == {"a": 1}
    assert verifier.describe() == repr(verifier) == "none()"


# secrets


@every_sender
def test_no_secret_is_shown(sender: Sender):
    verifier = sender.verifier([sender.secret, env("WEBHOOK_SECRET")])
    for shown in (repr(verifier), str(verifier), verifier.describe(), f"{vars(verifier)}"):
        assert sender.secret not in shown
        assert sender.secret.removeprefix("whsec_") not in shown
        assert 'env("WEBHOOK_SECRET")' in shown
    reason = refused(
        sender.verifier(sender.secret),
        replace(sender.request(), headers={**sender.request().headers, **dict.fromkeys(proofs(sender), "x")}),
    )
    assert sender.secret not in reason


@every_sender
def test_a_secret_comes_from_the_environment(sender: Sender, monkeypatch: pytest.MonkeyPatch):
    verifier = sender.verifier(env("WEBHOOK_SECRET"))
    monkeypatch.delenv("WEBHOOK_SECRET", raising=False)
    with pytest.raises(ConfigError, match=r"webhook /hooks.*WEBHOOK_SECRET is not set"):
        verifier.open("webhook /hooks")
    with pytest.raises(ConfigError, match="WEBHOOK_SECRET is not set"):
        verifier.verify(sender.request())
    monkeypatch.setenv("WEBHOOK_SECRET", sender.secret)
    verifier.open("webhook /hooks")
    verifier.verify(sender.request())
    monkeypatch.setenv("WEBHOOK_SECRET", sender.secret + "\n")
    with pytest.raises(ConfigError, match="line break") as caught:
        verifier.open("webhook /hooks")
    assert sender.secret not in str(caught.value)


@every_sender
@pytest.mark.parametrize("wrong", ["", [], (), [""], "  ", " x", "x\n", [None], 7, None, ["x", 7], b"bytes", "\ud800"])
def test_what_cannot_be_a_secret_is_refused_at_once(sender: Sender, wrong: object):
    with pytest.raises(ConfigError) as caught:
        sender.declare(wrong)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("declare", [verify.standard_webhooks, verify.gitlab])
@pytest.mark.parametrize("wrong", ["whsec_not base64!", "whsec_", "whsk_c2VjcmV0"])
def test_a_standard_secret_is_read_at_once(
    declare: Callable[[Any], Verifier], wrong: str, monkeypatch: pytest.MonkeyPatch
):
    with pytest.raises(ConfigError):
        declare(wrong)
    monkeypatch.setenv("WEBHOOK_SECRET", wrong)
    with pytest.raises(ConfigError):
        declare(env("WEBHOOK_SECRET")).open("webhook /hooks")


@pytest.mark.parametrize("declare", [verify.standard_webhooks, verify.gitlab, verify.stripe, verify.github])
def test_a_secret_may_hold_bytes_that_are_no_text(declare: Callable[..., Verifier], monkeypatch: pytest.MonkeyPatch):
    """As an environment variable may: that is no reason to fail at the start, or at every request."""
    monkeypatch.setenv("ODD", "caf\udce9")
    verifier = declare(env("ODD"))
    verifier.open("here")
    refused(verifier, STANDARD.request())


@every_sender
def test_verifiers_are_values(sender: Sender):
    assert sender.verifier() == sender.verifier()
    assert sender.verifier() != sender.verifier("whsec_b3RoZXI=")
    assert len({sender.verifier(), sender.verifier()}) == 1
    with pytest.raises(FrozenInstanceError):
        sender.verifier().tolerance = 0  # type: ignore[attr-defined]


# hmac: what is declared


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"header": "X-Signature", "algorithm": "sha257"}, 'Did you mean "sha256"'),
        ({"header": "X-Signature", "algorithm": "md5"}, "unknown algorithm"),
        ({"header": "X-Signature", "encoding": "base32"}, '"hex" or "base64"'),
        ({"header": "X Signature"}, "name of a header"),
        ({"header": ""}, "name of a header"),
        ({"header": "X-Signature", "timestamp_header": "x:y"}, "timestamp_header"),
        ({"header": "X-Signature", "signed": "{bodi}"}, 'Did you mean "body"'),
        ({"header": "X-Signature", "signed": "{path}"}, r"must name \{body\}"),
        ({"header": "X-Signature", "signed": "{body"}, "brace"),
        ({"header": "X-Signature", "signed": "{body}}"}, "brace"),
        ({"header": "X-Signature", "signed": "{timestamp}{body}"}, "timestamp_header="),
        ({"header": "X-Signature", "signed": "{body}", "timestamp_header": "X-Time"}, "proves nothing"),
        ({"header": "X-Signature", "signed": "{body}{header:a b}"}, "which is unknown"),
        ({"header": "X-Signature", "tolerance": "soon", "timestamp_header": "X-Time"}, "tolerance"),
    ],
)
def test_what_cannot_be_an_hmac_is_refused(options: dict[str, Any], said: str):
    with pytest.raises(ConfigError, match=said):
        verify.hmac(SECRET, **options)


def test_whatever_a_sender_signs_can_be_said():
    verifier = verify.hmac(
        SECRET,
        header="X-Signature",
        algorithm="sha512",
        prefix="s=",
        timestamp_header="X-Time",
        signed="{method} {path}\n{header:X-Id}\n{timestamp}\n{body}",
    )
    content = f"POST /hooks\nid 1\n{NOW}\nbody".encode()
    headers = {"x-time": str(NOW), "x-id": "id 1", "x-signature": "s=" + hexadecimal(SECRET, content, "sha512")}
    genuine = WebhookRequest("/hooks", headers, b"body", NOW * SECOND)
    verifier.verify(genuine)
    refused(verifier, replace(genuine, path="/other"))
    refused(verifier, replace(genuine, method="PUT"))
    refused(verifier, with_headers(genuine, x_id="id 2"))
    assert "X-Id is missing" in refused(
        verifier, replace(genuine, headers={k: v for k, v in headers.items() if k != "x-id"})
    )
    for part in ('algorithm="sha512"', 'prefix="s="', 'timestamp_header="X-Time"', "{header:X-Id}", 'tolerance="5m"'):
        assert part in verifier.describe()


# replay


@every_sender
def test_what_signs_neither_id_nor_time_is_known_by_its_signature(sender: Sender):
    """A second request with the same signature is the same event, whatever its headers say."""
    verifier = sender.verifier()
    told = verifier.read(sender.request())
    again = verifier.read(sender.request(x_github_delivery="another", x_atlassian_webhook_identifier="another"))
    assert bool(told.aliases) is sender.aliased
    assert told.aliases == again.aliases
    assert told.data == again.data


def test_one_order_under_two_topics_is_two_events():
    verifier = SHOPIFY.verifier()
    created, paid = (
        verifier.read(SHOPIFY.request(x_shopify_topic=topic)) for topic in ("orders/create", "orders/paid")
    )
    assert (created.type, paid.type) == ("shopify.orders.create", "shopify.orders.paid")
    assert not {*created.aliases} & {*paid.aliases}


def test_two_senders_with_one_signature_are_not_taken_for_one():
    assert GITHUB.verifier().read(GITHUB.request()).aliases != HMAC.verifier().read(HMAC.request()).aliases
