"""One run or delivery, as `wakeful dead show` prints it: the failure, its data, its effects, and the commands that help now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from wakeful.resources.declare import Printed
from wakeful.resources.failures import failure_lines
from wakeful.resources.words import Look, Span, clock_time, cut, in_json, line, number, plain, plain_lines

SHOWN_OF_A_VALUE = 2_000
SHOWN_OF_A_TRACEBACK = 6  # the last lines of a traceback

Spoken = tuple[tuple[Span, ...], str]  # a line and its style


def show_run(run: Mapping[str, Any], look: Look) -> Printed:
    return [line(*spans, style=style, whole=look.piped) for spans, style in (*about_run(run), *story_of(run))]


def show_letter(run: Mapping[str, Any], look: Look) -> Printed:
    """The lines of a run, which may no longer be a dead letter."""
    name = plain(run["id"])
    other = ((f"It is not a dead letter; `wakeful why {name}` explains it",), "dim")
    story = story_of(run) if run["state"] == "dead" else [other]
    return [line(*spans, style=style, whole=look.piped) for spans, style in (*about_run(run), *story)]


def show_delivery(delivery: Mapping[str, Any], look: Look) -> Printed:
    return [line(*spans, style=style, whole=look.piped) for spans, style in about_delivery(delivery)]


def about_run(run: Mapping[str, Any]) -> Iterator[Spoken]:
    event, edited = run["event"], run["edited"]
    yield (("run ", "dim"), (plain(run["id"]), "bold"), "  ", (run["state"], "state")), ""
    yield (plain(f"agent {run['agent']}, event {event['type']} {event['id']} from {event['source']}"),), ""
    yield (times_of(run),), "dim"
    if run["reason"]:
        yield (f"because: {plain(run['reason'])}",), ""
    yield from about_error(run["error"])
    data = event["data"] if edited is None else edited["data"]
    yield (f"data{' (edited)' if edited else ''}: {cut(in_json(data), SHOWN_OF_A_VALUE)}",), ""
    done = [step["name"] for step in run["steps"] if step["state"] == "done"]
    if done:
        yield (f"finished steps: {plain(', '.join(done))}",), ""
    for one in run["effects"]:
        yield ("effect ", plain(f"{one['action']} {one['id'][:10]}"), "  ", (one["state"], "state")), ""
    if run["behind"]:
        yield (f"{number(run['behind'], 'run')} of key {plain(run['key'])} wait behind it",), "yellow"


def story_of(run: Mapping[str, Any]) -> Iterator[Spoken]:
    name = plain(run["id"])
    if run["state"] == "dead":
        yield from commands(what_can_be_done(run))
    yield (f"`wakeful why {name}` explains it, `wakeful trace {name}` shows each step",), "dim"


def times_of(run: Mapping[str, Any]) -> str:
    tries = number(run["attempts"], "failure")
    crashes = f", {number(run['crashes'], 'crash').replace('crashs', 'crashes')}" if run["crashes"] else ""
    began = f"first started {clock_time(run['started_at'])}, " if run["started_at"] else ""
    over = f"over since {clock_time(run['finished_at'])}" if run["finished_at"] else "not over yet"
    return f"accepted {clock_time(run['created_at'])}, {began}{over}; {tries}{crashes}"


def what_can_be_done(run: Mapping[str, Any]) -> dict[str, str]:
    """The commands that apply to a dead run, each with its meaning."""
    name = plain(run["id"])
    confirmed = [one["action"] for one in run["effects"] if one["state"] == "confirmed" and not one["undoes"]]
    found = f", reusing {number(len(confirmed), 'confirmed effect')}" if confirmed else ""
    words = {f"replay {name}": f"resumes it{found}", f"replay {name} --data JSON": "resumes it with other data"}
    failed = next((step["name"] for step in run["steps"] if step["state"] == "failed"), None)
    if failed:
        words[f"fork {name} --from {plain(failed)}"] = "starts a new run at that step, with edited earlier results"
    words[f"cancel {name}"] = "undoes its effects and ends it" if confirmed else "ends it"
    words[f"dead discard {name}"] = "gives it up; its effects stay"
    return words


def about_delivery(delivery: Mapping[str, Any]) -> Iterator[Spoken]:
    name = plain(delivery["id"])
    yield (("delivery ", "dim"), (name, "bold"), "  ", (delivery["state"], "state")), ""
    yield (plain(f"to channel {delivery['channel']}, of agent {delivery['agent']}, run {delivery['run']}"),), ""
    settled = f", ended {clock_time(delivery['settled_at'])}" if delivery["settled_at"] else ""
    yield (f"committed {clock_time(delivery['committed_at'])}, {number(delivery['tries'], 'try')}{settled}",), "dim"
    if delivery["reason"]:
        yield (f"because: {plain(delivery['reason'])}",), ""
    yield from about_error(delivery["error"])
    about = f"subject: {plain(delivery['subject'])}, " if delivery["subject"] else ""
    yield (f"{about}message: {cut(in_json(delivery['message']), SHOWN_OF_A_VALUE)}",), ""
    if delivery["state"] == "dead":
        words = {f"deliveries replay {name}": "sends it again", f"deliveries discard {name}": "gives it up for good"}
        yield from commands(words)


def about_error(error: Mapping[str, Any] | None) -> Iterator[Spoken]:
    if not error:
        return
    yield ("error: " + "\n".join(failure_lines(error)),), "red"
    repeated = max(1, len(str(error.get("message") or "").rstrip().splitlines()))  # the traceback ends with the error
    trace = str(error.get("traceback") or "").rstrip().splitlines()[:-repeated]
    shown = trace[-SHOWN_OF_A_TRACEBACK:]
    # Start at a whole frame: the rest of a cut frame means nothing without its file and line.
    first = next((place for place, one in enumerate(shown) if one.startswith('  File "')), 0)
    if shown:
        yield (plain_lines("\n".join(shown[first:])),), "dim"


def commands(words: Mapping[str, str]) -> Iterator[Spoken]:
    widest = max(map(len, words))
    yield ("What can be done:",), ""
    for command, means in words.items():
        yield (f"  wakeful {command:<{widest}}  {means}",), ""
