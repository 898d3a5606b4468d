"""The app that the demonstration runs: a small back office of seven agents.

    ticket.created ───► triage ──emits──► ticket.triaged ───► answer
    payment.received ─► invoice     four steps, long enough to be killed in the middle
    host.added ───────► enrich      asks an inventory that is not always there
    refund.requested ─► refund      has a bank pay, which does it and then does not answer
    inbox/*.md ───────► filing      wakes when a file is dropped into a folder
    /hooks/github ────► review      wakes when a signed request comes to a webhook

Plain functions are steps, and what changes the outside world is an action. `@counted` is the demonstration's own: a body takes as many
seconds as a real one would, and a line is written outside of the worker when it begins and when it ends.
"""

from __future__ import annotations

import os
from collections import Counter
from decimal import Decimal
from pathlib import Path

from pydantic import BaseModel

from wakeful import App, Operation, Persistent, Run, Transient, action, env, files, on, step, webhook
from wakeful.demo import bank
from wakeful.demo.counter import counted
from wakeful.demo.pace import pace
from wakeful.verify import github

INBOX = "WAKEFUL_DEMO_INBOX"
HOOK = "/hooks/github"
HOOK_SECRET = "WAKEFUL_DEMO_GITHUB"  # noqa: S105 the name of the variable that it is in
UNKNOWN = "old-"  # the inventory has no host whose name begins so
ACT = "act"
# The view draws these as a bar, in the order in which a run does them.
STEPS: dict[str, tuple[str, ...]] = {
    "triage": ("classify", "find_article", "summarise", "emit ticket.triaged"),
    "answer": ("read_article", "draft_reply"),
    "invoice": ("load_invoice", "match_amount", "compute_tax", "prepare_entry"),
    "enrich": ("look_up", "read_tags", "rate"),
    "refund": ("check_refund", ACT, "write_entry"),
    "filing": ("read_note", "file_away"),
    "review": ("read_changes", "write_review"),
}

app = App("operations")


class Item(BaseModel):
    id: str  # by which `@counted` tells one from another


class Ticket(Item):
    text: str


class Triaged(Item):
    kind: str
    summary: str
    article: str


@counted(0.5)
def classify(ticket: Ticket) -> str:
    words = {"error": "defect", "slow": "defect", "invoice": "billing", "vat": "billing"}
    return next((kind for word, kind in words.items() if word in ticket.text.lower()), "question")


@counted(0.6)
def find_article(ticket: Ticket, kind: str) -> str:
    return f"{kind}/{ticket.text.split()[1]}"


@counted(0.7)
def summarise(ticket: Ticket) -> str:
    return ticket.text.partition(".")[0]


@app.agent(on("ticket.created"), owner="support")
async def triage(run: Run, ticket: Ticket) -> Triaged:
    kind = await run.step(classify, ticket)
    article = await run.step(find_article, ticket, kind)
    summary = await run.step(summarise, ticket)
    triaged = Triaged(id=ticket.id, kind=kind, summary=summary, article=article)
    await run.emit("ticket.triaged", triaged, subject=ticket.id)
    return triaged


@counted(0.4)
def read_article(ticket: Triaged) -> str:
    return f"see {ticket.article}"


@counted(0.6)
def draft_reply(ticket: Triaged, advice: str) -> str:
    return f"{ticket.id}: {ticket.summary}; {advice}"


@app.agent(on("ticket.triaged"), owner="support")
async def answer(run: Run, ticket: Triaged) -> str:
    return await run.step(draft_reply, ticket, await run.step(read_article, ticket))


class Payment(Item):
    invoice: int
    amount: Decimal
    currency: str


@counted(0.7)
def load_invoice(payment: Payment) -> Decimal:
    return Decimal(payment.invoice % 80 + 20)


@counted(0.8)
def match_amount(payment: Payment, billed: Decimal) -> Decimal:
    return payment.amount - billed


@counted(0.8)
def compute_tax(payment: Payment) -> Decimal:
    return (payment.amount * Decimal("0.2")).quantize(Decimal("0.01"))


@counted(0.7)
def prepare_entry(payment: Payment, difference: Decimal, tax: Decimal) -> str:
    return f"{payment.id}: {payment.amount} {payment.currency}, tax {tax}, difference {difference}"


@app.agent(on("payment.received"), owner="accounts")
async def invoice(run: Run, payment: Payment) -> str:
    billed = await run.step(load_invoice, payment)
    difference = await run.step(match_amount, payment, billed)
    tax = await run.step(compute_tax, payment)
    return await run.step(prepare_entry, payment, difference, tax)


