"""Whose words an error has: those of Wakeful, which may change with a version, or those of the app."""

from __future__ import annotations

import pytest

from wakeful.errors import DeadlineExceeded, Persistent, StepFailed, Transient
from wakeful.execution.record import Record
from wakeful.functions.options import StepOptions
from wakeful.functions.retry import cause_of_dead
from wakeful.resources.shown import StoredError
from wakeful.stored_errors import by_wakeful, describe, restore


class Blocked(Persistent):
    """A class of the app."""


def raised(error: Exception) -> Exception:
    try:
        raise error
    except Exception as caught:
        return caught


def raised_by_wakeful() -> Exception:
    try:
        Record.name_of(object.__new__(Record), lambda: 1, StepOptions())
    except Persistent as caught:
        return caught
    raise AssertionError


@pytest.mark.parametrize(
    ("error", "ours"),
    [
        (raised_by_wakeful(), True),
        (raised(Persistent("no such account")), False),
        (raised(Transient("not now")), False),
        (raised(Blocked("no such account")), False),
        (raised(ValueError("no such account")), False),
        (raised(DeadlineExceeded("too late")), True),
        (DeadlineExceeded("too late"), True),
        (Persistent("made by Wakeful, and stored before it is raised"), True),
    ],
    ids=lambda one: f"{type(one).__name__}" if isinstance(one, Exception) else str(one),
)
def test_whose_error_it_is_also_after_it_was_stored(error: Exception, *, ours: bool):
    stored = describe(error)
    assert by_wakeful(stored) == ours
    again = describe(raised(restore(stored)))
    assert by_wakeful(again) == ours
    older = {name: value for name, value in stored.items() if name != "by_wakeful"}
    if error.__traceback__ is not None:
        assert by_wakeful(older) == ours


def test_an_error_whose_class_is_gone_is_known_by_the_words_that_it_had():
    stored = describe(raised(Blocked("no such account"))) | {"kind": "shop.errors:Blocked"}
    error = restore(stored)
    assert isinstance(error, StepFailed)
    assert not by_wakeful(describe(error))


@pytest.mark.parametrize(
    ("path", "ours"),
    [
        ("/usr/lib/python3/site-packages/wakeful/execution/locks.py", True),
        ("/home/ada/wakeful/app.py", False),
        ("/home/ada/wakeful/shop/handlers.py", False),
        ("/usr/lib/python3/site-packages/wakeful/demo/app.py", False),
        ("/home/ada/shop.py", False),
    ],
)
def test_the_last_frame_of_an_older_traceback_tells(path: str, *, ours: bool):
    first = '  File "/usr/lib/python3/site-packages/wakeful/execution/executor.py", line 9, in execute\n    await handler(run)\n'
    last = f'  File "{path}", line 3, in handle\n    raise Persistent("x")\n'
    stored = {"kind": "wakeful.errors:Persistent", "type": "Persistent", "message": "x", "traceback": first + last}
    assert by_wakeful(stored) == ours


def test_the_key_of_a_dead_letter():
    late, blocked = describe(DeadlineExceeded("after 3 h")), describe(raised(Persistent("customer 17 is blocked")))
    assert cause_of_dead(late) == cause_of_dead(late | {"message": "in other words"}) == "DeadlineExceeded"
    assert cause_of_dead(late, "look up/all") == "DeadlineExceeded-look-up-all"
    assert cause_of_dead(blocked) == cause_of_dead(blocked | {"message": "customer 18 is blocked"}, "look_up")
    assert cause_of_dead(blocked) != cause_of_dead(blocked | {"message": "no such account"})


@pytest.mark.parametrize("error", [raised(Persistent("no such account")), raised(ValueError("x")), DeadlineExceeded()])
def test_the_http_api_documents_each_key_of_a_stored_error(error: Exception):
    assert describe(error).keys() <= StoredError.__annotations__.keys()
