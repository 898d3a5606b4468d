"""`wakeful people`, and a personal token at a shell: it is that person, and opens what the token of the app opens."""

from __future__ import annotations

import asyncio
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Wakeful
from support.command_line import CommandLine, wait_until
from support.stores import an_arrival, query
from wakeful.clock import SystemClock
from wakeful.policy.people import read_people
from wakeful.stores.guards import LOCK, TokenHash, hashes_of
from wakeful.stores.opening import open_database
from wakeful.stores.request import Actor, Request
from wakeful.stores.store import DatabaseStore
from wakeful.stores.verbs.accept import AcceptEvents
from wakeful.stores.verbs.guards import GuardApp
from wakeful.stores.verbs.pauses import ChangePause
from wakeful.stores.verbs.persons import ApplyPeople, EnterTokens
from wakeful.tokens import new_token

STORE = "sqlite:///wakeful.db"
PEOPLE = """\
people:
  ada: {groups: [ops, leads], token_env: ADA_TOKEN}
  bob: {groups: [ops], token_env: BOB_TOKEN, away: {until: 2100-01-02, instead: ada}}
  tom:
"""
SHARED, ADAS, BOBS = new_token(), new_token(), new_token()
APP = """
from wakeful import App, Run, on

app = App("desk", people="people.yaml")


@app.agent(on("go"))
async def ask(run: Run) -> bool:
    return await run.ask("may I?", to="ops", schema=bool)
"""


def do(*requests: Request[Any]) -> None:
    async def all_of_them() -> None:
        store = DatabaseStore(open_database(STORE, SystemClock()))
        await store.open(migrate=True)
        try:
            for one in requests:
                await store.do(one)
        finally:
            await store.close()

    asyncio.run(all_of_them())


def entered(app: str = "desk", text: str = PEOPLE) -> tuple[Request[Any], Request[Any]]:
    found, by = read_people("people.yaml", text), Actor("people file", "worker")
    tokens = {"ada": ("ADA_TOKEN", TokenHash.of(ADAS))}
    return ApplyPeople(app, found.version, found.entries, by=by), EnterTokens(app, tokens, by=by)


def paused(app: str = "desk") -> Request[Any]:
    return ChangePause(app, "", paused=True, by=Actor("eve", "cli"))


def authors(verb: str = "resume") -> list[tuple[Any, ...]]:
    sql = f"select app, operator, way, proved from wakeful_operation where verb = '{verb}' order by seq"
    return [tuple(row) for row in asyncio.run(query(STORE, sql))]


@pytest.fixture
def store(folder: Path) -> None:
    do(AcceptEvents("desk", [an_arrival("1", app="desk")]), *entered(), paused())


class TestListing:
    def test_names_groups_and_tokens(self, store: None, wakeful: Wakeful):
        said = wakeful("people").out
        assert [line.split()[:3] for line in said.splitlines()] == [
            ["person", "app", "groups"],
            ["ada", "desk", "ops,"],
            ["bob", "desk", "ops"],
            ["tom", "desk", "–"],
        ]
        assert "known" in said.splitlines()[1]
        assert "until 2100-01-02 00:00:00 UTC, ada answers" in said
        assert "BOB_TOKEN was not set" in said
        listed = wakeful("people", "--json").json["people"]
        assert [(one["name"], one["token"], one["away"]) for one in listed] == [
            ("ada", True, False),
            ("bob", False, True),
            ("tom", False, False),
        ]
        assert "hash" not in str(listed)

    def test_one(self, store: None, wakeful: Wakeful):
        assert wakeful("people", "show", "bob", "--json").json["instead"] == "ada"
        assert 'Did you mean "bob"?' in wakeful("people", "show", "bop", code=1).err
        do(*entered("shop"))
        assert "choose one with --of NAME" in wakeful("people", "show", "bob", code=2).err
        assert wakeful("people", "show", "bob", "--of", "shop", "--json").json["app"] == "shop"

    def test_nobody(self, folder: Path, wakeful: Wakeful):
        do(paused())
        assert 'App(people="people.yaml")' in wakeful("people").out


