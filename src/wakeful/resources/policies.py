"""Policy: the texts that an app was given, which one is in force, and putting another one in force.

check    read a policy file and list its mistakes; nothing is changed
explain  every rule that was asked about an event, a run or an effect, and why it applies or not
test     judge cases of a file and compare the answers with the expected ones
diff     judge stored events and effects by two versions or files, and count what changes
apply    put a policy file in force: once it returns, no effect begins that was judged by another version
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

from typing_extensions import TypedDict

from wakeful.errors import NotFound
from wakeful.operations.policing import app_meant, groups_in_force, known_by
from wakeful.policy.people import PeopleError
from wakeful.policy.text import Known, PolicyError, read_policy
from wakeful.resources import older, policy_cases, policy_diff, policy_explain
from wakeful.resources.declare import Column, Listing, Printed, Resource, Show, Verb
from wakeful.resources.desk import Desk
from wakeful.resources.fields import About, Count, Flag, Moment
from wakeful.resources.parameters import FileText, OfApp, Param
from wakeful.resources.people import people_refused, read_people_text
from wakeful.resources.refusals import Ambiguous, Refused, Unfit
from wakeful.resources.words import Look, clock_time, line, number, plain, plain_lines
from wakeful.stores.verbs.policies import ApplyPolicy, policy_in_force, policy_texts

SHOWN_OF_A_VERSION = 10
SHORTEST = 4


WithCode = Annotated[bool, About("Whether names of agents, actions and parameters were checked against the app's code")]
UNCHECKED = "; names of agents and actions were not checked: --app APP checks them"


class Policy(TypedDict):
    """One version of an app's policy: a text that was in force, or is."""

    app: str
    version: Annotated[str, About("Digest of the text", example="5f1d8e2a90")]
    active: Annotated[Flag, About("Whether it is in force")]
    seen_at: Annotated[Moment, About("When the store first saw this text")]
    applied_at: Annotated[Moment, About("When it was last put in force")]
    by: str


class PolicyText(TypedDict):
    """One file of a policy."""

    name: str
    text: str


class PolicyDetail(Policy):
    """One version of a policy, with its text."""

    files: list[PolicyText]


class PolicyChecked(TypedDict):
    """A policy text without mistakes."""

    version: str
    rules: Count
    code: WithCode


class PolicyInForce(TypedDict):
    """The version that is in force now, and the one before."""

    app: str
    version: str
    before: str | None
    changed: Annotated[bool, About("false: this text was already in force")]
    code: WithCode


class PolicyPlan(TypedDict):
    """What applying a text would do."""

    app: str
    version: str
    before: Annotated[str | None, About("The version in force now")]
    rules: Count
    seen: Annotated[bool, About("Whether this text was in force before")]
    code: WithCode


Text = Annotated[
    str,
    Param(
        "the policy file; or several files that all hold",
        about="the text of the policy, as YAML",
        metavar="FILE",
        positional=True,
        content=True,
        several=True,
    ),
]
More = Annotated[
    Any,
    Param(
        "further files of the policy, which all hold: an object of their texts, by name", http_only=True, shape="object"
    ),
]
Only = Annotated[
    bool,
    Param(
        "apply these files only, if the policy in force has further ones",
        about="also leave out files of the policy in force",
    ),
]
File = Annotated[str, Param("name of the file in messages", http_only=True)]
PeopleFile = Annotated[
    str | None,
    Param(
        "check names of people and groups against this people file",
        about="the text of a people file, as YAML, instead of the people in force",
        metavar="FILE",
        content=True,
    ),
]


async def policies(desk: Desk, *, app: OfApp = None) -> list[Policy]:
    return await desk.reads.rows(Policy, "list_policies", app)


async def find(desk: Desk, version: str, *, app: OfApp = None) -> PolicyDetail | None:
    """One version by its digest or the beginning of it; "" is the one in force. Raises Ambiguous or NotFound if several match."""
    found = [one for one in await policies(desk, app=app) if one["version"].startswith(version)]
    if not version:
        found = [one for one in found if one["active"]]
        if not found:
            raise NotFound("no policy is in force")
    elif len(version) < SHORTEST or not found:
        return None
    if len({one["app"] for one in found}) > 1:
        apps = " and ".join(sorted({one["app"] for one in found}))
        what = f"policy {version} is" if version else "policies are in force"
        raise Ambiguous(f"{what} in several apps ({apps})", "app")
    if len(found) > 1:
        message = f"{version} matches more than one version: give more characters"
        raise NotFound(message)
    files = [
        PolicyText(name=name, text=text)
        for name, text in await policy_texts(desk.reads.database, found[0]["app"], found[0]["version"])
    ]
    return PolicyDetail(**found[0], files=files)


