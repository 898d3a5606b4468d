"""The OpenAPI document: every route is in it, and it leads nowhere that is not. tests/golden asks whether what it says is so."""

from __future__ import annotations

import re

from starlette.routing import Route

from support.fake_api import Api
from support.tokens import TOKEN, WITH_TOKEN
from wakeful.api.openapi import document
from wakeful.http.security import ApiSettings

API = Api(ApiSettings(token=TOKEN))


def test_every_route_and_method_is_in_the_document_and_nothing_else():
    routed = set()
    for route in API.app.routes:
        assert isinstance(route, Route)
        if not route.include_in_schema:  # a page for people, not a part of the API
            continue
        path = re.sub(r":\w+}", "}", route.path)
        routed |= {(path, method.lower()) for method in route.methods or () if method != "HEAD"}
    documented = {(path, method) for path, item in document()["paths"].items() for method in item}
    assert documented == routed


def test_every_reference_leads_somewhere():
    def references(value):
        if isinstance(value, dict):
            if "$ref" in value:
                yield value["$ref"]
            for inner in value.values():
                yield from references(inner)
        elif isinstance(value, list):
            for inner in value:
                yield from references(inner)

    found = set(references(document()))
    assert found
    for reference in found:
        target = document()
        for name in reference.removeprefix("#/").split("/"):
            target = target[name]


def test_operations_have_names_of_their_own():
    names = [operation["operationId"] for item in document()["paths"].values() for operation in item.values()]
    assert len(names) == len(set(names))


def test_it_is_served():
    response = API.client.get("/v1/openapi.json", headers=WITH_TOKEN)
    assert response.status_code == 200
    assert response.json()["openapi"] == "3.1.0"
