"""No form of a foreign page changes anything, at no path."""

from __future__ import annotations

import re

import pytest

from support.fake_api import Api
from support.tokens import TOKEN, WITH_TOKEN
from wakeful.http.security import ApiSettings

API = Api(ApiSettings(token=TOKEN))
PATHS = API.client.get("/v1/openapi.json", headers=WITH_TOKEN).json()["paths"]
CHANGES = [
    (method, path) for path, there in PATHS.items() for method in there if method in {"post", "put", "patch", "delete"}
]


@pytest.mark.parametrize(("method", "path"), CHANGES)
def test_every_change_has_to_be_json(method, path):
    place = re.sub(r"\{\w+\}", "abc", path)
    for kind in ("text/plain", "application/x-www-form-urlencoded", "application/jsonp"):
        answer = API.client.request(method, place, content=b"{}", headers=WITH_TOKEN | {"Content-Type": kind})
        assert (answer.status_code, answer.json()["field"].lower()) == (415, "content-type"), answer.text


def test_there_are_changes():
    assert len(CHANGES) > 30
