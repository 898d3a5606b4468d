"""Durable waits: for time, an event, another run, a person. A run that only waits holds no worker.

    the call ──► recorded? ──► its result, or its error again
                  │ no
                  ▼
    a step in the state `waiting`, whose `result` says for what and until when ──► rest (the run leaves memory)
                  │
                  ▼ the attempt finds that its time is over
    the store decides: the event or answer may have arrived at that very moment

An event or answer that arrives while the run is out of memory ends the step in the store. The handler then runs from the
top and finds it recorded.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json, to_json

from wakeful.alarm_words import moment
from wakeful.cel import named_values
from wakeful.clock import SECOND, Duration, Microseconds, duration, from_datetime, readable
from wakeful.errors import ConfigError, Persistent, TimedOut, did_you_mean
from wakeful.execution.attempt import Attempt
from wakeful.execution.checkpoint import marked, shown_arguments
from wakeful.execution.tampering import refuse_forged_step
from wakeful.functions.retry import WAITS_IN_PLACE
from wakeful.intake.cloudevents import TEXT_LIMIT, from_envelope, new_event
from wakeful.intake.matching import condition_of
from wakeful.model import Event, Step, digest
from wakeful.stored_errors import describe, restore
from wakeful.stores.alarm import Alarm, ask_alarm
from wakeful.stores.notes import note
from wakeful.stores.verbs.approvals import Approval, AskPerson
from wakeful.stores.verbs.waits import EndWait, Wait
from wakeful.values import digest_of_arguments, plain, to_text

DAY = 86400 * SECOND
# The limit of a wait for an event, an answer or another run without a timeout, so that nothing waits for ever.
LIMIT_WITHOUT_TIMEOUT: Microseconds = 30 * DAY
QUESTION_SHOWN = 2000  # characters of the question in its alarm
LONGEST: Microseconds = 3660 * DAY
CALL_PATH = "callpath"  # the extension of an event that run.call made: the agents on the way here


# time


async def sleep(attempt: Attempt, span: Duration) -> None:
    """Sleep until this time has passed since the first call."""
    length = _span(span, f"agent {attempt.agent}: run.sleep({span!r})")
    await _sleep(attempt, "sleep", span, lambda now: now + length)


async def sleep_until(attempt: Attempt, moment: datetime | str) -> None:
    """Sleep until a time. A time in the past does not wait."""
    try:
        until = from_datetime(datetime.fromisoformat(moment) if isinstance(moment, str) else moment)
    except (ValueError, AttributeError, TypeError):
        message = f"agent {attempt.agent}: run.sleep_until({moment!r}): this is not a time: give a datetime or 2026-01-31T12:00:00Z"
        raise Persistent(message) from None
    if until - attempt.clock.now() > LONGEST:
        message = f"agent {attempt.agent}: run.sleep_until({moment!r}): that is more than {readable(LONGEST)} from now"
        raise Persistent(message)
    await _sleep(attempt, "sleep_until", moment, lambda _: until)


async def _sleep(attempt: Attempt, call: str, given: Any, until_from: Any) -> None:
    with attempt.calling(f"run.{call}"):
        key, shown, text = _identity(attempt, call, (given,))
        step = attempt.record.find(key)
        if step is not None and step.state == "done":
            return
        if step is None:
            until = until_from(attempt.clock.now())
            step = _new_step(attempt, key, shown, text, {"until": until})
            if until - attempt.clock.now() <= WAITS_IN_PLACE:
                await attempt.record.save(step)  # its time counts from the first call, also for a short wait in place
        await attempt.rest(step, _until(step), in_place=True)
        attempt.record.passed(step)


# events


async def wait_for(
    attempt: Attempt,
    type_: str,
    *,
    subject: str | None,
    where: str | None,
    values: Mapping[str, Any] | None,
    timeout: Duration | None,
    source: str | None = None,
) -> Event:
    """The first event of a type that arrived after the run was created and that no earlier wait of the run took."""
    what = f"agent {attempt.agent}: run.wait_for({type_!r})"
    _refuse_wait(what, type_, subject, where, values, source)
    limit = None if timeout is None else _span(timeout, what)
    with attempt.calling("run.wait_for"):
        variables = None if values is None else to_text(dict(values), what=f"{what}: values", passed=True)
        given = (
            subject,
            where,
            values,
            timeout,
        )  # without a source the identity is as in waits that are already recorded
        key, shown, text = _identity(attempt, f"wait_for {type_}", given if source is None else (*given, source))
        awaited: dict[str, Any] = {"type": type_, "subject": subject, "where": where}
        if source is not None:
            awaited["source"] = source
        if variables is not None:
            awaited["values"] = from_json(variables)
        step, _ = _begin(attempt, key, shown, text, {"event": awaited}, limit)
        wait = Wait(key, type_, subject or "", _from_source(source, where), variables)
        ended = await _reach(attempt, step, f"{what}: no such event came", wait=wait)
        return from_envelope(ended.result or "{}")


def _from_source(source: str | None, where: str | None) -> str | None:
    """The condition with the source as part of it, so that processes of an earlier version check it too."""
    if source is None:
        return where
    asked = f"event.source == {to_json(source).decode()}"
    return asked if where is None else f"{asked} && ({where}\n)"  # on a line of its own: `where` may end with a comment


def _refuse_wait(what: str, type_: Any, subject: Any, where: Any, values: Any, source: Any) -> None:
    if not (source is None or (isinstance(source, str) and 0 < len(source) <= TEXT_LIMIT)):
        message = f"{what}: source={source!r:.60}: give the source of the event as text, or leave it out"
        raise Persistent(message)
    if not isinstance(type_, str) or not type_.strip() or "*" in type_ or len(type_) > TEXT_LIMIT:
        message = f"{what}: give exactly one type to wait for, without *; further conditions go into where="
        raise Persistent(message)
    if not (subject is None or (isinstance(subject, str) and subject)):
        message = f"{what}: subject={subject!r}: give a non-empty text, or leave it out"
        raise Persistent(message)
    if where is not None:
        try:
            condition_of(where)
            condition_of(_from_source(source, where) or where)
        except ConfigError as error:
            message = f"{what}: where: {str(error).removeprefix('run.wait_for: ')}"
            raise Persistent(message) from None
        for name in sorted(named_values(where) - set(values or ())):
            guess = did_you_mean(name, values or ())
            message = f'{what}: where: "{where}" names values.{name}, which values={{…}} does not have.{guess}'
            raise Persistent(message)


# other runs


async def call(attempt: Attempt, agent: Any, data: Any, *, subject: str | None, timeout: Duration | None) -> Any:
    """Start a run of another agent of the app, through intake, and wait for its output."""
    with attempt.calling("run.call"):
        name = _agent_name(attempt, agent)
        what = f"agent {attempt.agent}: run.call({name!r})"
        limit = None if timeout is None else _span(timeout, what)
        key, shown, text = _identity(attempt, f"call {name}", (data, subject, timeout))
        step = attempt.record.find(key)
        if step is None:
            step = await _start_child(attempt, name, data, subject, key, shown, text, limit)
        ended = await _reach(attempt, step, f"{what}: it was not done")
        return from_json(ended.result or "null")


async def _start_child(
    attempt: Attempt,
    name: str,
    data: Any,
    subject: str | None,
    key: str,
    shown: str,
    text: str,
    limit: Microseconds | None,
) -> Step:
    """Store the event, the child's run and the step that waits for it in one transaction. If no run came of it, the
    step has failed.
    """
    step = _new_step(attempt, key, shown, text, {})
    until = _until_from(attempt, limit)
    event = new_event(
        "wakeful.call",
        data,
        source=f"/{attempt.app}/{attempt.agent}",
        id=digest(attempt.root, key),
        subject=subject,
        **attempt.inherited(),
        **{CALL_PATH: "/".join([*call_path(attempt), attempt.agent])},
    )

    await attempt.record.save_facts()
    options: dict[str, Any] = {"claim": attempt.claim, "step": step, "adopts": {"agent": name, **until}}
    await attempt.surroundings.door.accept([event], agent=name, by="app", **options)
    return step


def _agent_name(attempt: Attempt, agent: Any) -> str:
    name = attempt.name_of_agent(agent)
    path = [*call_path(attempt), attempt.agent]
    if name is None:
        shown = agent if isinstance(agent, str) else getattr(agent, "__name__", repr(agent))
        message = f"agent {attempt.agent}: run.call({shown!r}): app {attempt.app} has no such agent.{did_you_mean(shown, attempt.surroundings.agents)}"
        raise Persistent(message)
    if name in path:
        message = (
            f"agent {attempt.agent}: run.call({name!r}) closes a circle: {' → '.join([*path, name])}. "
            "Each would wait for the next for ever; pass the work on with run.emit instead"
        )
        raise Persistent(message)
    return name


def call_path(attempt: Attempt) -> list[str]:
    """The agents whose calls led to this run."""
    path = attempt.event.extensions.get(CALL_PATH)
    return path.split("/") if isinstance(path, str) and path else []


# people


async def ask(attempt: Attempt, question: str, *, to: str | None, schema: Any, timeout: Duration | None) -> Any:
    """A person's answer, validated by `schema`."""
    answer, _ = await asked(attempt, question, to=to, schema=schema, timeout=timeout)
    return answer


