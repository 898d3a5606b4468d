"""Makes `store.sql`: a store with at least one of everything that a listing or a `show` can show.

    python -m tests.golden.seed

The store is made once, by the project's own code on a virtual clock, and is then a file of rows: the ids and the times
in it never change, and it is opened by later versions as a user's store would be. Make it anew only where a noun is to
be covered that it lacks.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import re
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

import httpx2  # noqa: E402
import structlog  # noqa: E402

from golden.freezing import frozen  # noqa: E402
from golden.store import NOW, STORE_SQL  # noqa: E402
from support.tokens import TOKEN  # noqa: E402
from wakeful import App, Run, on  # noqa: E402
from wakeful.cli import main  # noqa: E402
from wakeful.clock import VirtualClock, duration  # noqa: E402
from wakeful.loading import load_app  # noqa: E402
from wakeful.runtime import Runtime  # noqa: E402

FOREVER = duration("36500d")
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


# States that last for a moment only: between a crash and its settlement, or while one run tries.
MOMENTS = """
begin;
update wakeful_effect set state = 'retrying', due_at = 1772712900000000, result = null, settled_at = null, reason = 'its process died'
 where run_seq = (select r.seq from wakeful_run r join wakeful_event e on e.seq = r.event_seq where e.id = 'c9');
insert into wakeful_circuit (app, name, state, failures, error, rest, next_at, released, probe_seq, changed_at, opened_at)
values ('shop', 'weather', 'closed', 0, null, 60000000, null, 0, null, 1772712000000000, null),
       ('shop', 'news 東京', 'probing', 7, 'TimeoutError: ' || char(27) || '[31mno news', 60000000, null, 0, 3, 1772712000000000, 1772711000000000),
       ('shop', 'search', 'recovering', 0, 'ConnectionError: reset', 60000000, 1772712900000000, 4, null, 1772712000000000, 1772711000000000),
       ('bank', 'weather', 'open', 3, 'ConnectionError: reset', 60000000, 1772712900000000, 0, null, 1772712000000000, 1772711000000000);
insert into wakeful_source (app, name, kind, agents, state, error, since, lag, behind, taken, repeated, refused, event_at, read_at)
values ('shop', 's3://bucket/東京', 'bucket', '["form"]', 'failing', 'AccessDenied: ' || char(27) || '[31mno', 1772700000000000, 3600000000, 12, 7, 1, 2, 1772699000000000, 1772712000000000),
       ('shop', 'orders', 'postgres_changes', '["form"]', 'paused', 'more than 10,000 runs wait', 1772700000000000, null, null, 0, 0, 0, null, null),
       ('bank', 'orders', 'postgres_changes', null, 'idle', null, 1772700000000000, null, null, 0, 0, 0, null, null);
insert into wakeful_occurrence (schedule_seq, state, reason, from_at, to_at, count, revision, run, settled_at)
select seq, 'coalesced', 'the run before was not over', 1772600000000000, 1772610000000000, 3, 1, last_run, 1772610000000000 from wakeful_schedule where name = 'lunch';
insert into wakeful_occurrence (schedule_seq, state, reason, from_at, to_at, count, revision, run, settled_at)
select seq, 'superseded', 'replaced by the next', 1772620000000000, 1772620000000000, 1, 1, null, 1772620000000000 from wakeful_schedule where name = 'lunch';
"""


class Seed:
    """One store in the making."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = f"sqlite:///{folder / 'wakeful.db'}"
        self.clock = VirtualClock("2026-03-01T07:00Z")

    async def say(self, *words: str, code: int = 0) -> Any:
        """A command, at the present moment; what it printed as JSON."""

        def call() -> tuple[int, str, str]:
            out, err = io.StringIO(), io.StringIO()
            with frozen(self.clock.now()), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                got = main([*words, "--json", "--store", self.url, "--as", "ada"])
            return got, out.getvalue(), err.getvalue()

        got, out, err = await asyncio.to_thread(call)
        if got != code:
            raise SystemExit(f"{words}: exit code {got}\n{out}\n{err}")
        try:
            return json.loads(out)
        except ValueError:
            return out

    async def go(self, runtime: Runtime, kind: str, data: Any = None, **attributes: Any) -> list[str]:
        """An event, and what is due then."""
        receipt = await runtime.app.emit(kind, data, **attributes)
        await runtime.drain()
        return list(receipt.runs)

    async def on_with(self, runtime: Runtime, by: str) -> None:
        self.clock.move(by)
        await runtime.drain()


