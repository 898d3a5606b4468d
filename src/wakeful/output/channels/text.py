"""A message as people read it: its text, its title, and how both are made short enough for a service."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic_core import to_json

from wakeful.output.channels.base import MAY_BE_REPEATED, Message
from wakeful.stored_errors import storable

CUT = "… (cut here: the message is longer than this service takes)"


@dataclass(frozen=True, slots=True)
class Text:
    """What a message says. `code`: it is JSON, to be shown as it is."""

    words: str
    code: bool = False


def text_of(message: Message) -> Text:
    """The body: a text as it is, the "text" of an object, or else the JSON of it."""
    body = message.body
    if isinstance(body, dict) and isinstance(body.get("text"), str):
        body = body["text"]
    if isinstance(body, str):
        return Text(visible(body))
    return Text(visible(to_json(body, indent=2).decode()), code=True)


def title_of(message: Message, limit: int) -> str:
    """One line for a field that takes no line break: the subject, or else the beginning of the text."""
    text = text_of(message)
    words = message.subject or ("" if text.code else text.words)
    line = " ".join(visible(words).split()) or f"{message.app}: {message.agent}"
    return line if len(line) <= limit else line[: limit - 1] + "…"


def repetition_of(message: Message) -> str | None:
    """What has to be said if an earlier try may have arrived."""
    return MAY_BE_REPEATED if message.doubtful else None


def cut(words: str, limit: int) -> str:
    """The beginning of a text, with a word that it was cut."""
    return words if len(words) <= limit else words[: max(0, limit - len(CUT) - 1)] + "\n" + CUT


def visible(words: str) -> str:
    """The text without control characters, except for line breaks and tabs."""
    lines = storable(words).replace("\r\n", "\n").replace("\r", "\n")
    return "".join(one if one in "\n\t" or (one >= " " and one != "\x7f") else "�" for one in lines)
