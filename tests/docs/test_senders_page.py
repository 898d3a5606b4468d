"""The page about senders names every verifier with its options, and every model of an event."""

from __future__ import annotations

import inspect
from importlib import import_module

import pytest

from docs.pages import page
from wakeful import verify
from wakeful.senders.base import Sent
from wakeful.triggers.verifier import VERIFIERS

FUNCTIONS = [name for name in verify.__all__ if inspect.isfunction(getattr(verify, name))]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_verifier_has_a_row(name: str):
    rows = [row for row in page("docs/reference/senders.md").table("The table") if row[0].startswith(f"`{name}(")]
    assert len(rows) == 1
    required = [
        one.name
        for one in inspect.signature(getattr(verify, name)).parameters.values()
        if one.default is inspect.Parameter.empty
    ]
    assert all(option in rows[0][0] for option in required)


def test_no_verifier_is_made_up():
    named = {row[0].strip("`").partition("(")[0] for row in page("docs/reference/senders.md").table("The table")}
    assert named == set(FUNCTIONS)


def test_every_option_of_hmac_is_documented():
    documented = {row[0].strip("`") for row in page("docs/reference/senders.md").table("Other senders")}
    assert documented == set(inspect.signature(verify.hmac).parameters) - {"secret"}


def test_every_model_of_an_event_is_listed_and_there():
    rows = page("docs/reference/senders.md").table("Models")
    for module, models, _ in rows:
        home = import_module(f"wakeful.senders.{module.strip('`')}")
        listed = {name.strip(" `") for name in models.split(",")}
        assert all(issubclass(getattr(home, name), Sent) for name in listed)
        events = {
            name for name, one in vars(home).items() if name.endswith("Event") and one.__module__ == home.__name__
        }
        assert events - {"GitHubEvent"} <= listed


def test_the_message_about_a_missing_verifier_names_them_all():
    assert list(VERIFIERS) == sorted(FUNCTIONS)