async def asked(
    attempt: Attempt, question: str, *, to: str | None, schema: Any, timeout: Duration | None
) -> tuple[Any, str]:
    """A person's answer, and the id of its approval."""
    what = f"agent {attempt.agent}: run.ask({str(question)[:60]!r})"
    if not isinstance(question, str) or not question.strip():
        message = f"{what}: the question must be a non-empty text"
        raise Persistent(message)
    limit = None if timeout is None else _span(timeout, what)
    reader = _reader(schema, what)
    with attempt.calling("run.ask"):
        shape = None if reader is None else to_json(reader.json_schema()).decode()
        key, shown, text = _identity(attempt, "ask", (question, to, shape))
        identifier = digest(attempt.id, key)  # a replay or fork asks again
        question = plain(question)  # its identity stays that of what the handler wrote
        told = {"question": question, "to": to, "approval": identifier}
        step, fresh = _begin(attempt, key, shown, text, told, limit)
        if fresh:
            await _store_approval(attempt, step, Approval(identifier, question, to, shape, _until(step)))
        while True:
            ended = await _reach(attempt, step, f"{what}: no answer came")
            try:
                return _read_answer(ended.result or "null", reader), identifier
            except ValidationError as error:
                first = error.errors(include_url=False, include_input=False)[0]
                step.state, step.result = "waiting", _info({**told, **_until_from(attempt, limit)})
                again = f"the answer did not fit: {first['msg']}"
                await _store_approval(
                    attempt, step, Approval(identifier, question, to, shape, _until(step)), again=again
                )


