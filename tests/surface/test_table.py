"""The table of resources: whatever one surface can do, all can; and what a view names is what its query returns."""

from __future__ import annotations

import ast
import inspect
import pkgutil
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import apsw.ext
import asyncpg
import pytest

import wakeful.resources
from wakeful.api.openapi import document
from wakeful.cli import COMMANDS, TABLE
from wakeful.cli.completing import everything
from wakeful.http.security import ApiSettings
from wakeful.resources import ALIAS_HOMES, NOUNS, alias_of, all_resources, resource_of
from wakeful.resources.declare import Resource
from wakeful.resources.desk import Desk, Reads, columns_of
from wakeful.settings import sqlite_path
from wakeful.stores.queries import load_queries
from wakeful.surface.command import parser_of
from wakeful.surface.http import resource_routes
from wakeful.surface.offers import Offer, offers_of, path_of
from wakeful.surface.reference import page

ROOT = Path(__file__).parents[2]
OFFERS = [
    pytest.param(one, offer, id=f"{one.plural} {offer.word}") for one in all_resources() for offer in offers_of(one)
]


# every surface


@pytest.mark.parametrize(("resource", "offer"), OFFERS)
def test_whatever_one_surface_can_do_all_can(resource: Resource, offer: Offer):
    paths = [path_of(resource, offer)] + ([path_of(resource, offer, many=True)] if offer.bulk is not None else [])
    routed = routes_of(resource)
    options = set(parser_of(resource, offer)._option_string_actions)
    for (method, path), taken in zip(paths, ((*offer.which, *offer.fields), offer.choice), strict=False):
        assert (method, path) in routed
        operation = document()["paths"][path][method.lower()]
        assert operation["tags"] == [resource.plural]
        assert names_over_http(operation) >= {one.http for one in taken}
    assert options >= {one.flag for one in offer.options}
    if offer.verb is not None and (offer.verb.plan is not None or offer.bulk is not None):
        assert "--plan" in options
    completed = everything()[resource.spoken].words[offer.word]
    assert {flag for option in completed for flag in option.flags} == options
    assert all(f"`{method} {path}`" in page() for method, path in paths)


def routes_of(resource: Resource) -> set[tuple[str, str]]:
    def no_desk(*_: Any) -> Desk:
        raise AssertionError

    return {
        (method, re.sub(r":\w+}", "}", route.path))
        for route in resource_routes([resource], no_desk, ApiSettings())
        for method in route.methods or ()
    }


def names_over_http(operation: dict[str, Any]) -> set[str]:
    names = {one["name"] for one in operation["parameters"]}
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    for name, inner in content.get("schema", {}).get("properties", {}).items():
        names |= {name, *inner.get("properties", {})}
    return names


def test_every_noun_is_a_command_and_every_alias_leads_somewhere():
    assert {name for name, (home, _) in COMMANDS.items() if home == TABLE} == {*NOUNS, *ALIAS_HOMES}
    for name in ALIAS_HOMES:
        alias = alias_of(name)
        assert alias is not None
        words = {offer.name for offer in offers_of(resource_of(alias.noun))}
        assert {alias.verb, alias.without_key or alias.verb} <= words


def test_names_are_used_once():
    for resource in all_resources():
        assert resource is resource_of(resource.spoken)
        words = [offer.word for offer in offers_of(resource)]
        assert len(words) == len(set(words))


def test_answers_have_examples_and_every_field_a_type():
    for resource in all_resources():
        schema = document()["components"]["schemas"][resource.view.__name__]
        assert set(schema["required"]) <= set(schema["properties"])
        for name, inner in schema["properties"].items():
            assert inner.keys() & {"type", "$ref", "anyOf", "enum"} or inner == {} or "description" in inner, name
        for offer in offers_of(resource):
            method, path = path_of(resource, offer)
            answer = document()["paths"][path][method.lower()]["responses"]["200"]
            assert "example" in answer["content"]["application/json"]


def test_the_page_of_reference_is_up_to_date():
    kept = (ROOT / "docs" / "reference" / "resources.md").read_text(encoding="utf-8")
    assert kept == page(), "run `make reference`"


# views and queries


def named_queries() -> Iterator[tuple[str, type, str, tuple[str, ...]]]:
    """The views that resources read, and the query of each with its columns before those of the view, found in their code."""
    for module in (one.name for one in pkgutil.iter_modules(wakeful.resources.__path__)):
        loaded = import_module(f"wakeful.resources.{module}")
        for node in ast.walk(ast.parse(inspect.getsource(loaded))):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in {"rows", "page"}
            ):
                view, query = node.args[:2]
                assert isinstance(view, ast.Name), ast.unparse(node)
                assert isinstance(query, ast.Constant), ast.unparse(node)
                yield module, getattr(loaded, view.id), str(query.value), ("seq",) * (node.func.attr == "page")


READ = [
    pytest.param(view, query, first, id=f"{module} {query}")
    for module, view, query, first in sorted(named_queries(), key=str)
]


async def columns(url: str, query: str) -> list[str]:
    """The names of the columns that a query returns, in their order."""
    path = sqlite_path(url)
    if path is not None:
        connection = apsw.Connection(str(path))
        try:
            return [one[0] for one in apsw.ext.query_info(connection, load_queries("sqlite")[query].sql).description]
        finally:
            connection.close()
    server = await asyncpg.connect(url)
    try:
        prepared = await server.prepare(load_queries("postgres")[query].sql)
        return [one.name for one in prepared.get_attributes()]
    finally:
        await server.close()


@pytest.mark.parametrize(("view", "query", "first"), READ)
async def test_a_view_names_the_columns_of_its_query(view: type, query: str, first: tuple[str, ...], store_url: str):
    assert tuple(await columns(store_url, query)) == (*first, *columns_of(view))


async def test_a_row_becomes_a_view():
    from surface.toy import Pet

    class Rows:
        read_clock = None

        async def fetch(self, name: str, *parameters: Any) -> list[Any]:
            return [("rex", "zoo", "awake", 3, 1, 1_000_000)]

    (one,) = await Reads(cast("Any", Rows())).rows(Pet, "list_pets")
    assert list(one) == ["name", "app", "state", "meals", "good", "born_at", "title"]
    assert (one["good"], one["born_at"], one["title"]) == (True, "1970-01-01T00:00:01Z", None)


async def test_a_row_of_another_length_is_refused():
    from surface.toy import Pet

    class Rows:
        read_clock = None

        async def fetch(self, name: str, *parameters: Any) -> list[Any]:
            return [("rex", "zoo")]

    with pytest.raises(ValueError, match="zip"):
        await Reads(cast("Any", Rows())).rows(Pet, "list_pets")
