"""Removes secrets that this process knows from texts that are stored only to be shown, before they reach the database.

Such texts are found by the names of query parameters, as payloads are. Data that a program reads back is stored unchanged and redacted
when it is shown: data of events, results, outputs, messages, states, and the arguments of effects, which settling an effect calls
its action with. The arguments of steps are only shown; a step is identified by their digest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from wakeful.redaction import KNOWN, LEAST
from wakeful.stores.payloads import TEXTS, Codec
from wakeful.stores.transaction import Row

SHOWN_ONLY = TEXTS | {"error", "headers"}
BETWEEN = "\0"  # no stored text contains it, so no match spans two texts
SAVES_A_STEP = "insert into wakeful_step"


def shown_places(sql: str, parameters: Sequence[str]) -> tuple[int, ...]:
    """The indexes of a query's parameters that are only shown."""
    only = SHOWN_ONLY | {"arguments"} if SAVES_A_STEP in sql else SHOWN_ONLY
    return tuple(place for place, parameter in enumerate(parameters) if parameter in only)


def without_secrets(rows: Sequence[Row], places: tuple[int, ...]) -> Sequence[Row]:
    """The rows without secrets. Usually there are none, and the same rows are returned: one search for each form of a secret, over the
    texts of all rows joined, finds that out.
    """
    forms = KNOWN.forms()
    if not forms:
        return rows
    texts = [text for row in rows for place in places if isinstance(text := row[place], str) and len(text) >= LEAST]
    if not texts:
        return rows
    together = texts[0] if len(texts) == 1 else BETWEEN.join(texts)
    if not any(form in together for form, _ in forms):
        return rows
    changed: list[Row] | None = None
    for number, row in enumerate(rows):
        for place in places:
            text = row[place]
            if not isinstance(text, str):
                continue
            for form, shown in forms:
                if form in text:
                    text = text.replace(form, shown)
            if text is not row[place]:
                changed = list(rows) if changed is None else changed
                there = changed[number]
                changed[number] = (*there[:place], text, *there[place + 1 :])
    return rows if changed is None else changed


class RedactingCodec(Codec):
    """A codec that first removes secrets from texts that are only shown."""

    shown: Mapping[str, tuple[int, ...]]  # by query: the parameters that are only shown

    def encode(self, name: str, rows: Sequence[Row]) -> tuple[Sequence[Row], list[tuple[str, str]]]:
        places = self.shown[name]
        return super().encode(name, without_secrets(rows, places) if places else rows)
