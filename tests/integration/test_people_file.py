"""The people file of an app at work: what is in force, which tokens prove a name, and what a policy may ask of whom."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx2
import pytest

from support.apps import NewApp, Outage, ended, working
from support.stores import query
from support.tokens import NEXT_TOKEN, TOKEN
from wakeful import App, Run, on
from wakeful.errors import ConfigError, StoreUnavailable
from wakeful.functions.child_environment import read_environment
from wakeful.policy.people import read_people
from wakeful.redaction import redact
from wakeful.runtime import Runtime
from wakeful.secrets import env
from wakeful.stores.request import Actor
from wakeful.stores.verbs.persons import ApplyPeople
from wakeful.tokens import new_token

BOTH = "people:\n  ada: {groups: [ops], token_env: ADA_TOKEN}\n  bob: {groups: [ops], token_env: BOB_TOKEN}\n"
ONLY_BOB = "people:\n  bob: {groups: [ops], token_env: BOB_TOKEN}\n"
ASK_TWO = "policy: 1\nrules:\n  - {id: two, answer: ask, approve: {by: [ops], of: 2}}\n"
ADAS, BOBS = new_token(), new_token()


@pytest.fixture
def people(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("WAKEFUL_TOKEN", "WAKEFUL_TOKEN_NEXT", "BOB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ADA_TOKEN", ADAS)
    path = tmp_path / "people.yaml"
    write(path, BOTH)
    return path


def write(path: Path, text: str) -> None:
    path.write_text(text)


def asking(app: App) -> App:
    @app.agent(on("go"), name="agent")
    async def agent(run: Run) -> Any:
        return await run.ask("may I?", to="ops", schema=bool)

    return app


def http_of(app: App, **options: Any) -> httpx2.AsyncClient:
    # The token of the server may be missing: then programs of this machine may read.
    more = options or {"token": TOKEN, "next_token": NEXT_TOKEN}
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app.asgi(**more)), base_url="http://localhost")


def bearer(token: str, **headers: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}", **headers}


async def put_in_force(runtime: Runtime, text: str) -> None:
    found = read_people("people.yaml", text)
    await runtime.store.do(ApplyPeople("app", found.version, found.entries, by=Actor("eve", "cli")))


async def alarms_of(runtime: Runtime) -> dict[str, str]:
    await runtime.trouble.stored()
    return {one["key"]: one["text"] for one in (await runtime.reader.alarms(state="open"))["alarms"]}


def person_of(runtime: Runtime, token: str) -> str | None:
    return runtime.people_files.person_of(token.encode())


class TestFile:
    async def test_is_in_force_from_the_start(self, new_app: NewApp, people: Path):
        async with working(asking(new_app(people=people))) as runtime:
            assert list(runtime.people_files.people) == ["ada", "bob"]
            assert [person_of(runtime, one) for one in (ADAS, BOBS, TOKEN, "")] == ["ada", None, None, None]
            assert await alarms_of(runtime) == {}

    async def test_an_app_without_one_has_no_people_and_asks_the_store_once(self, new_app: NewApp):
        async with working(asking(new_app())) as runtime:
            assert runtime.people_files.mark is None
            assert await runtime.people_files.run_once() is None

    async def test_a_changed_one_is_in_force_at_the_next_look(self, new_app: NewApp, people: Path):
        async with working(asking(new_app(people=people))) as runtime:
            write(people, ONLY_BOB)
            await runtime.people_files.run_once()
            assert list(runtime.people_files.people) == ["bob"]
            assert person_of(runtime, ADAS) is None

    @pytest.mark.parametrize("lost", ["before", "after"])
    async def test_a_change_that_could_not_be_stored_is_stored_at_a_later_look(
        self, new_app: NewApp, people: Path, lost: str
    ):
        outage = Outage(ApplyPeople, lost)
        async with working(asking(new_app(people=people)), probe=outage) as runtime:
            write(people, ONLY_BOB)
            outage.begin()
            with pytest.raises(StoreUnavailable):
                await runtime.people_files.run_once()
            await runtime.people_files.run_once()
            assert list(runtime.people_files.people) == ["bob"]

    async def test_one_that_is_wrong_changes_nothing_and_raises_an_alarm(self, new_app: NewApp, people: Path):
        async with working(asking(new_app(people=people))) as runtime:
            write(people, "people: {ada: {grops: [ops]}}")
            await runtime.people_files.run_once()
            await runtime.drain()
            text = (await alarms_of(runtime))["people/app"]
            assert 'people.yaml:1:16: a person has no field "grops". Did you mean "groups"?' in text
            assert "The process works on with version" in text
            assert person_of(runtime, ADAS) == "ada"
            write(people, ONLY_BOB)
            await runtime.people_files.run_once()
            assert await alarms_of(runtime) == {}

    async def test_a_wrong_one_at_the_start_is_refused_where_none_is_in_force(self, new_app: NewApp, people: Path):
        write(people, "people: [ada]")
        with pytest.raises(ConfigError, match=r"people\.yaml:1:9"):
            async with working(asking(new_app(people=people))):
                pass
        with pytest.raises(ConfigError, match="cannot be read"):
            async with working(asking(new_app(people=people.with_name("none.yaml")))):
                pass

    async def test_a_wrong_one_at_the_start_keeps_what_is_in_force(self, new_app: NewApp, people: Path):
        async with working(asking(new_app(people=people))):
            pass
        write(people, "nonsense")
        async with working(asking(new_app(people=people))) as runtime:
            assert person_of(runtime, ADAS) == "ada"
            assert list(await alarms_of(runtime)) == ["people/app"]

    async def test_an_older_text_does_not_come_back_with_a_restarted_worker(self, new_app: NewApp, people: Path):
        async with working(asking(new_app(people=people))) as runtime:
            await put_in_force(runtime, ONLY_BOB)
        async with working(asking(new_app(people=people))) as runtime:
            assert list(runtime.people_files.people) == ["bob"]
            assert person_of(runtime, ADAS) is None
            assert "`wakeful people apply FILE`" in (await alarms_of(runtime))["people/app"]

    async def test_what_another_process_applied_holds_here_too(self, new_app: NewApp, people: Path):
        async with working(asking(new_app(people=people))) as runtime, working(asking(new_app())) as other:
            assert person_of(other, ADAS) == "ada"
            await put_in_force(other, ONLY_BOB)
            await runtime.people_files.run_once()
            assert person_of(runtime, ADAS) is None

    @pytest.mark.parametrize("given", [7, ["people.yaml"], "", {}])
    def test_is_one_file(self, new_app: NewApp, given: Any):
        with pytest.raises(ConfigError, match=r'people must be .*like "people\.yaml"'):
            new_app(people=given)


class TestTokens:
    async def test_a_weak_one_is_refused(self, new_app: NewApp, people: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("ADA_TOKEN", "secret-of-ada")
        with pytest.raises(ConfigError, match="ADA_TOKEN, the token of ada, is too weak") as caught:
            async with working(asking(new_app(people=people))):
                pass
        assert "secret-of-ada" not in str(caught.value)

    @pytest.mark.parametrize("other", ["BOB_TOKEN", "WAKEFUL_TOKEN"])
    async def test_two_people_or_the_app_cannot_have_one(
        self, new_app: NewApp, people: Path, monkeypatch: pytest.MonkeyPatch, other: str
    ):
        monkeypatch.setenv(other, ADAS)
        with pytest.raises(ConfigError, match=r"hold the same token: each person needs one of their own") as caught:
            async with working(asking(new_app(people=people))):
                pass
        assert ADAS not in str(caught.value)

    async def test_a_new_one_counts_after_a_restart_and_the_old_one_not_any_more(
        self, new_app: NewApp, people: Path, monkeypatch: pytest.MonkeyPatch
    ):
        async with working(asking(new_app(people=people))) as old:
            monkeypatch.setenv("ADA_TOKEN", BOBS)
            async with working(asking(new_app(people=people))) as new:
                assert [person_of(new, one) for one in (ADAS, BOBS)] == [None, "ada"]
                await old.people_files.run_once()
                assert [person_of(old, one) for one in (ADAS, BOBS)] == [None, "ada"]

    async def test_a_worker_without_the_variables_takes_nothing_away(
        self, new_app: NewApp, people: Path, monkeypatch: pytest.MonkeyPatch
    ):
        async with working(asking(new_app(people=people))) as server:
            monkeypatch.delenv("ADA_TOKEN")
            async with working(asking(new_app(people=people))) as worker:
                assert person_of(worker, ADAS) is None
                await server.people_files.run_once()
                assert person_of(server, ADAS) == "ada"

    async def test_of_a_person_who_is_new_in_the_file_counts_at_once(
        self, new_app: NewApp, people: Path, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setenv("BOB_TOKEN", BOBS)
        write(people, "people: {ada: {token_env: ADA_TOKEN}}")
        async with working(asking(new_app(people=people))) as runtime:
            assert person_of(runtime, BOBS) is None
            write(people, BOTH)
            await runtime.people_files.run_once()
            assert person_of(runtime, BOBS) == "bob"

    async def test_is_redacted_and_no_child_gets_it(self, new_app: NewApp, people: Path):
        passing_on = read_environment({"KEY": env("ADA_TOKEN")}, "command x")
        assert passing_on.problem() is None
        async with working(asking(new_app(people=people))):
            assert redact(f"it was {ADAS}") == "it was [redacted: ADA_TOKEN]"
            for one in (passing_on, read_environment(["ADA_TOKEN"], "command x")):
                with pytest.raises(ConfigError, match="ADA_TOKEN is the token of a person; no child gets one"):
                    one.made({}, where="command x")


class TestHttp:
    async def test_a_personal_token_is_that_person_whatever_the_request_says(
        self, new_app: NewApp, people: Path, store_url: str
    ):
        app = asking(new_app(people=people))
        async with working(app) as runtime:
            receipt = await app.emit("go")
            await runtime.drain()
            (approval,) = (await runtime.reader.approvals(state="open"))["approvals"]
            async with http_of(app) as http:
                answered = await http.post(
                    f"/v1/approvals/{approval['id']}/answer",
                    json={"answer": True},
                    headers=bearer(ADAS, **{"Wakeful-Operator": "bob"}),
                )
                assert answered.status_code == 200, answered.text
                found = (await http.get(f"/v1/approvals/{approval['id']}", headers=bearer(ADAS))).json()
                assert found["answered_by"] == "ada"
            assert (await ended(runtime, receipt))["output"] is True
        rows = await query(store_url, "select operator, way, proved from wakeful_operation where verb = 'answer'")
        assert rows == [("ada", "http", 1)]

    async def test_the_shared_token_claims_a_name(self, new_app: NewApp, people: Path, store_url: str):
        app = asking(new_app(people=people))
        async with working(app), http_of(app) as http:
            for token, text in ((TOKEN, ONLY_BOB), (NEXT_TOKEN, BOTH)):
                done = await http.post(
                    "/v1/people/apply", json={"text": text}, headers=bearer(token, **{"Wakeful-Operator": "ada"})
                )
                assert done.json()["changed"], done.text
        rows = await query(
            store_url, "select operator, proved from wakeful_operation where verb = 'people apply' and way = 'http'"
        )
        assert rows == [("ada", 0), ("ada", 0)]

    @pytest.mark.parametrize(
        "forged", [ADAS[:-1], ADAS.swapcase(), f"{ADAS}x", f"x {ADAS}", BOBS, "", "é"], ids=range(7)
    )
    async def test_a_forged_one_is_refused_and_counted(self, new_app: NewApp, people: Path, forged: str):
        app = asking(new_app(people=people))
        async with working(app), http_of(app) as http:
            headers = [(b"authorization", b"Bearer " + forged.encode())]
            answers = [(await http.get("/v1/people", headers=headers)).status_code for _ in range(12)]
            assert answers == [401] * 10 + [429] * 2
            assert (await http.get("/v1/people", headers=bearer(ADAS))).status_code == 200  # never slowed
            doubled = [(b"authorization", f"Bearer {ADAS}".encode())] * 2
            assert (await http.get("/v1/people", headers=doubled)).status_code == 429
            basic = {"Authorization": f"Basic {ADAS}"}
            assert (await http.get("/v1/people", headers=basic)).status_code == 429

    async def test_without_a_shared_token_a_person_may_change_things_and_others_not(
        self, new_app: NewApp, people: Path
    ):
        app = asking(new_app(people=people))
        async with working(app), http_of(app, open_to="loopback") as http:
            body = {"text": ONLY_BOB}
            assert (await http.get("/v1/people")).status_code == 200
            assert (await http.post("/v1/people/apply", json=body)).status_code == 403
            assert (await http.post("/v1/people/apply", json=body, headers=bearer(BOBS))).status_code == 403
            assert (await http.post("/v1/people/apply", json=body, headers=bearer(ADAS))).status_code == 200

    async def test_a_person_decides_about_their_own_app_only(self, new_app: NewApp, people: Path):
        app, other = asking(new_app(people=people)), asking(new_app("other"))
        async with working(app), working(other) as runtime:
            await other.emit("go")
            await runtime.drain()
            (approval,) = (await runtime.reader.approvals(state="open"))["approvals"]
            async with http_of(app) as http:
                path = f"/v1/approvals/{approval['id']}/answer"
                refused = await http.post(path, json={"answer": True}, headers=bearer(ADAS))
                assert (refused.status_code, refused.json()["type"].rpartition(":")[2]) == (403, "other-token")
                assert "ada, who is a person of app app, but the item belongs to app other" in refused.json()["detail"]
                allowed = await http.post(path, json={"answer": True}, headers=bearer(TOKEN))
                assert allowed.status_code == 200

    async def test_a_removed_person_is_refused_within_a_look(self, new_app: NewApp, people: Path):
        app = asking(new_app(people=people))
        async with working(app) as runtime, http_of(app) as http:
            assert (await http.get("/v1/people", headers=bearer(ADAS))).status_code == 200
            await put_in_force(runtime, ONLY_BOB)
            await runtime.people_files.run_once()
            assert (await http.get("/v1/people", headers=bearer(ADAS))).status_code == 401

    async def test_no_answer_shows_a_token_or_its_hash(self, new_app: NewApp, people: Path, store_url: str):
        app = asking(new_app(people=people))
        async with working(app), http_of(app) as http:
            shown = (await http.get("/v1/people", headers=bearer(ADAS))).text
        ((salt, hashed),) = await query(
            store_url, "select token_salt, token_hash from wakeful_person where token_hash is not null"
        )
        assert not [one for one in (ADAS, salt, hashed) if one in shown]


class TestPolicy:
    async def test_two_must_be_people_who_can_prove_it(self, new_app: NewApp, people: Path, tmp_path: Path):
        policy = tmp_path / "policy.yaml"
        write(policy, ASK_TWO)
        with pytest.raises(ConfigError, match=r"policy\.yaml:3:53: of: 2 must approve, but the app has no people"):
            async with working(asking(new_app(policy=policy))):
                pass
        async with working(asking(new_app(policy=policy, people=people))) as runtime:
            assert runtime.policies.version is not None

    async def test_an_unknown_group_is_refused_with_a_guess(self, new_app: NewApp, people: Path, tmp_path: Path):
        policy = tmp_path / "policy.yaml"
        write(policy, ASK_TWO.replace("[ops]", "[op]"))
        with pytest.raises(
            ConfigError, match=r'policy\.yaml:3:43: there is no group or person "op". Did you mean "ops"'
        ):
            async with working(asking(new_app(policy=policy, people=people))):
                pass

    async def test_is_checked_again_when_the_people_change(self, new_app: NewApp, people: Path, tmp_path: Path):
        policy = tmp_path / "policy.yaml"
        write(policy, ASK_TWO)
        async with working(asking(new_app(policy=policy, people=people))) as runtime:
            write(people, ONLY_BOB)
            await runtime.people_files.run_once()
            await runtime.policy_files.run_once()
            await runtime.drain()
            told = (await alarms_of(runtime))["policy/app"]
            assert "policy.yaml:3:53: of: 2 must approve, but the number of people in ops is 1" in told
            write(people, f"{BOTH}  # both again\n")
            await runtime.people_files.run_once()
            await runtime.policy_files.run_once()
            assert await alarms_of(runtime) == {}
