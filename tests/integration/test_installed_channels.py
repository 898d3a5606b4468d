"""Channels that other packages bring: found by their entry points, and refused in one line."""

from __future__ import annotations

import pytest

from support.apps import NewApp, go, working
from support.packages import Install
from wakeful import ConfigError, Run, on
from wakeful.channels import channel

CODE = """
from wakeful.channels import Channel, Sent

class Room(Channel):
    def __init__(self, name):
        self.name = name

    async def deliver(self, messages):
        return [Sent(f"{self.name}/{one.body}") for one in messages]

def room(name):
    return Room(name)

def wrong():
    return "a text"
"""


async def test_an_installed_channel_is_used_like_any_other(new_app: NewApp, install: Install):
    install("room", "wakeful_room:room", CODE, group="wakeful.channels")
    app = new_app(channels={"ops": channel("room", name="hall")})

    @app.agent(on("go"))
    async def tell(run: Run) -> None:
        run.send("ops", run.event.data)

    async with working(app) as runtime:
        run = await go(runtime, 7)
    assert [one["evidence"] for one in run["deliveries"]] == [{"id": "hall/7", "url": None}]


@pytest.mark.parametrize(
    ("kind", "options", "words"),
    [
        ("romo", {}, 'no installed package provides a channel of that name. Did you mean "room"?'),
        ("http", {}, "is built in: write `from wakeful.channels import http`"),
        ("room", {"nmae": "x"}, "channel('room') of wakeful-room 1.0: TypeError: "),
        ("wrong", {}, "returned 'a text', which is not a channel"),
    ],
    ids=["unknown", "own", "options", "no-channel"],
)
def test_what_cannot_be_is_refused_in_one_line(install: Install, kind: str, options: dict[str, str], words: str):
    install("room", "wakeful_room:room", CODE, group="wakeful.channels")
    install("wrong", "wakeful_room:wrong", CODE, group="wakeful.channels")
    with pytest.raises(ConfigError) as refused:
        channel(kind, **options)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)
