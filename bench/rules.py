"""A policy of a hundred rules. Five of them fit the effect of the workload, and their conditions are true: they allow it. The
others are about other actions, events of other types, and what may start a run; nothing of the workload fits them.
"""

from pathlib import Path

from wakeful import Operation, action

RULES = 100
ALLOWING = {
    "numbers": "arguments.number > 0 && arguments.number < 1000",
    "severity": "data.severity <= 3",
    "text": 'arguments.text.startsWith("nothing")',
    "source": 'event.source == "/bench" && event.subject.startsWith("ticket/")',
    "title": "has(data.title) && size(data.title) < 200",
}
PER_ACTION, OF_OTHER_TYPES = 9, 30


@action(risk="high")
async def refund(op: Operation, number: int, text: str) -> None: ...


@action(risk="high")
async def mail(op: Operation, number: int, text: str) -> None: ...


@action
async def close(op: Operation, number: int, text: str) -> None: ...


@action
async def assign(op: Operation, number: int, text: str) -> None: ...


@action
async def label(op: Operation, number: int, text: str) -> None: ...


def rules() -> list[str]:
    found = [f"{{id: {name}, action: comment, when: '{when}', answer: allow}}" for name, when in ALLOWING.items()]
    for name in ("refund", "mail", "close", "assign", "label"):
        found += [
            f"{{id: {name}-{n}, action: {name}, when: arguments.number > {n}, answer: ask}}" for n in range(PER_ACTION)
        ]
    for n in range(OF_OTHER_TYPES):  # only the event itself shows that they do not fit
        found.append(
            f"{{id: type-{n}, action: comment, type: 'bench.other-{n}.*', when: data.number > {n}, answer: deny}}"
        )
    for n in range(RULES - len(found)):
        found.append(
            f"{{id: start-{n}, at: admission, type: 'bench.start-{n}', when: data.number > {n}, answer: hold}}"
        )
    return found


def write_policy(folder: Path) -> Path:
    path = folder / "policy.yaml"
    path.write_text("policy: 1\nrules:\n" + "".join(f"  - {one}\n" for one in rules()))
    return path
