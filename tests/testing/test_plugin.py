"""The pytest plugin, in a pytest of its own."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points

import pytest

from support.stores import count
from wakeful.testing.postgres_server import PostgresServer

pytest_plugins = ["pytester"]

TESTS = """
    import asyncio

    from wakeful import App, Run, on
    from wakeful.execution.attempt import current_attempt

    app = App("app", store="sqlite:////nowhere/to/be/found.db")


    @app.agent(on("go"), deadline="1h")
    async def go(run: Run) -> str:
        return current_attempt().surroundings.store.dialect


    def test_with_asyncio_alone(wakeful_world, wakeful_clock, wakeful_store):
        async def main():
            async with wakeful_world(app) as world:
                assert world.clock is wakeful_clock
                assert world.store == wakeful_store
                assert (await world.handle("go"))["output"] == "DIALECT"
                assert len(await world.runs()) == 1

        asyncio.run(main())


    async def test_with_a_plugin_for_async_tests(wakeful_world):
        async with wakeful_world(app) as world:
            await world.handle("go")
            assert len(await world.runs()) == 1, "each test has a store of its own"
"""


def run_tests(pytester: pytest.Pytester, dialect: str, *options: str) -> pytest.RunResult:
    # An install from before the plugin was there does not load it by itself, and to load it twice is an error.
    by_itself = any(one.value == "wakeful.testing.plugin" for one in entry_points(group="pytest11"))
    load = () if by_itself else ("-p", "wakeful.testing.plugin")
    pytester.makepyfile(TESTS.replace("DIALECT", dialect))
    return pytester.runpytest_subprocess(*load, "-p", "no:cacheprovider", "-o", "asyncio_mode=auto", *options)


def test_worlds_are_on_sqlite_by_default(pytester: pytest.Pytester):
    run_tests(pytester, "sqlite").assert_outcomes(passed=2)


@pytest.mark.postgres
def test_a_server_is_started_when_asked_for(pytester: pytest.Pytester):
    run_tests(pytester, "postgres", "--wakeful-store=postgres").assert_outcomes(passed=2)


async def test_a_server_that_is_there_is_used_and_left_as_it_was(
    pytester: pytest.Pytester, postgres_url: str, postgres_server: PostgresServer
):
    run_tests(pytester, "postgres", f"--wakeful-store={postgres_url}").assert_outcomes(passed=2)
    assert await count(postgres_url, "wakeful_run") == 0
    assert await count(postgres_url, "pg_namespace where nspname like 'wakeful%'") == 0


def test_another_store_is_refused(pytester: pytest.Pytester):
    result = run_tests(pytester, "sqlite", "--wakeful-store=mysql")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--wakeful-store=mysql: use sqlite, postgres or postgresql://*"])


def test_loading_the_plugin_loads_nothing_else():
    """It is loaded by every pytest wherever Wakeful is installed."""
    program = (
        "import pytest, sys; before = set(sys.modules); import wakeful.testing.plugin; "
        "print(sorted({name.partition('.')[0] for name in set(sys.modules) - before} - set(sys.stdlib_module_names)), "
        "sorted(name for name in set(sys.modules) - before if name.startswith('wakeful')))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['wakeful'] ['wakeful', 'wakeful.testing', 'wakeful.testing.plugin']"


def test_what_is_public_is_where_the_package_says():
    import wakeful.testing as kit

    assert sorted({name for names in kit._HOMES.values() for name in names}) == kit.__all__
    for name in kit.__all__:
        assert getattr(kit, name).__name__ == name


def test_everything_public_is_documented():
    import wakeful.testing as kit
    from docs.pages import page

    text = page("docs/how-to/testing.md").text
    assert [name for name in kit.__all__ if f"`{name}" not in text and f" {name}" not in text] == []
    for method in (name for name in vars(kit.World) if not name.startswith("_")):
        assert f"world.{method}" in text, method
    for option in ("returns", "raises", "answers", "calls", "record", "takes"):
        assert f"`{option}=" in text, option