async def known(desk: Desk, **_: Any) -> list[str]:
    return [one["version"][:SHOWN_OF_A_VERSION] for one in await policies(desk)]


async def check(
    desk: Desk,
    *,
    text: Text,
    people: PeopleFile = None,
    app: OfApp = None,
    file: File = "policy.yaml",
    more: More = None,
) -> PolicyChecked:
    code = code_of(desk, app)
    policy = read(files_given(text, file, more), await known_names(desk, code, people, app))
    return PolicyChecked(version=policy.version, rules=len(policy.rules), code=code is not None)


def code_of(desk: Desk, app: str | None) -> Any:
    """The code of the app that is meant: of --app, or of the server; None if it is not loaded here."""
    code = None if desk.code is None else desk.code.agents
    return code if code is not None and app in {None, code.name} else None


async def known_names(desk: Desk, code: Any, people: str | None, app: str | None) -> Known:
    """The names to check against: people of the given file, of the app's code (--app), or of the store."""
    if people is not None:
        return known_by(code, read_people_text(people, "people.yaml").groups)
    if code is not None and desk.by.way == "cli":
        try:
            found = code.people
        except PeopleError as error:
            raise people_refused(error) from None
        return known_by(code, {} if found is None else found.groups)
    if app is None and desk.by.way == "cli":
        return Known()
    return known_by(code, await groups_in_force(desk.reads, await meant_by(desk, app)))


async def apply(
    desk: Desk, *, text: Text, app: OfApp = None, file: File = "policy.yaml", more: More = None, only: Only = False
) -> PolicyInForce:
    given = await readied(desk, text, app, file, more, only=only)
    done = await desk.store.do(ApplyPolicy(given.app, given.policy.version, given.texts, by=desk.by, note=desk.note))
    return PolicyInForce(app=given.app, version=done.version, before=done.before, changed=done.changed, code=given.code)


async def plan(
    desk: Desk, *, text: Text, app: OfApp = None, file: File = "policy.yaml", more: More = None, only: Only = False
) -> PolicyPlan:
    given = await readied(desk, text, app, file, more, only=only)
    version = given.policy.version
    return PolicyPlan(
        app=given.app,
        version=version,
        before=given.before,
        rules=len(given.policy.rules),
        seen=bool(await policy_texts(desk.reads.database, given.app, version)),
        code=given.code,
    )


class Readied(NamedTuple):
    """A policy that may be applied. `code`: its names were checked against the code of the app."""

    app: str
    texts: list[tuple[str, str]]
    policy: Any
    before: str | None
    code: bool


async def readied(desk: Desk, text: str, app: str | None, file: str, more: Any, *, only: bool) -> Readied:
    """Read the files. Refused for mistakes, and for a file of the policy in force that would be left out unless `only` such are meant."""
    meant = await meant_by(desk, app)
    code = code_of(desk, meant)
    texts = files_given(text, file, more)
    policy = read(texts, known_by(code, await groups_in_force(desk.reads, meant)))
    before = await policy_in_force(desk.reads.database, meant)
    held = [] if before is None else [name for name, _ in await policy_texts(desk.reads.database, meant, before)]
    missing = sorted(set(held) - {name for name, _ in texts})
    if len(held) > 1 and missing and not only:
        raise Refused(
            f"the policy in force has {number(len(held), 'file')}, and {' and '.join(missing)} would be left out: give all of them, "
            "or --only",
            kind="policy-leaves-files-out",
            title="A file of the policy in force would be left out",
        )
    return Readied(meant, texts, policy, before, code is not None)


async def meant_by(desk: Desk, app: str | None) -> str:
    """The named app, the app of this server, or the only app of the store."""
    own = None if desk.code is None else str(desk.code.agents.name)
    return await app_meant(desk.reads, app or own)


def read(texts: Sequence[tuple[str, str]], known: Known | None = None) -> Any:
    """The policy, or Refused with all its mistakes."""
    try:
        return read_policy(texts, known)
    except PolicyError as error:
        raise Refused(
            "; ".join(error.problems),
            kind="policy-does-not-fit",
            title="The policy has mistakes",
            status=422,
            field="text",
            said=error.problems,
            typed=f"the policy has {number(len(error.problems), 'mistake')}: it is not in force",
        ) from None


