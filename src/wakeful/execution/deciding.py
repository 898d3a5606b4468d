"""`run.decide`: rules first, a model second, a person third.

    rules ──► one matches ──► its option
      │ none matches                         │ one needs a stale or unclear fact, or fails
      ▼                                      ▼
    model ──► confident ──► its option   a person, of the options ──► the answer
      └────── not confident ─────────────────┘

One checkpoint holds what the rules and the model said, so the model is asked once. A person's answer is added to it.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from wakeful.cel_rules import CelMistake, Given, RuleExpression, Unknown, compile_rule
from wakeful.clock import Duration
from wakeful.errors import ClaimLost, Persistent, did_you_mean
from wakeful.execution import waiting
from wakeful.execution.checkpoint import Checkpoint, shown_arguments
from wakeful.execution.facts import known_facts
from wakeful.execution.record import in_round
from wakeful.functions.call import call, is_async
from wakeful.functions.options import DEFAULT_STEP, location, name_of, options_of
from wakeful.model import Event
from wakeful.policy.facts import FactValue
from wakeful.stored_errors import storable, words_of
from wakeful.values import digest_of_arguments, to_text

if TYPE_CHECKING:
    from wakeful.clock import Microseconds
    from wakeful.execution.attempt import Attempt

KEY = "run.decide"  # the beginning of the key of its checkpoint
CONFIDENT = 0.8
LONGEST_QUESTION = 2_000
LONGEST_REASON = 1_000  # characters of a model's reason that are recorded and shown
LONGEST_MODEL = 200

Rule = tuple[str, str] | Callable[["DecideFacts"], str | None]
Model = Callable[[str, list[str]], "Choice | Awaitable[Choice]"]


@dataclass(frozen=True, slots=True)
class Choice:
    """The choice of a model, and its confidence from 0 to 1. `model` is its name and version; default: the function's name. `reason` is
    for people; its first 1,000 characters are recorded.
    """

    option: str
    confidence: float
    model: str | None = None
    reason: str | None = None


class StaleFact(LookupError):
    """A rule read a fact that is too old. Not a KeyError: `facts.get(name)` and `name in facts` would read it as missing."""


class FreshFacts(Mapping[str, Any]):
    """The values of a run's facts. Reading a stale one, in any way, raises StaleFact."""

    def __init__(self, known: Mapping[str, FactValue], now: Microseconds) -> None:
        self.fresh = {name: one.value for name, one in known.items() if not one.is_stale(now)}
        self.stale = {name: one.age_in_words() for name, one in known.items() if one.is_stale(now)}

    def __getitem__(self, name: str) -> Any:
        if name in self.stale:
            raise StaleFact(name)
        return self.fresh[name]

    def __iter__(self) -> Iterator[str]:
        return iter((*self.fresh, *self.stale))

    def __len__(self) -> int:
        return len(self.fresh) + len(self.stale)


@dataclass(frozen=True, slots=True)
class DecideFacts:
    """The input of a rule in Python: values only, and a rule reads nothing else."""

    question: str
    options: tuple[str, ...]
    app: str
    agent: str
    owner: str | None
    event: Event
    now: Microseconds
    facts: FreshFacts  # the facts of the run; a stale one cannot be read
    run: Mapping[str, Any]  # its id, its attempt


@dataclass(frozen=True, slots=True)
class Question:
    """A question with everything that can decide it."""

    text: str
    options: tuple[str, ...]
    rules: tuple[tuple[str, Any], ...]  # (name, (compiled condition, option) or function)
    model: Callable[..., Any] | None
    at_least: float
    what: str

    def refuse_other(self, option: Any, who: str) -> str:
        """The option. Raises Persistent if it is not one of the question's."""
        if isinstance(option, str) and option in self.options:
            return option
        guess = did_you_mean(option, self.options) if isinstance(option, str) else ""
        message = f"{self.what}: {who} chose {option!r:.80}, which is not one of the options {', '.join(self.options)}.{guess}"
        raise Persistent(message)


