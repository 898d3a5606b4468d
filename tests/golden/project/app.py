"""The app whose store is frozen in `store.sql`: one agent for each state that a listing can show."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel

from wakeful import (
    App,
    Check,
    Circuit,
    Denied,
    Operation,
    Persistent,
    Run,
    Transient,
    action,
    cron,
    every,
    files,
    on,
    step,
    webhook,
)
from wakeful.channels import Channel, Message, event, file
from wakeful.verify import bearer, none

LONG = "All of this text was written to be too long for a line. " * 12
WIDE = "東京の注文 🚀 é́ \u200b end"
ODD = "it is [bold]broken[/bold] \x1b[31mfor good\nsecond line \u202egnp.exe"


class Broken(Channel):
    """Refuses every message for good."""

    async def deliver(self, messages: Sequence[Message]) -> None:
        raise Persistent(f"410 Gone: {messages[0].subject or 'no subject'} \x1b[1m is not wanted here")


class Slow(Channel):
    """Has no room for now."""

    async def deliver(self, messages: Sequence[Message]) -> None:
        raise Transient("503 Service Unavailable", retry_after="5d")


app = App(
    "shop",
    channels={"ops": file("ops.jsonl"), "pager": Broken(), "mail": Slow(), "again": event("ticket.echo")},
    circuits={"stripe": Circuit(failures=1, rest="6h"), "maps": Circuit(failures=2, rest="1m")},
    alarms="ops",
    alarm_after=2,
    alarm_repeat=None,
)


class Ticket(BaseModel):
    title: str
    severity: int = 1


class Answer(BaseModel):
    approve: bool
    reason: str = ""


class Count(BaseModel):
    seen: int = 0
    last: str | None = None


asked: set[str] = set()


@step(attempts=3, backoff="1ms")
async def look_up(title: str, *, room: int = 1) -> dict[str, str]:
    if title not in asked:
        asked.add(title)
        raise Transient("no answer")
    return {"contact": "ada", "title": title}


async def double(number: int) -> int:
    return number * 2


@action(safety="idempotent", risk="low")
async def comment(op: Operation, number: int, text: str) -> str:
    return f"comment {number}"


@app.agent(on("ticket.created"), owner="support", deliver="ops", version="2026.1", emits=["ticket.urgent"])
async def triage(run: Run, ticket: Ticket) -> dict[str, str]:
    found = await run.step(look_up, ticket.title, room=2)
    await run.map(double, [1, 2, 3])
    await run.act(comment, 7, ticket.title)
    if ticket.severity >= 3:
        await run.emit("ticket.urgent", {"title": ticket.title})
    return found


@app.agent(on("ticket.*", where="data.severity >= 3"))
async def page(run: Run) -> str:
    run.send("ops", {"text": WIDE}, subject="paged")
    run.send("pager", "wake up", subject="now\nor never")
    return "paged"


@app.agent(on("ticket.broken"), owner="platform")
async def mend(run: Run) -> None:
    await run.step(look_up, "broken")
    raise Persistent(ODD)


@app.agent(on("ticket.secret"))
async def peek(run: Run) -> None:
    raise Denied("not for you")


@app.agent(on("ticket.later"), attempts=3, starts_within="365d")
async def later(run: Run) -> None:
    raise Transient("come back", retry_after="20d")


@app.agent(on("ticket.flaky"), attempts=3, backoff="1s")
async def flaky(run: Run) -> str:
    if run.attempt < 3:
        raise Transient(f"attempt {run.attempt} failed: " + LONG)
    return LONG


@app.agent(on("ticket.asleep"))
async def sleeper(run: Run) -> None:
    await run.sleep("60d")


@app.agent(on("order.placed"), name="order.wait")
async def wait_for_payment(run: Run) -> str:
    paid = await run.wait_for(
        "order.paid", subject=run.event.subject, where="data.amount >= values.low", values={"low": 10}, timeout="90d"
    )
    return str(paid.data["amount"])


@app.agent(on("refund.asked"), owner="billing")
async def refund(run: Run) -> dict[str, object]:
    answer = await run.ask(
        f"Refund {run.event.data['amount']} € to {run.event.data['who']}?",
        to="billing",
        schema=Answer,
        timeout=run.event.data.get("within", "45d"),
    )
    return dict(answer.model_dump())


@app.agent(on("name.asked"))
async def name_it(run: Run) -> str:
    return str(await run.ask("What is it to be called? " + LONG, schema=str))


@action
async def charge(op: Operation, amount: int, card: str) -> str:
    if card == "no answer":
        raise TimeoutError("no answer from the bank")
    if card == "refused":
        raise Persistent("402: card refused")
    return f"payment of {amount}"


@app.agent(on("order.charged"), owner="billing")
async def pay(run: Run) -> str:
    return await run.act(charge, run.event.data["amount"], run.event.data["card"])


async def release_seat(op: Operation, seat: str) -> None: ...


@action(safety="idempotent", undo=release_seat)
async def reserve(op: Operation, seat: str) -> str:
    return f"seat {seat}"


@app.agent(on("trip.booked"), on_failure="undo")
async def book(run: Run) -> None:
    await run.act(reserve, run.event.data["seat"])
    if run.event.data.get("sleeps"):
        await run.sleep("60d")
    raise Persistent("the train is cancelled")


@action(safety="idempotent", attempts=5, backoff="20d")
async def push(op: Operation, what: str) -> None:
    raise Transient("the registry is busy")


@app.agent(on("build.made"))
async def publish(run: Run) -> None:
    await run.act(push, run.event.data["what"])


def polite(text: str) -> str | None:
    return "no exclamation marks, and certainly not \x1b[5mblinking" if "!" in text else None


@app.agent(on("letter.written"), deliver="ops", checks=[polite])
async def letter(run: Run) -> str:
    run.stage(comment, 8, run.event.data)
    run.send("again", {"text": run.event.data})
    return str(run.event.data)


@app.agent(on("mail.due"), deliver="mail")
async def newsletter(run: Run) -> str:
    return LONG


@app.agent(on("quiet"), deliver="ops")
async def quiet(run: Run) -> None:
    return None


@step(dependency="stripe", attempts=1)
async def ask_stripe(number: int) -> str:
    raise ConnectionError("connection refused by stripe\x07")


@app.agent(on("invoice.due"))
async def invoice(run: Run) -> str:
    return await run.step(ask_stripe, run.event.data["number"])


@step(dependency="maps", attempts=1)
async def ask_maps(place: str) -> str:
    if place == "nowhere":
        raise ConnectionError("no route to host")
    return place


@app.agent(on("route.asked"), attempts=2, backoff="1s")
async def route(run: Run) -> str:
    return await run.step(ask_maps, run.event.data)


@app.agent(on("line.item"), key="data.line", starts_within="365d")
async def line(run: Run) -> str:
    if run.event.data["n"] == 2:
        raise Persistent("item 2 is missing")
    return f"item {run.event.data['n']}"


@app.agent(on("measure.taken"), batch=(3, "10s"))
async def average(run: Run, items: list[int]) -> float:
    return sum(items) / len(items)


@app.agent(on("visit"), state=Count, key="data.who", deliver="ops")
async def count(run: Run) -> int:
    run.state.seen += 1
    run.state.last = run.event.data.get("page")
    return int(run.state.seen)


@app.agent(on("tally"), state=Count)
async def tally(run: Run) -> int:
    run.state.seen += 10
    return int(run.state.seen)


@app.agent(on("parent.called"))
async def parent(run: Run) -> str:
    return str(await run.call("child", run.event.data))


@app.agent(name="child")
async def child(run: Run) -> str:
    if run.event.data == "bad":
        raise Persistent("the child will not")
    if run.event.data == "slow":
        await run.sleep("60d")
    return f"child of {run.event.data}"


@app.agent(on("welcome"), once="data.user", once_for="400d")
async def welcome(run: Run) -> str:
    return f"welcome {run.event.data['user']}"


@action(once="arguments.invoice", safety="idempotent")
async def settle(op: Operation, invoice: str) -> str:
    return f"settled {invoice}"


@app.agent(on("invoice.settled"))
async def settling(run: Run) -> str:
    return await run.act(settle, run.event.data)


gate = asyncio.Event()
inside = asyncio.Event()


async def drawer_is_open(op: Operation) -> None:
    return None


@action(safety="reconcile", find=drawer_is_open)
async def open_drawer(op: Operation) -> None:
    inside.set()
    await gate.wait()


@app.agent(on("till.opened"), stuck_after=None)
async def till(run: Run) -> str:
    async with run.lock("till", wait="1h"):
        await run.act(open_drawer)
    return "closed"


@app.agent(on("paused.work"), starts_within="365d")
async def paused_work(run: Run) -> None: ...


@app.agent(on("slow.work"), rate="1/h", starts_within="365d")
async def slow_work(run: Run) -> None: ...


@app.agent(on("prints"), attempts=1)
async def printer(run: Run) -> None:
    run.log.info("printing", page=1)
    raise ValueError(WIDE)


@app.agent(cron("0 8 * * 1-5", tz="Europe/London"), owner="ops")
async def report(run: Run) -> str:
    return str(run.scheduled_for)


@app.agent(every("6h", catch_up="all", max_count=3), name="poll")
async def poll(run: Run) -> str:
    return str(run.scheduled_for)


@app.agent(every("1d", overlap="skip", name="nightly: 東京"), name="night", starts_within="365d")
async def night(run: Run) -> None:
    await run.sleep("10d")


@app.agent(files("inbox/*.md", settle="0s", max_size=100))
async def read_note(run: Run) -> str:
    return str(run.event.data.get("name"))


@app.agent(webhook("/hooks/form", verify=none(), type="form.sent"), owner="support")
async def form(run: Run) -> str:
    return "thank you"


@app.agent(webhook("/hooks/signed", verify=bearer("correct horse battery staple"), type="signed.sent"))
async def signed(run: Run) -> str:
    return "signed"


async def checklist(run: Run, check: Check) -> str | None:
    if check.name == "mail":
        raise OSError("no mail server")
    return None if check.name == "plants" else f"about {check.title}"


app.heartbeat(Path(__file__).with_name("HEARTBEAT.md"), every="12h", checklist=checklist, owner="ops")
app.expect("nightly backup", by="03:00", tz="UTC", owner="ops")
app.expect("books closed", by="18:00", tz="Europe/London", event="books.closed", days="mon-fri")
app.expect(source="/stripe", at_least_every="1d")
app.expect(agent="report", output_within="2h")
app.expect("visits", event="visit", at_least_every="400d")
