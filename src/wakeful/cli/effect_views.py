"""One effect, for the person who must say what became of it: what was called, what is known, and what can be said."""

from __future__ import annotations

from typing import Any

from rich.text import Text

from wakeful.cli.failures import failure_lines
from wakeful.cli.terminal import clock_time, is_piped, plain, state, terminal, value
from wakeful.operations.results import option
from wakeful.operations.shape import expected
from wakeful.values import arguments_of

SAYS = {"confirmed": "that it was done", "abandoned": "that it shall not be done"}
CALL_AGAIN = "that it is to be called again"
NEXT = {
    "staged": "It is called once its run is committed.",
    "intent": "It is being called, or its process died: then it is settled before the handler runs again.",
    "retrying": "It was certainly not done, and is called again.",
    "unknown": "Whether it was done is not known; its action's safety says how that is found out, before the handler runs again.",
    "undone": "It was done, and undone again.",
}


def show_effect(effect: dict[str, Any]) -> None:
    """What happened, since when, with which arguments, and the commands that settle it."""
    out = terminal()
    head = Text.assemble(("effect ", "dim"), (plain(effect["id"]), "bold"), "  ", state(effect["state"]))
    where = f"agent {effect['agent']}, run {effect['run']}, {effect['safety']}"
    lines = [
        head,
        Text(plain(f"{effect['action']}{arguments_of(effect['arguments'])}")),
        Text(plain(where), style="dim"),
    ]
    tries = "not called yet" if not effect["tries"] else f"called {effect['tries']} times"
    times = f"opened {clock_time(effect['opened_at'])}, {tries.replace(' 1 times', ' once')}"
    if effect["settled_at"]:
        times += f", settled {clock_time(effect['settled_at'])}"
    lines.append(Text(times, style="dim"))
    if effect["once"] is not None:
        told = f", operation {plain(effect['operation'])}" if effect["operation"] else ""
        lines.append(Text(f"key {plain(effect['once'])}{told}", style="dim"))
    if effect["follows"]:
        lines.append(Text(f"calls nothing: effect {plain(effect['follows'])} has its key"))
    if effect["undoes"]:
        lines.append(Text(f"undoes effect {plain(effect['undoes'])}"))
    if effect["reason"]:
        lines.append(Text(f"because: {plain(effect['reason'])}"))
    if error := effect["error"]:
        lines.append(Text("error: " + "\n".join(failure_lines(error)), style="red"))
    if effect["settled_by"]:
        # One that was called again after a person's word has no reason left, once it is confirmed.
        again = effect["state"] == "confirmed" and not effect["reason"]
        said = CALL_AGAIN if again else SAYS.get(effect["state"], CALL_AGAIN)
        note = f": {plain(effect['note'])}" if effect["note"] else ""
        lines.append(Text(f"{plain(effect['settled_by'])} said {said}{note}"))
    if effect["result"] is not None:
        lines.append(Text(f"result: {value(effect['result'])}"))
    if effect["state"] in NEXT:
        lines.append(Text(NEXT[effect["state"]]))
    if effect["state"] == "held":
        lines += what_to_say(effect)
    lines.append(Text(f"`wakeful why {effect['run']}` tells the story of its run", style="dim"))
    for line in lines:
        out.print(line, soft_wrap=is_piped(out))


def what_to_say(effect: dict[str, Any]) -> list[Text]:
    name = plain(effect["id"][:10])
    returns = effect["returns"]
    result = "" if returns is None else f" {option(returns)}"
    lines = [Text(f"its action returns {plain(expected(returns))}")] if result else []
    asked = (
        "Find out what became of it, and say so:" if effect["tries"] else "It was not called. Say what shall happen:"
    )
    done = "it was done" if effect["tries"] else "it was done in another way"
    again = "it was not done: call it again" if effect["tries"] else "call it"
    words = {f"confirm {name}{result}": done, f"repeat {name}": again, f"abandon {name}": "it shall not be done"}
    widest = max(map(len, words))
    lines.append(Text(asked))
    return lines + [Text(f"  wakeful effects {command:<{widest}}  {means}") for command, means in words.items()]
