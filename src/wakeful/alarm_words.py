"""Alarms in words: one table for every kind of alarm, and the sentences that people get to read.

    key   dead/desk/triage/3f2a91           the kind, the app, and what it is about
    title Agent triage has 3 dead letters   the subject of the message
    do    `wakeful dead --agent triage` …   what a person can do about it

A kind that is not in the table is told by the text with which it was raised. Nothing is read here, and the time is handed in.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from wakeful.clock import Microseconds, readable, to_datetime

Told = Literal["opened", "still open", "resolved"]

LONGEST_SUBJECT = 200


@dataclass(frozen=True, slots=True)
class Words:
    """How alarms of one kind are worded. `one` is the subject, `many` that of an alarm with a count, `do` what can be done.

    Names in braces: `app`; `agent`, of the alarm; `count`; `question`, of one that asks; and of the key, behind the app: `rest` is all of it, `first` and
    `last` are its first and its last part, and `head` is everything but the last.
    """

    one: str
    do: str
    many: str | None = None


WHOLE = ""

# By the kind, or by the kind and the last part of the key; with WHOLE, for a key that has one part behind the app.
TABLE: dict[str | tuple[str, str], Words] = {
    "dead": Words(
        "Agent {agent} has a dead letter",
        "`wakeful dead --agent {agent}` lists them by error; `wakeful replay RUN` tries one again, "
        "`wakeful dead discard RUN` gives it up",
        "Agent {agent} has {count} dead letters",
    ),
    "held": Words(
        "A run of agent {agent} is held for a person: {last}",
        "`wakeful effects --state held` lists what is to be settled, `wakeful effects show ID` tells how; many at once: "
        "`wakeful effects confirm --agent {agent} --action {last} --plan`, or repeat, or abandon",
        "{count} runs of agent {agent} are held for a person: {last}",
    ),
    ("held", "output"): Words(
        "A run of agent {agent} is held: its output did not pass",
        "`wakeful runs --state held` lists them; `wakeful release RUN` lets the output out, `wakeful replay RUN` does it anew",
        "{count} runs of agent {agent} are held: their output did not pass",
    ),
    ("held", "tampering"): Words(
        "A run of agent {agent} is held: a payload that it would act on was tampered with",
        "`wakeful why RUN` names the table, the column and the row; restore the row from a backup, then `wakeful replay RUN` lets the run "
        "go on; `wakeful cancel RUN` ends it. `wakeful runs --held` lists them",
        "{count} runs of agent {agent} are held: payloads that they would act on were tampered with",
    ),
    ("held", "version"): Words(
        "A run of agent {agent} is held: its code changed",
        "`wakeful runs --state held` lists them; `wakeful why RUN` tells what changed and how to go on",
        "{count} runs of agent {agent} are held: their code changed",
    ),
    "ask": Words(
        "Agent {agent} asks: {question}",
        "`wakeful approvals show {last}` shows it whole; `wakeful approvals answer {last} ANSWER` answers",
    ),
    "delivery": Words(
        "Channel {first} has a dead letter",
        "`wakeful deliveries --channel {first} --state dead` lists them; `wakeful deliveries replay ID` tries one again, "
        "`wakeful deliveries discard ID` gives it up",
        "Channel {first} has {count} dead letters",
    ),
    ("delivery", "late"): Words(
        "Channel {first} does not deliver",
        "`wakeful deliveries --channel {first} --state pending` lists what waits; `wakeful deliveries replay ID` tries one now, "
        "`wakeful deliveries discard ID` lets the next one go",
    ),
    "channel": Words(
        "Messages wait for channel {rest}, which app {app} does not have",
        "declare the channel again, or discard them: `wakeful deliveries --channel {rest} --state pending` lists them",
    ),
    "agent": Words(
        "Runs wait for agent {rest}, which app {app} does not have",
        "give the agent its name back, or start a worker that has it; `wakeful runs --agent {rest}` lists them",
    ),
    "waiting": Words(
        "Runs of agent {rest} wait too long to start",
        "`wakeful runs --agent {rest} --state ready` lists them; `wakeful doctor` tells which workers are alive",
    ),
    ("waiting", "all"): Words(
        "App {app} is paused, and its runs wait",
        "`wakeful pause` tells who paused it and why; `wakeful resume all` lets it go on, with --rate at a rate",
    ),
    "blocked": Words(
        "Dead letters of agent {rest} block the runs behind them",
        "`wakeful dead --agent {rest}` lists them; `wakeful replay RUN` or `wakeful dead discard RUN` lets the next ones go",
    ),
    "circuit": Words(
        "Dependency {rest} is down",
        "`wakeful circuits` tells since when and when it is tried next; `wakeful circuits close {rest}` lets all go at once",
    ),
    "retrying": Words(
        "Agent {first} does not get further: {last} fails",
        "`wakeful runs --agent {first} --state waiting` lists its runs, `wakeful why RUN` tells when one is tried next; "
        "`wakeful cancel RUN` gives one up",
    ),
    "limited": Words(
        "Agent {first} is rate limited: {last}",
        "`wakeful runs --agent {first} --state waiting` lists its runs; raise the limit on the other side, or lower `rate=` or "
        "`concurrency=` of the agent",
    ),
    "stuck": Words(
        "A run of agent {agent} makes no progress",
        "`wakeful why {last}` tells where it is; `wakeful cancel {last}` stops it",
    ),
    "conflict": Words(
        "Source {rest} sent an event again with other content",
        "look at the sender: an id must not be used for two events. `wakeful alarms resolve KEY` when that is done",
    ),
    "loop": Words(
        "A chain of events came back to agent {agent} and was stopped",
        "`wakeful events` shows the last ones; `wakeful why ID` tells the chain of one",
    ),
    "full": Words(
        "The store of app {app} is full", "make room on its disk, or in its database; work goes on by itself then"
    ),
    "archive": Words(
        "Finished runs of app {app} are not archived", "make the archive's folder writable; until then runs are kept"
    ),
    "quarantine": Words(
        "Requests that could not be verified fill the quarantine of app {app}",
        "`wakeful sources` tells where they come in; if that is your own sender, the secret here is another one than there. "
        "`wakeful quarantine` lists those that are left",
    ),
    "condition": Words(
        "A condition of agent {agent} ran out of its budget",
        "`wakeful events` shows what came, `wakeful why EVENT` why it started nothing; ask for less in where=, or send smaller events",
    ),
    "failing": Words(
        "Agent {rest} fails again and again",
        "`wakeful dead --agent {rest}` lists the errors; `wakeful dead replay --agent {rest}` tries them again",
    ),
    "paused": Words(
        "Agent {rest} was paused because it fails again and again",
        "`wakeful dead --agent {rest}` lists the errors; `wakeful resume {rest}` lets it go on",
    ),
    "missed": Words(
        "Schedule {rest} missed an occurrence",
        "`wakeful why {rest}` tells which and why; `wakeful backfill` does them later",
        "Schedule {rest} missed {count} times",
    ),
    "schedule": Words(
        "Schedule {rest} cannot be fired",
        "`wakeful schedules show {rest}` shows its definition; `wakeful schedules edit` corrects it",
    ),
    "heartbeat": Words(
        "Heartbeat {rest} does not work",
        "`wakeful why {rest}` tells what became of its last occurrences; `wakeful heartbeat run APP {rest}` tries it now",
    ),
    ("heartbeat", WHOLE): Words(
        "Heartbeat {rest} does not work",
        "`wakeful check APP` names what is wrong with its file, and a worker reads the file again by itself once it is corrected; "
        "`wakeful heartbeat` lists the checks that are in force",
    ),
    "source": Words("Source {rest} cannot be read", "`wakeful why {rest}` tells why and since when"),
    ("source", "concern"): Words(
        "Source {head} is read, but all is not well with it", "`wakeful why {head}` tells more"
    ),
    "lag": Words("Source {rest} is behind", "`wakeful why {rest}` tells how far; `wakeful sources` lists all of them"),
    "expect": Words(
        "{head} did not happen as expected", "`wakeful why {head}` tells what was expected, and when it was last met"
    ),
    ("expect", "not-fired"): Words("{head} did not begin", "`wakeful why {head}` tells what was expected by when"),
    ("expect", "skipped"): Words("{head} was denied by policy", "`wakeful why {head}` tells by which rule"),
    ("expect", "parked"): Words("{head} waits", "`wakeful why {head}` tells for what"),
    ("expect", "failed"): Words("{head} failed", "`wakeful why {head}` tells the error"),
    ("expect", "too-long"): Words("{head} takes too long", "`wakeful why {head}` tells where it is"),
    ("expect", "no-output"): Words("{head} brought no output", "`wakeful why {head}` tells more"),
    ("expect", "not-read"): Words(
        "Nothing comes in from {head}", "`wakeful why {head}` tells since when; start a process that has it"
    ),
    "down": Words(
        "App {app} is down: none of its processes is alive",
        "start it again: `wakeful serve APP` or `wakeful worker APP`; `wakeful doctor` tells what is left",
    ),
    "change": Words(
        "A run of agent {agent} met changed code",
        "`wakeful why RUN` tells what changed; `wakeful alarms resolve KEY` when it is as it should be",
    ),
    "tampering": Words(
        "A payload in {rest} was tampered with",
        "restore the row from a backup, and find out who can write to the database. `wakeful runs --held` lists the runs that wait for "
        "the row, `wakeful deliveries --state dead` the messages. `wakeful alarms resolve KEY` when that is done",
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
class Worded:
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
) -> Worded:
    """What happened, since when, and what to do. `now` is when it is told, or was over."""
    title, do = title_of(key, text, agent=agent, count=count), todo_of(key, agent=agent)
    lasted = readable(max(0, now - opened_at))
    since = moment(opened_at)
    often = f", {count:,} times" if count > 1 else ""
    if told == "resolved":
        subject = f"Resolved: {title}"
        how = f" {sentence(ending)}" if ending else ""
        whole = f"This is over: {sentence(title)}{how} It was open since {since}, for {lasted}{often}."
        if not key.startswith("ask/") and sentence(title) != sentence(text):
            whole += f" It was told as: {sentence(text)}"
        return Worded(subject[:LONGEST_SUBJECT], whole, None)
    subject = title if told == "opened" else f"Still open after {lasted}: {title}"
    if key.startswith("ask/"):  # the title has the question, and the text more about it
        told_whole = title + text[len(_question(text)) :]
    else:
        told_whole = text if sentence(title) == sentence(text) else f"{sentence(title)} {capital(text)}"
    whole = f"{sentence(told_whole)} Since {since}{often}."
    if do is not None:
        whole += f" What to do: {do}."
    whole += f" `wakeful alarms ack {quoted(key)}` says that you know."
    return Worded(subject[:LONGEST_SUBJECT], whole, do)


def title_of(key: str, text: str, *, agent: str | None = None, count: int = 1) -> str:
    """The alarm in one short sentence, without a full stop."""
    words = _words(key)
    if words is None:
        return sentence(text).removesuffix(".")
    template = words.many if words.many is not None and count > 1 else words.one
    return capital(template.format(**_names(key, agent, count), question=_question(text)))


def _question(text: str) -> str:
    """The text of a question says in brackets behind it which run waits for the answer."""
    return text.rpartition(" (run ")[0] or text


def todo_of(key: str, *, agent: str | None = None) -> str | None:
    """What a person can do about it, without a full stop."""
    words = _words(key)
    names = {name: quoted(one) for name, one in _names(key, agent, 1).items()}
    return None if words is None else words.do.format(**names).replace("KEY", quoted(key))


def sentence(text: str) -> str:
    """With a capital letter and a full stop."""
    text = capital(text.strip())
    return text if text.endswith((".", "!", "?")) else f"{text}."


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def moment(at: Microseconds) -> str:
    return f"{to_datetime(at):%Y-%m-%d %H:%M} UTC"


def quoted(key: str) -> str:
    """As a shell takes it."""
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
