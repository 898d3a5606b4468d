"""A person at a terminal types the token of a guarded app; it is not shown."""

from __future__ import annotations

import asyncio
import os
import pty
import secrets
import subprocess
from pathlib import Path

import pytest

from support.command_line import WAKEFUL
from wakeful.clock import SystemClock
from wakeful.stores.guards import hashes_of
from wakeful.stores.opening import open_database
from wakeful.stores.request import Actor
from wakeful.stores.store import DatabaseStore
from wakeful.stores.verbs.guards import GuardApp
from wakeful.stores.verbs.pauses import ChangePause

TOKEN = "planted-token-" + secrets.token_hex(32)
STORE = "sqlite:///guarded.db"
COMMAND = [str(WAKEFUL), "resume", "all", "--of", "desk", "--store", STORE]
QUESTION = b"token (WAKEFUL_TOKEN) to lift a pause: "


async def paused_and_guarded() -> None:
    store = DatabaseStore(open_database(STORE, SystemClock()))
    await store.open(migrate=True)
    try:
        await store.do(ChangePause("desk", "", paused=True, by=Actor("ada", "cli")))
        await store.do(GuardApp("desk", hashes_of([TOKEN])))
    finally:
        await store.close()


def typed(folder: Path, words: str) -> tuple[int, str]:
    """`wakeful resume all` in a terminal of its own, where these words are typed when it asks."""
    leader, terminal = pty.openpty()
    surroundings = {name: value for name, value in os.environ.items() if not name.startswith("WAKEFUL_")}
    # The first terminal that the leader of a new session opens becomes its own: that is where the question is asked.
    process = subprocess.Popen(
        ["/bin/sh", "-c", 'exec "$@" <"$0" >"$0" 2>&1', os.ttyname(terminal), *COMMAND],
        cwd=folder,
        env=surroundings,
        start_new_session=True,
    )
    try:
        shown = b""
        while QUESTION not in shown:
            shown += os.read(leader, 4096)
        os.write(leader, words.encode() + b"\n")
        os.close(terminal)
        terminal = -1
        while True:
            try:
                more = os.read(leader, 4096)
            except OSError:  # its last user is gone
                break
            if not more:
                break
            shown += more
        return process.wait(60), " ".join(shown.decode().split())
    finally:
        process.kill()
        process.wait()
        os.close(leader)
        if terminal != -1:
            os.close(terminal)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (TOKEN, 0, "all of app desk is resumed"),
        (f"  {TOKEN} ", 0, "all of app desk is resumed"),
        (TOKEN[:-1], 1, "WAKEFUL_TOKEN is a different one"),
        ("", 1, "WAKEFUL_TOKEN is not set here"),
    ],
    ids=["the-token", "with-spaces", "a-part-of-it", "nothing"],
)
def test_the_token_is_typed_and_not_shown(folder, words, code, said):
    asyncio.run(paused_and_guarded())
    ended, shown = typed(folder, words)
    assert said in shown
    assert ended == code
    assert TOKEN[:-1] not in shown
