"""Texts that are stored to be shown: secrets that this process knows are taken out before they reach the database.

By the names that queries give to their parameters, as payloads are found. What a program reads back is stored as it was given,
and redacted where it is shown: data of events, results, outputs, messages, states, and the arguments of effects, which
a settlement calls with. The arguments of steps are only shown; a step is known by their digest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from wakeful.redaction import KNOWN, LEAST
from wakeful.stores.payloads import TEXTS, Codec
from wakeful.stores.transaction import Row

SHOWN_ONLY = TEXTS | {"error", "headers"}
BETWEEN = "\0"  # no text that is stored holds it, so no secret is found across two texts
SAVES_A_STEP = "insert into wakeful_step"


def shown_places(sql: str, parameters: Sequence[str]) -> tuple[int, ...]:
    """Which parameters of a query are only shown, by their place."""
    only = SHOWN_ONLY | {"arguments"} if SAVES_A_STEP in sql else SHOWN_ONLY
    return tuple(place for place, parameter in enumerate(parameters) if parameter in only)


def without_secrets(rows: Sequence[Row], places: tuple[int, ...]) -> Sequence[Row]:
    """The rows as they may be stored. The same ones, if there is nothing to take out, as nearly always: that is found out by one
    search for each form of a secret through the texts of all rows together.
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
    """Takes secrets out of what is only shown, and stores the rest as any codec does."""

    shown: Mapping[str, tuple[int, ...]]  # which parameters of each query are only shown

    def encode(self, name: str, rows: Sequence[Row]) -> tuple[Sequence[Row], list[tuple[str, str]]]:
        places = self.shown[name]
        return super().encode(name, without_secrets(rows, places) if places else rows)
