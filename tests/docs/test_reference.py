"""The reference says what there is: every command and option, every setting, every error, path and public name."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from datetime import timedelta
from typing import Any, get_args

import httpx2
import pytest

import wakeful
from docs.pages import ROOT, Page, all_pages, page
from wakeful import App, Run, errors, failures, on, settings, stored_errors
from wakeful.api import events as api_events
from wakeful.api import openapi
from wakeful.cli import COMMANDS, http_limits
from wakeful.cli.completing import everything
from wakeful.clock import SECOND, duration, written
from wakeful.execution import checkpoint, lease
from wakeful.functions import retry
from wakeful.functions.options import AgentOptions, Backoff, StepOptions
from wakeful.http import body, problem
from wakeful.intake import cloudevents, untrusted
from wakeful.model import FINAL_RUN_STATES, RUN_STATES
from wakeful.policy.people import PeopleError
from wakeful.policy.text import PolicyError
from wakeful.resources import parameters
from wakeful.stores import sqlite_user_function
from wakeful.triggers import schedule
from wakeful.values import RESULT_LIMIT

SOURCES = sorted((ROOT / "src" / "wakeful").rglob("*.py"))
ARTICLES = [one for one in all_pages() if "decisions/" not in one.name]
COMPLETED = everything()
SHARED = "Options that many commands share"


# the command line


def options_of(name: str) -> list[str]:
    """What a command and its words take, without what is hidden."""
    taken = [option for options in COMPLETED[name].words.values() for option in options]
    return [
        flag
        for flag in dict.fromkeys(flag for option in taken for flag in option.flags)
        if flag not in {"-h", "--help"}
    ]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_documented_with_its_options(name: str):
    reference = page("docs/reference/command-line.md")
    section = reference.section(name)
    assert f"`wakeful {name}" in section
    for option in options_of(name):
        assert re.search(rf"{option}\b", section), f"docs/reference/command-line.md, {name}: {option} is missing"


def test_no_command_or_option_is_made_up():
    """Every `wakeful … --option` on any page is one that there is."""
    for article in all_pages():
        shown = article.code + [block.text for block in article.blocks if block.language in {"console", "sh"}]
        for words in (match for text in shown for match in re.findall(r"\bwakeful ([a-z]+\b[^\n|&`)]*)", text)):
            name, _, rest = words.partition(" ")
            name = name.rstrip('"')  # of a command that stands in quotes
            assert name in COMMANDS, f"{article}: there is no command wakeful {name}"
            known = {*options_of(name), "--help"}
            given = re.findall(r"(?<![\w'\"])--[a-z-]+", rest)
            assert set(given) <= known, f"{article}: wakeful {words}"


def test_shared_options_are_shared():
    rows = page("docs/reference/command-line.md").table(SHARED)
    listed = {option for row in rows for option in re.findall(r"--[a-z-]+", row[0])}
    takers = {option: [name for name in COMMANDS if option in options_of(name)] for option in listed}
    assert all(len(names) > 1 for names in takers.values()), takers


def test_the_overview_in_the_changelog_is_complete():
    commands = page("CHANGELOG.md").code
    assert set(COMMANDS) <= set(commands)


# settings


def test_every_environment_variable_is_documented():
    in_code = {
        name
        for path in SOURCES
        if "demo" not in path.parts and "testing" not in path.parts  # theirs are between their own processes
        for name in re.findall(r"\bWAKEFUL_[A-Z_]+\b", path.read_text(encoding="utf-8"))
    }
    documented = {row[0].strip("`") for row in page("docs/reference/settings.md").table("Environment variables")}
    assert in_code == {name for name in documented if name.startswith("WAKEFUL_")}
    assert f"`{settings.DEFAULT_STORE}`" in page("docs/reference/settings.md").section("Environment variables")


def documented_options(heading: str) -> dict[str, str]:
    return {row[0].strip("`"): row[2] for row in page("docs/reference/settings.md").table(heading)}


def test_every_option_of_an_app_is_documented():
    parameters_of_app = [name for name in inspect.signature(App).parameters if name not in {"name", "unknown"}]
    documented = documented_options("App")
    assert set(parameters_of_app) == set(documented)
    assert documented["in_flight"] == str(inspect.signature(App).parameters["in_flight"].default)


@pytest.mark.parametrize(("heading", "kind"), [("Agents", AgentOptions), ("Steps", StepOptions)])
def test_every_option_of_agents_and_steps_is_documented(heading: str, kind: type[Any]):
    documented = documented_options(heading)
    defaults = kind()
    assert set(documented) - {"name"} == {one.name for one in fields(kind)} - {"name"}
    for name, text in documented.items():
        default = getattr(defaults, name, None)
        if isinstance(default, str):
            assert text.strip('`"') == default, name
        elif isinstance(default, int) and text.endswith('"`'):
            assert duration(text.strip('`"')) == default, name
        elif isinstance(default, int):
            assert text == str(default), name
        elif isinstance(default, Backoff):
            assert same_backoff(eval(text.strip("`"), {"Backoff": Backoff}), default), name  # noqa: S307 our own page
        else:
            assert default in {None, ()}, name


def test_every_option_of_schedules_is_documented():
    documented = documented_options("Schedules")
    assert set(documented) == {"tz", "active", "days", "name", *schedule.TIMING_FIELDS}
    assert duration(documented["max_age"].strip('`"')) == schedule.MAX_AGE
    for bound in (schedule.SHORTEST_GRACE, schedule.LONGEST_GRACE, schedule.GRACE_WITHOUT_CATCH_UP):
        assert f'`"{written(bound)}"`' in documented["grace"]
    assert documented["max_count"] == str(schedule.MAX_COUNT)
    text = page("docs/how-to/schedules.md").text
    for choice in (*get_args(schedule.ScheduleOverlap), *get_args(schedule.CatchUp)):
        assert f'`"{choice}"`' in text, choice


TRIGGERS = ("on", "webhook", "files", "bucket", "postgres_changes", "sqlite_changes", "outbox", "debezium")


@pytest.mark.parametrize("name", TRIGGERS)
def test_every_option_of_triggers_is_documented(name: str):
    """All keywords; what a trigger is about stands before them."""
    options = {
        one.name
        for one in inspect.signature(getattr(wakeful, name)).parameters.values()
        if one.kind is one.KEYWORD_ONLY
    }
    rows = page("docs/reference/settings.md").table("Triggers")
    documented = {row[0].strip("`") for row in rows if f"`{name}`" in row[3] or row[3] == "all"}
    assert options == documented


def test_no_option_is_listed_twice():
    for heading in ("App", "Agents", "Steps", "Schedules", "Triggers"):
        names = [row[0] for row in page("docs/reference/settings.md").table(heading)]
        assert len(names) == len(set(names)), heading


def same_backoff(first: Backoff, second: Backoff) -> bool:
    return [first.ceiling(tries) for tries in range(1, 20)] == [second.ceiling(tries) for tries in range(1, 20)]


def test_limits_are_what_the_page_says():
    rows = [row[1] for row in page("docs/reference/settings.md").table("Limits")]
    assert rows == [
        f"{body.BODY_LIMIT:,} bytes",
        f"{http_limits.HEAD_LIMIT:,} bytes, {http_limits.HEADERS_LIMIT} headers",
        f"{http_limits.HEAD_LIMIT:,} bytes more than the body",
        f"{http_limits.PIPELINE_LIMIT}",
        f"{cloudevents.BATCH_LIMIT:,}",
        f"{cloudevents.TEXT_LIMIT:,} characters",
        f"{cloudevents.EXTENSION_NAME_LIMIT} characters",
        f"{untrusted.DEPTH_LIMIT} levels",
        f"{untrusted.LARGEST_INTEGER.bit_length() + 1} bits, signed",
        f"{api_events.IDEMPOTENCY_KEY_LIMIT} characters",
        f"{RESULT_LIMIT:,} bytes of JSON each",
        f"{checkpoint.ARGUMENTS_SHOWN:,} characters",
        f"{stored_errors.MESSAGE_LIMIT:,} and {stored_errors.TRACEBACK_LIMIT:,} characters",
        f"{parameters.LONGEST_PAGE}",
        f"{sqlite_user_function.USER_FUNCTION_LIMIT:g} s",
        f"{timedelta(microseconds=retry.WAITS_IN_PLACE).seconds} s",
        f"{lease.LEASE // SECOND} s, renewed every {lease.LEASE // 3 // SECOND} s",
    ]


def test_examples_of_durations_are_durations():
    text = page("docs/reference/settings.md").section("Steps")
    for example in re.findall(r'`"(\d\w+)"`', text):
        assert duration(example) > 0


# names


def test_every_public_name_is_used_or_explained():
    text = "\n".join(article.text for article in ARTICLES)
    missing = [name for name in wakeful.__all__ if not re.search(rf"\b{name}\b", text)]
    assert not missing


def test_everything_on_a_run_is_documented():
    text = "\n".join(article.text for article in ARTICLES)
    for name in (
        "event",
        "attempt",
        "log",
        "now",
        "uuid",
        "random",
        "step",
        "map",
        "emit",
        "transaction",
        "lock",
        "progress",
    ):
        assert hasattr(Run, name) or name in Run.__init__.__code__.co_names
        assert f"run.{name}" in text, name


def test_every_run_state_is_explained():
    documented = {row[0].strip("`") for row in page("docs/explanation/concepts.md").table("Run")}
    assert documented <= RUN_STATES
    assert documented >= FINAL_RUN_STATES
    section = page("docs/explanation/concepts.md").section("Run")
    assert all(f"`{state}`" in section for state in RUN_STATES)


# errors


def drawn_errors() -> dict[str, str | None]:
    """The tree in the docstring of errors.py: each name and the one it hangs on."""
    drawn: dict[str, str | None] = {}
    above: list[tuple[int, str]] = []
    for line in (errors.__doc__ or "").splitlines():
        match = re.match(r"^([ │├└─]*)([A-Z]\w+)(?:\s{2,}|$)", line)
        if match is None:
            continue
        indent = len(match[1])
        while above and above[-1][0] >= indent:
            above.pop()
        drawn[match[2]] = above[-1][1] if above else None
        above.append((indent, match[2]))
    return drawn


def test_the_tree_of_errors_is_as_drawn():
    classes = {
        name: kind
        for name, kind in vars(errors).items()
        if inspect.isclass(kind) and kind.__module__ == errors.__name__
    }
    classes |= {
        "UnsupportedContentType": cloudevents.UnsupportedContentType,
        "PolicyError": PolicyError,
        "PeopleError": PeopleError,
    }
    tree = {name: kind for name, kind in classes.items() if issubclass(kind, errors.WakefulError)}
    real = {
        name: next(base.__name__ for base in kind.__bases__ if issubclass(base, Exception))
        for name, kind in tree.items()
    }
    assert drawn_errors() == real | {"WakefulError": None}


def test_the_table_of_classes_is_as_documented():
    documented = page("docs/explanation/retries.md").section("How other errors are sorted")
    for kinds, failure in failures.CLASSES:
        for kind in kinds:
            row = next(
                (
                    line
                    for line in documented.splitlines()
                    if f"`{kind.__name__}`" in line or f"`socket.{kind.__name__}`" in line
                ),
                "",
            )
            assert failure.replace("_", " ") in row or "as they say" in row, kind


# HTTP


def test_every_path_is_documented():
    rows = page("docs/reference/http-api.md").table("HTTP API")
    documented = {row[0].strip("`"): row[1] for row in rows}
    there = {
        f"{method.upper()} {path}": what
        for path, methods in openapi.document()["paths"].items()
        for method, what in methods.items()
    }
    assert set(documented) == set(there)
    for name, what in there.items():
        for parameter in what.get("parameters", []):
            if parameter["in"] == "query":
                assert f"`{parameter['name']}" in documented[name], f"{name}: {parameter['name']}"


def test_every_kind_of_problem_is_documented():
    documented = {row[0].strip("`") for row in page("docs/reference/http-api.md").table("Problems")}
    folder = ROOT / "src" / "wakeful"
    in_code = {
        kind
        for path in (
            *folder.glob("api/*.py"),
            *folder.glob("http/*.py"),
            *folder.glob("resources/*.py"),
            *folder.glob("surface/*.py"),
            folder / "cli" / "http_refusals.py",
        )
        for kind in re.findall(r'kind="([a-z-]+)"', path.read_text(encoding="utf-8"))
    }
    assert documented == in_code


async def test_bad_input_gets_the_documented_answers(tmp_path):
    app = App("docs", store=f"sqlite:///{tmp_path}/wakeful.db")

    @app.agent(on("t"))
    async def handle(run: Run) -> None: ...

    rows = page("docs/explanation/intake.md").table("Bad input")
    assert len(rows) > 10
    async with app.running(worker=False) as runtime:
        transport = httpx2.ASGITransport(app.asgi(open_to="loopback"))
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as http:
            for sent, status, field, detail in rows:
                answer = await http.post(
                    "/v1/events", content=sent.strip("`"), headers={"Content-Type": "application/json"}
                )
                assert answer.headers["content-type"] == problem.MEDIA_TYPE
                shown = answer.json()
                assert [str(answer.status_code), shown["field"], shown["detail"]] == [status, field, detail], sent
        assert (await runtime.reader.events())["events"] == []


def test_pages_are_about_the_project_alone():
    """No paths of a machine, and no markers but those that are filled in by hand."""
    for article in all_pages():
        assert not re.search(r"/(home|root|work)/\w", article.text), article
        markers = set(re.findall(r"<!-- ([\w:]+) -->", article.text))
        assert markers <= {
            "bench:start",
            "bench:end",
            "profile",
            *(f"time:{verb}" for verb in ("test", "lint", "bench", "docs")),
        }


def test_the_verbs_of_the_makefile_are_documented():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    verbs = set(re.findall(r"^([a-z-]+):.*  ## ", makefile, re.MULTILINE)) - {"help", "clean"}
    documented = {
        row[0].strip("`").removeprefix("make ") for row in Page(ROOT / "CONTRIBUTING.md").table("Development")
    }
    assert documented == verbs
