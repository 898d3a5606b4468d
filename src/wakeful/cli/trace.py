"""trace: show a run as a tree."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from wakeful.cli.meant import runs_meant
from wakeful.clock import SECOND, readable
from wakeful.errors import NotFound
from wakeful.model import ON_FAILURE
from wakeful.resources.failures import failure_line, failure_lines
from wakeful.resources.runs import no_run
from wakeful.shell.arguments import Command, Parser, add_json, add_store
from wakeful.shell.opening import chosen_store, read
from wakeful.shell.terminal import (
    CUT_WHEN_PIPED,
    ago,
    clock_time,
    cut,
    is_piped,
    moment,
    now,
    plain,
    plain_lines,
    print_json,
    state,
    terminal,
    took,
    value,
)
from wakeful.values import arguments_of
from wakeful.why.steps import is_decided, tell_decided
from wakeful.why.words import under

Shown = Mapping[str, Any]

# The stored verb of an operation, in words.
DONE = {
    "replay": "replayed",
    "again": "done again",
    "discard": "discarded",
    "release": "released",
    "return": "returned",
    "redeliver": "delivery replayed",
    "confirm": "delivery confirmed",
    "drop": "delivery discarded",
    "fork": "forked",
    "cancel": "cancelled",
    "answer": "answered",
}


def declare(parser: Parser) -> None:
    parser.add_argument(
        "id",
        metavar="ID",
        help="id of a run, event, effect, delivery, approval or alarm; the beginning of a run's id is enough",
    )
    parser.add_argument("--full", action="store_true", help="show whole values and the tracebacks of errors")
    add_json(parser)
    add_store(parser)


def execute(arguments: argparse.Namespace) -> int:
    runs = read(chosen_store(arguments), lambda reads: runs_meant(reads, arguments.id))
    if not runs:
        message = no_run(arguments.id) if runs is None else no_run_of(arguments.id)
        raise NotFound(message)
    if arguments.json:
        print_json(runs[0] if len(runs) == 1 else {"runs": runs})
        return 0
    out = terminal()
    for run in runs:
        out.print(Drawing(out, full=arguments.full).tree(run), soft_wrap=is_piped(out))
    return 0


def no_run_of(identifier: str) -> str:
    return f'no run belongs to "{plain(identifier)}": `wakeful why {plain(identifier)}` explains what happened to it'


trace_command = Command(declare, execute, "`wakeful why ID` explains the same in sentences.")


class Drawing:
    """Draws a run. Lines are cut to the terminal's width, unless --full is given."""

    def __init__(self, out: Console, *, full: bool) -> None:
        self._full = full
        self._width = CUT_WHEN_PIPED if is_piped(out) else out.width
        self._present = now()
        self._told: set[tuple[Any, Any]] = set()  # errors that were shown in full

    def tree(self, run: Shown) -> Tree:
        self._told.clear()
        tree = Tree(self._head(run), guide_style="dim")
        self._event(tree, run["event"], run["created_at"], run["parent"], run["chain"])
        for event in run["events"][1:]:
            words = f"{event['type']}  {event['id']} from {event['source']}"
            branch = tree.add(Text.assemble(("and event ", "dim"), self._fit(plain(words), 10)))
            if event["data"] is not None:
                branch.add(Text.assemble(("data ", "dim"), self._value(event["data"], 13)))
        self._history(tree, run)
        self._change(tree, run["change"])
        for step in run["steps"]:
            self._step(tree, step)
        for effect in run["effects"]:
            self._effect(tree, effect, run["id"])
        for delivery in run["deliveries"]:
            self._delivery(tree, delivery, run["id"])
        for decision in run["decisions"]:
            text = f"decision {decision['answer']} by {decision['rule']}: {decision['reason']}"
            tree.add(Text(self._fit(plain(text))))
        self._ending(tree, run)
        return tree

    def _head(self, run: Shown) -> Text:
        parts: list[Any] = [
            ("run ", "dim"),
            (plain(run["id"]), "bold"),
            "  ",
            plain(run["agent"]),
            "  ",
            state(run["state"]),
        ]
        if run["finished_at"] is not None:
            parts.append(f" in {took(run['started_at'], run['finished_at'])}")
        if run["scheduled"] is not None:
            parts.append((f"  {self._scheduled(run['scheduled'])}", "dim"))
        counts = [f"attempt {run['attempts']}"] if run["attempts"] > 1 else []
        counts += [f"{run['crashes']} crashed"] if run["crashes"] else []
        parts += [(f"  {', '.join(counts)}", "dim")] if counts else []
        return Text.assemble(*parts)

    @staticmethod
    def _scheduled(scheduled: Shown) -> str:
        late = "" if scheduled["late"] is None else f", started {readable(round(scheduled['late'] * SECOND))} after it"
        many = scheduled["instants"]
        covers = f", for {many} occurrences since {clock_time(scheduled['covers_from'])}" if many != 1 else ""
        return plain(f"scheduled for {clock_time(scheduled['for'])} by {scheduled['schedule']}{late}{covers}")

    def _event(self, tree: Tree, event: Shown, created: str, parent: str | None, chain: Shown | None) -> None:
        when = f"  {clock_time(created)}, {ago(created, self._present)}"
        branch = tree.add(
            Text.assemble(("event ", "dim"), self._fit(plain(event["type"]), 6 + len(when)), (when, "dim"))
        )
        branch.add(Text(self._fit(plain(f"{event['id']} from {event['source']}"), 8)))
        if parent is not None:
            branch.add(Text.assemble(("called by run ", "dim"), plain(parent)))
        if chain is not None and chain["written_by"] is not None:
            branch.add(Text.assemble(("written by run ", "dim"), plain(str(chain["written_by"]))))
        if chain is not None and chain["depth"]:
            words = f"number {chain['depth']} of the chain of event {chain['began_with']}: {chain['shown']}"
            branch.add(Text(self._fit(plain(words), 8)))
        if event["data"] is not None:
            branch.add(Text.assemble(("data ", "dim"), self._value(event["data"], 13)))

    def _history(self, tree: Tree, run: Shown) -> None:
        """Failed attempts, and the operations of people in between. The last outcome is shown at the end."""
        remedies = list(run["remedies"])
        for number, attempt in enumerate(run["history"], start=1):
            while remedies and (moment(remedies[0]["done_at"]) or 0) < (moment(attempt["ended_at"]) or 0):
                self._remedy(tree, remedies.pop(0))
            if not (attempt is run["history"][-1] and attempt["outcome"] == run["state"]):
                self._attempt(tree, number, attempt)
        for remedy in remedies:
            self._remedy(tree, remedy)

    def _remedy(self, tree: Tree, remedy: Shown) -> None:
        did = str(DONE.get(remedy["verb"], remedy["verb"]))
        if remedy["verb"] == "release" and remedy["data"] is not None:
            did = "edited and released"
        words = f" by {remedy['operator']}" + (f": {remedy['note']}" if remedy["note"] else "")
        when = f"  {clock_time(remedy['done_at'])}"
        line = Text.assemble((did, "cyan"), self._fit(plain(words), len(did) + len(when)), (when, "dim"))
        branch = tree.add(line)
        if remedy["verb"] == "fork":
            about = dict(remedy["data"])
            origin = f"{about.pop('run')} at step {about.pop('step')}"
            branch.add(Text.assemble(("from ", "dim"), self._fit(plain(origin), 13)))
            if about:
                branch.add(Text.assemble(("edited ", "dim"), self._value(about, 15)))
        elif remedy["verb"] in {"release", "return"} and remedy["data"] is not None:
            branch.add(Text.assemble(("output was ", "dim"), self._value(remedy["data"]["output"], 19)))
        elif remedy["data"] is not None:
            word = "answer " if remedy["verb"] == "answer" else "data "
            branch.add(Text.assemble((word, "dim"), self._value(remedy["data"], 8 + len(word))))
        error = remedy["error"] or {}
        if "delivery" in error:
            branch.add(Text.assemble(("delivery ", "dim"), plain(error["delivery"]), " was ", state("dead")))
            self._error(branch, error)
        for what, name, one in [
            *(("step", one["name"], one["error"]) for one in error.get("steps", [])),
            *(("effect", one["action"], one["error"]) for one in error.get("effects", [])),
        ]:
            failed = branch.add(
                Text.assemble((f"{what} ", "dim"), self._fit(plain(name), 20), " had ", state("failed"))
            )
            for number, earlier in enumerate((one or {}).get("tries", [])[:-1], start=1):
                tried = self._fit(failure_line(earlier), 20)
                failed.add(Text.assemble((f"try {number} ", "dim"), (tried, "yellow")))
            self._error(failed, one)

    def _attempt(self, tree: Tree, number: int, attempt: Shown) -> None:
        words = {"retried": "failed", "released": "given back", "waited": "suspended", "crashed": "its process died"}
        line = Text.assemble(
            (f"attempt {number} ", "dim"),
            (
                str(words.get(attempt["outcome"], attempt["outcome"])),
                "red" if attempt["outcome"] in {"retried", "crashed", "dead"} else "yellow",
            ),
            f"  {clock_time(attempt['started_at'])}, after {took(attempt['started_at'], attempt['ended_at'])}",
        )
        branch = tree.add(line)
        self._error(branch, attempt["error"])

    def _change(self, tree: Tree, change: Shown | None) -> None:
        """The run met code that differs from the code it began with."""
        if change is None:
            return
        branch = tree
        for one in change.get("changes") or [change]:
            how = "started from the top" if one["restarted"] else "went on"
            line = f"code changed  version {one['was']} to {one['now']}, {how}"
            branch = tree.add(Text(self._fit(plain(line)), style="yellow"))
        if change["not_asked_for"]:
            branch.add(Text(self._fit(plain(f"never asked for {', '.join(change['not_asked_for'])}"), 8)))

    def _step(self, tree: Tree, step: Shown) -> None:
        facts = [readable(round(step["duration"] * SECOND))] if step["duration"] and step["state"] != "retrying" else []
        facts += [f"{step['tries']} tries"] if step["tries"] > 1 else []
        word = "ends" if step["state"] == "waiting" else "again"
        facts += [f"{word} {ago(step['due_at'], self._present)}"] if step["due_at"] else []
        end = f"  {', '.join(facts)}" if facts else ""
        called = self._fit(plain(f"{step['name']}{arguments_of(said_of(step))}"), 14 + len(end))
        branch = tree.add(Text.assemble(("step ", "dim"), called, "  ", state(step["state"]), (end, "dim")))
        if step["waits_for"] is not None and (words := waits_for(step["waits_for"], step["name"])):
            branch.add(Text(self._fit(plain(words), 8)))
        if (misfit := (step["waits_for"] or {}).get("misfit")) is not None:
            told = f"could not evaluate event {misfit['event']}: {misfit['reason']}"
            branch.add(Text(self._fit(plain(told), 8), style="yellow"))
        if is_decided(step):
            branch.add(Text.assemble(("→ ", "dim"), self._fit(plain(tell_decided(step["result"])), 10)))
        elif step["state"] == "done" and step["result"] is not None:
            branch.add(Text.assemble(("→ ", "dim"), self._value(step["result"], 10)))
        earlier = step["failures"] if step["state"] == "done" else step["failures"][:-1]
        for number, failure in enumerate(earlier, start=1):
            words = self._fit(failure_line(failure), 16)
            branch.add(Text.assemble((f"try {number} ", "dim"), (words, "yellow")))
        self._error(branch, step["error"])

    def _effect(self, tree: Tree, effect: Shown, run: str) -> None:
        facts = [f"{effect['tries']} tries"] if effect["tries"] > 1 else []
        facts += by_another(effect, run)
        end = f"  {', '.join(facts)}" if facts else ""
        called = self._fit(plain(f"{effect['action']}{arguments_of(effect['arguments'])}"), 16 + len(end))
        branch = tree.add(Text.assemble(("effect ", "dim"), called, "  ", state(effect["state"]), (end, "dim")))
        if effect["executed"] is not None:
            edited = plain(f"called with {arguments_of(effect['executed'])}, as a person edited it")
            branch.add(Text(self._fit(edited, 8)))
        if effect["result"] is not None:
            branch.add(Text.assemble(("→ ", "dim"), self._value(effect["result"], 10)))
        if effect["reason"]:
            branch.add(Text(self._fit(plain(effect["reason"]), 8)))
        if effect["settled_by"]:
            words = f"settled by {effect['settled_by']}" + (f": {effect['note']}" if effect["note"] else "")
            branch.add(Text(self._fit(plain(words), 8)))
        if effect["state"] in {"failed", "unknown", "retrying"}:
            self._error(branch, effect["error"])

    def _delivery(self, tree: Tree, delivery: Shown, run: str) -> None:
        facts = [f"{delivery['tries']} tries"] if delivery["tries"] > 1 else []
        facts += [f"again {ago(delivery['due_at'], self._present)}"] if delivery["due_at"] and delivery["tries"] else []
        facts += by_another(delivery, run)
        end = f"  {', '.join(facts)}" if facts else ""
        words = self._fit(f"{plain(delivery['channel'])} {value(delivery['message'])}", 21 + len(end))
        branch = tree.add(Text.assemble(("delivery to ", "dim"), words, "  ", state(delivery["state"]), (end, "dim")))
        if delivery["state"] in {"pending", "dead"}:
            self._error(branch, delivery["error"])
        if delivery["reason"] and delivery["state"] in {"dead", "unknown", "discarded"}:
            branch.add(Text(self._fit(plain(delivery["reason"]), 8)))

    def _ending(self, tree: Tree, run: Shown) -> None:
        match run["state"]:
            case "done":
                tree.add(Text.assemble(("output ", "dim"), self._value(run["output"], 11)))
            case "dead" | "denied" | "cancelled":
                line = Text.assemble(
                    state(run["state"]), f"  {plain(run['reason'] or '')}  ", (clock_time(run["finished_at"]), "dim")
                )
                self._error(tree.add(line), run["error"])
            case _:
                due = f", due {ago(run['due_at'], self._present)}" if run["due_at"] else ""
                if run["ahead"] is not None:
                    due = f"behind {run['ahead']['count']} of its key, first {run['ahead']['run']}"
                branch = tree.add(Text.assemble(state(run["state"]), f"  {plain(run['reason'] or '')}{due}"))
                if (cancel := run["cancel"]) is not None:
                    who = f"failed: {cancel['note']}" if cancel["by"] == ON_FAILURE else f"cancelled by {cancel['by']}"
                    branch.add(Text(self._fit(plain(f"{who}; its effects are undone first"), 8), style="yellow"))
                if run["state"] == "held" and run["output"] is not None:
                    tree.add(Text.assemble(("output ", "dim"), self._value(run["output"], 11)))

    def _error(self, branch: Tree, error: Shown | None) -> None:
        if not error:
            return
        said = (error.get("type"), error.get("message"))
        if self._full and error.get("traceback"):
            branch.add(Text(plain_lines(str(error["traceback"]).rstrip()), style="red"))
        else:
            lines = [failure_line(error)] if said in self._told else failure_lines(error)
            branch.add(Text("\n".join(self._fit(line, 8) for line in lines), style="red"))
        self._told.add(said)  # a run ends with the error of its step; show it in full once

    def _value(self, thing: Any, taken: int) -> str:
        return value(thing) if self._full else value(thing, self._width - taken)

    def _fit(self, text: str, taken: int = 4) -> str:
        return text if self._full else cut(text, self._width - taken - 4)


