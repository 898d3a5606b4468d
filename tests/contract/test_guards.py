"""Guards of apps: who may change one while other processes of the app are alive."""

from __future__ import annotations

import pytest

from support.stores import AGENT, APP, OpenStore, reader
from wakeful.clock import SECOND
from wakeful.stores.guards import LOCK, hashes_of, known, read_guards
from wakeful.stores.store import DatabaseStore
from wakeful.stores.verbs.guards import GuardApp, LockApp
from wakeful.stores.verbs.processes import RegisterProcess

FIRST, NEXT, OTHER = ("first-" + "a1" * 20, "second-" + "b2" * 20, "other-" + "c3" * 20)


async def guard(store: DatabaseStore, *tokens: str, app: str = APP, own: str = "") -> str:
    knows = known(await read_guards(reader(store)), app, tokens)
    return await store.do(GuardApp(app, hashes_of(tokens), knows, own))


async def live(store: DatabaseStore, app: str = APP) -> None:
    await store.register(RegisterProcess("alive", "host", 1, 15 * SECOND, app, (AGENT,)))


async def opens(store: DatabaseStore, token: str, app: str = APP) -> bool:
    return known(await read_guards(reader(store)), app, [token]) is not None


async def test_a_guard_is_entered_replaced_and_removed_while_the_app_does_not_run(store):
    assert await guard(store) == "open"
    assert await guard(store, FIRST) == "guarded"
    assert await guard(store, NEXT) == "guarded"
    assert [await opens(store, one) for one in (FIRST, NEXT)] == [False, True]
    assert await guard(store) == "opened"
    assert await read_guards(reader(store)) == []


@pytest.mark.parametrize("tokens", [(), (OTHER,)], ids=["none", "another"])
async def test_a_stranger_changes_no_guard_while_a_process_of_the_app_is_alive(stores: OpenStore, store_url, tokens):
    store = await stores(store_url)
    await guard(store, FIRST)
    await live(store)
    assert await guard(await stores(store_url), *tokens) == "kept"
    assert [await opens(store, one) for one in (FIRST, OTHER)] == [True, False]
    assert await guard(store, *tokens, own="alive") == ("guarded" if tokens else "opened")  # it is that process itself


async def test_an_app_is_locked_only_where_it_has_no_guard(store):
    await store.do(LockApp(APP, locked=True))
    await store.do(LockApp(APP, locked=True))
    assert await read_guards(reader(store)) == [(APP, LOCK)]
    assert not await opens(store, "locked")
    assert await guard(store, FIRST) == "guarded"  # a token takes its place
    await store.do(LockApp(APP, locked=True))
    await store.do(LockApp(APP, locked=False))
    assert await opens(store, FIRST)
    assert len(await read_guards(reader(store))) == 1


@pytest.mark.parametrize("tokens", [(), (OTHER,)], ids=["none", "another"])
async def test_a_stranger_opens_no_lock_while_a_process_of_the_app_is_alive(stores: OpenStore, store_url, tokens):
    store = await stores(store_url)
    await store.do(LockApp(APP, locked=True))
    await live(store)
    assert await store.do(GuardApp(APP, (LOCK,))) == "guarded"  # a second server without a token: nothing changes
    assert await guard(await stores(store_url), *tokens) == "kept"
    await store.do(LockApp(APP, locked=False))
    assert await read_guards(reader(store)) == [(APP, LOCK)]
    await store.do(LockApp(APP, locked=False, own="alive"))  # it is that process itself
    assert await read_guards(reader(store)) == []


async def test_who_knows_the_token_rotates_it(store):
    await guard(store, FIRST)
    await live(store)
    assert await guard(store, FIRST, NEXT) == "guarded"
    assert [await opens(store, one) for one in (FIRST, NEXT)] == [True, True]
    assert await guard(store, NEXT) == "guarded"
    assert [await opens(store, one) for one in (FIRST, NEXT)] == [False, True]


async def test_processes_and_tokens_of_other_apps_mean_nothing(store):
    await guard(store, FIRST)
    await guard(store, OTHER, app="other")
    assert not await opens(store, OTHER)
    await live(store, "other")
    assert await guard(store) == "opened"
    assert await opens(store, OTHER, app="other")


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        " ",
        FIRST[:-1],
        FIRST + " ",
        " " + FIRST,
        FIRST + "\0",
        FIRST.upper(),
        "a" * 1_000_000,
        "\u00e9" * 40,
        "\udcff" * 40,
    ],
    ids=["empty", "space", "prefix", "space-after", "space-before", "nul", "upper", "long", "accents", "surrogates"],
)
async def test_what_is_only_like_the_token_is_not_the_token(store, wrong):
    await guard(store, FIRST)
    assert not await opens(store, wrong)
