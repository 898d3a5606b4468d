"""Changing things over HTTP: the token, who it was, the body field by field, and what is refused."""

from __future__ import annotations

import pytest

from support.fake_api import DEAD_DELIVERY, EFFECT, LETTER, Api, assert_problem
from support.tokens import TOKEN, WITH_TOKEN
from wakeful.http.security import ApiSettings
from wakeful.operations.redo import MANY
from wakeful.surface.http import SLICE

CHANGES = (
    "/v1/effects/eff/confirm",
    "/v1/effects/eff/repeat",
    "/v1/effects/eff/abandon",
    "/v1/runs/abc/replay",
    "/v1/runs/abc/discard",
    "/v1/replay",
    "/v1/discard",
    "/v1/runs/abc/release",
    "/v1/runs/abc/cancel",
    "/v1/runs/abc/fork",
    "/v1/deliveries/abc-d1/replay",
    "/v1/deliveries/abc-d1/discard",
)


@pytest.fixture
def api():
    return Api(ApiSettings(token=TOKEN))


def post(api, path, body=None, **headers):
    return api.client.post(path, json=body, headers={**WITH_TOKEN, **headers})


def nothing_was_changed(api):
    store = api.store
    changed = (store.redone, store.fed, store.settled, store.redelivered, store.released)
    return not any((*changed, store.cancelled, store.forked)) and not store.operations


class TestToken:
    @pytest.mark.parametrize("path", CHANGES)
    def test_without_one_nothing_is_changed_even_on_this_machine(self, path):
        api = Api()
        problem = assert_problem(api.client.post(path, json={"filter": {"all": True}}), 403)
        assert "set WAKEFUL_TOKEN" in problem["detail"]
        assert nothing_was_changed(api)

    @pytest.mark.parametrize("path", CHANGES)
    @pytest.mark.parametrize("given", [{}, {"Authorization": "Bearer wrong"}])
    def test_a_missing_or_wrong_one(self, api, path, given):
        assert_problem(api.client.post(path, json={"filter": {"all": True}}, headers=given), 401)
        assert nothing_was_changed(api)

    def test_looking_needs_none_on_this_machine(self):
        api = Api()
        for path in (*("/v1/dead", "/v1/effects", "/v1/effects/eff", "/v1/deliveries"), "/v1/states"):
            assert api.client.get(path).status_code == 200

    @pytest.mark.parametrize("path", CHANGES)
    def test_they_are_not_for_looking(self, api, path):
        assert_problem(api.client.get(path, headers=WITH_TOKEN), 405)


class TestBody:
    @pytest.mark.parametrize("path", CHANGES)
    @pytest.mark.parametrize(
        ("body", "field"),
        [
            (b"[]", "body"),
            (b"{", "body"),
            (b'"x"', "body"),
            (b'{"nite": "x"}', "nite"),
            (b'{"note": 7}', "note"),
            (b'{"note": " "}', "note"),
            (b'{"note": "a\\u0000"}', "note"),
        ],
    )
    def test_what_is_wrong_is_named(self, api, path, body, field):
        if path in {"/v1/replay", "/v1/discard"}:
            body = body.replace(b'{"note"', b'{"filter": {"all": true}, "note"')
        if path.endswith("/fork"):
            body = body.replace(b'{"note"', b'{"from": "fetch", "note"')
        answer = api.client.post(path, content=body, headers={**WITH_TOKEN, "Content-Type": "application/json"})
        assert_problem(answer, 400, field=field)
        assert nothing_was_changed(api)

    def test_a_misspelt_field_is_refused_with_a_guess(self, api):
        problem = assert_problem(post(api, "/v1/runs/abc/replay", {"agian": True}), 400, field="agian")
        assert 'Did you mean "again"?' in problem["detail"]

    def test_too_large(self):
        api = Api(ApiSettings(token=TOKEN, body_limit=10))
        assert_problem(post(api, "/v1/runs/abc/replay", {"note": "x" * 20}), 413)

    @pytest.mark.parametrize("name", ["x" * 201, "a\tb"])
    def test_a_bad_name(self, api, name):
        answer = post(api, "/v1/effects/eff/repeat", None, **{"Wakeful-Operator": name})
        assert_problem(answer, 400, field="Wakeful-Operator")


