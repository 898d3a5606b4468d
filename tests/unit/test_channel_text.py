"""What people read of a message: its text, its title, cut to what a service takes."""

from __future__ import annotations

from typing import Any

import pytest

from support.messages import message
from wakeful.output.channels.base import MAY_BE_REPEATED
from wakeful.output.channels.text import CUT, cut, repetition_of, text_of, title_of


@pytest.mark.parametrize(
    ("body", "words", "code"),
    [
        ("two\r\nlines\t\x1b[31m\0", "two\nlines\t�[31m␀", False),
        ({"text": "hello", "pages": 3}, "hello", False),
        ({"pages": 3}, '{\n  "pages": 3\n}', True),
        ({"text": 3}, '{\n  "text": 3\n}', True),
        ([1], "[\n  1\n]", True),
        (None, "null", True),
    ],
)
def test_the_text_of_a_body(body: Any, words: str, code: bool):
    text = text_of(message(body=body))
    assert (text.words, text.code) == (words, code)


@pytest.mark.parametrize(
    ("subject", "body", "title"),
    [
        ("order\n7", "hello", "order 7"),
        (None, "hello\n  you", "hello you"),
        (None, {"pages": 3}, "billing: remind"),
        (" ", " ", "billing: remind"),
        ("123456789012", "", "123456789…"),
    ],
)
def test_a_title_is_one_line(subject: str | None, body: Any, title: str):
    assert title_of(message(body=body, subject=subject), 10 if title.endswith("…") else 100) == title


def test_a_long_text_says_that_it_was_cut():
    assert cut("short", 5) == "short"
    assert cut("x" * 200, 100) == "x" * (99 - len(CUT)) + "\n" + CUT


def test_a_repetition_says_that_it_may_be_one():
    assert repetition_of(message()) is None
    assert repetition_of(message(doubtful=True)) == MAY_BE_REPEATED
