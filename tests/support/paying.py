"""A shop whose payments above 100 a rule asks about: the policy, the people, and what tests say and see."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from wakeful import App, Denied, Operation, RateLimited, Run, Transient, action, on
from wakeful.clock import duration
from wakeful.policy.text import read_policy
from wakeful.runtime import Runtime
from wakeful.stores.request import Actor
from wakeful.stores.verbs.approvals import AnswerApproval, Answered
from wakeful.stores.verbs.halts import ChangeHalt
from wakeful.stores.verbs.policies import ApplyPolicy

ADA, BOB, EVE = Actor("ada", "http", proved=True), Actor("bob", "http", proved=True), Actor("eve", "cli")


def policy_of(approve: str = "{by: [ops], within: 4h}", *more: str) -> str:
    rule = f"  - {{id: large, action: pay, when: arguments.amount > 100, answer: ask, reason: above 100, approve: {approve}}}"
    return "\n".join(["policy: 1", "redact: [arguments.card]", "rules:", rule, *more])


PEOPLE = """\
people:
  ada: {groups: [ops, shop, leads]}
  bob: {groups: [ops, shop, leads]}
  mallory: {groups: [guests]}
"""


def write(path: Path, text: str) -> None:
    path.write_text(text)


def busy(wait: str) -> RateLimited:
    """Certainly not done, and called again after exactly this wait: a random one may be over at once."""
    return RateLimited(retry_after=wait)


def lost(wait: str) -> Transient:
    """Perhaps done, and called again after exactly this wait."""
    error = Transient("lost")
    error.retry_after = duration(wait)
    return error


class Till:
    """What was paid, and what the handler got."""

    def __init__(self) -> None:
        self.paid: list[tuple[str, int]] = []
        self.answers: list[Any] = []
        self.got: list[str] = []


def declare(app: App, *answers: Any, **options: Any) -> Till:
    till = Till()
    till.answers = list(answers)

    @action(**{"safety": "idempotent", "backoff": "10ms", **options})
    async def pay(op: Operation, amount: int, card: str = "4111") -> str:
        till.paid.append((op.id, amount))
        answer = till.answers.pop(0) if till.answers else "paid"
        if isinstance(answer, BaseException):
            raise answer
        return f"{answer} {amount}"

    @app.agent(on("go"), name="billing", owner="shop", attempts=1, deadline="2h")
    async def billing(run: Run) -> str:
        try:
            got = await run.act(pay, run.event.data["amount"])
        except Denied as error:
            till.got.append(str(error))
            return "refused"
        till.got.append(got)
        return got

    return till


async def begin(app: App, runtime: Runtime, amount: int = 150, **more: Any) -> Any:
    receipt = await app.emit("go", {"amount": amount, **more})
    await runtime.drain()
    return receipt


async def approvals(runtime: Runtime, state: str | None = "open") -> list[dict[str, Any]]:
    return list((await runtime.reader.approvals(state=state))["approvals"])


async def say(
    runtime: Runtime, approval: dict[str, Any], answer: str = "true", by: Actor = EVE, **more: Any
) -> Answered:
    said = await runtime.store.do(AnswerApproval(approval["id"], answer, by=by, **more))
    assert said is not None
    await runtime.drain()
    return said


async def effects(runtime: Runtime) -> list[dict[str, Any]]:
    return list((await runtime.reader.effects())["effects"])


async def put_in_force(runtime: Runtime, text: str) -> None:
    texts = [("policy.yaml", text)]
    await runtime.store.do(ApplyPolicy(runtime.app.name, read_policy(texts).version, texts, by=EVE))


async def halt(runtime: Runtime, *, halted: bool = True) -> None:
    """Halt payments, or lift that."""
    await runtime.store.do(ChangeHalt(runtime.app.name, "", "pay", halted=halted, by=EVE))
    await runtime.drain()