def waits_for(awaited: Shown, name: str) -> str:
    """What ends this wait; empty for a sleep."""
    if "child" in awaited:
        return f"for run {awaited['child']} of agent {awaited['agent']}"
    if "question" in awaited and name.startswith("approve "):
        return f"for a yes: wakeful approvals approve {awaited['approval'][:10]}, or deny"
    if "question" in awaited:
        return f"for an answer: wakeful approvals answer {awaited['approval']} ANSWER"
    if "event" in awaited:
        event = awaited["event"]
        about = f" about {event['subject']}" if event["subject"] else ""
        come = f" from {event['source']}" if event.get("source") else ""
        return f"for event {event['type']}{about}{come}{under(event)}"
    return ""


def said_of(step: Shown) -> Any:
    """The arguments of a step. For the run's own calls, without arguments that were omitted or that the name already
    contains.
    """
    given, verb = step["arguments"], step["name"].partition(" ")[0].partition("#")[0]
    if not isinstance(given, list):
        return given
    match verb:
        case "emit" if " " in step["name"]:
            given = given[1:]
        case "ask" if len(given) == 3 and isinstance(given[2], str | None):
            given = given[:2]  # drop the schema of the answer
        case "call" | "wait_for" if " " in step["name"]:
            pass
        case _:
            return given
    return [one for one in given if one is not None]


def by_another(one: Shown, run: str) -> list[str]:
    """Runs of one family share effects and deliveries: name the run that owns this one, unless it is the run shown."""
    return [] if one["run"] == run else [f"by run {plain(one['run'])}"]
