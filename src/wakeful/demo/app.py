"""The app that the demonstration runs: a small back office of four agents.

    ticket.created ───► triage ──emits──► ticket.triaged ───► answer
    payment.received ─► invoice     four steps, long enough to be killed in the middle
    host.added ───────► enrich      asks an inventory that is not always there

Plain functions are steps. `@counted` is the demonstration's own: it writes a line outside of the worker when a body
begins and ends. `work` stands for the time that a real body would take.
"""

from __future__ import annotations

from decimal import Decimal

from pydantic import BaseModel

from wakeful import App, Persistent, Run, Transient, on, step
from wakeful.demo.counter import counted
from wakeful.demo.pace import pace, work

app = App("operations")


class Ticket(BaseModel):
    ticket: str
    text: str


class Payment(BaseModel):
    payment: str
    invoice: int
    amount: Decimal
    currency: str


class Host(BaseModel):
    host: str
    shaky: bool = False


# triage and answer


@counted
async def classify(ticket: str, text: str) -> str:
    await work(0.5)
    words = {"error": "defect", "slow": "defect", "invoice": "billing", "vat": "billing"}
    return next((kind for word, kind in words.items() if word in text.lower()), "question")


@counted
async def find_similar(ticket: str, kind: str) -> list[str]:
    await work(0.6)
    return [f"{kind}-guide", f"{kind}-history"] if ticket else []


@counted
async def summarise(ticket: str, text: str) -> str:
    await work(0.7)
    return text.partition(".")[0]


@app.agent(on("ticket.created"), owner="support")
async def triage(run: Run, ticket: Ticket) -> dict[str, str]:
    kind = await run.step(classify, ticket.ticket, ticket.text)
    articles = await run.step(find_similar, ticket.ticket, kind)
    summary = await run.step(summarise, ticket.ticket, ticket.text)
    found = {"ticket": ticket.ticket, "kind": kind, "summary": summary, "article": articles[0]}
    await run.emit("ticket.triaged", found, subject=ticket.ticket)
    return found


@counted
async def read_article(ticket: str, article: str) -> str:
    await work(0.4)
    return f"What {article} says about {ticket}"


@counted
async def draft_reply(ticket: str, summary: str, article: str) -> str:
    await work(0.6)
    return f"{ticket}: {summary}. {article}."


@app.agent(on("ticket.triaged"), owner="support")
async def answer(run: Run, triaged: dict[str, str]) -> str:
    article = await run.step(read_article, triaged["ticket"], triaged["article"])
    return await run.step(draft_reply, triaged["ticket"], triaged["summary"], article)


# invoice


@counted
async def load_invoice(payment: str, invoice: int) -> Decimal:
    await work(0.7)
    return Decimal(invoice % 90 + 10) if payment else Decimal(0)


@counted
async def match_amount(payment: str, paid: Decimal, billed: Decimal) -> Decimal:
    await work(0.8)
    return paid - billed


@counted
async def compute_tax(payment: str, amount: Decimal) -> Decimal:
    await work(0.8)
    return (amount * Decimal("0.2")).quantize(Decimal("0.01"))


@counted
async def prepare_entry(payment: str, difference: Decimal, tax: Decimal) -> dict[str, str]:
    await work(0.7)
    return {"payment": payment, "difference": str(difference), "tax": str(tax)}


@app.agent(on("payment.received"), owner="accounts")
async def invoice(run: Run, payment: Payment) -> dict[str, str]:
    billed = await run.step(load_invoice, payment.payment, payment.invoice)
    difference = await run.step(match_amount, payment.payment, payment.amount, billed)
    tax = await run.step(compute_tax, payment.payment, payment.amount)
    return await run.step(prepare_entry, payment.payment, difference, tax)


# enrich


class Inventory:
    """An outside service with weak days: it refuses the first two calls about a shaky host."""

    def __init__(self) -> None:
        self._calls: dict[str, int] = {}

    async def find(self, host: str, *, shaky: bool) -> str:
        await work(0.4)
        if host.startswith(UNKNOWN):
            raise Persistent(f"the inventory has no host {host}")
        calls = self._calls[host] = self._calls.get(host, 0) + 1
        if shaky and calls == 1:
            raise Transient("the inventory answered 503")
        if shaky and calls == 2:
            raise Transient("the inventory answered 503, Retry-After", retry_after=2.6 * pace())
        return "rack-" + host[-1]


UNKNOWN = "old-"
inventory = Inventory()


@step(attempts=6, backoff="800ms")
@counted
async def look_up(host: str, shaky: bool) -> str:
    return await inventory.find(host, shaky=shaky)


@counted
async def read_tags(host: str, place: str) -> list[str]:
    await work(0.5)
    return [host.partition("-")[0], place]


@counted
async def rate(host: str, tags: list[str]) -> int:
    await work(0.4)
    return len(host) + len(tags)


@app.agent(on("host.added"), owner="platform")
async def enrich(run: Run, host: Host) -> dict[str, str | int]:
    place = await run.step(look_up, host.host, host.shaky)
    tags = await run.step(read_tags, host.host, place)
    rating = await run.step(rate, host.host, tags)
    return {"host": host.host, "place": place, "rating": rating}


# What the view draws as a bar, in the order in which a run does it.
STEPS: dict[str, tuple[str, ...]] = {
    "triage": ("classify", "find_similar", "summarise", "emit ticket.triaged"),
    "answer": ("read_article", "draft_reply"),
    "invoice": ("load_invoice", "match_amount", "compute_tax", "prepare_entry"),
    "enrich": ("look_up", "read_tags", "rate"),
}
