"""The reference page of resources, generated from the table: `python -m wakeful.surface.reference > docs/reference/resources.md`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from wakeful.resources import ALIAS_HOMES, alias_of, all_resources
from wakeful.resources.declare import Resource
from wakeful.resources.given import Given
from wakeful.surface.command import positionals_of
from wakeful.surface.offers import Offer, offers_of, path_of
from wakeful.surface.openapi import resource_schemas, sentence

HEAD = """# Resources

Each noun with its readings and verbs, on the command line and over HTTP. `make reference` generates this page from
`src/wakeful/resources`; a test compares them. Every verb takes `--note` or `"note"`, is recorded with its operator
(`--as`, `Wakeful-Operator`), and needs the token over HTTP. See also [Command line](command-line.md) and
[HTTP API](http-api.md)."""


def page() -> str:
    """The whole page."""
    parts = [HEAD, *(part for resource in all_resources() for part in section(resource))]
    return "\n\n".join(parts) + "\n"


def section(resource: Resource) -> Iterator[str]:
    yield f"## {sentence(resource.plural)}"
    yield (resource.view.__doc__ or "").strip()
    rows = ["| command line | HTTP | |", "|---|---|---|"]
    for offer in offers_of(resource):
        rows += list(offer_rows(resource, offer))
    yield "\n".join(rows)
    taken = [row for offer in offers_of(resource) for row in parameter_rows(offer)]
    if taken:
        yield "\n".join(["| verb | option | HTTP | |", "|---|---|---|---|", *taken])
    schema = resource_schemas([resource])[resource.view.__name__]
    yield "\n".join(["| field | type | |", "|---|---|---|", *(field_row(*one) for one in schema["properties"].items())])


def offer_rows(resource: Resource, offer: Offer) -> Iterator[str]:
    words = " ".join(
        ["wakeful", resource.spoken, *([] if offer.kind == "list" else [offer.word]), *positionals_of(resource, offer)]
    )
    aliases = [name for name in ALIAS_HOMES if _is_alias(name, resource, offer)]
    shell = ", ".join(f"`{one}`" for one in [words, *(f"wakeful {name}" for name in aliases)])
    paths = [" ".join(path_of(resource, offer))]
    if offer.bulk is not None:
        paths.append(" ".join(path_of(resource, offer, many=True)))
    yield f"| {cell(shell)} | {', '.join(f'`{one}`' for one in paths)} | {sentence(offer.summary)} |"


def _is_alias(name: str, resource: Resource, offer: Offer) -> bool:
    alias = alias_of(name)
    return alias is not None and (alias.noun, alias.verb) == (resource.spoken, offer.name)


def parameter_rows(offer: Offer) -> Iterator[str]:
    for one in offer.all:
        shell = cell(one.metavar) if one.param.positional else "" if one.param.http_only else f"`{one.flag}`"
        yield f"| `{offer.word}` | {shell} | `{one.http}` | {cell(told(one))} |"
    if offer.verb is not None and (offer.verb.plan is not None or offer.bulk is not None):
        yield f"| `{offer.word}` | `--plan` | `plan` | Only show what would be done |"
    if offer.bulk is not None:
        yield f"| `{offer.word}` | `--yes`, `--rate` | `yes`, `rate` | Confirm a large number; rate per second |"


def told(one: Given) -> str:
    text = sentence(one.help)
    return f"{text}: {', '.join(one.choices)}" if one.choices else text


def field_row(name: str, schema: dict[str, Any]) -> str:
    return f"| `{name}` | {cell(type_of(schema))} | {cell(schema.get('description', ''))} |"


def type_of(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2])
    if "enum" in schema:
        return ", ".join("null" if one is None else str(one) for one in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(type_of(one) for one in schema["anyOf"])
    kind = schema.get("type", "any")
    names = [kind] if isinstance(kind, str) else list(kind)
    if schema.get("format") == "date-time":
        names = ["time" if one == "string" else one for one in names]
    if names[0] == "array":
        return f"list of {type_of(schema.get('items', {}))}"
    return " or ".join(names)


def cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    sys.stdout.write(page())
