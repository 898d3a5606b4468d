"""env(): a secret by its name."""

from __future__ import annotations

import pytest

from wakeful import ConfigError, env
from wakeful.secrets import reveal


def test_it_is_read_when_it_is_needed(monkeypatch):
    secret = env("HOOK_SECRET")
    monkeypatch.setenv("HOOK_SECRET", "hunter2")
    assert secret.reveal() == "hunter2"
    monkeypatch.setenv("HOOK_SECRET", "hunter3")
    assert secret.reveal() == reveal(secret, needed_by="x") == "hunter3"
    assert reveal("in the code", needed_by="x") == "in the code"


def test_it_never_shows_its_value(monkeypatch):
    monkeypatch.setenv("HOOK_SECRET", "hunter2")
    secret = env("HOOK_SECRET")
    for shown in (repr(secret), str(secret), f"{secret}", f"{[secret]}"):
        assert shown.strip("[]") == 'env("HOOK_SECRET")'


def test_it_is_a_value():
    assert env("A") == env("A") != env("B")
    assert len({env("A"), env("A")}) == 1
    with pytest.raises(AttributeError):
        env("A").name = "B"  # type: ignore[misc]


@pytest.mark.parametrize("value", [None, ""])
def test_one_that_is_missing_says_which_and_for_whom(monkeypatch, value):
    if value is None:
        monkeypatch.delenv("HOOK_SECRET", raising=False)
    else:
        monkeypatch.setenv("HOOK_SECRET", value)
    with pytest.raises(ConfigError) as caught:
        env("HOOK_SECRET").reveal("http(https://example.com/)")
    said = "the environment variable HOOK_SECRET is not set: set it where this process is started"
    assert str(caught.value) == f"http(https://example.com/): {said}"
    with pytest.raises(ConfigError, match=r"^the environment variable"):
        env("HOOK_SECRET").reveal()


@pytest.mark.parametrize("name", ["", "whsec_MfKQ9r8+KYq=", "A B", "1A", "$HOME", None, 7])
def test_what_is_no_name_may_be_the_secret_and_is_not_repeated(name):
    with pytest.raises(ConfigError, match="takes the name of a variable") as caught:
        env(name)
    assert not name or str(name) not in str(caught.value)
