"""HEARTBEAT.md as people write it, and what is wrong with it, by line."""

from __future__ import annotations

from textwrap import dedent
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakeful.clock import duration
from wakeful.errors import ConfigError
from wakeful.triggers.heartbeat import LARGEST_FILE, HeartbeatFile, Section, Usual, check_name, read_heartbeat


def read(text: str | bytes, **usual: Any) -> HeartbeatFile:
    content = text if isinstance(text, bytes) else dedent(text).encode()
    usual.setdefault("probes", ["unread_mail"])
    return read_heartbeat(content, file="HEARTBEAT.md", usual=Usual(**usual))


def only(text: str, **usual: Any) -> Section:
    (check,) = read(text, **usual).sections
    return check


def refusal(text: str | bytes, **usual: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        read(text, **usual)
    return str(caught.value)


def test_a_section_is_a_check():
    heartbeat = read(
        """\
        # Desk

        Be short.

        ## Unread mail!
        every: 2h
        probe: unread_mail

        Answer what is urgent.

        ### How

        Politely.

        ## Calendar
        What comes up today?
        """
    )
    assert heartbeat.preamble == "# Desk\n\nBe short."
    mail, calendar = heartbeat.sections
    assert (mail.name, mail.title, mail.line) == ("unread-mail", "Unread mail!", 5)
    assert mail.text == "Answer what is urgent.\n\n### How\n\nPolitely."
    assert (mail.probe, mail.command, mail.spacing) == ("unread_mail", None, duration("2h"))
    assert (calendar.name, calendar.text, calendar.probe) == ("calendar", "What comes up today?", None)
    assert calendar.spacing == duration("30m")


def test_a_section_says_what_is_different_from_usual():
    check = only(
        """\
        ## Disk
        Every: 10m
        timeout: 5s
        session: machines
        probe: $ df -h | grep '9.%' || true
        """,
        every="1h",
        session="heartbeat",
        commands=True,
    )
    assert (check.spacing, check.timeout, check.session) == (duration("10m"), duration("5s"), "machines")
    assert check.command == "df -h | grep '9.%' || true"
    assert check.schedule.definition()["rule"]["interval"] == duration("10m")
    usual = only("## Disk\n", every="1h", session="heartbeat")
    assert (usual.spacing, usual.session) == (duration("1h"), "heartbeat")


def test_options_may_stand_below_an_empty_line_and_text_may_look_like_one():
    check = only("## Disk\n\nevery: 2h\n\nNote: only the large ones.\nhttps://example.com/disks\n")
    assert check.spacing == duration("2h")
    assert check.text == "Note: only the large ones.\nhttps://example.com/disks"


def test_a_command_in_backticks_is_that_command():
    assert only("## A\nprobe: `$ echo hi`\n", commands=True).command == "echo hi"
    assert only("## A\nprobe: $ echo `date`\n", commands=True).command == "echo `date`"


def test_headings_in_code_and_in_comments_are_no_sections():
    heartbeat = read(
        """\
        ## Logs
        Look for

        ```
        ## error
        ~~~
        ```

        <!-- not now
        ## Disk
        -->
        and tell<!-- only --> me.

            ## indented
        """
    )
    (check,) = heartbeat.sections
    assert check.text == "Look for\n\n```\n## error\n~~~\n```\n\nand tell me.\n\n    ## indented"


def test_text_outside_of_sections_is_for_all():
    heartbeat = read("Before.\n## A\none\n# Evening\nAlso this.\n## B\ntwo\n")
    assert heartbeat.preamble == "Before.\n# Evening\nAlso this."
    assert [check.text for check in heartbeat.sections] == ["one", "two"]


@pytest.mark.parametrize("text", ["", "\n\n", "# Desk\n\nNothing yet.\n", "<!-- ## Inbox -->", "\ufeff"])
def test_a_file_without_sections_has_no_checks(text: str):
    assert read(text).sections == ()


def test_line_ends_and_a_byte_order_mark_make_no_difference():
    plain = "# Desk\n## A\nevery: 2h\n\ndo\n"
    assert read(plain) == read(plain.replace("\n", "\r\n")) == read(plain.replace("\n", "\r")) == read(f"\ufeff{plain}")


def test_the_name_of_a_check():
    assert check_name("Unread  mail!") == "unread-mail"
    assert check_name("Größe (GB)") == "grösse-gb"
    assert check_name("!?") == ""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "## A\nevry: 2h\n",
            'HEARTBEAT.md:2: unknown option "evry". Did you mean "every"? If it is text, put an empty',
        ),
        ("# D\n\n## A\nprobe: x\nevery: soon\n", "HEARTBEAT.md:4: there is no probe"),
        ("## A\nevery: soon\n", "HEARTBEAT.md:2: every('soon'): 'soon' is not a duration"),
        ("## A\nevery: 0s\n", "HEARTBEAT.md:2: every('0s'): the shortest interval is one second"),
        ("## A\nevery: 1h\nevery: 2h\n", "HEARTBEAT.md:3: every is set twice, first in line 2"),
        ("## A\ndays:\n", "HEARTBEAT.md:2: days is empty: give it a value, or remove the line"),
        ("## A\ntimeout: 1ms\n", "HEARTBEAT.md:2: timeout must be at least a second, not 1ms"),
        ("## A\ntimeout: long\n", "HEARTBEAT.md:2: timeout: 'long' is not a duration"),
        ("## A\nprobe: unread_mial\n", 'HEARTBEAT.md:2: there is no probe "unread_mial". Did you mean "unread_mail"?'),
        ("## A\nprobe: $\n", "HEARTBEAT.md:2: `probe: $` has no command after the $"),
        ("## Inbox\n\n## inbox!\n", 'HEARTBEAT.md:3: there is already a section "Inbox" in line 1'),
        ("## ?\n", 'HEARTBEAT.md:1: "?" is not a title of a check'),
        (f"## {'a' * 81}\n", "HEARTBEAT.md:1: "),
        ("Inbox\n-----\nanswer\n", 'HEARTBEAT.md:2: write the heading of a check as "## Inbox", not underlined'),
        ("## A\n\nbad \0\n", "HEARTBEAT.md:3: contains a NUL character"),
        (b"## A\n\nbad \xff\n", "HEARTBEAT.md:3: byte 11 of the file (0xff) is not UTF-8. Save it as UTF-8"),
        ("## A\n".encode("utf-16"), "HEARTBEAT.md:1: byte 1 of the file (0xff) is not UTF-8. It looks like UTF-16."),
        (b"#" * (LARGEST_FILE + 1), "HEARTBEAT.md: larger than 262,144 bytes"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(text: str | bytes, words: str):
    assert refusal(text).startswith(words)


def test_a_section_that_nobody_could_do_is_refused():
    assert refusal("# D\n## A\ndo\n", checklist=False).startswith('HEARTBEAT.md:2: section "A" has no probe')
    assert only("## A\nprobe: unread_mail\n", checklist=False).probe == "unread_mail"


def test_commands_are_forbidden_unless_allowed():
    words = "HEARTBEAT.md:2: this heartbeat runs no commands"
    assert refusal("## A\nprobe: $ true\n").startswith(words)
    assert refusal("## A\nprobe: $ true\n", commands=False).startswith(words)
    assert "write a command" not in refusal("## A\nprobe: unread_mial\n")
    assert "write a command" in refusal("## A\nprobe: unread_mial\n", commands=True)


LINES = ["## A", "## B", "# C", "every: 2h", "probe: unread_mail", "", "text", "```", "<!--", "-->", "---", "x: y"]


def places(text: str) -> list[str]:
    """Where its refusal is, if there is one."""
    try:
        heartbeat = read(text.encode("utf-8", "replace"))
    except ConfigError as error:
        return [str(error).split(" ")[0]]
    assert len({check.name for check in heartbeat.sections}) == len(heartbeat.sections)
    return []


@given(st.lists(st.sampled_from(LINES) | st.text()).map("\n".join))
def test_any_text_is_read_or_refused_with_its_line(text: str):
    lines = text.replace("\r", "\n").count("\n") + 1
    assert set(places(text)) <= {f"HEARTBEAT.md:{number}:" for number in range(1, lines + 1)}
