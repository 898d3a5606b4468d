"""People: who belongs to an app, their groups, and whether they have a token of their own.

check    read a people file and list its mistakes; nothing is changed
apply    put the people of a file in force
"""

from __future__ import annotations

from typing import Annotated, Any

from typing_extensions import TypedDict

from wakeful.operations.policing import app_meant
from wakeful.policy.people import PeopleError, PeopleText, read_people
from wakeful.resources.declare import Column, Listing, Resource, Show, Verb
from wakeful.resources.desk import NOW, Desk
from wakeful.resources.fields import About, AsJson, Count, Flag, MomentOrNone
from wakeful.resources.parameters import FileText, OfApp, Param, WhichApp
from wakeful.resources.refusals import Ambiguous, Refused
from wakeful.resources.words import Look, clock_time, number, plain
from wakeful.stores.verbs.persons import ApplyPeople

SHOWN_OF_A_VERSION = 10


class Person(TypedDict):
    """A person of an app."""

    app: str
    name: Annotated[str, About("As rules of the policy name them", example="ada")]
    groups: Annotated[list[str], AsJson(), About("The groups that the person is in", example=["ops"])]
    away_until: MomentOrNone
    instead: Annotated[str | None, About("Who answers while the person is away")]
    token_env: Annotated[str | None, About("The environment variable with their token", example="ADA_TOKEN")]
    token: Annotated[Flag, About("Whether the store knows the hash of their token: then it proves who they are")]
    away: Annotated[Flag, About("Whether the person is away now")]


class PeopleChecked(TypedDict):
    """A people file without mistakes."""

    version: str
    people: Count


class PeopleInForce(TypedDict):
    """The version that is in force now, and the one before."""

    app: str
    version: str
    before: str | None
    people: Count
    changed: Annotated[bool, About("false: this text was already in force")]


Text = Annotated[
    str,
    Param(
        "the people file", about="the text of the people file, as YAML", metavar="FILE", positional=True, content=True
    ),
]
File = Annotated[str, Param("name of the file in messages", http_only=True)]


async def people(desk: Desk, *, app: OfApp = None) -> list[Person]:
    return await desk.reads.rows(Person, "list_people", NOW, app)


async def find(desk: Desk, name: str, *, app: WhichApp = None) -> Person | None:
    found = [one for one in await people(desk, app=app) if one["name"] == name]
    if len(found) > 1:
        apps = " and ".join(one["app"] for one in found)
        raise Ambiguous(f"person {name} is in several apps ({apps})", "app")
    return found[0] if found else None


async def known(desk: Desk, *, app: str | None = None) -> list[str]:
    return [one["name"] for one in await people(desk, app=app)]


async def check(_: Desk, *, text: Text, file: File = "people.yaml") -> PeopleChecked:
    found = read_people_text(text, file)
    return PeopleChecked(version=found.version, people=len(found.entries))


async def apply(desk: Desk, *, text: Text, app: OfApp = None, file: File = "people.yaml") -> PeopleInForce:
    found, meant = read_people_text(text, file), await meant_by(desk, app)
    done = await desk.store.do(ApplyPeople(meant, found.version, found.entries, by=desk.by, note=desk.note))
    return PeopleInForce(
        app=meant, version=done.version, before=done.before, people=len(found.entries), changed=done.changed
    )


async def meant_by(desk: Desk, app: str | None) -> str:
    """The named app, the app of this server, or the only app of the store."""
    own = None if desk.code is None else str(desk.code.agents.name)
    return await app_meant(desk.reads, app or own)


async def apps_of(desk: Desk, *, app: str | None = None, **_: Any) -> list[str]:
    """The app whose token is needed."""
    return [await meant_by(desk, app)]


def read_people_text(text: str, file: str) -> PeopleText:
    """The people, or Refused with all mistakes in the text."""
    try:
        return read_people(text.name if isinstance(text, FileText) else file, text)
    except PeopleError as error:
        raise people_refused(error) from None


def people_refused(error: PeopleError) -> Refused:
    return Refused(
        "; ".join(error.problems),
        kind="people-do-not-fit",
        title="The people file has mistakes",
        status=422,
        field="text",
        said=error.problems,
        typed=f"the people file has {number(len(error.problems), 'mistake')}: it is not in force",
    )


def short(version: str | None) -> str:
    return "none" if version is None else version[:SHOWN_OF_A_VERSION]


def persons(count: int) -> str:
    return "1 person" if count == 1 else f"{count:,} people"


def checked(one: PeopleChecked) -> str:
    return f"people {short(one['version'])}: {persons(one['people'])}, no mistakes"


def applied(one: PeopleInForce) -> str:
    if not one["changed"]:
        return f"app {plain(one['app'])}: people {short(one['version'])} were already in force"
    told = f"people {short(one['version'])} ({persons(one['people'])}) are in force; before: {short(one['before'])}"
    return f"app {plain(one['app'])}: {told}"


def away(one: Person, _: Look) -> str:
    if not one["away"]:
        return "–"
    by = "" if one["instead"] is None else f", {plain(one['instead'])} answers"
    return f"until {clock_time(one['away_until'])}{by}"


def token(one: Person, _: Look) -> str:
    if one["token"]:
        return "known"
    return "–" if one["token_env"] is None else f"{plain(one['token_env'])} was not set"


RESOURCE = Resource(
    noun="person",
    plural="people",
    view=Person,
    key="name",
    example="ada",
    state=None,
    missing='there is no person "{key}" here: see `wakeful people`',
    known=known,
    listing=Listing(
        read=people,
        summary="list the people of apps, their groups, and whether they have a token",
        none='no people are known here. An app names its file with App(people="people.yaml").',
        columns=(
            Column("person", "name"),
            Column("app"),
            Column("groups", show=lambda one, _: plain(", ".join(one["groups"])) or "–"),
            Column("away", show=away),
            Column("token", show=token, flexible=True),
        ),
    ),
    show=Show(find=find, summary="show one person"),
    verbs=(
        Verb(
            "check",
            check,
            "check a people file; nothing is changed",
            says=checked,
            of_one=False,
            scope="read",
            note=False,
            storeless=lambda _: True,
            statuses=("422",),
        ),
        Verb(
            "apply",
            apply,
            "put the people of a file in force",
            says=applied,
            of_one=False,
            danger="some",
            guarded="change people",
            apps=apps_of,
            statuses=("404", "422"),
        ),
    ),
    takes="people takes list, show and a NAME, or check or apply and a FILE, like: wakeful people apply people.yaml",
)