async def _store_approval(attempt: Attempt, step: Step, approval: Approval, *, again: str | None = None) -> None:
    """Store an approval. `again`: why the previous answer was not accepted."""
    claim = attempt.claim
    await attempt.record.save_facts()
    if again is None:
        claim.steps = [*claim.steps, step]  # so that it is withdrawn with the run, however this attempt ends
    alarm = alarm_about(attempt, step, approval, again)
    await attempt.surroundings.store.do(AskPerson(claim, attempt.app, step, approval, again, alarm))


def alarm_about(attempt: Attempt, step: Step, approval: Approval, again: str | None) -> Alarm:
    """The alarm that brings the approval to the channel that `to` names, or to the agent's owner: now, when three
    quarters of its time are over, and when it ends. Without a time limit it is repeated like any alarm.
    """
    told = from_json(step.result or "{}")
    asked_at, until = attempt.clock.now(), int(told["until"])
    limited = not told.get("limited")
    by = f", which waits until {moment(until)}" if limited else ", which waits"
    why = "" if again is None else f"; asked again, {again}"
    return Alarm(
        attempt.app,
        ask_alarm(attempt.app, attempt.agent, approval.id),
        f"{approval.question[:QUESTION_SHOWN]} (run {attempt.id}{by}{why})",
        attempt.agent,
        attempt.surroundings.owners.get(attempt.agent),
        addressee=approval.asked_of,
        remind_at=asked_at + (until - asked_at) * 3 // 4 if limited else None,
    )


