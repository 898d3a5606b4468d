"""`wakeful alarms`: listed, shown, acknowledged, muted, resolved."""

from __future__ import annotations

import pytest

APP = """
from wakeful import App, Persistent, Run, on

app = App("shop", pause_after=2)


@app.agent(on("order.placed"), owner="platform")
async def pay(run: Run) -> None:
    raise Persistent("card refused")
"""


@pytest.fixture
def key(wakeful, folder) -> str:
    """The alarm of a dead letter."""
    (folder / "app.py").write_text(APP)
    wakeful("emit", "app.py", "order.placed", "--id", "a")
    wakeful("once", "app.py")
    (alarm,) = wakeful("alarms", "--json").json["alarms"]
    found: str = alarm["key"]
    return found


def test_none_at_first(wakeful, folder):
    (folder / "app.py").write_text(APP)
    wakeful("once", "app.py")
    assert "no alarms" in wakeful("alarms").out
    assert wakeful("alarms", "--state", "resolved", "--json").json == {"alarms": []}


def test_they_are_listed_and_shown(wakeful, key):
    shown = wakeful("alarms").out
    assert key in shown
    assert "owner platform" in shown
    one = wakeful("alarms", "show", key, "--json").json
    assert (one["state"], one["incident"], one["told"], one["changes"]) == ("open", 1, 1, [])


def test_one_is_acknowledged(wakeful, key):
    assert "is acknowledged" in wakeful("alarms", "ack", key, "--note", "on it", "--as", "ada").out
    one = wakeful("alarms", "show", key, "--json").json
    assert (one["state"], one["acknowledged_by"], one["note"], one["tell_at"]) == ("acknowledged", "ada", "on it", None)
    assert [(change["verb"], change["by"], change["note"]) for change in one["changes"]] == [
        ("acknowledge", "ada", "on it")
    ]
    assert "acknowledged by ada: on it" in wakeful("alarms").out
    shown = wakeful("alarms", "show", key).out.splitlines()
    assert shown[0].startswith(f"acknowledged  {key}")
    assert "  notified 1 time, last now" in shown
    assert shown[-1].split("  ")[1:] == ["acknowledge", "ada", "on it"]
    again = wakeful("alarms", "ack", key, code=1)
    assert "is already acknowledged, by ada" in again.err
    assert wakeful("alarms", "--state", "open", "--json").json == {"alarms": []}


def test_one_is_muted(wakeful, key):
    assert "is muted until" in wakeful("alarms", "mute", key, "--for", "2h").out
    one = wakeful("alarms", "show", key, "--json").json
    assert one["muted_until"] == one["tell_at"]
    assert "muted until" in wakeful("alarms").out


def test_one_is_resolved(wakeful, key):
    assert wakeful("alarms", "resolve", key, "--json").json["state"] == "resolved"
    assert "is already resolved" in wakeful("alarms", "resolve", key, code=1).err


def test_a_loud_one_cannot_be_muted(wakeful, key):
    wakeful("emit", "app.py", "order.placed", "--id", "b")
    wakeful("once", "app.py")
    refused = wakeful("alarms", "mute", "paused/shop/pay", "--for", "2h", code=1)
    assert "cannot be muted" in refused.err
    wakeful("resume", "pay")
    assert wakeful("alarms", "show", "paused/shop/pay", "--json").json["state"] == "resolved"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("ak", "x"), 'there is no "alarms ak". Did you mean "ack"?'),
        (("ack",), "ack, mute or resolve and a KEY"),
        (("mute", "x"), "mute takes --for"),
        (("mute", "x", "--for", "soon"), "soon"),
        (("mute", "x", "--for", "1ms"), "at least 1s"),
        (("ack", "x", "--for", "1h"), "--for is for mute"),
        (("list", "x"), "ack, mute or resolve and a KEY"),
    ],
)
def test_called_the_wrong_way(wakeful, key, words, said):
    assert said in wakeful("alarms", *words, code=2).err


def test_one_that_is_not_there(wakeful, key):
    assert f'Did you mean "{key}"' in wakeful("alarms", "ack", key[:-1], code=1).err
    assert "there is no alarm" in wakeful("alarms", "show", "x", code=1).err


def test_long_texts_are_indented_on_every_line_of_a_narrow_terminal(wakeful, key, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    first, *rest = wakeful("alarms").out.splitlines()
    assert key in first
    assert len(rest) > 2
    assert all(line.startswith("  ") and len(line) <= 80 for line in rest)