async def decide(
    attempt: Attempt,
    question: str,
    options: Sequence[str],
    *,
    rules: Sequence[Rule],
    model: Model | None,
    at_least: float,
    ask: str | None,
    timeout: Duration | None,
) -> str:
    """One of the options. Raises Persistent if nothing decides and no person is asked, TimedOut if no answer comes in time."""
    asked = read_question(attempt, question, options, rules, model, at_least)
    if ask is not None and (not isinstance(ask, str) or not ask):
        message = f"{asked.what}: ask={ask!r}: name the group or channel that is asked, or leave it out"
        raise Persistent(message)
    attempt.refuse_inside("run.decide")
    record = attempt.record
    digested, text = digest_of_arguments((asked.text, list(asked.options)), {}, of="run.decide")
    key, shown = record.next_key(KEY, digested)
    if record.round:
        key, shown = in_round(record.round, key, shown)
    shown = shown.removeprefix("run.")
    if attempt.to_stop is not None:
        await attempt.begin_nothing_more()
    told = await _reach(attempt, asked, key, shown, text)
    if told["answer"] is not None:
        return str(told["answer"])
    if ask is None:
        message = f"{asked.what}: {told['why']}; with ask= a person decides"
        raise Persistent(message)
    said = f"{asked.text}\n\n{told['why'][0].upper()}{told['why'][1:]}."
    answer, approval = await waiting.asked(attempt, said, to=ask, schema=Literal[asked.options], timeout=timeout)
    with attempt.at_work():
        found = await attempt.surroundings.store.database.fetch("answerer_of_approval", approval)
        person = next((row[0] for row in found), None)
        step = record.new_step(key, shown, "done", arguments=shown_arguments(text), position=0)
        whole = {**told, "answer": answer, "by": "person", "person": person, "approval": approval}
        step.result = to_text(whole, what="the record of run.decide")
        await record.save(step)
    return str(answer)


async def _reach(attempt: Attempt, asked: Question, key: str, shown: str, text: str) -> dict[str, Any]:
    """The answer of the rules and the model, from the record; if it has none, they are asked and it is stored."""
    options = DEFAULT_STEP if asked.model is None else replace(options_of(asked.model), name=None, key=None)
    attempt.enter(marked=False)
    try:
        checkpoint = Checkpoint(attempt, key, shown, text, options, _settle, (attempt, asked), {})
        told, new = await checkpoint.reach()
        if new is not None:
            await attempt.record.save(new)
            attempt.claim.finished += 1
        return dict(told)
    except ClaimLost:
        attempt.interrupt("lost")
        raise
    finally:
        attempt.exit()


async def _settle(attempt: Attempt, asked: Question) -> dict[str, Any]:
    """Ask the rules, then the model. `answer` is None if a person must decide."""
    around = attempt.surroundings
    now = attempt.clock.now()
    facts = FreshFacts(known_facts(attempt), now)
    told: dict[str, Any] = {
        "question": asked.text,
        "options": list(asked.options),
        "answer": None,
        "by": None,
        "rule": None,
        "model": None,
        "confidence": None,
        "person": None,
        "why": "no rule matched",
        "facts": {**facts.fresh, **{name: f"stale: {age}" for name, age in facts.stale.items()}},
        "policy": around.policies.version,
    }
    run = {"id": attempt.id, "attempt": attempt.number, "agent": attempt.agent}
    owner = around.owners.get(attempt.agent)
    known = DecideFacts(asked.text, asked.options, around.app, attempt.agent, owner, attempt.event, now, facts, run)
    values = {"event": attempt.event, "data": attempt.event.data, "agent": attempt.agent, "facts": facts.fresh}
    given = Given("decide", {**values, "run": run, "now": now}, facts.stale)
    for name, rule in asked.rules:
        option, doubt = _ask_rule(name, rule, given, known)
        if doubt is not None:
            return {**told, "rule": name, "why": doubt}
        if option is not None:
            option = asked.refuse_other(option, f"rule {name}")
            return {**told, "answer": option, "by": "rule", "rule": name, "why": f"rule {name} matched"}
    return told if asked.model is None else {**told, **await _ask_model(attempt, asked, told["why"])}


def _ask_rule(name: str, rule: Any, given: Given, known: DecideFacts) -> tuple[Any, str | None]:
    """The option of a rule, None if it does not match; and the reason why a person must decide: a fact of the rule is stale, or cannot
    be compared as the rule compares it.
    """
    if isinstance(rule, tuple):
        condition, option = rule
        truth = condition.truth(given)
        if truth is True:
            return option, None
        named = condition.fields.get("facts", ())
        stale = [one for one in given.stale if named is None or one in named]
        if stale:
            return None, f"rule {name} needs facts.{stale[0]}, which is stale: {given.stale[stale[0]]}"
        if isinstance(truth, Unknown) and not truth.missing and named != ():
            return None, f"rule {name} is unknown: {truth.why}"
        return None, None
    try:
        return rule(known), None
    except StaleFact as error:
        return None, f"rule {name} needs facts.{error.args[0]}, which is stale: {given.stale[error.args[0]]}"
    except Exception as error:
        return None, f"rule {name} failed: {type(error).__name__}: {words_of(error)}"


