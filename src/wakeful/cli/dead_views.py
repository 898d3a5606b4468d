"""One dead letter, for the person who must decide about it: what failed, with which data, what was done, what can be done now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.text import Text

from wakeful.resources.failures import failure_lines
from wakeful.shell.carrying import number
from wakeful.shell.terminal import clock_time, is_piped, plain, plain_lines, state, terminal, value

SHOWN_OF_A_VALUE = 2_000
SHOWN_OF_A_TRACEBACK = 6  # its last lines


def show_dead_run(run: dict[str, Any]) -> None:
    lines = [
        Text.assemble(("run ", "dim"), (plain(run["id"]), "bold"), "  ", state(run["state"])),
        Text(
            plain(
                f"agent {run['agent']}, event {run['event']['type']} {run['event']['id']} from {run['event']['source']}"
            )
        ),
        Text(times_of(run), style="dim"),
    ]
    if run["reason"]:
        lines.append(Text(f"because: {plain(run['reason'])}"))
    lines += error_lines(run["error"])
    edited = run["edited"]
    data = run["event"]["data"] if edited is None else edited["data"]
    lines.append(Text(f"data{' (edited)' if edited else ''}: {value(data, SHOWN_OF_A_VALUE)}"))
    done = [step["name"] for step in run["steps"] if step["state"] == "done"]
    if done:
        lines.append(Text(f"finished steps: {plain(', '.join(done))}"))
    lines += [
        Text.assemble("effect ", plain(f"{one['action']} {one['id'][:10]}"), "  ", state(one["state"]))
        for one in run["effects"]
    ]
    if run["behind"]:
        lines.append(Text(f"{number(run['behind'], 'run')} of key {plain(run['key'])} wait behind it", style="yellow"))
    out = terminal()
    for line in [*lines, *run_commands(run)]:
        out.print(line, soft_wrap=is_piped(out))


def times_of(run: Mapping[str, Any]) -> str:
    tries = number(run["attempts"], "failure")
    crashes = f", {number(run['crashes'], 'crash').replace('crashs', 'crashes')}" if run["crashes"] else ""
    began = f"first started {clock_time(run['started_at'])}, " if run["started_at"] else ""
    return f"accepted {clock_time(run['created_at'])}, {began}over since {clock_time(run['finished_at'])}; {tries}{crashes}"


def run_commands(run: Mapping[str, Any]) -> list[Text]:
    name = plain(run["id"])
    if run["state"] != "dead":
        return [Text(f"It is no dead letter; `wakeful why {name}` tells its story", style="dim")]
    confirmed = [one["action"] for one in run["effects"] if one["state"] == "confirmed" and not one["undoes"]]
    found = f", and finds {number(len(confirmed), 'confirmed effect')} instead of repeating" if confirmed else ""
    words = {f"replay {name}": f"lets it go on{found}", f"replay {name} --data JSON": "the same, with other data"}
    failed = next((step["name"] for step in run["steps"] if step["state"] == "failed"), None)
    if failed:
        words[f"fork {name} --from {plain(failed)}"] = "a new run from that step on, with edited results before it"
    words[f"cancel {name}"] = "undoes what it did, and ends it" if confirmed else "ends it"
    words[f"dead discard {name}"] = "gives it up, and leaves what it did"
    return [
        *command_lines(words),
        Text(f"`wakeful why {name}` tells its story, `wakeful trace {name}` each step", style="dim"),
    ]


def show_dead_delivery(delivery: dict[str, Any]) -> None:
    name = plain(delivery["id"])
    lines = [
        Text.assemble(("delivery ", "dim"), (name, "bold"), "  ", state(delivery["state"])),
        Text(plain(f"to channel {delivery['channel']}, of agent {delivery['agent']}, run {delivery['run']}")),
        Text(
            f"committed {clock_time(delivery['committed_at'])}, {number(delivery['tries'], 'try')}"
            + (f", settled {clock_time(delivery['settled_at'])}" if delivery["settled_at"] else ""),
            style="dim",
        ),
    ]
    if delivery["reason"]:
        lines.append(Text(f"because: {plain(delivery['reason'])}"))
    lines += error_lines(delivery["error"])
    about = f"subject: {plain(delivery['subject'])}, " if delivery["subject"] else ""
    lines.append(Text(f"{about}message: {value(delivery['message'], SHOWN_OF_A_VALUE)}"))
    if delivery["state"] == "dead":
        words = {f"deliveries replay {name}": "sends it again", f"deliveries discard {name}": "gives it up for good"}
        lines += command_lines(words)
    out = terminal()
    for line in lines:
        out.print(line, soft_wrap=is_piped(out))


def error_lines(error: Mapping[str, Any] | None) -> list[Text]:
    if not error:
        return []
    lines = [Text("error: " + "\n".join(failure_lines(error)), style="red")]
    repeated = max(1, len(str(error.get("message") or "").rstrip().splitlines()))  # it ends with the error
    trace = str(error.get("traceback") or "").rstrip().splitlines()[:-repeated]
    shown = trace[-SHOWN_OF_A_TRACEBACK:]
    # Cut in the middle of a frame, the rest of that frame says nothing without its place.
    first = next((place for place, line in enumerate(shown) if line.startswith('  File "')), 0)
    if shown:
        lines.append(Text(plain_lines("\n".join(shown[first:])), style="dim"))
    return lines


def command_lines(words: Mapping[str, str]) -> list[Text]:
    widest = max(map(len, words))
    return [
        Text("What can be done:"),
        *(Text(f"  wakeful {command:<{widest}}  {means}") for command, means in words.items()),
    ]
