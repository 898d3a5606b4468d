"""Every kind of alarm is worded: a subject, a text of sentences, and what to do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from wakeful.alarm_words import LONGEST_SUBJECT, TABLE, AlarmMessage, title_of, todo_of, words_of_alarm
from wakeful.clock import SECOND
from wakeful.watch.absence import KINDS

OPENED = 1_767_225_600 * SECOND
OPERATING = Path(__file__).parents[2] / "docs" / "how-to" / "operating.md"


def worded(key: str, text: str = "run 3f2a failed", **more: object) -> AlarmMessage:
    return words_of_alarm(key, text, opened_at=OPENED, now=OPENED + 720 * SECOND, **more)  # type: ignore[arg-type]


def documented() -> list[str]:
    """The kinds of alarms that the page about operating lists."""
    section = OPERATING.read_text().partition("## Alarms")[2].partition("\n## ")[0]
    return sorted({kind for line in section.splitlines() for kind in re.findall(r"`([a-z]+)/APP", line)})


@pytest.mark.parametrize("kind", documented())
def test_every_kind_that_is_documented_has_words(kind: str):
    assert kind in TABLE
    assert (todo_of(f"{kind}/desk/triage/x", agent="triage") or "").count("`") % 2 == 0


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_absence_has_words(kind: str):
    assert title_of(f"expect/desk/nightly backup/{kind}", "").startswith("Nightly backup") or kind == "not-read"


@pytest.mark.parametrize("place", sorted(TABLE, key=str))
def test_words_have_no_name_that_is_not_filled_in(place: str | tuple[str, str]):
    kind, last = (place, "x") if isinstance(place, str) else place
    for count in (1, 3):
        found = worded(f"{kind}/desk/triage/{last}", agent="triage", count=count)
        assert not re.search(r"[{}]", found.subject + found.text)
        assert found.text.endswith(".")
        assert "KEY" not in found.text


def test_it_tells_what_since_when_and_what_to_do():
    found = worded("dead/desk/triage/3f2a", "agent triage: run 3f2a is a dead letter", agent="triage", count=3)
    assert found.subject == "Agent triage has 3 dead letters"
    assert found.text == (
        "Agent triage has 3 dead letters. Agent triage: run 3f2a is a dead letter. Since 2026-01-01 00:00 UTC, 3 times. "
        "What to do: `wakeful dead --agent triage` lists them by error; `wakeful replay RUN` tries one again, "
        "`wakeful dead discard RUN` gives it up. `wakeful alarms ack dead/desk/triage/3f2a` acknowledges it."
    )


def test_one_that_is_still_open_tells_for_how_long():
    assert worded("down/desk", told="still open").subject.startswith("Still open after 12 m 0 s: App desk is down")


def test_one_that_is_over_tells_how_it_ended():
    text = "May I refund order 7? (run 3f2a, which waits)"
    found = worded("ask/desk/pay/7a", text, told="resolved", agent="pay", ending="answered by ada: yes")
    assert found.subject == "Resolved: Agent pay asks: May I refund order 7?"
    assert found.text.startswith(
        "This is over: Agent pay asks: May I refund order 7? Answered by ada: yes. It was open since "
    )


def test_a_question_stands_in_the_text_once():
    found = worded("ask/desk/pay/7a", "May I refund order 7? (run 3f2a, which waits)", agent="pay")
    assert found.text.startswith("Agent pay asks: May I refund order 7? (run 3f2a, which waits). Since ")


def test_a_file_of_checks_is_not_a_check_that_can_be_run():
    assert "wakeful heartbeat run" not in (todo_of("heartbeat/desk/heartbeat") or "")
    assert "`wakeful check APP` names what is wrong" in (todo_of("heartbeat/desk/heartbeat") or "")
    assert "`wakeful heartbeat run APP heartbeat/mail` tries it now" in (todo_of("heartbeat/desk/heartbeat/mail") or "")


def test_a_kind_that_nobody_worded_is_told_by_its_text():
    found = worded("odd/desk/thing", "something broke")
    assert (found.subject, found.do) == ("Something broke", None)
    assert "Something broke. Something broke. Since" not in found.text


def test_a_key_is_quoted_for_the_shell():
    assert (
        "`wakeful alarms ack 'expect/desk/nightly backup/failed'`" in worded("expect/desk/nightly backup/failed").text
    )


def test_a_subject_is_never_too_long_and_braces_are_text():
    found = worded(f"conflict/desk/{'{x}' * 200}")
    assert len(found.subject) <= LONGEST_SUBJECT