async def _ask_model(attempt: Attempt, asked: Question, before: str) -> dict[str, Any]:
    function: Any = asked.model
    name = name_of(function)
    choice = await call(
        attempt.stand_in(function, function), (asked.text, list(asked.options)), {}, what=f"model {name}"
    )
    if not isinstance(choice, Choice):
        message = f"{asked.what}: model {name} returned {choice!r:.80}, not a Choice(option, confidence) ({location(function)})"
        raise Persistent(message)
    option, confidence = asked.refuse_other(choice.option, f"model {name}"), choice.confidence
    if not is_share(confidence):
        message = f"{asked.what}: model {name} gave the confidence {confidence!r:.80}: it is a number from 0 to 1"
        raise Persistent(message)
    for field, given in (("model", choice.model), ("reason", choice.reason)):
        if given is not None and not isinstance(given, str):
            raise Persistent(f"{asked.what}: model {name}: {field} of a Choice is a text, not {given!r:.80}")
    version = in_short(choice.model or name, LONGEST_MODEL)
    because = f" ({in_short(choice.reason, LONGEST_REASON)})" if choice.reason else ""
    sure = confidence >= asked.at_least
    return {
        "answer": option if sure else None,
        "by": "model" if sure else None,
        "model": version,
        "confidence": confidence,
        "why": f"{before}; model {version} chose {option} with confidence {confidence:g}{because}"
        + ("" if sure else f", and {asked.at_least:g} is needed"),
    }


# reading what the handler wrote


def read_question(attempt: Attempt, question: Any, options: Any, rules: Any, model: Any, at_least: Any) -> Question:
    what = f"agent {attempt.agent}: run.decide({str(question)[:60]!r})"
    if not isinstance(question, str) or not 0 < len(question.strip()) <= LONGEST_QUESTION:
        raise Persistent(f"{what}: the question is a text of 1 to {LONGEST_QUESTION:,} characters")
    if isinstance(options, str) or not isinstance(options, Sequence):
        raise Persistent(f"{what}: options={options!r:.80}: give a list of texts")
    if (
        not all(isinstance(one, str) and one for one in options)
        or len(set(options)) != len(options)
        or len(options) < 2
    ):
        raise Persistent(f"{what}: options={list(options)!r:.80}: give two or more different texts")
    if not is_share(at_least):
        raise Persistent(f"{what}: at_least={at_least!r}: give a number from 0 to 1")
    if model is not None and not callable(model):
        raise Persistent(f"{what}: model={model!r:.80}: give a function that returns Choice(option, confidence)")
    read = tuple(_read_rule(one, options, what) for one in rules)
    return Question(question, tuple(options), read, model, float(at_least), what)


def _read_rule(rule: Any, options: Sequence[str], what: str) -> tuple[str, Any]:
    if callable(rule):
        if is_async(rule):
            message = f"{what}: rule {name_of(rule)} is async: a rule is a plain function of facts. Tell it what it needs with run.facts"
            raise Persistent(message)
        return name_of(rule), rule
    if not (isinstance(rule, tuple | list) and len(rule) == 2 and isinstance(rule[0], str)):
        raise Persistent(f'{what}: a rule is ("CEL condition", "option") or a function, not {rule!r:.80}')
    expression, option = rule
    if option not in options:
        guess = did_you_mean(str(option), options)
        raise Persistent(f'{what}: rule "{expression}" answers {option!r:.80}, which is not one of the options.{guess}')
    try:
        return f'"{expression}"', (_condition(expression), option)
    except CelMistake as error:
        raise Persistent(f'{what}: rule "{expression}" {error}') from None


@lru_cache(maxsize=1024)
def _condition(expression: str) -> RuleExpression:
    return compile_rule(expression, "decide", boolean=True)


def in_short(text: str, most: int) -> str:
    """The text of a model on one line that any database can store, cut to so many characters."""
    line = " ".join(storable(text).split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def is_share(value: Any) -> bool:
    """Whether it is a number from 0 to 1."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and 0 <= value <= 1