class TestFiles:
    def test_are_checked_without_a_store(self, folder: Path, wakeful: Wakeful):
        Path("people.yaml").write_text(PEOPLE)
        assert "3 people, no mistakes" in wakeful("people", "check", "people.yaml").out
        Path("people.yaml").write_text(PEOPLE.replace("ada}", "eda}").replace("BOB_", "ADA_"))
        said = wakeful("people", "check", "people.yaml", code=2).err
        assert 'people.yaml:3:81: instead: there is no person "eda". Did you mean "ada"?' in said
        assert 'people.yaml:3:35: token_env: "ADA_TOKEN" is the token of two people' in said
        assert "the people file has 2 mistakes" in said

    def test_are_put_in_force_by_a_person(self, store: None, wakeful: Wakeful):
        Path("less.yaml").write_text("people: {ada: {token_env: ADA_TOKEN}}")
        assert "(1 person) are in force" in wakeful("people", "apply", "less.yaml", "--as", "eve").out
        assert "were already in force" in wakeful("people", "apply", "less.yaml").out
        (one,) = wakeful("people", "--json").json["people"]
        assert (one["name"], one["token"]) == ("ada", True)
        assert authors("people apply")[1:] == [("desk", "eve", "cli", 0)]
        Path("people.yaml").write_text(PEOPLE)
        assert "(3 people) are in force" in wakeful("people", "apply", "people.yaml").out

    def test_a_wrong_one_changes_nothing(self, store: None, wakeful: Wakeful):
        Path("wrong.yaml").write_text("people: {ada: 7}")
        assert "wrong.yaml:1:15" in wakeful("people", "apply", "wrong.yaml", code=2).err
        assert len(wakeful("people", "--json").json["people"]) == 3


class TestPolicyCheck:
    TWO = "policy: 1\nrules:\n  - {id: two, answer: ask, approve: {by: [%s], of: 2}}\n"

    def test_knows_a_people_file(self, folder: Path, wakeful: Wakeful):
        Path("people.yaml").write_text(PEOPLE)
        Path("policy.yaml").write_text(self.TWO % "ops")
        wakeful("policy", "check", "policy.yaml")
        wakeful("policy", "check", "policy.yaml", "--people", "people.yaml")
        Path("policy.yaml").write_text(self.TWO % "lead")
        said = wakeful("policy", "check", "policy.yaml", "--people", "people.yaml", code=2).err
        assert 'policy.yaml:3:43: there is no group or person "lead". Did you mean "leads"?' in said
        Path("people.yaml").write_text("people: 7")
        assert "people.yaml:1:9" in wakeful("policy", "check", "policy.yaml", "--people", "people.yaml", code=2).err

    def test_knows_the_people_of_the_code(self, folder: Path, wakeful: Wakeful):
        Path("app.py").write_text(APP)
        Path("people.yaml").write_text(PEOPLE)
        Path("policy.yaml").write_text(self.TWO % "leads")
        said = wakeful("policy", "check", "policy.yaml", "--app", "app.py", code=2).err
        assert "policy.yaml:3:55: of: 2 must approve, but the number of people in leads is 1" in said
        Path("other.py").write_text(APP.replace(', people="people.yaml"', ""))
        said = wakeful("policy", "check", "policy.yaml", "--app", "other.py", code=2).err
        assert "of: 2 must approve, but the app has no people" in said

    def test_knows_the_people_of_the_store(self, store: None, wakeful: Wakeful):
        Path("policy.yaml").write_text(self.TWO % "leads")
        for words in (
            ["check", "policy.yaml", "--of", "desk"],
            ["apply", "policy.yaml"],
            ["apply", "policy.yaml", "--plan"],
        ):
            assert "the number of people in leads is 1" in wakeful("policy", *words, code=2).err
        Path("policy.yaml").write_text(self.TWO % "ops")
        wakeful("policy", "apply", "policy.yaml")


