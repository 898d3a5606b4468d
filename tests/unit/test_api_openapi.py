"""The OpenAPI document: every route is in it, and what it says is so."""

from __future__ import annotations

import re

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from starlette.routing import Route

from support.fake_api import Api, FakeStore
from support.tokens import TOKEN, WITH_TOKEN
from wakeful.api.openapi import document
from wakeful.http.security import ApiSettings

API = Api(ApiSettings(token=TOKEN))
schema = schemathesis.openapi.from_dict(document())
schema.app = API.app


def test_every_route_and_method_is_in_the_document_and_nothing_else():
    routed = set()
    for route in API.app.routes:
        assert isinstance(route, Route)
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


@pytest.mark.slow
@schema.parametrize()
@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_what_the_document_says_is_so(case):
    case.headers = {**(case.headers or {}), "Host": "localhost", **WITH_TOKEN}
    vars(API.store).update(vars(FakeStore()))  # nothing is settled yet
    case.call_and_validate(
        base_url="http://localhost",
        checks=[not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance],
    )
