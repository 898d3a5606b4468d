"""People over HTTP, on both stores."""

from __future__ import annotations

from support.stores import APP, accept, an_arrival
from surface.served import http_over
from wakeful.stores.store import DatabaseStore

PEOPLE = "people: {ada: {groups: [ops], token_env: ADA_TOKEN}, bob: {away: {until: 2100-01-02, instead: ada}}}"


async def test_people(store: DatabaseStore):
    await accept(store, an_arrival("1"))
    async with http_over(store) as http:
        assert (await http.get("/v1/people")).json() == {"people": []}
        checked = (await http.post("/v1/people/check", json={"text": PEOPLE})).json()
        applied = (await http.post("/v1/people/apply", json={"text": PEOPLE})).json()
        assert applied == {
            "app": APP,
            "version": checked["version"],
            "before": None,
            "people": checked["people"],
            "changed": True,
        }
        ada, bob = (await http.get("/v1/people")).json()["people"]
        assert ada == {
            "app": APP,
            "name": "ada",
            "groups": ["ops"],
            "away_until": None,
            "instead": None,
            "token_env": "ADA_TOKEN",
            "token": False,
            "away": False,
        }
        assert (bob["away"], bob["away_until"], bob["instead"]) == (True, "2100-01-02T00:00:00Z", "ada")
        assert (await http.get("/v1/people/bob")).json() == bob
        assert (await http.get("/v1/people/eve")).status_code == 404
        assert (await http.get("/v1/people?app=other")).json() == {"people": []}
        again = await http.post("/v1/people/apply", json={"text": PEOPLE})
        assert not again.json()["changed"]


async def test_mistakes(store: DatabaseStore):
    await accept(store, an_arrival("1"))
    async with http_over(store) as http:
        for verb in ("check", "apply"):
            wrong = await http.post(f"/v1/people/{verb}", json={"text": "people: 7", "file": "ours.yaml"})
            assert (wrong.status_code, wrong.json()["type"].rpartition(":")[2]) == (422, "people-do-not-fit")
            assert wrong.json()["detail"] == "ours.yaml:1:9: people must be a map, not the number 7"
        assert (await http.post("/v1/people/apply", json={"text": PEOPLE, "app": "none"})).status_code == 404
        assert (await http.post("/v1/people/apply", json={})).status_code == 400


async def test_a_policy_is_checked_against_them(store: DatabaseStore):
    await accept(store, an_arrival("1"))
    policy = "policy: 1\nrules:\n  - {id: two, answer: ask, approve: {by: [ops], of: 2}}\n"
    async with http_over(store) as http:
        refused = await http.post("/v1/policy/apply", json={"text": policy})
        assert (refused.status_code, "the app has no people" in refused.json()["detail"]) == (422, True)
        await http.post("/v1/people/apply", json={"text": PEOPLE})
        refused = await http.post("/v1/policy/check", json={"text": policy})
        assert (refused.status_code, "people in ops is 1" in refused.json()["detail"]) == (422, True)
        more = "people: {ada: {groups: [ops]}, eve: {groups: [ops]}}"
        assert (await http.post("/v1/policy/check", json={"text": policy, "people": more})).status_code == 200
        await http.post("/v1/people/apply", json={"text": more})
        assert (await http.post("/v1/policy/apply", json={"text": policy})).status_code == 200