async def make(folder: Path) -> None:
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())  # commands print JSON where lines would go
    seed = Seed(folder)
    old = App("attic", store=seed.url, clock=seed.clock)

    @old.agent(on("dust"), owner="ada")
    async def dust(run: Run) -> None:
        await run.sleep("30d")

    async with old.running(lease=FOREVER) as runtime:
        await seed.go(runtime, "dust", id="dust-1")
    seed.clock.move("1h")
    await seed.say("apps", "retire", "attic", "--note", "replaced by shop")
    bank = App("bank", store=seed.url, clock=seed.clock)

    @bank.agent(on("tally"), name="tally")
    async def tally(run: Run) -> None:
        raise ValueError("the bank is closed")

    async with bank.running(lease=FOREVER) as runtime:
        await seed.go(runtime, "tally", {"n": 1}, id="bank-1")
    seed.clock.move("1h")
    await shop(seed)


async def shop(seed: Seed) -> None:
    app = cast("App", load_app("app.py"))
    app.store, app.clock = seed.url, seed.clock
    (seed.folder / "inbox").mkdir()
    (seed.folder / "inbox" / "a.md").write_text("# a note\n")
    (seed.folder / "inbox" / "too large.md").write_text("x" * 200)
    async with app.running(lease=FOREVER) as runtime:
        await first_day(seed, runtime, app)
        await what_people_do(seed, runtime, app)
        await later_days(seed, runtime, app)
        await last_hour(seed, runtime, app)
        save(seed)
        till = next(one for one in app.agents.values() if one.name == "till")
        till.function.__globals__["gate"].set()
        await runtime.drain()


async def first_day(seed: Seed, runtime: Runtime, app: App) -> None:
    await runtime.drain()
    parent = f"00-{TRACE}-00f067aa0ba902b7-01"
    await seed.go(
        runtime, "ticket.created", {"title": "fire", "severity": 3}, id="t1", subject="room 7", traceparent=parent
    )
    await seed.go(runtime, "ticket.created", {"title": "fire", "severity": 3}, id="t1", subject="room 7")
    await seed.go(runtime, "ticket.created", {"title": "smoke", "severity": 3}, id="t1", subject="room 8")
    await seed.go(runtime, "ticket.created", {"title": "東京 🚀", "severity": 1}, id="t2 東京")
    await seed.go(runtime, "ticket.created", {"severity": "no title"}, id="t3")
    for number in range(1, 4):
        await seed.go(runtime, "ticket.broken", {"n": number}, id=f"b{number}")
    await seed.go(runtime, "ticket.secret", None, id="s1")
    await seed.go(runtime, "ticket.later", None, id="l1")
    await seed.go(runtime, "ticket.flaky", None, id="f1")
    await seed.on_with(runtime, "1m")
    await seed.on_with(runtime, "1m")
    await seed.go(runtime, "ticket.asleep", None, id="z1")
    await seed.go(runtime, "ticket.asleep", None, id="z2")
    await seed.go(runtime, "unknown.type", {"text": "\x1b[31mred [bold]"}, id="u1\x1b[2J")
    await seed.go(runtime, "ticket.created", {"title": "late"}, id="x1", expirytime="2026-02-28T00:00:00Z")
    await seed.go(runtime, "order.placed", {"n": 1}, id="o1", subject="8841")
    await seed.go(runtime, "order.placed", {"n": 2}, id="o2", subject="8842")
    await seed.go(runtime, "order.paid", {"amount": 3}, id="p1", subject="8841")
    await seed.go(runtime, "order.paid", {"amount": 12}, id="p2", subject="8841")
    for number, wanted in enumerate(
        [
            {"amount": 5, "who": "Ada"},
            {"amount": 6, "who": "Bo\x1b[31mb"},
            {"amount": 7, "who": "東京", "within": "1h"},
            {"amount": 8, "who": "Eve"},
        ],
        start=1,
    ):
        await seed.go(runtime, "refund.asked", wanted, id=f"r{number}")
    await seed.go(runtime, "name.asked", None, id="n1")
    for number, card in enumerate(["fine", "refused", "no answer", "no answer", "no answer", "no answer"], start=1):
        await seed.go(runtime, "order.charged", {"amount": number, "card": card}, id=f"c{number}")
    await seed.go(runtime, "trip.booked", {"seat": "7A"}, id="trip1")
    await seed.go(runtime, "trip.booked", {"seat": "7B", "sleeps": True}, id="trip2")
    await seed.go(runtime, "build.made", {"what": "wheel"}, id="build1")
    for number, text in enumerate(["Dear Sir", "HELP!", "HELP ME!", "HELP US!"], start=1):
        await seed.go(runtime, "letter.written", text, id=f"letter{number}")
    await seed.go(runtime, "mail.due", None, id="mail1")
    await seed.go(runtime, "quiet", None, id="quiet1")
    await seed.go(runtime, "invoice.due", {"number": 1}, id="i1")
    await seed.go(runtime, "invoice.due", {"number": 2}, id="i2")
    await seed.go(runtime, "route.asked", "nowhere", id="route1")
    await seed.on_with(runtime, "2s")
    await seed.on_with(runtime, "2m")
    await seed.go(runtime, "route.asked", "London", id="route2")
    for number in range(1, 5):
        await seed.go(runtime, "line.item", {"line": "a", "n": number}, id=f"line{number}")
    for number in range(1, 5):
        await seed.go(runtime, "measure.taken", number, id=f"m{number}")
    for number, who in enumerate(["ada", "bob", "ada", "東京"], start=1):
        await seed.go(runtime, "visit", {"who": who, "page": "/" + "long/" * number}, id=f"v{number}")
    await seed.go(runtime, "tally", None, id="tally1")
    for data in ("good", "bad", "slow"):
        await seed.go(runtime, "parent.called", data, id=f"parent {data}")
    await seed.go(runtime, "welcome", {"user": "ada"}, id="w1")
    await seed.go(runtime, "welcome", {"user": "ada"}, id="w2")
    await seed.go(runtime, "invoice.settled", "2026-1", id="settled1")
    await seed.go(runtime, "invoice.settled", "2026-1", id="settled2")
    await seed.go(runtime, "prints", None, id="print1")
    transport = httpx2.ASGITransport(app.asgi(token=TOKEN))
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as http:
        await http.post("/hooks/form", json={"name": "Ada"})
        await http.post("/hooks/form", content=b"\xff not JSON \x1b[31m", headers={"content-type": "application/json"})
        for number in range(3):
            await http.post("/hooks/signed", json={"n": number}, headers={"Authorization": "Bearer wrong"})
        await http.post(
            "/hooks/signed", json={"n": 4}, headers={"Authorization": "Bearer correct horse battery staple"}
        )
    await runtime.drain()


