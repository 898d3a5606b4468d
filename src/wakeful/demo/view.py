"""Output: a live picture in a terminal, otherwise lines of progress."""

from __future__ import annotations

import math
import os
import time
from contextlib import nullcontext
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.rule import Rule
from rich.text import Text

from wakeful.demo.app import STEPS
from wakeful.demo.desk import Advice, folded, in_one_line
from wakeful.demo.stage import Stage, clock, is_open, reason_of, recorded_of, seconds_of, subject_of
from wakeful.resources.words import cut
from wakeful.shell.terminal import STYLES

NARROWEST, LOWEST = 72, 18
PROGRESS_EVERY = 2.0
PROGRESS = (
    "- accepted {events accepted}, done {runs done}, open {runs open}, dead {dead letters}; "
    "steps {steps finished}, twice {steps executed twice}"
)
AROUND = 12  # lines that are neither runs nor messages
REMEMBERED = 60
DEAD_STAY = 8.0
COUNTER, EVENT, BAR = 26, 25, 6  # the widths of a counter, of the event of a run, and of its steps
COLOURS = {"dead letters": "red", "retries": "yellow", "held for a person": "magenta"}  # of a counter above 0
STATES = {**STYLES, "running": "bold blue", "held": "bold magenta", "dead": "bold red"}
MARKS = {
    "done": ("✓", "#", "green"),
    "working": ("▸", ">", "bold blue"),
    "again": ("↻", "~", "bold yellow"),
    "held": ("?", "?", "bold magenta"),
    "dead": ("✗", "x", "bold red"),
    "killed": ("▪", "!", "bold red"),
    "open": ("·", ".", "dim"),
}


