"""The one door by which code of the app judges inside a transaction.

A request is made of values. Some verdicts depend on rows that only the transaction sees, and on code that only the app has: whether an
event fits the condition of a wait, which event tells an alarm, how a circuit changes, what a step's record says. Such code comes in as a
`Judge`. No other callable is part of a request.

A judge gets facts and returns a verdict.
- It neither reads nor writes outside of its facts, and does not wait. On SQLite it runs in the writer's thread, and all other writes
  wait for it.
- It may be asked again with the same facts: a batch whose transaction failed is carried out again, request by request.
- If it raises, its own request fails, and no other.

`run.transaction` is the one judge that writes: the user's function, under a savepoint or on a connection of its own
(sqlite_user_function.py, user_transaction.py).
"""

from __future__ import annotations

from typing import ParamSpec, Protocol, TypeVar

Facts = ParamSpec("Facts")
Verdict_co = TypeVar("Verdict_co", covariant=True)


class Judge(Protocol[Facts, Verdict_co]):
    """Code of the app that a verb asks inside the transaction: `Judge[[StoredCircuit], CircuitChange]`."""

    def __call__(self, *facts: Facts.args, **named: Facts.kwargs) -> Verdict_co: ...
