"""Policies over HTTP, on both stores."""

from __future__ import annotations

from support.stores import AGENT, APP, Member, accept, an_arrival
from surface.served import http_over
from wakeful.model import Decision, Effect
from wakeful.policy.judgement import Judgement
from wakeful.policy.text import read_policy
from wakeful.stores.request import Actor
from wakeful.stores.store import DatabaseStore
from wakeful.stores.verbs.effects import OpenEffect
from wakeful.stores.verbs.policies import ApplyPolicy

ADA = Actor("ada", "code")
POLICY = """
policy: 1
rules:
  - id: large
    action: pay
    when: arguments.amount > 100.0
    answer: hold
    reason: above 100
  - id: quiet
    at: admission
    when: data.loud
    answer: deny
"""


async def applied(store: DatabaseStore, text: str) -> str:
    version = read_policy([("policy.yaml", text)]).version
    await store.do(ApplyPolicy(APP, version, [("policy.yaml", text)], by=ADA))
    return version


async def paid(member: Member, amount: float, *, version: str | None = None) -> None:
    """A run that paid an amount."""
    await accept(member.store, an_arrival("1"))
    claim = await member.claim_one()
    effect = Effect("pay-1", "pay", "m:pay", "idempotent", "intent", f'[{{"**": {{"amount": {amount}}}}}]')
    judgement = Judgement(Decision("allow", "all", "fine", version=version or ""), version)
    opened: Effect | Decision = await member.store.do(OpenEffect(claim, APP, effect, judgement))
    assert isinstance(opened, Effect)


async def test_explain(member: Member):
    version = await applied(member.store, POLICY)
    await paid(member, 120.0, version=version)
    async with http_over(member.store) as http:
        of_effect = (await http.get("/v1/policy/explain?id=pay-1")).json()
        assert (of_effect["kind"], of_effect["version"], of_effect["code"]) == ("effect", version, False)
        (place,) = of_effect["places"]
        assert (place["answer"], place["rule"], place["decided_by"], place["version"]) == (
            "hold",
            "large",
            "all",
            version,
        )
        large = next(one for one in place["rules"] if one["rule"] == "large")
        assert large["why"] == 'when "arguments.amount > 100.0" is true (arguments.amount: 120.0)'
        of_event = (await http.get("/v1/policy/explain?id=1")).json()
        assert [(one["at"], one["agent"]) for one in of_event["places"]] == [("admission", AGENT), ("effect", AGENT)]
        assert of_event["places"][0]["rule"] == "quiet"  # data has no field loud, which counts against
        assert (await http.get("/v1/policy/explain?id=nothing")).status_code == 404
        assert (await http.get("/v1/policy/explain")).status_code == 400
        assert (await http.get(f"/v1/policy/{version[:8]}")).json()["version"] == version


CASES = """
cases:
  - {agent: billing, action: pay, arguments: {amount: 120.0}, expect: {answer: hold, rule: large}}
  - {agent: billing, action: pay, arguments: {amount: 20.0}, expect: {answer: hold}}
"""


async def test_cases(store: DatabaseStore):
    await accept(store, an_arrival("1"))
    version = await applied(store, POLICY)
    async with http_over(store) as http:
        tested = (await http.post("/v1/policy/test", json={"text": CASES})).json()
        assert (tested["version"], tested["passed"], tested["failed"]) == (version, 1, 1)
        assert [(one["answer"], one["rule"]) for one in tested["cases"]] == [("hold", "large"), ("allow", "default")]
        other = POLICY.replace("100.0", "10.0")
        tested = (await http.post("/v1/policy/test", json={"text": CASES, "policy": other})).json()
        assert (tested["passed"], tested["failed"]) == (2, 0)
        wrong = await http.post("/v1/policy/test", json={"text": "cases: [1]"})
        assert (wrong.status_code, wrong.json()["type"].rpartition(":")[2]) == (422, "cases-do-not-fit")
        assert "cases.yaml:1:9: a case is a map of fields" in wrong.json()["detail"]
        files = await http.post("/v1/policy/test", json={"text": f"policy: [/etc/passwd]{CASES}"})
        assert (files.status_code, files.json()["field"]) == (422, "text")
        wrong = await http.post("/v1/policy/test", json={"text": CASES, "policy": "policy: 2"})
        assert (wrong.status_code, wrong.json()["field"]) == (422, "policy")


async def test_diff(member: Member):
    old = await applied(member.store, POLICY.replace("100.0", "200.0"))
    await paid(member, 120.0, version=old)
    new = await applied(member.store, POLICY)
    async with http_over(member.store) as http:
        found = (await http.post("/v1/policy/diff", json={"old": old[:8], "new": new, "since": "1d"})).json()
        assert (found["admissions"], found["effects"], found["same"], found["stricter"]) == (1, 1, 1, 0)
        # The risk is only known to the code: allowed by the old policy if it is not high, held by the new one.
        assert found["reasons"] == [
            {"reason": "the risk of the action is not known without the app's code", "count": 1}
        ]
        allowed = POLICY.replace("hold", "allow").replace("100.0", "10.0")
        found = (await http.post("/v1/policy/diff", json={"old": allowed, "new": new})).json()
        assert (found["stricter"], found["examples"][0]["id"], found["not_judged"]) == (1, "pay-1", 0)
        assert (await http.post("/v1/policy/diff", json={"old": "abcdef", "new": new})).status_code == 404
        wrong = await http.post("/v1/policy/diff", json={"old": "policy: 2", "new": new})
        assert (wrong.status_code, wrong.json()["field"]) == (422, "old")
        assert (await http.post("/v1/policy/diff", json={"old": old, "new": new, "since": "x"})).status_code == 400


async def test_a_policy_of_several_files(store: DatabaseStore):
    await accept(store, an_arrival("1"))  # makes the app known
    more = {"team.yaml": "policy: 1\nrules: [{id: never, action: pay, answer: deny}]"}
    async with http_over(store) as http:
        found = (await http.post("/v1/policy/check", json={"text": POLICY, "more": more})).json()
        assert (found["rules"], found["code"]) == (3, False)
        done = await http.post("/v1/policy/apply", json={"text": POLICY, "more": more})
        assert done.status_code == 200
        shown = (await http.get(f"/v1/policy/{done.json()['version']}")).json()
        assert [one["name"] for one in shown["files"]] == ["policy.yaml", "team.yaml"]
        refused = await http.post("/v1/policy/apply", json={"text": POLICY})
        assert refused.status_code == 409
        assert refused.json()["type"].endswith("policy-leaves-files-out")
        assert (await http.post("/v1/policy/apply", json={"text": POLICY, "only": True})).json()["changed"]
        wrong = await http.post("/v1/policy/apply", json={"text": POLICY, "more": [1]})
        assert (wrong.status_code, wrong.json()["field"]) == (400, "more")