def files_given(text: str, file: str, more: Any) -> list[tuple[str, str]]:
    """The name and the text of each file. The command line knows the names."""
    if isinstance(text, FileText):
        return [(one.name, str(one)) for one in (text, *text.more)]
    further = {} if more is None else more
    if not isinstance(further, dict) or not all(isinstance(one, str) for one in further.values()):
        message = "more: give an object of texts, by the names of the files"
        raise Unfit(message, "more", typed=message)
    return [(file, text), *further.items()]


async def apps_of(desk: Desk, *, app: str | None = None, **_: Any) -> list[str]:
    """The app whose token is needed."""
    return [await meant_by(desk, app)]


def short(version: str | None) -> str:
    return "none" if version is None else version[:SHOWN_OF_A_VERSION]


def unchecked(*, code: bool) -> str:
    return "" if code else UNCHECKED


def checked(one: PolicyChecked) -> str:
    return f"policy {short(one['version'])}: {number(one['rules'], 'rule')}, no mistakes{unchecked(code=one['code'])}"


def applied(one: PolicyInForce) -> str:
    told = f"app {plain(one['app'])}: policy {short(one['version'])}"
    if not one["changed"]:
        return f"{told} was already in force{unchecked(code=one['code'])}"
    return f"{told} is in force; before: {short(one['before'])}{unchecked(code=one['code'])}"


def planned(one: PolicyPlan) -> str:
    told, doubt = f"app {plain(one['app'])}: policy {short(one['version'])}", unchecked(code=one["code"])
    if one["before"] == one["version"]:
        return f"{told} is already in force{doubt}"
    again = ", which was in force before" if one["seen"] else ""
    return f"{told} ({number(one['rules'], 'rule')}){again} would replace {short(one['before'])}{doubt}"


def shown(one: PolicyDetail, look: Look) -> Printed:
    whole = look.piped
    state = "in force" if one["active"] else "replaced"
    yield line(("policy ", "dim"), (one["version"], "bold"), f"  {state}", whole=whole)
    yield line(
        f"app {plain(one['app'])}, applied by {plain(one['by'])} at {clock_time(one['applied_at'])}",
        style="dim",
        whole=whole,
    )
    for file in one["files"]:
        yield line(f"# {plain(file['name'])}", style="dim", whole=whole)
        yield line(plain_lines(file["text"]), whole=whole)


RESOURCE = Resource(
    noun="policy",
    plural="policies",
    command="policy",
    path="/v1/policy",
    view=Policy,
    key="version",
    example="5f1d8e2a90",
    state=None,
    missing='there is no policy "{key}" here: see `wakeful policy`',
    known=known,
    listing=Listing(
        read=policies,
        summary="list the versions of an app's policy, the newest first",
        none='no policy was applied here. An app names its files with App(policy="policy.yaml").',
        columns=(
            Column("version", show=lambda one, _: short(one["version"])),
            Column("app"),
            Column("in force", show=lambda one, _: "yes" if one["active"] else "–"),
            Column("applied", "applied_at"),
            Column("by", flexible=True),
        ),
    ),
    show=Show(find=find, summary="show one version with its text", lines=shown, usual=True),
    readings=(policy_explain.READING,),
    verbs=(
        Verb(
            "check",
            check,
            "check a policy file; nothing is changed",
            says=checked,
            of_one=False,
            scope="read",
            note=False,
            storeless=lambda given: given.get("app") is None,
            code="check names of agents, actions and people against the code",
            statuses=("404", "422"),
        ),
        policy_cases.VERB,
        policy_diff.VERB,
        Verb(
            "apply",
            apply,
            "put a policy file in force",
            says=applied,
            of_one=False,
            plan=plan,
            plans=planned,
            asides=older.warns(older.APPROVALS_SINCE, "policies and approvals"),
            danger="some",
            guarded="change a policy",
            apps=apps_of,
            code="check names of agents and actions against the code",
            statuses=("404", "409", "422"),
        ),
    ),
    takes="policy takes list, show and perhaps a VERSION, check or apply and one or more FILEs, test and a FILE, explain and an ID, or diff OLD NEW, like: wakeful policy apply policy.yaml",
)
