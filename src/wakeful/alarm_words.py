"""The texts of alarms: one table for every kind of alarm, and the sentences that people read.

    key   dead/desk/triage/3f2a91           the kind, the app, and the object
    title Agent triage has 3 dead letters   the subject of the message
    do    `wakeful dead --agent triage` …   what a person can do about it

A kind that is not in the table is shown with the text it was raised with. Nothing is read here; the time is an
argument.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from wakeful.clock import Microseconds, readable, to_datetime

Told = Literal["opened", "still open", "resolved"]

LONGEST_SUBJECT = 200


@dataclass(frozen=True, slots=True)
class Words:
    """The wording of one kind of alarm. `one` is the subject, `many` the subject of an alarm with a count, `do` what to
    do.

    Names in braces: `app`; `agent`, of the alarm; `count`; `question`, of an approval; and parts of the key after the
    app: `rest` is all of it, `first` and `last` are its first and last part, and `head` is everything but the last.
    """

    one: str
    do: str
    many: str | None = None


WHOLE = ""

# By kind, or by kind and the last part of the key; with WHOLE, for a key with one part after the app.
TABLE: dict[str | tuple[str, str], Words] = {
    "dead": Words(
        "Agent {agent} has a dead letter",
        "`wakeful dead --agent {agent}` lists them by error; `wakeful replay RUN` tries one again, "
        "`wakeful dead discard RUN` gives it up",
        "Agent {agent} has {count} dead letters",
    ),
    "held": Words(
        "A run of agent {agent} is held for a person: {last}",
        "`wakeful effects --state held` lists the effects to settle, `wakeful effects show ID` says how; many at once: "
        "`wakeful effects confirm --agent {agent} --action {last} --plan`, or repeat, or abandon",
        "{count} runs of agent {agent} are held for a person: {last}",
    ),
    ("held", "output"): Words(
        "A run of agent {agent} is held: its output did not pass its checks",
        "`wakeful runs --state held` lists them; `wakeful release RUN` releases the output, `wakeful return RUN --remark TEXT` runs the "
        "handler again with a remark",
        "{count} runs of agent {agent} are held: their output did not pass its checks",
    ),
    ("held", "tampering"): Words(
        "A run of agent {agent} is held: a payload that it would act on was tampered with",
        "`wakeful why RUN` names the table, the column and the row; restore the row from a backup, then `wakeful replay RUN` continues "
        "the run; `wakeful cancel RUN` ends it. `wakeful runs --held` lists them",
        "{count} runs of agent {agent} are held: payloads that they would act on were tampered with",
    ),
    ("held", "version"): Words(
        "A run of agent {agent} is held: its code changed",
        "`wakeful runs --state held` lists them; `wakeful why RUN` shows what changed and how to continue",
        "{count} runs of agent {agent} are held: their code changed",
    ),
    "ask": Words(
        "Agent {agent} asks: {question}",
        "`wakeful approvals show {last}` shows it in full; `wakeful approvals answer {last} ANSWER` answers it",
    ),
    "delivery": Words(
        "Channel {first} has a dead letter",
        "`wakeful deliveries --channel {first} --state dead` lists them; `wakeful deliveries replay ID` tries one again, "
        "`wakeful deliveries discard ID` gives it up",
        "Channel {first} has {count} dead letters",
    ),
    ("delivery", "late"): Words(
        "Channel {first} does not deliver",
        "`wakeful deliveries --channel {first} --state pending` lists them; `wakeful deliveries replay ID` retries one now, "
        "`wakeful deliveries discard ID` gives it up, and the next one follows",
    ),
    ("delivery", "unknown"): Words(
        "Channel {first} has a delivery that may have arrived",
        "`wakeful deliveries --channel {first} --state unknown` lists them; look there, then `wakeful deliveries confirm ID` if it arrived, "
        "`wakeful deliveries replay ID` sends it again, `wakeful deliveries discard ID` gives it up",
        "Channel {first} has {count} deliveries that may have arrived",
    ),
    "channel": Words(
        "Deliveries wait for channel {rest}, which app {app} does not declare",
        "declare the channel again, or discard them: `wakeful deliveries --channel {rest} --state pending` lists them",
    ),
    "agent": Words(
        "Runs wait for agent {rest}, which app {app} does not declare",
        "give the agent its name back, or start a worker that has it; `wakeful runs --agent {rest}` lists them",
    ),
    "waiting": Words(
        "Runs of agent {rest} wait too long to start",
        "`wakeful runs --agent {rest} --state ready` lists them; `wakeful doctor` shows which workers are alive",
    ),
    ("waiting", "all"): Words(
        "App {app} is paused or halted, and its runs wait",
        "`wakeful pauses` and `wakeful halts` show who did that and why; `wakeful resume all` resumes it, `wakeful halt all --lift` lifts a halt",
    ),
    "blocked": Words(
        "Dead letters of agent {rest} block the runs behind them",
        "`wakeful dead --agent {rest}` lists them; `wakeful replay RUN` or `wakeful dead discard RUN` unblocks the next ones",
    ),
    "circuit": Words(
        "Dependency {rest} is down",
        "`wakeful circuits` shows since when and when it is tried next; `wakeful circuits close {rest}` resumes all runs at once",
    ),
    "retrying": Words(
        "Agent {first} makes no progress: {last} fails",
        "`wakeful runs --agent {first} --state waiting` lists its runs, `wakeful why RUN` shows when one is tried next; "
        "`wakeful cancel RUN` gives one up",
    ),
    "limited": Words(
        "Agent {first} is rate limited: {last}",
        "`wakeful runs --agent {first} --state waiting` lists its runs; raise the limit on the other side, or lower `rate=` or "
        "`concurrency=` of the agent",
    ),
    "stuck": Words(
        "A run of agent {agent} makes no progress",
        "`wakeful why {last}` shows where it is; `wakeful cancel {last}` stops it",
    ),
    "conflict": Words(
        "Source {rest} sent an event again with different content",
        "check the sender: an id must not be used for two events. `wakeful alarms resolve KEY` when that is fixed",
    ),
    "loop": Words(
        "A chain of events came back to agent {agent} and was stopped",
        "`wakeful events` shows the last ones; `wakeful why ID` shows the chain of one",
    ),
    "full": Words(
        "The store of app {app} is full", "free space on its disk, or in its database; work then continues by itself"
    ),
    "archive": Words(
        "Finished runs of app {app} are not archived", "make the archive's folder writable; until then runs are kept"
    ),
    "quarantine": Words(
        "Unverified requests fill the quarantine of app {app}",
        "`wakeful sources` names the source that receives them; if the sender is yours, its secret and the secret here differ. "
        "`wakeful quarantine` lists the requests that are kept",
    ),
    "condition": Words(
        "A condition of agent {agent} exceeded its budget",
        "`wakeful events` lists the events, `wakeful why EVENT` explains why one started nothing; simplify where=, or send smaller events",
    ),
    "failing": Words(
        "Agent {rest} fails again and again",
        "`wakeful dead --agent {rest}` lists the errors; `wakeful dead replay --agent {rest}` tries them again",
    ),
    "paused": Words(
        "Agent {rest} was paused because it fails again and again",
        "`wakeful dead --agent {rest}` lists the errors; `wakeful resume {rest}` resumes it",
    ),
    "missed": Words(
        "Schedule {rest} missed an occurrence",
        "`wakeful why {rest}` shows which and why; `wakeful backfill` runs them later",
        "Schedule {rest} missed {count} times",
    ),
    "schedule": Words(
        "Schedule {rest} cannot be fired",
        "`wakeful schedules show {rest}` shows its definition; `wakeful schedules edit` corrects it",
    ),
    "heartbeat": Words(
        "Heartbeat {rest} does not work",
        "`wakeful why {rest}` shows the results of its last occurrences; `wakeful heartbeat run APP {rest}` tries it now",
    ),
    ("heartbeat", WHOLE): Words(
        "Heartbeat {rest} does not work",
        "`wakeful check APP` names what is wrong with its file; a worker reads the file again by itself once it is corrected; "
        "`wakeful heartbeat` lists the checks that are in force",
    ),
    "source": Words("Source {rest} cannot be read", "`wakeful why {rest}` shows why and since when"),
    ("source", "concern"): Words("Source {head} is read, but with a problem", "`wakeful why {head}` shows more"),
    "lag": Words("Source {rest} is behind", "`wakeful why {rest}` shows how far; `wakeful sources` lists all of them"),
    "expect": Words(
        "{head} did not happen as expected", "`wakeful why {head}` shows what was expected, and when it was last met"
    ),
    ("expect", "not-fired"): Words("{head} did not start", "`wakeful why {head}` shows what was expected by when"),
    ("expect", "skipped"): Words("{head} was denied by policy", "`wakeful why {head}` shows by which rule"),
    ("expect", "parked"): Words("{head} waits", "`wakeful why {head}` shows for what"),
    ("expect", "failed"): Words("{head} failed", "`wakeful why {head}` shows the error"),
    ("expect", "too-long"): Words("{head} takes too long", "`wakeful why {head}` shows where it is"),
    ("expect", "no-output"): Words("{head} produced no output", "`wakeful why {head}` shows more"),
    ("expect", "not-read"): Words(
        "Nothing comes in from {head}", "`wakeful why {head}` shows since when; start a process that reads it"
    ),
    "down": Words(
        "App {app} is down: none of its processes is alive",
        "start it again: `wakeful serve APP` or `wakeful worker APP`; `wakeful doctor` checks the store",
    ),
    "change": Words(
        "A run of agent {agent} met changed code",
        "`wakeful why RUN` shows what changed; `wakeful alarms resolve KEY` if the change is intended",
    ),
    "tampering": Words(
        "A payload in {rest} was tampered with",
        "restore the row from a backup, and find out who can write to the database. `wakeful runs --held` lists the runs that wait for "
        "the row, `wakeful deliveries --state dead` the deliveries. `wakeful alarms resolve KEY` when that is done",
        "Payloads in {rest} were tampered with",
    ),
    ("tampering", "wakeful_cipher"): Words(
        "The mark of a strict store was tampered with",
        "restore the table wakeful_cipher from a backup, and find out who can write to the database. "
        "`wakeful alarms resolve KEY` when that is done",
    ),
    "rule": Words("Rule {rest} fails, and so denies everything", "correct the rule; `wakeful check APP` tries it"),
}


@dataclass(frozen=True, slots=True)
class AlarmMessage:
    """An alarm as a person reads it: the subject of a message, its text, and what to do."""

    subject: str
    text: str
    do: str | None


def words_of_alarm(
    key: str,
    text: str,
    *,
    told: Told = "opened",
    agent: str | None = None,
    count: int = 1,
    opened_at: Microseconds,
    now: Microseconds,
    ending: str | None = None,
) -> AlarmMessage:
    """What happened, since when, and what to do. `now` is the time of the message, or of the alarm's end."""
    title, do = title_of(key, text, agent=agent, count=count), todo_of(key, agent=agent)
    lasted = readable(max(0, now - opened_at))
    since = moment(opened_at)
    often = f", {count:,} times" if count > 1 else ""
    if told == "resolved":
        subject = f"Resolved: {title}"
        how = f" {sentence(ending)}" if ending else ""
        whole = f"This is over: {sentence(title)}{how} It was open since {since}, for {lasted}{often}."
        if not key.startswith("ask/") and sentence(title) != sentence(text):
            whole += f" The alarm said: {sentence(text)}"
        return AlarmMessage(subject[:LONGEST_SUBJECT], whole, None)
    subject = title if told == "opened" else f"Still open after {lasted}: {title}"
    if key.startswith("ask/"):  # the title has the question, and the text more about it
        told_whole = title + text[len(_question(text)) :]
    else:
        told_whole = text if sentence(title) == sentence(text) else f"{sentence(title)} {capital(text)}"
    whole = f"{sentence(told_whole)} Since {since}{often}."
    if do is not None:
        whole += f" What to do: {do}."
    whole += f" `wakeful alarms ack {quoted(key)}` acknowledges it."
    return AlarmMessage(subject[:LONGEST_SUBJECT], whole, do)


