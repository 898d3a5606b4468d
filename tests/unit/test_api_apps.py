"""Apps over HTTP: listed, and retired by a person."""

from __future__ import annotations

import pytest

from support.fake_api import APP, Api, assert_problem
from support.tokens import TOKEN
from wakeful.http.security import ApiSettings

AS_ADA = {"Authorization": f"Bearer {TOKEN}", "Wakeful-Operator": "ada"}


@pytest.fixture
def api() -> Api:
    return Api(ApiSettings(token=TOKEN))


def retire(api: Api, name: str, **fields: object):
    return api.client.post(f"/v1/apps/{name}/retire", json=fields, headers=AS_ADA)


def test_the_listing(api: Api):
    assert api.client.get("/v1/apps", headers=AS_ADA).json() == {"apps": [APP]}


def test_a_plan_changes_nothing(api: Api):
    plan = retire(api, "shop", plan=True).json()
    assert (plan["app"], plan["runs"], plan["messages"], plan["dead"]) == ("shop", {"ready": 1}, 1, 2)
    assert api.store.retired == []


def test_it_is_retired_under_a_name(api: Api):
    done = retire(api, "shop", note="sold").json()
    assert done["alarms"] == ["dead/shop/review/x"]
    (request,) = api.store.retired
    assert (request.app, request.by.name, request.note) == ("shop", "ada", "sold")


def test_live_workers_are_in_the_way(api: Api):
    api.reader.of_apps.alive = 2
    problem = assert_problem(retire(api, "shop"), 409)
    assert "2 live workers serve app shop" in problem["detail"]
    assert '"live": true' in problem["detail"]
    assert retire(api, "shop", live=True).status_code == 200


def test_an_app_that_is_not_known(api: Api):
    assert 'Did you mean "shop"?' in assert_problem(retire(api, "shpo"), 404)["detail"]


def test_the_token_is_needed(api: Api):
    assert api.client.post("/v1/apps/shop/retire").status_code == 401