async def what_people_do(seed: Seed, runtime: Runtime, app: App) -> None:
    seed.clock.move("10m")
    say = seed.say
    approvals = {one["question"]: one["id"] for one in (await say("approvals"))["approvals"]}
    ada, bob, eve = (next(i for q, i in approvals.items() if who in q) for who in ("Ada", "Bo", "Eve"))
    assert bob
    await say("approvals", "answer", ada, '{"approve": true}', "--note", "she is right")
    runs = {one["event"]["id"]: one["id"] for one in (await say("runs", "--limit", "500"))["runs"]}
    await say("cancel", runs["r4"], "--note", "asked twice")
    await say("cancel", runs["z2"], "--note", "no more \x1b[31mneeded")
    await say("cancel", runs["trip2"], "--note", "she stays")
    assert eve
    held = (await say("effects", "--state", "held"))["effects"]
    ids = {one["run"]: one["id"] for one in held}
    await say("effects", "confirm", ids[runs["c3"]], "--result", '"by hand"', "--note", "seen on the statement")
    await say("effects", "abandon", ids[runs["c4"]], "--note", "too late")
    await say("effects", "repeat", ids[runs["c5"]], "--note", "not on the statement")
    await say("release", runs["letter3"], "--note", "it is urgent")
    await say("dead", "discard", runs["b3"], "--note", "not needed")
    await say("dead", "replay", runs["b2"], "--note", "try again")
    await say("replay", runs["t2 東京"], "--again", "--note", "once more")
    await say("fork", runs["f1"], "--from", "nothing", code=1)
    await runtime.drain()
    dead = (await say("deliveries", "--state", "dead"))["deliveries"]
    await say("deliveries", "discard", dead[0]["id"], "--note", "she is awake")
    alarms = [one["key"] for one in (await say("alarms"))["alarms"] if one["state"] == "open"]
    await say("alarms", "ack", alarms[0], "--note", "looking at it")
    await say("alarms", "mute", alarms[1], "--for", "90d", "--note", "known since long")
    await say("alarms", "resolve", alarms[2], "--note", "was a test")
    await say("pause", "paused_work", "--of", "shop", "--note", "stocktaking")
    await say("pause", "slow_work", "--of", "shop")
    await seed.go(runtime, "paused.work", None, id="pw1")
    await seed.go(runtime, "slow.work", None, id="sw1")
    await seed.go(runtime, "slow.work", None, id="sw2")
    await say("resume", "slow_work", "--rate", "1/h", "--of", "shop", "--note", "slowly")
    await say(
        "schedules", "add", "lunch", "report", "--cron", "30 12 * * *", "--of", "shop", "--data", '{"with": "soup"}'
    )
    await say(
        "schedules",
        "add",
        "tea",
        "tally",
        "--every",
        "8h",
        "--active",
        "08:00-20:00",
        "--of",
        "shop",
        "--tz",
        "Europe/London",
    )
    await say("schedules", "add", "party", "tally", "--at", "2026-12-24T18:00", "--of", "shop", "--note", "with 東京")
    await say("schedules", "add", "gone", "tally", "--every", "1h", "--of", "shop")
    await say("schedules", "edit", "tea", "--every", "9h", "--note", "less of it", "--of", "shop")
    await say("schedules", "pause", "tea", "--note", "no milk", "--of", "shop")
    await say("schedules", "remove", "gone", "--note", "enough", "--of", "shop")
    for when, text, more in (
        ("in 20 minutes", "stand up", ()),
        ("tomorrow 9am", "call \x1b[31mBob", ("--unless-event", "call.made", "--where", "data.to == 'bob'")),
        ("24 dec 2026 18:00", "東京 " + "a long text " * 20, ()),
        ("in 3 days", "tidy up", ("--to", "ops")),
        ("in 2 days", "to a pager", ("--to", "pager")),
        ("in 4 days", "will not be needed", ()),
    ):
        made = await say("remind", when, text, "--app", "app.py", *more)
        if text == "tidy up":
            await say("reminders", "move", made["id"], "in 200 days", "--note", "no hurry")
        if text == "will not be needed":
            await say("reminders", "cancel", made["id"], "--note", "done already")
    await say("state", "set", "tally", '{"seen": 100, "last": null}', "--of", "shop", "--note", "counted by hand")
    await say("state", "clear", "count", "--key", "bob", "--of", "shop")
    kept = (await say("quarantine"))["quarantine"]
    signed = [one["key"] for one in kept if one["source"].endswith("signed")]
    await say("quarantine", "release", "app.py", signed[0], "--trust", "--note", "the token was new")
    await say("quarantine", "discard", signed[1], "--note", "not ours")
    await say("checkin", "nightly backup", "--id", "backup-1", "--of", "shop")
    await runtime.drain()
    await runtime.watcher.look()