def title_of(key: str, text: str, *, agent: str | None = None, count: int = 1) -> str:
    """The alarm in one short sentence, without a full stop."""
    words = _words(key)
    if words is None:
        return sentence(text).removesuffix(".")
    template = words.many if words.many is not None and count > 1 else words.one
    return capital(template.format(**_names(key, agent, count), question=_question(text)))


def _question(text: str) -> str:
    """An approval's question, without the run in brackets after it."""
    return text.rpartition(" (run ")[0] or text


def todo_of(key: str, *, agent: str | None = None) -> str | None:
    """What a person can do about it, without a full stop."""
    words = _words(key)
    names = {name: quoted(one) for name, one in _names(key, agent, 1).items()}
    return None if words is None else words.do.format(**names).replace("KEY", quoted(key))


def sentence(text: str) -> str:
    """The text with a capital letter and a full stop."""
    text = capital(text.strip())
    return text if text.endswith((".", "!", "?")) else f"{text}."


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def moment(at: Microseconds) -> str:
    return f"{to_datetime(at):%Y-%m-%d %H:%M} UTC"


def quoted(key: str) -> str:
    """The key, quoted for a shell."""
    plain = all(one.isalnum() or one in "/-_.:#@" for one in key)
    return key if plain else "'" + key.replace("'", "'\\''") + "'"


def _words(key: str) -> Words | None:
    kind, last = key.partition("/")[0], key.rpartition("/")[2]
    whole = TABLE.get((kind, WHOLE)) if key.count("/") == 2 else None
    return TABLE.get((kind, last)) or whole or TABLE.get(kind)


def _names(key: str, agent: str | None, count: int) -> dict[str, Any]:
    _, app, rest = (*key.split("/", 2), "", "")[:3]
    first, last = rest.partition("/")[0], rest.rpartition("/")[2]
    head = rest.rpartition("/")[0] or rest
    return {
        "app": app,
        "agent": agent or first or app,
        "count": f"{count:,}",
        "rest": rest or app,
        "first": first,
        "last": last,
        "head": head,
    }
