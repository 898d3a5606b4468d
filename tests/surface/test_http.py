"""HTTP paths and the OpenAPI document, made from a noun that declares everything."""

from __future__ import annotations

from typing import Any, cast

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from support.tokens import TOKEN
from surface import toy
from wakeful.http.problem import HANDLED, answer_with_problem
from wakeful.http.security import ApiSettings
from wakeful.resources.desk import AppSide, Desk, Reads
from wakeful.surface.http import resource_routes
from wakeful.surface.openapi import resource_paths, resource_schemas


class Zoo:
    name = "zoo"


def served(**options: Any) -> TestClient:
    side = AppSide(Zoo(), None, None, None, None, lambda: None)
    routes = resource_routes(
        [toy.RESOURCE],
        lambda by, note: Desk(Reads(cast("Any", None)), by, None, note, side, **options),
        ApiSettings(token=TOKEN),
    )
    app = Starlette(routes=routes, exception_handlers=dict.fromkeys(HANDLED, answer_with_problem))
    return TestClient(app, raise_server_exceptions=False)


@pytest.fixture
def client(yard: toy.Yard) -> TestClient:
    return served()


def test_a_page(client):
    answer = client.get("/v1/pets?limit=2").json()
    assert ([one["name"] for one in answer["pets"]], answer["next"], answer["herd"]) == (["rex", "tom"], "2", 3)
    assert [one["app"] for one in client.get("/v1/pets?after=2").json()["pets"]] == ["farm"]
    assert [one["name"] for one in client.get("/v1/pets?good=true&app=zoo").json()["pets"]] == ["rex"]


def test_one_thing_and_a_second_reading(client):
    assert client.get("/v1/pets/tom").json()["state"] == "asleep"
    assert client.get("/v1/pets/rex?app=farm").json()["app"] == "farm"
    assert client.get("/v1/pets/rex/naps?app=zoo&count=3").json() == {"hours": [1, 2, 3]}


def test_verbs(client):
    sent = {"for": "2kg", "food": None, "note": "late"}
    fed = client.post("/v1/pets/rex/feed?app=zoo", json=sent, headers={"Wakeful-Operator": "ada"})
    assert fed.json() == {"name": "rex", "meals": 2, "by": "ada", "way": "http", "note": "late"}
    plan = client.post("/v1/pets/rex/feed?app=zoo", json={"for": "2kg", "plan": True})
    assert plan.json() == {"would_have": 4}
    assert client.patch("/v1/pets/tom", json={"title": None}).json()["title"] == "none"
    assert client.patch("/v1/pets/tom", json={}).json()["title"] == "unset"
    assert client.post("/v1/pets", json={"name": "kim"}).json()["name"] == "kim"
    assert client.post("/v1/pets/tom/call", json={}).json()["name"] == "tom"


def test_many_at_once(client, monkeypatch):
    assert client.post("/v1/pets/wash", json={"filter": {"all": True}, "plan": True}).json() == {
        "pets": 3,
        "until": "now",
    }
    done = client.post("/v1/pets/wash", json={"filter": {"state": "awake"}, "soap": "foam", "rate": "max"})
    assert done.json() == {"washed": 2, "left": 0, "until": "now"}
    monkeypatch.setattr("wakeful.surface.http.SLICE", 1)
    assert client.post("/v1/pets/wash", json={"filter": {"all": True}}).json() == {
        "washed": 1,
        "left": 2,
        "until": "now",
    }
    monkeypatch.setattr("wakeful.surface.http.MANY", 1)
    assert client.post("/v1/pets/wash", json={"filter": {"all": True}}).status_code == 409
    assert client.post("/v1/pets/tom/wash", json={"soap": "foam"}).json()["name"] == "tom"


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "detail", "field"),
    [
        ("GET", "/v1/pets?stat=x", None, 400, 'unknown parameter "stat". Did you mean "state"?', "stat"),
        ("GET", "/v1/pets?state=aslep", None, 400, 'there is no state "aslep". Did you mean "asleep"?', "state"),
        ("GET", "/v1/pets?limit=501", None, 400, 'limit is "501": give a number from 1 to 500', "limit"),
        ("GET", "/v1/pets?good=yes", None, 400, "good must be true or false", "good"),
        ("GET", "/v1/pets?after=x", None, 400, "after is not a cursor of this listing", "after"),
        ("GET", "/v1/pets/rx", None, 404, "there is no pet of that name", None),
        ("GET", "/v1/pets/rex", None, 409, "pet rex is in several apps: choose one with ?app=", "app"),
        ("POST", "/v1/pets/tom/feed", {}, 400, 'for is missing: how much, like "2kg"', "for"),
        ("POST", "/v1/pets/tom/feed", {"for": 2}, 400, "for is text of 1 to 2,000 characters", "for"),
        ("POST", "/v1/pets/tom/feed", {"for": "two"}, 400, "for: 'two' is no weight: write 2kg", "for"),
        ("POST", "/v1/pets/tom/feed", {"for": "2kg", "fod": 1}, 400, 'unknown field "fod"', "fod"),
        ("POST", "/v1/pets/tom/feed", {"for": "2kg"}, 409, "pet tom is asleep", None),
        ("POST", "/v1/pets/rx/feed", {"for": "2kg"}, 404, "there is no pet of that name", None),
        ("POST", "/v1/pets/wash", {}, 400, 'nothing is selected: give "state" or "all": true', "filter"),
        ("POST", "/v1/pets/wash", {"filter": {"al": True}}, 400, 'unknown field "filter.al"', "filter.al"),
        ("POST", "/v1/pets/wash", {"filter": {"state": "x"}}, 400, 'filter.state: no state "x"', "filter.state"),
        ("PATCH", "/v1/pets/tom", {"note": "x"}, 400, 'unknown field "note"', "note"),
    ],
)
def test_what_is_wrong_is_refused(client, method, path, body, status, detail, field):
    answer = client.request(method, path, json=body)
    assert (answer.status_code, answer.json().get("field")) == (status, field), answer.json()
    assert detail in answer.json()["detail"]