class TestTokens:
    """`resume` is guarded by the token of the app."""

    def test_a_personal_one_is_that_person(self, store: None, wakeful: Wakeful, monkeypatch: pytest.MonkeyPatch):
        do(GuardApp("desk", hashes_of([SHARED])))
        assert "WAKEFUL_TOKEN is not set here" in wakeful("resume", "all", "--of", "desk", code=1).err
        monkeypatch.setenv("WAKEFUL_TOKEN", ADAS)
        wakeful("resume", "all", "--of", "desk")
        assert authors() == [("desk", "ada", "cli", 1)]

    @pytest.mark.parametrize("forged", [ADAS[:-1], ADAS.swapcase(), f"{ADAS} ", BOBS, "x"], ids=range(5))
    def test_a_forged_one_opens_nothing(
        self, store: None, wakeful: Wakeful, monkeypatch: pytest.MonkeyPatch, forged: str
    ):
        do(GuardApp("desk", hashes_of([SHARED])))
        monkeypatch.setenv("WAKEFUL_TOKEN", forged)
        assert "WAKEFUL_TOKEN is a different one" in wakeful("resume", "all", "--of", "desk", code=1).err
        assert authors() == []

    def test_the_shared_one_proves_no_name(self, store: None, wakeful: Wakeful, monkeypatch: pytest.MonkeyPatch):
        do(GuardApp("desk", hashes_of([SHARED])))
        monkeypatch.setenv("WAKEFUL_TOKEN", SHARED)
        wakeful("resume", "all", "--of", "desk", "--as", "ada")
        assert authors() == [("desk", "ada", "cli", 0)]

    def test_a_token_that_is_both_proves_no_name(self, store: None, wakeful: Wakeful, monkeypatch: pytest.MonkeyPatch):
        do(GuardApp("desk", hashes_of([ADAS])))
        monkeypatch.setenv("WAKEFUL_TOKEN", ADAS)
        wakeful("resume", "all", "--of", "desk", "--as", "eve")
        assert authors() == [("desk", "eve", "cli", 0)]

    def test_beside_it_no_other_name_is_taken(self, store: None, wakeful: Wakeful, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("WAKEFUL_TOKEN", ADAS)
        said = wakeful("resume", "all", "--of", "desk", "--as", "bob", code=2).err
        assert "WAKEFUL_TOKEN is the token of ada, and --as names bob" in said
        said = wakeful("pause", "all", "--of", "desk", "--as", "bob", code=2).err
        assert "WAKEFUL_TOKEN is the token of ada, and --as names bob" in said
        wakeful("resume", "all", "--of", "desk", "--as", "ada")
        assert authors() == [("desk", "ada", "cli", 1)]

    def test_says_who_acts_also_where_none_is_needed(
        self, store: None, wakeful: Wakeful, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setenv("WAKEFUL_TOKEN", ADAS)
        wakeful("resume", "all", "--of", "desk")
        wakeful("pause", "all", "--of", "desk")
        assert (authors(), authors("pause")[1:]) == ([("desk", "ada", "cli", 1)], [("desk", "ada", "cli", 1)])

    def test_of_one_app_is_a_stranger_in_another(self, store: None, wakeful: Wakeful, monkeypatch: pytest.MonkeyPatch):
        do(paused("shop"), GuardApp("desk", hashes_of([SHARED])))
        monkeypatch.setenv("WAKEFUL_TOKEN", ADAS)
        wakeful("resume", "all", "--of", "shop", "--as", "eve")
        assert authors() == [("shop", "eve", "cli", 0)]
        do(paused("shop"), GuardApp("shop", hashes_of([BOBS])))
        assert "WAKEFUL_TOKEN is a different one" in wakeful("resume", "all", "--of", "shop", code=1).err

    def test_opens_an_app_that_is_locked_because_it_starts_programs(
        self, store: None, wakeful: Wakeful, monkeypatch: pytest.MonkeyPatch
    ):
        do(GuardApp("desk", (LOCK,)))
        assert "it starts programs" in wakeful("apps", "retire", "desk", code=1).err
        monkeypatch.setenv("WAKEFUL_TOKEN", ADAS)
        wakeful("apps", "retire", "desk")
        assert authors("retire") == [("desk", "ada", "cli", 1)]


class TestLinks:
    def ask(self, wakeful: Wakeful) -> str:
        (Path.cwd() / "app.py").write_text(APP)
        (Path.cwd() / "people.yaml").write_text(PEOPLE)
        wakeful("emit", "app.py", "go")
        wakeful("once", "app.py")
        (one,) = wakeful("approvals", "--json").json["approvals"]
        return str(one["id"])

    def test_are_printed(self, folder: Path, wakeful: Wakeful, monkeypatch: pytest.MonkeyPatch):
        approval = self.ask(wakeful)
        refused = wakeful("approvals", "link", approval, "--for", "ada", code=1).err
        assert "WAKEFUL_URL is not set: set it to the address under which people reach the server" in refused
        monkeypatch.setenv("WAKEFUL_URL", "https://wakeful.example.com/base/")
        made = wakeful("approvals", "link", approval[:10], "--for", "ada", "--expires", "4h")
        assert re.fullmatch(r"https://wakeful\.example\.com/base/approve/[A-Za-z0-9]{43}\n", made.out)
        assert "answers approval" in made.err
        assert authors("link")[0][0] == "desk"

    def test_mistakes(self, folder: Path, wakeful: Wakeful, monkeypatch: pytest.MonkeyPatch):
        approval = self.ask(wakeful)
        monkeypatch.setenv("WAKEFUL_URL", "https://wakeful.example.com")
        said = wakeful("approvals", "link", approval, "--for", "eda", code=2).err
        assert 'there is no person "eda" in app desk. Did you mean "ada"?' in said
        assert "takes --for" in wakeful("approvals", "link", approval, code=2).err
        said = wakeful("approvals", "link", approval, "--for", "ada", "--expires", "soon", code=2).err
        assert '"soon" is neither a duration like 4h nor a time with its zone' in said

    def test_a_program_of_the_app_makes_none(self, folder: Path, wakeful: Wakeful, monkeypatch: pytest.MonkeyPatch):
        approval = self.ask(wakeful)
        monkeypatch.setenv("WAKEFUL_URL", "https://wakeful.example.com")
        monkeypatch.setenv("WAKEFUL_RUN_ID", "3f2a91")
        refused = wakeful("approvals", "link", approval, "--for", "ada", code=1).err
        assert "a program that an app starts cannot make a link to an approval" in refused


def test_a_served_app(
    folder: Path, wakeful: Wakeful, start: Callable[..., CommandLine], monkeypatch: pytest.MonkeyPatch
):
    """With real processes: the server stores the hash, and the command proves the name while no server runs."""
    (folder / "app.py").write_text(APP)
    (folder / "people.yaml").write_text(PEOPLE)
    server = start("serve", "app.py", "--port", "0", env={"WAKEFUL_TOKEN": SHARED, "ADA_TOKEN": ADAS})
    server.wait_for("serving desk on")
    monkeypatch.setenv("WAKEFUL_TOKEN", ADAS)
    wakeful("emit", "app.py", "go")
    approvals = wait_until(lambda: wakeful("approvals", "--json").json["approvals"])
    server.signal(signal.SIGTERM)
    server.end()
    wakeful("approvals", "answer", approvals[0]["id"], "yes")
    (one,) = wakeful("approvals", "--state", "answered", "--json").json["approvals"]
    assert one["answered_by"] == "ada"
    assert authors("answer") == [("desk", "ada", "cli", 1)]
    assert not [secret for secret in (ADAS, SHARED) if secret in server.output]