async def later_days(seed: Seed, runtime: Runtime, app: App) -> None:
    for _ in range(4):
        await seed.on_with(runtime, "1d")
        await runtime.watcher.look()
    await seed.go(runtime, "call.made", {"to": "bob"}, id="call1")
    await seed.go(runtime, "visit", {"who": "ada", "page": None}, id="v9")


async def last_hour(seed: Seed, runtime: Runtime, app: App) -> None:
    seed.clock.move("3h")
    await seed.say(
        "backfill", "app.py", "poll", "--from", "2026-02-27", "--to", "2026-02-28", "--note", "before our time"
    )
    await runtime.drain()
    runs = {one["event"]["id"]: one["id"] for one in (await seed.say("runs", "--limit", "500"))["runs"]}
    await seed.say("fork", runs["t1"], "--from", "double#2", "--note", "try")
    await seed.go(runtime, "refund.asked", {"amount": 9, "who": "Zoe \x1b[0m" + "Z" * 60}, id="r9")
    await seed.go(runtime, "mail.due", None, id="mail2")
    await seed.go(runtime, "mail.due", None, id="mail3")
    await seed.go(runtime, "build.made", {"what": "image"}, id="build2")
    await seed.go(runtime, "order.charged", {"amount": 99, "card": "fine"}, id="c9")
    await app.emit("till.opened", None, id="till1")
    await app.emit("till.opened", None, id="till2")
    drained = asyncio.ensure_future(runtime.drain())
    till = next(one for one in app.agents.values() if one.name == "till")
    await asyncio.wait_for(till.function.__globals__["inside"].wait(), 20)
    drained.cancel()
    await asyncio.wait({drained})
    await asyncio.sleep(0.2)
    await runtime.watcher.look()
    await seed.say("cancel", runs["parent slow"], "--note", "is stopping")


def save(seed: Seed) -> None:
    """The rows as SQL, without anything of this machine."""
    connection = sqlite3.connect(seed.folder / "wakeful.db")
    with contextlib.closing(connection):
        connection.executescript(MOMENTS)
        text = "\n".join(connection.iterdump()) + "\n"
        connection.rollback()
    folder = os.path.realpath(seed.folder)
    for place, shown in (
        (folder, "/srv/shop"),
        (str(seed.folder), "/srv/shop"),
        (str(HERE.parent.parent), "/srv/wakeful"),
    ):
        text = text.replace(place, shown)
    text = re.sub(rf"\b{re.escape(os.uname().nodename)}\b", "host-1", text)
    text = re.sub(rf"\b{os.getpid()}\b", "4242", text)
    STORE_SQL.write_text(text)
    moved = seed.clock.now()
    if moved != NOW:
        raise SystemExit(f"NOW in store.py is to be {moved}")


def run(_: Sequence[str]) -> None:
    folder = Path(tempfile.mkdtemp(prefix="shop-"))
    here = Path.cwd()
    try:
        shutil.copytree(HERE / "project", folder, dirs_exist_ok=True)
        os.chdir(folder)
        asyncio.run(make(folder))
    finally:
        os.chdir(here)
        shutil.rmtree(folder)


if __name__ == "__main__":
    run(sys.argv[1:])
