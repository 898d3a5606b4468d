"""Check a result given for an effect against what its action returns. The command line and the HTTP API share this."""

from __future__ import annotations

from typing import Any

from pydantic_core import from_json

from wakeful.operations.shape import expected, misfits

EXAMPLES = {
    "string": '"…"',
    "integer": "1",
    "number": "1.5",
    "boolean": "true",
    "array": "[…]",
    "object": "{…}",
    "null": "null",
}


def unfit_result(schema: str, result: str | None) -> str | None:
    """Why a result does not fit the JSON schema of the action's return value; None if it fits. A missing result counts as null."""
    wanted = from_json(schema)
    value = None if result is None else from_json(result)
    wrong = misfits(value, wanted, whole="the result")
    if not wrong:
        return None
    if result is None:
        return f"its action returns {expected(wanted)}, which the run needs to resume: give it with {option(wanted)}"
    return "; ".join(wrong)


def option(schema: dict[str, Any]) -> str:
    """The option that gives a result on the command line: `--result '"…"'` for text."""
    return f"--result '{example(schema)}'"


def example(schema: dict[str, Any]) -> str:
    for one in (schema, *schema.get("anyOf", ())):
        if one.get("type") in EXAMPLES:
            return EXAMPLES[one["type"]]
    return "JSON"
