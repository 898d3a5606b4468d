"""The dead man's ping: what is sent where, and that nothing of it holds up whoever looks."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from support.receiver import Receiver, Reply
from wakeful import App, ConfigError, env
from wakeful.errors import StoreUnavailable
from wakeful.stores.transaction import Row
from wakeful.watch.facts import Facts
from wakeful.watch.ping import BODY_LIMIT, Ping
from wakeful.watch.watcher import Watcher


def asked(receiver: Receiver) -> list[tuple[str, str, str]]:
    return [(one.method, one.path, one.body.decode()) for one in receiver.requests]


async def test_each_signal_has_its_own_address():
    async with Receiver() as receiver:
        ping = Ping(f"{receiver.url}/?rid=7")
        for kind in ("start", "success", "fail"):
            ping.signal(kind, "no answer" if kind == "fail" else "")
            await ping.run_once()
        await ping.stop()
    assert asked(receiver) == [
        ("POST", "/hook/start?rid=7", ""),
        ("POST", "/hook?rid=7", ""),
        ("POST", "/hook/fail?rid=7", "no answer"),
    ]


async def test_only_the_latest_is_sent_and_its_words_are_few():
    async with Receiver() as receiver:
        ping = Ping(receiver.url)
        ping.signal("success")
        ping.signal("fail", "x" * 5_000)
        assert await ping.run_once() is None
        await ping.stop()
    assert asked(receiver) == [("POST", "/hook/fail", "x" * BODY_LIMIT)]


async def test_what_does_not_get_through_is_tried_again_and_then_left():
    async with Receiver(Reply(500), Reply(302, headers={"location": "http://127.0.0.1:1/"})) as receiver:
        ping = Ping(receiver.url, between=0)
        ping.signal("success")
        await ping.run_once()
        assert len(receiver.requests) == 3
        receiver.replies += [Reply(500)] * 9
        ping.signal("success")
        assert await ping.run_once() is None
        await ping.stop()
    assert len(receiver.requests) == 6


async def test_nobody_there_is_no_reason_to_stop():
    async with Receiver() as receiver:
        url = receiver.url
    ping = Ping(url, between=0)
    ping.signal("success")
    assert await ping.run_once() is None
    await ping.stop()


@pytest.mark.parametrize(
    "url", ["ftp://example.com/x", "example.com/x", "https://", "https://a@example.com/x", "http://a b/"]
)
def test_only_http_is_pinged(url: str):
    with pytest.raises(ConfigError):
        Ping(url)
    with pytest.raises(ConfigError, match=r"App\('ops'\): ping"):
        App("ops", ping=url)


def test_a_url_of_the_environment_is_read_when_it_is_used(monkeypatch: pytest.MonkeyPatch):
    app = App("ops", ping=env("SECRET_PING"))
    assert app.ping is not None
    monkeypatch.setenv("SECRET_PING", "https://hc.example.com/abc")
    assert Ping(app.ping).address("fail") == "https://hc.example.com/abc/fail"


class Gone:
    """A store that is away."""

    async def fetch(self, name: str, *parameters: Any) -> list[Row]:
        message = "the store is away"
        raise StoreUnavailable(message)

    def read_clock(self) -> None:
        return None

    async def do(self, request: Any) -> Any: ...


async def test_a_look_that_fails_is_told_and_the_watcher_is_red():
    async with Receiver() as receiver:
        ping = Ping(receiver.url)
        gone = Gone()
        watcher = Watcher(Facts(gone), gone, ping=ping)
        rest = await watcher.run_once()
        assert rest is not None
        await ping.run_once()
        await ping.stop()
    assert watcher.is_red
    assert asked(receiver) == [("POST", "/hook/fail", "could not look: the store is away")]


async def test_looks_that_fail_for_long_are_silence(monkeypatch: pytest.MonkeyPatch):
    gone = Gone()
    watcher = Watcher(Facts(gone), gone)
    assert watcher.silent_for == 0.0  # nobody wants it to look
    await watcher.start()
    try:
        while not watcher._failed:
            await asyncio.sleep(0)
        assert watcher.silent_for < 1
        later = time.monotonic() + 200
        monkeypatch.setattr(time, "monotonic", lambda: later)
        assert watcher.silent_for > 199
    finally:
        monkeypatch.undo()
        await watcher.stop()


async def test_a_look_that_takes_long_is_made_less_often(monkeypatch: pytest.MonkeyPatch):
    gone = Gone()
    watcher = Watcher(Facts(gone), gone)

    async def look() -> tuple[int, list[str]]:
        later = time.monotonic() + 1.5
        monkeypatch.setattr(time, "monotonic", lambda: later)
        return 2_000_000, []

    monkeypatch.setattr(watcher, "look", look)
    rest = await watcher.run_once()
    assert rest is not None
    assert 30 <= rest < 31


async def test_a_silent_receiver_does_not_hold_up_a_look():
    class Empty(Gone):
        async def fetch(self, name: str, *parameters: Any) -> list[Row]:
            return [(1,)] if name == "read_time" else []

    async with Receiver(Reply(silent=True)) as receiver:
        empty = Empty()
        watcher = Watcher(Facts(empty), empty, ping=Ping(receiver.url), every=3600_000_000)
        await watcher.start()
        await receiver.received.wait()  # it hangs in there
        while watcher.looks < 3:
            watcher.wake()
            await asyncio.sleep(0)
        assert not watcher.is_red
        await watcher.stop()
    assert len(receiver.requests) == 1