class PlainView:
    """Lines of progress: messages, and the counters every few seconds."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._told = 0
        self._next = PROGRESS_EVERY
        self._advised: set[Advice] = set()
        self.screen = nullcontext()

    def paint(self, stage: Stage, advice: Advice | None) -> None:
        lines = [(message.at, message.text) for message in stage.messages[self._told :]]
        self._told = len(stage.messages)
        if advice is not None and advice not in self._advised:
            self._advised.add(advice)
            lines.append((stage.elapsed, f"{advice.text}\n          $ {in_one_line(advice.words)}"))
        if stage.elapsed >= self._next:
            self._next = stage.elapsed + PROGRESS_EVERY
            lines.append((stage.elapsed, PROGRESS.format_map(stage.counts())))
        for at, text in lines:
            self._console.print(f"{at:6.1f} s  {text}", soft_wrap=True)


class LiveView:
    """The whole terminal, redrawn in place, every line cut to its width so that none can wrap."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._symbol = 0 if console.encoding.lower().startswith("utf") else 1
        self._seats: list[str] = []
        self.screen = Live(console=console, screen=True, auto_refresh=False)

    def paint(self, stage: Stage, advice: Advice | None) -> None:
        self.screen.update(self.picture(stage, advice), refresh=True)

    def picture(self, stage: Stage, advice: Advice | None) -> Group:
        """From top to bottom: title, headline, counters, runs, messages, the command to type, the folder."""
        width, height = self._console.size
        room = max(2, height - AROUND)
        typed = []
        if advice is not None:  # the command starts at the left margin, so that it can be copied at any length
            typed = [(f" {advice.text}", "bold magenta"), *((line, "bold") for line in folded(advice.words, width))]
        typed = typed[: room - 2]
        told = max(1, min(9, room // 3), len(typed) + 1)
        messages = stage.messages[len(typed) - told :]
        seats = self.seat(list(stage.runs.values())[-REMEMBERED:], room - told)
        now, fate = stage.headline, "kept" if stage.keep else "removed at the end; --keep keeps it"
        return Group(
            *self._title(stage, width),
            one_line((" ▸ ", "dim"), (now.text, now.style or "bold")) if now else Text(),
            Text(),
            *self._counters(stage),
            Text(),
            one_line((f" {'agent':8}{'event':{EVENT}} {'state':8}{'steps':{BAR}} try   time  note", "dim")),
            *(self._row(stage, stage.runs[seat]) if seat else Text() for seat in seats),
            Text(),
            *(one_line((f" {clock(one.at)}  ", "dim"), (one.text, one.style.replace("bold ", ""))) for one in messages),
            *[Text()] * (told - len(typed) - len(messages)),
            *(one_line(line) for line in typed),
            one_line((f" {stage.folder}  ({fate})", "dim")),
        )

    def _title(self, stage: Stage, width: int) -> tuple[Text, Rule]:
        title = one_line((" wakeful demo", "bold"), ("  ·  agents on one SQLite file", "dim"))
        end = "  ·  runs until Ctrl-C " if stage.seconds is None else f" of {clock(stage.seconds)}  ·  Ctrl-C ends it "
        right = Text.assemble((clock(stage.elapsed), "bold"), (end, "dim"))
        title.pad_right(max(1, width - title.cell_len - right.cell_len))
        return title.append_text(right), Rule(style="dim")

    def _counters(self, stage: Stage) -> list[Text]:
        worker = f"{stage.worker.process.pid} {'running' if stage.at_work else 'starting'}" if stage.worker else "none"
        cells = []
        for name, count in stage.counts().items():
            colour = ("red" if count else "green") if name.endswith("twice") else COLOURS.get(name, "") if count else ""
            cells.append(one_line((f" {name} ", "dim"), (str(count), f"bold {colour}")))
        cells.insert(2, one_line((" worker ", "dim"), (worker, "bold green" if stage.at_work else "bold red")))
        for cell in cells:
            cell.align("left", COUNTER)
        rows = [one_line().join(cells[first : first + 3]) for first in range(0, len(cells), 3)]
        for row in rows:
            row.rstrip()
        return rows

    def seat(self, runs: list[dict[str, Any]], places: int) -> list[str]:
        """The line of each shown run, by its id. `runs` are the newest ones, oldest first.

        A run keeps its line until it has ended and a newer one needs the line, so that lines do not move and a run can be followed
        through the death of its worker. A dead letter stays a little longer.
        """
        known = {run["id"]: run for run in runs}
        ended = {run["id"]: time.time() - seconds_of(run["finished_at"]) for run in runs if not is_open(run)}
        seats = [seat if seat in known else "" for seat in self._seats][:places]
        seats += [""] * (places - len(seats))
        for run in runs:
            if run["id"] in seats or ended.get(run["id"], 0.0) > DEAD_STAY:
                continue
            patience = math.inf if run["state"] == "dead" else DEAD_STAY
            leaving = [one for one, since in ended.items() if known[one]["state"] == "done" or since > patience]
            free = next((one for one in ["", *leaving] if one in seats), None)
            if free is not None:
                seats[seats.index(free)] = run["id"]
        self._seats = seats
        return seats

    def _row(self, stage: Stage, run: dict[str, Any]) -> Text:
        state, subject, (marks, note) = run["state"], subject_of(run), progress_of(stage, run)
        kind = cut(run["event"]["type"], EVENT - 1 - len(subject))  # not the subject, which tells runs apart
        faded = "" if is_open(run) or state == "dead" else "dim"
        end = seconds_of(run["finished_at"]) if run["finished_at"] else time.time()
        lasted = f"{max(0.0, end - seconds_of(run['created_at'])):.1f} s"
        tries = max(run["attempts"] + run["crashes"], int(run["started_at"] is not None))
        return one_line(
            (f" {run['agent']:8}{f'{kind} {subject}':{EVENT}} ", faded),
            (f"{state:8}", STATES.get(state, "")),
            *((MARKS[mark][self._symbol], MARKS[mark][2]) for mark in marks),
            (f"{'':{BAR - len(marks)}}{tries or '':>4}{lasted:>7}", faded),
            (f"  {note}", "red" if state == "dead" else faded or "yellow"),
        )


def choose_view(console: Console) -> LiveView | PlainView:
    """The live picture if the output is a terminal, else lines."""
    drawable = console.is_terminal and not console.is_dumb_terminal and not os.environ.get("NO_COLOR")
    large = console.width >= NARROWEST and console.height >= LOWEST
    return LiveView(console) if drawable and large else PlainView(console)


def one_line(*parts: tuple[str, str]) -> Text:
    return Text.assemble(*parts, no_wrap=True, overflow="ellipsis")


def progress_of(stage: Stage, run: dict[str, Any]) -> tuple[list[str], str]:
    """The steps of a run as marks, and a short note."""
    state, steps, done = run["state"], STEPS[run["agent"]], len(recorded_of(run))
    kept = stage.kept.get(run["id"]) if run["crashes"] else None
    mark = "working" if state == "running" else "open"
    note = "" if kept is None else f"resumed at step {kept + 1}" if kept else "restarted"
    tried = [one for one in run["steps"] if one["state"] == "retrying"]
    tried += [one for one in run["effects"] if one["tries"] > 1 and one["state"] != "confirmed"]
    if state == "dead":
        mark, note = "dead", reason_of(run, run["error"])
    elif state == "held":
        mark, note = "held", "a person must decide"
    elif state == "waiting":
        mark, note = "again", f"retry in {max(0.0, seconds_of(run['due_at']) - time.time()):.1f} s"
    elif state == "running" and stage.at_work is None:
        mark, note = "killed", f"killed in step {done + 1}"
    elif state == "running" and tried:
        mark, note = "again", "last try failed"
    elif state == "ready" and stage.at_work is None:
        note = "no worker yet"
    return ["done"] * done + [mark, *["open"] * len(steps)][: len(steps) - done], note
