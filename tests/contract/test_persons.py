"""People in the store: which version of the file is in force, who they are, and whose token is whose."""

from __future__ import annotations

import asyncio

import pytest

from support.stores import AGENT, APP, OpenStore, query, reader
from wakeful.clock import SECOND
from wakeful.policy.approvers import Person
from wakeful.policy.people import read_people
from wakeful.stores.guards import TokenHash, hashes_of, known, people_with, read_guards
from wakeful.stores.request import Actor
from wakeful.stores.store import DatabaseStore
from wakeful.stores.verbs.guards import GuardApp, LockApp
from wakeful.stores.verbs.persons import (
    ApplyPeople,
    EnterTokens,
    PeopleApplied,
    TokensEntered,
    people_in_force,
    people_of,
    personal_tokens,
    tokens_of_people,
)
from wakeful.stores.verbs.processes import RegisterProcess

ADA = Actor("ada", "cli")
ONE = "people: {ada: {groups: [ops, leads], token_env: ADA_TOKEN}, bob: {away: {until: 1970-01-02, instead: ada}, token_env: BOB_TOKEN}}"
TWO = "people: {ada: {groups: [ops], token_env: ADA_TOKEN}, bob: {token_env: NEW_TOKEN_OF_BOB}, tom: }"
SHARED, OTHER, ADAS, BOBS = ("shared-" + "a1" * 20, "other-" + "b2" * 20, "adas-" + "c3" * 20, "bobs-" + "d4" * 20)


async def apply(store: DatabaseStore, text: str, *, only_unseen: bool = False, app: str = APP) -> PeopleApplied:
    found = read_people("people.yaml", text)
    return await store.do(ApplyPeople(app, found.version, found.entries, only_unseen=only_unseen, by=ADA))


async def enter(
    store: DatabaseStore, token: str = ADAS, *, with_token: str | None = None, own: str = ""
) -> TokensEntered:
    knows = known(await read_guards(reader(store)), APP, [with_token])
    hashed = TokenHash.of(token)
    return await store.do(
        EnterTokens(APP, {"ada": ("ADA_TOKEN", hashed)}, knows, own, by=Actor("people file", "worker"))
    )


async def who(store: DatabaseStore, token: str) -> dict[str, str]:
    return people_with(await personal_tokens(store.database), [token])


async def live(store: DatabaseStore) -> None:
    await store.register(RegisterProcess("alive", "host", 1, 15 * SECOND, APP, (AGENT,)))


class TestVersions:
    async def test_the_people_of_one_are_in_force(self, store: DatabaseStore):
        assert await people_in_force(store.database, APP) is None
        assert await people_of(store.database, APP) == {}
        one = await apply(store, ONE)
        assert (one.before, one.seen, one.changed) == (None, False, True)
        assert await people_of(store.database, APP) == {
            "ada": Person("ada", ("ops", "leads")),
            "bob": Person("bob", (), 86_400 * SECOND, "ada"),
        }
        first = await people_in_force(store.database, APP)
        assert first is not None
        assert first[0] == one.version
        two = await apply(store, TWO)
        assert (two.before, two.changed) == (one.version, True)
        assert list(await people_of(store.database, APP)) == ["ada", "bob", "tom"]
        assert await people_in_force(store.database, APP) == (two.version, first[1] + 1)
        assert await apply(store, TWO) == PeopleApplied(two.version, two.version, seen=True, changed=False)

    async def test_each_app_has_its_own(self, store: DatabaseStore):
        await apply(store, ONE)
        await apply(store, TWO, app="other")
        assert (len(await people_of(store.database, APP)), len(await people_of(store.database, "other"))) == (2, 3)
        await apply(store, "people: {}", app="other")
        assert (len(await people_of(store.database, APP)), len(await people_of(store.database, "other"))) == (2, 0)

    async def test_an_older_text_comes_back_by_a_person_only(self, store: DatabaseStore):
        one, _ = await apply(store, ONE), await apply(store, TWO)
        assert not (await apply(store, ONE, only_unseen=True)).changed
        assert "tom" in await people_of(store.database, APP)
        assert (await apply(store, ONE)).changed
        assert "tom" not in await people_of(store.database, APP)
        in_force = await people_in_force(store.database, APP)
        assert in_force == (one.version, 3)  # a process that knew it as the first one reads it again

    async def test_two_processes_at_once_leave_one_in_force(self, stores: OpenStore, store_url: str):
        first, second = await stores(store_url), await stores(store_url)
        await asyncio.gather(*(apply(one, text) for one, text in ((first, ONE), (second, TWO)) for _ in range(3)))
        rows = await query(store_url, "select version from wakeful_people where active = 1")
        found = await people_of(first.database, APP)
        assert [(read_people("", ONE).version if len(found) == 2 else read_people("", TWO).version,)] == rows

    async def test_the_author_is_recorded_once(self, store: DatabaseStore, store_url: str):
        await apply(store, ONE)
        await apply(store, ONE)
        assert await query(store_url, "select operator, way, proved, verb, app from wakeful_operation") == [
            ("ada", "cli", 0, "people apply", APP)
        ]