class Host(Item):
    shaky: bool = False


calls: Counter[str] = Counter()


@step(attempts=6, backoff="800ms")
@counted(0.4)
def look_up(host: Host) -> str:
    """The inventory has weak days: it has no old hosts, and refuses the first two calls about a shaky one."""
    if host.id.startswith(UNKNOWN):
        raise Persistent(f"the inventory has no host {host.id}")
    calls[host.id] += 1
    if host.shaky and calls[host.id] == 1:
        raise Transient("the inventory answered 503")
    if host.shaky and calls[host.id] == 2:
        raise Transient("the inventory answered 503 with Retry-After", retry_after=2.6 * pace())
    return f"rack {len(host.id)}"


@counted(0.5)
def read_tags(host: Host, place: str) -> list[str]:
    return [host.id.partition("-")[0], place]


@counted(0.4)
def rate(host: Host, tags: list[str]) -> int:
    return len(host.id) + len(tags)


@app.agent(on("host.added"), owner="platform")
async def enrich(run: Run, host: Host) -> dict[str, int]:
    place = await run.step(look_up, host)
    tags = await run.step(read_tags, host, place)
    return {host.id: await run.step(rate, host, tags)}


class Refund(Item):
    amount: Decimal
    way: bank.Way


@counted(0.3)
def check_refund(wanted: Refund) -> bool:
    return wanted.amount < 500


@action(safety="idempotent", timeout="1s", backoff="300ms")
async def transfer(op: Operation, wanted: Refund) -> str | None:
    """The bank knows an id again."""
    return await bank.pay("transfer", wanted.id, str(wanted.amount), key=op.id)


async def find_on_card(_: Operation, wanted: Refund) -> str | None:
    return await bank.look(wanted.id)


@action(safety="reconcile", find=find_on_card, settle="1s", timeout="1s")
async def pay_to_card(_: Operation, wanted: Refund) -> str | None:
    """It knows no id, but what it has booked can be looked up."""
    return await bank.pay("card", wanted.id, str(wanted.amount))


@action(safety="at_most_once", timeout="1s")
async def send_cheque(_: Operation, wanted: Refund) -> str | None:
    """Nothing can be looked up, and a second request is a second cheque."""
    return await bank.pay("cheque", wanted.id, str(wanted.amount))


@counted(0.3)
def write_entry(wanted: Refund, booking: str | None) -> str:
    return f"{wanted.id}: {wanted.amount} paid back by {wanted.way}, booking {booking or 'on the statement'}"


@app.agent(on("refund.requested"), owner="accounts")
async def refund(run: Run, wanted: Refund) -> str:
    if not await run.step(check_refund, wanted):
        raise Persistent(f"{wanted.amount} is too much to be paid back")
    ways = {"transfer": transfer, "card": pay_to_card, "cheque": send_cheque}
    return await run.step(write_entry, wanted, await run.act(ways[wanted.way], wanted))


class Note(Item):
    path: Path


@counted(0.4)
def read_note(note: Note) -> list[str]:
    return note.path.read_text(encoding="utf-8").split()


@counted(0.4)
def file_away(note: Note, words: list[str]) -> str:
    return f"{note.id}: {len(words)} words, filed under {words[0].lower()}"


INBOX_FILES = f"{os.environ.get(INBOX, 'inbox')}/*.md"
FILE_AS_NOTE = '{"id": data.name, "path": data.path}'


@app.agent(files(INBOX_FILES, settle="200ms", operations="created", data=FILE_AS_NOTE), owner="support")
async def filing(run: Run, note: Note) -> str:
    return await run.step(file_away, note, await run.step(read_note, note))


class PullRequest(Item):
    title: str


@counted(0.4)
def read_changes(asked: PullRequest) -> int:
    return len(asked.title)


@counted(0.4)
def write_review(asked: PullRequest, lines: int) -> str:
    return f"{asked.id}: {asked.title}, {lines} lines, looks good"


OPENED = webhook(
    HOOK,
    verify=github(secret=env(HOOK_SECRET)),
    type="github.pull_request.opened",
    data='{"id": data.repository.name + "#" + string(data.number), "title": data.pull_request.title}',
)


@app.agent(OPENED, owner="platform")
async def review(run: Run, asked: PullRequest) -> str:
    return await run.step(write_review, asked, await run.step(read_changes, asked))
