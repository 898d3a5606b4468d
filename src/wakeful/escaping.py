"""Text from outside, on its way to a terminal or a log: characters that a terminal obeys, or that hide others, are escaped."""

from __future__ import annotations

import json


def escaped(text: str) -> str:
    """The text, in which each character that cannot be printed is written as its escape; line ends stay."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)


def escaped_json(text: str) -> str:
    """The same for a JSON text, which stays JSON with the same value. JSON itself escapes only characters below a space."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)
