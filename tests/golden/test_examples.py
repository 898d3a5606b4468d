"""The examples of the OpenAPI document against the frozen store: a reader who sends the example of a body is understood."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2

from golden.serving import served
from wakeful.api.openapi import document

KEYS = ("id", "key", "name", "agent", "app")  # the first of them that a thing has is what its path names it by


async def path_of(http: httpx2.AsyncClient, path: str, operation: dict[str, Any]) -> str:
    """The path with a key that is there; with the key of the example, if there is none."""
    for one in operation["parameters"]:
        if one["in"] == "path":
            noun = path.split("/")[2]
            answer = await http.get(f"/v1/{noun}")
            items = answer.json().get(noun, []) if answer.status_code == 200 else []
            found = next((item[name] for item in items for name in KEYS if name in item), one["example"])
            path = path.replace(f"{{{one['name']}}}", quote(str(found), safe=""))
    return path


async def test_the_examples_of_bodies_are_understood(copy: Path) -> None:
    refused: dict[str, Any] = {}
    async with served() as http:
        for path, item in document()["paths"].items():
            for method, operation in item.items():
                for kind, content in operation.get("requestBody", {}).get("content", {}).items():
                    address = await path_of(http, path, operation)
                    answer = await http.request(
                        method, address, json=content["example"], headers={"Content-Type": kind, **http.headers}
                    )
                    if answer.status_code not in {200, 202, 404, 409, 422}:
                        refused[f"{method} {path} {kind}"] = (answer.status_code, answer.text)
    assert refused == {}