def test_none_is_like_that(client):
    client.post("/v1/pets/tom/feed", json={"for": "2kg"})
    toy.YARD.pets.clear()
    answer = client.post("/v1/pets/wash", json={"filter": {"all": True}})
    assert (answer.status_code, answer.json()["detail"]) == (404, "no pet is like that: GET /v1/pets lists them")


def test_permissions_are_asked_before_anything_is_done(yard):
    operator = served(scopes=frozenset({"operate"}))
    assert operator.post("/v1/pets/tom/call", json={}).status_code == 403
    assert operator.post("/v1/pets", json={"name": "kim"}).status_code == 200
    reader = served(scopes=frozenset({"read"}))
    assert reader.post("/v1/pets", json={"name": "kit"}).json()["detail"].endswith("it needs the permission operate")
    assert reader.post("/v1/pets/wash", json={"filter": {"all": True}}).status_code == 403
    assert ("kit", "zoo") not in yard.pets
    assert reader.get("/v1/pets").status_code == 200


def test_without_a_token_nothing_is_changed(yard):
    routes = resource_routes(
        [toy.RESOURCE], lambda by, note: Desk(Reads(cast("Any", None)), by, None, note), ApiSettings()
    )
    app = Starlette(routes=routes, exception_handlers=dict.fromkeys(HANDLED, answer_with_problem))
    assert TestClient(app).post("/v1/pets/tom/wash").status_code == 403


# the document


def test_every_path_is_in_the_document():
    paths = resource_paths([toy.RESOURCE])
    assert {(path, method) for path, item in paths.items() for method in item} == {
        ("/v1/pets", "get"),
        ("/v1/pets", "post"),
        ("/v1/pets/{name}", "get"),
        ("/v1/pets/{name}", "patch"),
        ("/v1/pets/{name}/naps", "get"),
        ("/v1/pets/{name}/feed", "post"),
        ("/v1/pets/{name}/call", "post"),
        ("/v1/pets/{name}/wash", "post"),
        ("/v1/pets/wash", "post"),
    }
    assert {tag for item in paths.values() for one in item.values() for tag in one["tags"]} == {"pets"}
    names = [one["operationId"] for item in paths.values() for one in item.values()]
    assert len(names) == len(set(names))


def test_schemas_name_every_key_with_its_type():
    schemas = resource_schemas([toy.RESOURCE])
    assert set(schemas) == {"Pet", "Fed", "FeedPlan", "Nap", "Washed", "Herd"}
    found = schemas["Pet"]
    assert found["required"] == list(found["properties"])
    assert found["properties"]["state"] == {"enum": ["asleep", "awake"], "type": "string"}
    assert found["properties"]["born_at"] == {"format": "date-time", "type": "string"}
    assert found["properties"]["meals"] == {
        "type": "integer",
        "minimum": 0,
        "description": "Since it came",
        "examples": [3],
    }
    assert schemas["Fed"]["properties"]["note"] == {"type": ["string", "null"]}


def test_bodies_are_closed_and_typed():
    paths = resource_paths([toy.RESOURCE])
    body = paths["/v1/pets/{name}/feed"]["post"]["requestBody"]
    schema = body["content"]["application/json"]["schema"]
    assert (body["required"], schema["required"], schema["additionalProperties"]) == (True, ["for"], False)
    assert set(schema["properties"]) == {"for", "food", "plan", "note"}
    many = paths["/v1/pets/wash"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert set(many["properties"]) == {"filter", "soap", "plan", "rate", "yes", "note"}
    assert set(many["properties"]["filter"]["properties"]) == {"state", "all"}