class TestEffects:
    def test_listing_and_one(self, api):
        page = api.client.get("/v1/effects", params={"state": "held", "limit": "5"}, headers=WITH_TOKEN).json()
        assert page == {"effects": [EFFECT], "next": None}
        assert {"state": "held", "most": 6, "after": None}.items() <= api.reader.asked.items()
        assert api.client.get("/v1/effects/eff", headers=WITH_TOKEN).json() == {**EFFECT, "returns": None}
        assert_problem(api.client.get("/v1/effects/nothing", headers=WITH_TOKEN), 404)
        assert_problem(api.client.get("/v1/effects?state=hold", headers=WITH_TOKEN), 400, field="state")
        assert_problem(api.client.get("/v1/effects?after=x", headers=WITH_TOKEN), 400, field="after")

    @pytest.mark.parametrize(
        ("verb", "state"), [("confirm", "confirmed"), ("repeat", "retrying"), ("abandon", "abandoned")]
    )
    def test_a_word_and_who_gave_it(self, api, verb, state):
        answer = post(api, f"/v1/effects/eff/{verb}", {"note": "seen"}, **{"Wakeful-Operator": "ada"})
        assert answer.json() == {"id": "eff", "state": state, "run": "abc", "first": True}
        (settled,) = api.store.settled
        assert (settled.id, settled.by.name, settled.note, settled.result) == ("eff", "ada", "seen", None)
        assert api.store.operations[0].operator == "ada"

    def test_without_a_name_it_was_the_token(self, api):
        post(api, "/v1/effects/eff/confirm", {"result": None})
        assert (api.store.settled[0].by.name, api.store.settled[0].result) == ("token", "null")

    def test_the_second_answer_is_told_which_stands(self, api):
        post(api, "/v1/effects/eff/confirm", None, **{"Wakeful-Operator": "ada"})
        problem = assert_problem(post(api, "/v1/effects/eff/abandon"), 409)
        assert "ada settled it before: confirmed. This abandon changed nothing" in problem["detail"]

    def test_only_confirm_has_a_result_and_only_what_is_there_is_settled(self, api):
        assert_problem(post(api, "/v1/effects/eff/repeat", {"result": 1}), 400, field="result")
        assert_problem(post(api, "/v1/effects/nothing/confirm"), 404)
        assert nothing_was_changed(api)


class TestRuns:
    def test_again(self, api):
        answer = post(api, "/v1/runs/abc/replay", {"again": True, "data": 7, "note": "n"})
        assert answer.json() == {"run": "abc", "was": "done", "confirmed_effects": 0}
        (request,) = api.store.redone
        assert (request.again, request.data, request.note, request.discard) == (True, "7", "n", False)

    def test_discard(self, api):
        assert post(api, "/v1/runs/abc/discard").json()["run"] == "abc"
        assert api.store.redone[0].discard

    def test_a_run_that_is_not_over(self, api):
        problem = assert_problem(post(api, "/v1/runs/abc/replay"), 409)
        assert problem["detail"] == 'run abc is done: "again": true does it once more'
        assert api.store.operations == []

    def test_data_that_does_not_fit_is_refused_with_the_fields(self, api):
        problem = assert_problem(post(api, "/v1/runs/abc/replay", {"again": True, "data": "x"}), 422, field="data")
        assert "does not fit agent review: data: Input should be a valid integer" in problem["detail"]
        assert nothing_was_changed(api)

    @pytest.mark.parametrize("verb", ["replay", "discard"])
    def test_nothing_of_that_name(self, api, verb):
        assert_problem(post(api, f"/v1/runs/nothing/{verb}"), 404)