def _reader(schema: Any, what: str) -> TypeAdapter[Any] | None:
    if schema is None:
        return None
    try:
        return TypeAdapter(schema)
    except Exception as error:
        message = f"{what}: schema={schema!r} cannot be validated: {str(error).splitlines()[0]}"
        raise Persistent(message) from None


def _read_answer(text: str, reader: TypeAdapter[Any] | None) -> Any:
    return from_json(text) if reader is None else reader.validate_json(text)


# shared


async def _reach(attempt: Attempt, step: Step, what: str, *, wait: Wait | None = None) -> Step:
    """The step as it ended. Raises the error it ended with."""
    ended = step
    if step.state == "waiting":
        told = from_json(step.result or "{}")
        until = told["until"]
        await attempt.rest(step, until, wait=wait)
        limit = until - step.started_at
        remedy = "; give it a timeout= of its own" if told.get("limited") else ""
        late = TimedOut(f"{what} within {readable(limit)}{remedy}")
        await attempt.record.save_facts()
        around = attempt.surroundings
        error = to_json(describe(late)).decode()
        ended = await around.store.do(EndWait(attempt.claim, step, error, wait, around.matches))
        if (codec := around.codec) is not None:
            refuse_forged_step(attempt.claim, ended, codec)
    if ended.state == "failed":
        raise marked(restore(from_json(ended.error or "{}")), step.key, step.name)
    return ended


def _begin(
    attempt: Attempt, key: str, shown: str, text: str, told: dict[str, Any], limit: Microseconds | None
) -> tuple[Step, bool]:
    """The recorded step of a wait, or a new one that counts from now; and whether it is new."""
    step = attempt.record.find(key)
    if step is not None:
        return step, False
    return _new_step(attempt, key, shown, text, {**told, **_until_from(attempt, limit)}), True


def _until_from(attempt: Attempt, limit: Microseconds | None) -> dict[str, Any]:
    until = attempt.clock.now() + (LIMIT_WITHOUT_TIMEOUT if limit is None else limit)
    return {"until": until, "limited": limit is None}


def _identity(attempt: Attempt, name: str, arguments: tuple[Any, ...]) -> tuple[str, str, str]:
    digested, text = digest_of_arguments(arguments, {}, of=f"run.{name}")
    key, shown = attempt.record.next_key(name, digested)
    return key, shown, text


def _new_step(attempt: Attempt, key: str, shown: str, text: str, told: dict[str, Any]) -> Step:
    step = attempt.record.new_step(key, shown, "waiting", arguments=shown_arguments(text))
    step.result = _info(told)
    step.tries = 0
    return step


def _info(told: dict[str, Any]) -> str:
    return note(to_json(told).decode())


def _until(step: Step) -> Microseconds:
    return int(from_json(step.result or "{}")["until"])


def _span(span: Duration, what: str) -> Microseconds:
    try:
        length = duration(span)
    except (TypeError, ValueError) as error:
        message = f"{what}: {error}"
        raise Persistent(message) from None
    if not 0 <= length <= LONGEST:
        message = f"{what}: from 0 to {readable(LONGEST)}, not {span!r}"
        raise Persistent(message)
    return length