class TestTokens:
    async def test_only_a_hash_is_stored(self, store: DatabaseStore, store_url: str):
        await apply(store, ONE)
        assert [one.hash for one in await tokens_of_people(store.database, APP)] == [None, None]
        assert await enter(store) == TokensEntered(entered=("ada",))
        assert await who(store, ADAS) == {APP: "ada"}
        assert [await who(store, one) for one in (ADAS[:-1], f"{ADAS}\0", OTHER, "")] == [{}, {}, {}, {}]
        assert ADAS not in str(await query(store_url, "select * from wakeful_person"))
        assert (await query(store_url, "select verb, target from wakeful_operation order by seq"))[1:] == [
            ("people token", "ada")
        ]

    async def test_processes_are_told_by_the_count_of_changes(self, store: DatabaseStore):
        await apply(store, ONE)
        before = await people_in_force(store.database, APP)
        await enter(store)
        after = await people_in_force(store.database, APP)
        assert before is not None
        assert after == (before[0], before[1] + 1)

    async def test_stays_with_the_person_as_long_as_the_variable_is_the_same(self, store: DatabaseStore):
        await apply(store, ONE)
        await enter(store)
        bob = TokenHash.of(BOBS)
        await store.do(EnterTokens(APP, {"bob": ("BOB_TOKEN", bob)}, by=ADA))
        await apply(store, TWO)
        assert await who(store, ADAS) == {APP: "ada"}
        assert await who(store, BOBS) == {}
        # A process that still has the file with the old variable does not bring the old token back.
        assert await store.do(EnterTokens(APP, {"bob": ("BOB_TOKEN", bob)}, by=ADA)) == TokensEntered()
        await apply(store, "people: {}")
        assert await who(store, ADAS) == {}

    async def test_is_replaced_by_a_process_that_has_the_token_of_the_app(self, stores: OpenStore, store_url: str):
        store = await stores(store_url)
        await apply(store, ONE)
        await store.do(GuardApp(APP, hashes_of([SHARED])))
        await live(store)
        assert await enter(store, ADAS, with_token=SHARED) == TokensEntered(entered=("ada",))
        for given in (None, OTHER):
            assert await enter(store, OTHER, with_token=given) == TokensEntered(kept=("ada",))
        assert (await who(store, ADAS), await who(store, OTHER)) == ({APP: "ada"}, {})
        assert await enter(store, OTHER, with_token=SHARED) == TokensEntered(entered=("ada",))
        assert (await who(store, ADAS), await who(store, OTHER)) == ({}, {APP: "ada"})
        assert await enter(store, ADAS, own="alive") == TokensEntered(entered=("ada",))  # no other process is alive

    async def test_of_an_app_that_starts_programs_is_not_replaced_while_it_lives(self, store: DatabaseStore):
        await apply(store, ONE)
        await enter(store)
        await store.do(LockApp(APP, locked=True))
        await live(store)
        assert await enter(store, OTHER) == TokensEntered(kept=("ada",))

    async def test_of_two_apps_may_be_the_same(self, store: DatabaseStore):
        await apply(store, ONE)
        await apply(store, "people: {ada.l: {token_env: ADA}}", app="other")
        await enter(store)
        await store.do(EnterTokens("other", {"ada.l": ("ADA", TokenHash.of(ADAS))}, by=ADA))
        assert await who(store, ADAS) == {APP: "ada", "other": "ada.l"}


@pytest.mark.parametrize("proved", [False, True])
async def test_the_record_says_whether_a_name_was_proved(store: DatabaseStore, store_url: str, proved: bool):
    found = read_people("people.yaml", ONE)
    await store.do(ApplyPeople(APP, found.version, found.entries, by=Actor("ada", "http", proved=proved)))
    assert await query(store_url, "select operator, proved from wakeful_operation") == [("ada", int(proved))]