class TestMany:
    def test_groups(self, api):
        run, delivery = api.client.get("/v1/dead", headers=WITH_TOKEN).json()["groups"]
        assert (run["kind"], run["error"], run["count"]) == ("run", "Persistent: broken …", 1)
        assert run["confirmed_effects"] == 2
        assert delivery == {
            "kind": "delivery",
            "channel": "ops",
            "error": "Persistent: gone …",
            "newest_error": "gone 7",
            "count": 1,
            "last_at": "1970-01-01T00:00:01Z",
            "deliveries": ["abc-d1"],
        }
        assert api.client.get("/v1/dead?error=lost", headers=WITH_TOKEN).json() == {"groups": []}
        assert_problem(api.client.get("/v1/dead?agnet=x", headers=WITH_TOKEN), 400, field="agnet")

    def test_a_plan_changes_nothing(self, api):
        plan = post(api, "/v1/replay", {"filter": {"agent": "review"}, "plan": True}).json()
        assert (plan["count"], plan["confirmed_actions"]) == (1, {"charge": 2})
        assert nothing_was_changed(api)

    def test_a_slice_at_a_time_and_the_oldest_first(self, api):
        api.reader.letters = [{**LETTER, "id": str(number)} for number in range(SLICE + 5)]
        answer = post(api, "/v1/replay", {"filter": {"all": True}}).json()
        assert answer == {"redone": SLICE, "left": 5, "until": "1970-01-01T01:00:00Z"}
        assert api.store.redone[0].id == str(SLICE + 4)

    def test_a_slow_slice_is_a_small_one(self, api):
        api.reader.letters = [LETTER] * 3
        answer = post(api, "/v1/replay", {"filter": {"all": True}, "rate": "6/m"}).json()
        assert (answer["redone"], answer["left"]) == (1, 2)

    def test_what_dies_again_is_not_taken_again(self, api):
        assert_problem(post(api, "/v1/replay", {"filter": {"all": True, "until": "1970-01-01T00:00:01Z"}}), 404)
        assert (
            post(api, "/v1/replay", {"filter": {"all": True, "until": "1970-01-01T00:00:01.5Z"}}).json()["redone"] == 1
        )

    def test_over_ten_thousand_need_a_yes(self, api):
        api.reader.letters = [LETTER] * (MANY + 1)
        problem = assert_problem(post(api, "/v1/replay", {"filter": {"all": True}}), 409)
        assert '10,001 dead letters are more than 10,000: add "yes": true' in problem["detail"]
        assert post(api, "/v1/replay", {"filter": {"all": True}, "yes": True}).json()["left"] == MANY + 1 - SLICE

    @pytest.mark.parametrize(
        ("body", "status", "field"),
        [
            ({}, 400, "filter"),
            ({"filter": {}}, 400, "filter"),
            ({"filter": {"all": True}, "events": {"type": "t", "from": "2h", "agent": "review"}}, 400, "filter"),
            ({"filter": {"all": "yes"}}, 400, "filter.all"),
            ({"filter": {"agnet": "x"}}, 400, "filter.agnet"),
            ({"filter": []}, 400, "filter"),
            ({"filter": {"all": True, "until": "sometime"}}, 400, "filter.until"),
            ({"filter": {"all": True}, "rate": "fast"}, 400, "rate"),
            ({"filter": {"all": True}, "yes": 1}, 200, None),
            ({"filter": {"all": True}, "plan": 1}, 400, "plan"),
            ({"filter": {"agent": "nobody"}}, 404, None),
            ({"deliveries": {}}, 400, "deliveries"),
            ({"deliveries": {"agent": "review"}}, 400, "deliveries.agent"),
            ({"deliveries": {"channel": "psot"}}, 404, None),
            ({"deliveries": {"all": True, "until": "sometime"}}, 400, "deliveries.until"),
            ({"deliveries": {"all": True}, "filter": {"all": True}}, 400, "filter"),
            ({"events": {"type": "t", "agent": "review"}}, 400, "events.from"),
            ({"events": {"type": "t", "from": "sometime", "agent": "review"}}, 400, "events.from"),
            ({"events": {"type": "t", "from": "1h", "to": "2h", "agent": "review"}}, 400, "events.from"),
            ({"events": {"type": "t", "from": "2h", "agent": "reveiw"}}, 404, None),
            ({"events": {"type": "gone", "from": "2h", "agent": "review"}}, 404, None),
        ],
    )
    def test_bad_input(self, api, body, status, field):
        answer = post(api, "/v1/replay", body)
        if status == 200:
            assert answer.status_code == 200
        else:
            assert_problem(answer, status, **({"field": field} if field else {}))
            assert nothing_was_changed(api)

    def test_many_are_discarded(self, api):
        plan = post(api, "/v1/discard", {"filter": {"agent": "review"}, "plan": True}).json()
        assert plan["count"] == 1
        assert nothing_was_changed(api)
        assert post(api, "/v1/discard", {"filter": {"all": True}, "note": "old"}).json()["redone"] == 1
        (request,) = api.store.redone
        assert (request.discard, request.note) == (True, "old")
        assert api.store.operations[0].verb == "discard"

    def test_stored_events_cannot_be_discarded(self, api):
        body = {"events": {"type": "t", "from": "2h", "agent": "review"}}
        assert_problem(post(api, "/v1/discard", body), 400, field="events")
        assert nothing_was_changed(api)

    @pytest.mark.parametrize(("verb", "discard"), [("replay", False), ("discard", True)])
    def test_many_deliveries(self, api, verb, discard):
        api.reader.dead_letters = [{**DEAD_DELIVERY, "id": f"abc-{number}"} for number in range(SLICE + 5)]
        plan = post(api, f"/v1/{verb}", {"deliveries": {"channel": "ops"}, "plan": True}).json()
        assert (plan["count"], plan["groups"][0]["channel"]) == (SLICE + 5, "ops")
        assert nothing_was_changed(api)
        answer = post(api, f"/v1/{verb}", {"deliveries": {"error": "GONE"}, "note": "n"}).json()
        assert answer == {"redone": SLICE, "left": 5, "until": "1970-01-01T01:00:00Z"}
        first = api.store.redelivered[0]
        assert (first.id, first.note, first.discard) == (f"abc-{SLICE + 4}", "n", discard)
        assert [one.verb for one in api.store.operations] == [f"deliveries {verb}"]

    def test_stored_events_for_an_agent(self, api):
        events = {"type": "order.*", "from": "2h", "agent": "review"}
        plan = post(api, "/v1/replay", {"events": events, "plan": True}).json()
        assert (plan["events"], plan["new"], plan["already_had"]) == (1, 1, 0)
        assert (plan["from"], plan["to"]) == ("1970-01-01T00:00:00Z", "1970-01-01T01:00:00Z")
        answer = post(api, "/v1/replay", {"events": events, "note": "new"}, **{"Wakeful-Operator": "ada"}).json()
        assert (answer["redone"], answer["left"]) == (1, 0)
        (request,) = api.store.fed
        assert (request.agent, request.reason, len(request.runs)) == ("review", "replayed by ada: new", 1)


class TestRelease:
    def test_it_is_let_out_under_a_name(self, api):
        answer = post(api, "/v1/runs/abc/release", {"note": "seen"}, **{"Wakeful-Operator": "ada"})
        assert answer.json() == {"run": "abc", "was": "held", "deliveries": 0, "effects": 0}
        (request,) = api.store.released
        assert (request.id, request.by.name, request.note) == ("abc", "ada", "seen")
        assert [one.verb for one in api.store.operations] == ["release"]

    def test_what_is_not_held_or_not_there(self, api):
        post(api, "/v1/runs/abc/release")
        problem = assert_problem(post(api, "/v1/runs/abc/release"), 409)
        assert problem["detail"] == "run abc is done: only a held output can be released"
        assert len(api.store.operations) == 1
        assert_problem(post(api, "/v1/runs/nothing/release"), 404)
