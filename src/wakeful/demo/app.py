"""The app that the demonstration runs: a small back office of seven agents.

    ticket.created ───► triage ──emits──► ticket.triaged ───► answer
    payment.received ─► invoice     four steps, long enough to be killed in the middle
    host.added ───────► enrich      asks an inventory that is not always available
    refund.requested ─► refund      asks a bank to pay, which pays but does not answer
    inbox/*.md ───────► filing      wakes when a file is dropped into a folder
    /hooks/github ────► review      wakes when a signed request comes to a webhook

The work is simulated: a step takes as long as a real one would, and writes a line to a file when it begins and when it ends.
Requests to the webhook come without a network. Everything else is real.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Coroutine
from decimal import Decimal
from typing import Any

from pydantic import BaseModel

from wakeful import App, Operation, Persistent, Run, Transient, action, env, files, on, step, webhook
from wakeful.demo import bank
from wakeful.demo.outside import counted
from wakeful.demo.processes import pace
from wakeful.verify import github

INBOX = "WAKEFUL_DEMO_INBOX"
HOOK = "/hooks/github"
HOOK_SECRET = "WAKEFUL_DEMO_GITHUB"  # noqa: S105 the name of the variable that it is in
ACT = "act"

# Seconds per step, in the order of a run. The view draws them as a bar.
SECONDS = {
    "triage": {"classify": 0.5, "find_article": 0.6, "summarise": 0.7, "emit ticket.triaged": 0.0},
    "answer": {"read_article": 0.4, "draft_reply": 0.6},
    "invoice": {"load_invoice": 0.7, "match_amount": 0.8, "compute_tax": 0.8, "prepare_entry": 0.7},
    "enrich": {"look_up": 0.4, "read_tags": 0.5, "rate": 0.4},
    "refund": {"check_refund": 0.3, ACT: 0.0, "write_entry": 0.3},
    "filing": {"read_note": 0.4, "file_away": 0.4},
    "review": {"read_changes": 0.4, "write_review": 0.4},
}
STEPS = {agent: tuple(steps) for agent, steps in SECONDS.items()}

app = App("operations")


class Item(BaseModel):
    id: str  # identifies the item for the counter


class Payment(Item):
    invoice: int
    amount: Decimal
    currency: str


class Host(Item):
    shaky: bool = False


class Refund(Item):
    amount: Decimal
    way: bank.Way


def work(agent: str, name: str) -> Callable[[Item], Coroutine[Any, Any, str]]:
    """The step of this name."""

    @step(name=name)
    async def body(item: Item) -> str:
        async with counted(name, item.id, SECONDS[agent][name]):
            return f"{name}: {item.id}"

    return body


async def do(run: Run, item: Item, *steps: str) -> None:
    for name in steps:
        await run.step(work(run.agent, name), item)


@app.agent(on("ticket.created"), owner="support")
async def triage(run: Run, ticket: Item) -> None:
    await do(run, ticket, "classify", "find_article", "summarise")
    await run.emit("ticket.triaged", ticket, subject=ticket.id)


@app.agent(on("ticket.triaged"), owner="support")
async def answer(run: Run, ticket: Item) -> None:
    await do(run, ticket, "read_article", "draft_reply")


@app.agent(on("payment.received"), owner="accounts")
async def invoice(run: Run, payment: Payment) -> None:
    await do(run, payment, "load_invoice", "match_amount", "compute_tax", "prepare_entry")


calls: Counter[str] = Counter()


@step(attempts=6, backoff="800ms")
async def look_up(host: Host) -> str:
    """Simulates an unreliable inventory: it has no old hosts, and rejects the first two calls about a shaky one."""
    async with counted("look_up", host.id, SECONDS["enrich"]["look_up"]):
        if host.id.startswith("old-"):
            raise Persistent(f"the inventory has no host {host.id}")
        calls[host.id] += 1
        if host.shaky and calls[host.id] == 1:
            raise Transient("the inventory answered 503")
        if host.shaky and calls[host.id] == 2:
            raise Transient("the inventory answered 503 with Retry-After", retry_after=2.6 * pace())
        return f"rack {len(host.id)}"


@app.agent(on("host.added"), owner="platform")
async def enrich(run: Run, host: Host) -> None:
    await run.step(look_up, host)
    await do(run, host, "read_tags", "rate")


@action(safety="idempotent", timeout="1s", backoff="300ms")
async def transfer(op: Operation, wanted: Refund) -> str | None:
    """The bank deduplicates by id."""
    return await bank.pay(wanted.id, key=op.id)


async def find_on_card(_: Operation, wanted: Refund) -> str | None:
    return await bank.look(wanted.id)


@action(safety="reconcile", find=find_on_card, settle="1s", timeout="1s")
async def pay_to_card(_: Operation, wanted: Refund) -> str | None:
    """The bank does not deduplicate, but bookings can be looked up."""
    return await bank.pay(wanted.id)


@action(safety="at_most_once", timeout="1s")
async def send_cheque(_: Operation, wanted: Refund) -> str | None:
    """Bookings cannot be looked up, and a second request is a second cheque."""
    return await bank.pay(wanted.id)


@app.agent(on("refund.requested"), owner="accounts")
async def refund(run: Run, wanted: Refund) -> None:
    await do(run, wanted, "check_refund")
    await run.act({"transfer": transfer, "card": pay_to_card, "cheque": send_cheque}[wanted.way], wanted)
    await do(run, wanted, "write_entry")


NOTES = files(f"{os.environ.get(INBOX, 'inbox')}/*.md", settle="200ms", operations="created", data='{"id": data.name}')


@app.agent(NOTES, owner="support")
async def filing(run: Run, note: Item) -> None:
    await do(run, note, "read_note", "file_away")


SIGNED = github(secret=env(HOOK_SECRET))
PULL_REQUEST = '{"id": data.repository.name + "#" + string(data.number)}'


@app.agent(webhook(HOOK, verify=SIGNED, type="github.pull_request.opened", data=PULL_REQUEST), owner="platform")
async def review(run: Run, asked: Item) -> None:
    await do(run, asked, "read_changes", "write_review")
