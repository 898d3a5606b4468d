"""The page of a link to an approval: it shows what an approval has, escaped and redacted."""

from __future__ import annotations

from typing import Any

import pytest

from wakeful.api.approve_page import LONGEST_VALUE, outcome_page, question_page, refusal_page
from wakeful.resources.approval_links import digest_shown, is_yes_or_no
from wakeful.settings import public_url

APPROVAL: dict[str, Any] = {
    "id": "31be574e0f",
    "app": "shop",
    "agent": "billing",
    "run": "9b0601c60c",
    "question": "refund?",
    "to": "ops",
    "schema": {"type": "boolean"},
    "state": "open",
    "answer": None,
    "answered_by": None,
    "note": None,
    "asked_at": "2026-01-01T00:00:00Z",
    "due_at": "2026-01-01T04:00:00Z",
    "answered_at": None,
    "kind": "question",
    "rule": None,
}
HOSTILE = "<script>alert(1)</script>\"'&\x1b[31m\u202e"


def shown(**more: Any) -> str:
    page = question_page({**APPROVAL, **more}, person="ada", until="2026-01-01T02:00:00Z", digest="d1")
    return bytes(page.body).decode()


def test_an_effect_with_its_arguments():
    page = shown(
        kind="effect",
        action="refund",
        arguments={"amount": 149.0, "to": {"iban": "[redacted]"}, "text": "a\nb"},
        rule="large-refunds",
        reason="above 100",
        by=["ops", "leads"],
        of=2,
        votes=[{"by": "bob", "answer": True}],
    )
    for words in ("<dd>refund</dd>", "149.0", "&quot;iban&quot;: &quot;[redacted]&quot;", "a\nb", "large-refunds"):
        assert words in page
    for words in ("above 100", "ops, leads", "1 of 2", "2026-01-01 04:00:00 UTC", 'value="d1"'):
        assert words in page


def test_arguments_by_position():
    page = shown(arguments=[7, "x"])
    assert page.index("<pre>7</pre>") < page.index("<pre>x</pre>")


def test_a_field_that_is_not_there_is_left_out():
    page = shown()
    assert "Rule" not in page
    assert "Votes" not in page
    assert "<table" not in page


@pytest.mark.parametrize("field", ["question", "agent", "action", "rule", "reason", "to", "note"])
def test_everything_is_escaped(field: str):
    page = shown(**{field: HOSTILE})
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#x27;&amp;\\x1b[31m\\u202e" in page
    page = shown(arguments={HOSTILE: HOSTILE, "inner": [HOSTILE]})
    assert "<script" not in page
    done = bytes(outcome_page(APPROVAL, HOSTILE).body).decode() + bytes(refusal_page(HOSTILE, 404).body).decode()
    assert "<script" not in done


def test_known_secrets_are_redacted(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SHOP_TOKEN", "s3cret<of>the&shop")
    page = shown(question="with s3cret<of>the&shop", arguments={"key": ["s3cret<of>the&shop"]})
    assert page.count("[redacted: SHOP_TOKEN]") == 2
    assert "s3cret" not in page


def test_a_long_value_is_cut_and_says_so():
    page = shown(arguments={"text": "x" * (LONGEST_VALUE + 1234)})
    assert "… and 1,234 more characters" in page


def test_the_digest_is_of_what_is_shown():
    assert digest_shown({**APPROVAL, "digest": "abc"}) == "abc"
    mine = digest_shown(APPROVAL)
    assert digest_shown({**APPROVAL, "asked_at": None}) == mine
    for change in ({"question": "x"}, {"arguments": {"a": 1}}, {"id": "x"}, {"rule": "x"}, {"action": "x"}):
        assert digest_shown({**APPROVAL, **change}) != mine


@pytest.mark.parametrize(
    ("kind", "schema", "expected"),
    [
        ("question", {"type": "boolean"}, True),
        ("question", None, True),
        ("question", {"type": "string"}, False),
        ("question", {"type": "object"}, False),
        ("run", None, True),
        ("effect", None, True),
    ],
)
def test_which_approvals_take_yes_or_no(kind: str, schema: Any, expected: bool):
    assert is_yes_or_no({**APPROVAL, "kind": kind, "schema": schema}) is expected


def test_the_address():
    assert public_url({"WAKEFUL_URL": "https://wakeful.example.com/base//"}) == "https://wakeful.example.com/base"
    assert public_url({}) is None
