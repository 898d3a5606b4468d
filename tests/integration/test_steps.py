"""Steps: done once, found again by what they are and not by when they were called."""

from __future__ import annotations

import asyncio
import functools
import json
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from pathlib import Path

import pytest
from pydantic import BaseModel

from support.apps import go, pass_time, the_run, working
from wakeful import App, Persistent, Run, Transient, on, step
from wakeful.errors import NotSerialisable, StepFailed


class Calls:
    """Counts what really ran."""

    def __init__(self) -> None:
        self.made: list[object] = []

    def note(self, what: object) -> None:
        self.made.append(what)

    def of(self, what: object) -> int:
        return self.made.count(what)


@pytest.fixture
def calls() -> Calls:
    return Calls()


def fail_once(run: Run) -> None:
    """Ends the first attempt; the second goes on."""
    if run.attempt == 1:
        raise Transient("the first attempt fails here")


def steps(run: dict[str, object]) -> list[tuple[str, str]]:
    return [(one["name"], one["state"]) for one in run["steps"]]  # type: ignore[attr-defined]  # JSON


class TestRecorded:
    async def test_a_finished_step_is_returned_from_storage(self, app: App, calls: Calls):
        async def fetch(number: int) -> str:
            calls.note("fetch")
            return f"page {number}"

        @app.agent(on("go"))
        async def agent(run: Run) -> str:
            page = await run.step(fetch, 7)
            fail_once(run)
            return page + await run.step(fetch, 8)

        async with working(app) as runtime:
            receipt = await app.emit("go")
            await runtime.drain()
            first = await the_run(runtime, receipt)
            assert (first["state"], steps(first)) == ("waiting", [("fetch", "done")])
            await pass_time(runtime)
            run = await the_run(runtime, receipt)
        assert (run["state"], run["output"]) == ("done", "page 7page 8")
        assert calls.of("fetch") == 2
        assert [(one["name"], one["arguments"], one["result"]) for one in run["steps"]] == [
            ("fetch", [7], "page 7"),
            ("fetch#2", [8], "page 8"),
        ]

    async def test_its_result_is_stored_before_the_next_line_runs(self, app: App):
        seen = []

        async def fetch() -> int:
            return 1

        @app.agent(on("go"))
        async def agent(run: Run) -> None:
            await run.step(fetch)
            assert app.runtime is not None
            stored = await app.runtime.reader.run(run.id)
            assert stored is not None
            seen.append(steps(stored))

        async with working(app) as runtime:
            assert (await go(runtime))["state"] == "done"
        assert seen == [[("fetch", "done")]]

    async def test_sync_and_async_functions_are_steps_and_a_sync_one_has_a_thread(self, app: App):
        async def here() -> str:
            return threading.current_thread().name

        def elsewhere(greeting: str, *, name: str) -> list[str]:
            return [threading.current_thread().name, f"{greeting} {name}"]

        @app.agent(on("go"))
        async def agent(run: Run) -> list[object]:
            return [await run.step(here), await run.step(elsewhere, "hello", name="world")]

        async with working(app) as runtime:
            main, (thread, greeting) = (await go(runtime))["output"]
        assert main == threading.current_thread().name
        assert thread != main
        assert greeting == "hello world"

    async def test_a_sync_function_that_raises_stop_iteration_fails_as_any_other(self, app: App):
        @step(attempts=1)
        def exhausted() -> int:
            return next(iter([]))

        @app.agent(on("go"), attempts=1)
        async def agent(run: Run) -> int:
            return await run.step(exhausted)

        async with working(app) as runtime:
            run = await go(runtime)
        assert run["state"] == "dead"
        assert "StopIteration" in run["error"]["message"]

    @pytest.mark.parametrize("made", ["partial", "method", "callable"])
    async def test_other_callables_are_steps_once_they_have_a_name(self, app: App, made):
        def add(a: int, b: int) -> int:
            return a + b

        class Adder:
            def add(self, a: int, b: int) -> int:
                return a + b

            def __call__(self, a: int, b: int) -> int:
                return a + b

        function = {"partial": functools.partial(add), "method": Adder().add, "callable": Adder()}[made]

        @app.agent(on("go"))
        async def agent(run: Run) -> int:
            total: int = await run.step(step(name="total")(function), 2, 3)  # type: ignore[arg-type]  # of any kind
            fail_once(run)
            return total

        async with working(app) as runtime:
            receipt = await app.emit("go")
            await runtime.drain()
            await pass_time(runtime)
            run = await the_run(runtime, receipt)
        assert (run["state"], run["output"], steps(run)) == ("done", 5, [("total", "done")])

    async def test_a_bound_method_is_a_step_by_its_own_name(self, app: App):
        class Shop:
            async def price(self, item: str) -> int:
                return len(item)

        shop = Shop()

        @app.agent(on("go"))
        async def agent(run: Run) -> int:
            first = await run.step(shop.price, "bread")
            return first + await run.step(shop.price, "tea")

        async with working(app) as runtime:
            run = await go(runtime)
        assert (run["output"], steps(run)) == (8, [("price", "done"), ("price#2", "done")])


class TestIdentity:
    async def test_branches_of_gather_that_swap_get_their_own_results(self, app: App, calls: Calls):
        await self.branches_that_swap(app, calls, "gather")

    async def test_branches_of_a_task_group_that_swap_get_their_own_results(self, app: App, calls: Calls):
        await self.branches_that_swap(app, calls, "group")

    @staticmethod
    async def branches_that_swap(app: App, calls: Calls, how: str) -> None:
        async def look_up(word: str) -> str:
            calls.note(word)
            return word.upper()

        async def note_down(word: str) -> str:
            calls.note(f"noted {word}")
            return f"noted {word}"

        @app.agent(on("go"))
        async def agent(run: Run) -> dict[str, list[str]]:
            words = ["a", "b", "c", "d"] if run.attempt == 1 else ["d", "c", "b", "a"]
            turn = asyncio.Event()

            async def branch(word: str) -> list[str]:
                if word == words[-1]:
                    turn.set()
                await turn.wait()
                return [await run.step(look_up, word), await run.step(note_down, word)]

            if how == "gather":
                results = await asyncio.gather(*(branch(word) for word in words))
            else:
                async with asyncio.TaskGroup() as group:
                    tasks = [group.create_task(branch(word)) for word in words]
                results = [task.result() for task in tasks]
            fail_once(run)
            return dict(zip(words, results, strict=True))

        async with working(app) as runtime:
            receipt = await app.emit("go")
            await runtime.drain()
            await pass_time(runtime)
            run = await the_run(runtime, receipt)
        assert run["state"] == "done"
        assert run["output"] == {word: [word.upper(), f"noted {word}"] for word in "abcd"}
        assert sorted(calls.made, key=str) == ["a", "b", "c", "d", *(f"noted {word}" for word in "abcd")]

    async def test_a_branch_that_was_finished_is_not_run_again_when_the_others_were_not(self, app: App, calls: Calls):
        async def fetch(name: str) -> str:
            calls.note(name)
            if name == "slow" and calls.of("slow") == 1:
                raise Transient("put away", retry_after="10s")
            return name

        @app.agent(on("go"))
        async def agent(run: Run) -> list[str]:
            order = ["quick", "slow"] if calls.made == [] else ["slow", "quick"]
            return sorted(await asyncio.gather(*(run.step(fetch, name) for name in order)))

        async with working(app) as runtime:
            receipt = await app.emit("go")
            await runtime.drain()
            assert (await the_run(runtime, receipt))["state"] == "waiting"
            await pass_time(runtime, "10s")
            run = await the_run(runtime, receipt)
        assert (run["state"], run["output"]) == ("done", ["quick", "slow"])
        assert (calls.of("quick"), calls.of("slow")) == (1, 2)

    async def test_equal_calls_are_counted(self, app: App, calls: Calls):
        async def roll(sides: int) -> int:
            calls.note("roll")
            return len(calls.made)

        @app.agent(on("go"))
        async def agent(run: Run) -> list[int]:
            rolled = [await run.step(roll, 6) for _ in range(3)]
            rolled.append(await run.step(roll, 20))
            fail_once(run)
            return [*rolled, await run.step(roll, 6)]

        async with working(app) as runtime:
            receipt = await app.emit("go")
            await runtime.drain()
            await pass_time(runtime)
            run = await the_run(runtime, receipt)
        assert run["output"] == [1, 2, 3, 4, 5]
        assert [one["name"] for one in run["steps"]] == ["roll", "roll#2", "roll#3", "roll#4", "roll#5"]

    async def test_the_order_of_keywords_and_keys_does_not_count(self, app: App, calls: Calls):
        async def ask(**question: object) -> str:
            calls.note("ask")
            return "answer"

        @app.agent(on("go"))
        async def agent(run: Run) -> str:
            if run.attempt == 1:
                await run.step(ask, a=1, b={"x": 1, "y": 2})
            else:
                await run.step(ask, b={"y": 2, "x": 1}, a=1)
            fail_once(run)
            return "done"

        async with working(app) as runtime:
            await go(runtime)
            await pass_time(runtime)
        assert calls.of("ask") == 1

    async def test_a_key_of_its_own_is_the_identity(self, app: App, calls: Calls):
        class Connection:
            """Not JSON, and another one each time."""

        @step(key=lambda connection, user: user)
        async def load(connection: Connection, user: str) -> str:
            calls.note(user)
            return f"{user} loaded"

        @app.agent(on("go"))
        async def agent(run: Run) -> list[str]:
            loaded = [await run.step(load, Connection(), user) for user in ("ann", "bob")]
            fail_once(run)
            return loaded

        async with working(app) as runtime:
            receipt = await app.emit("go")
            await runtime.drain()
            await pass_time(runtime)
            run = await the_run(runtime, receipt)
        assert (run["state"], run["output"]) == ("done", ["ann loaded", "bob loaded"])
        assert calls.made == ["ann", "bob"]

    async def test_an_inline_step_for_a_closure(self, app: App, calls: Calls):
        @app.agent(on("go"))
        async def agent(run: Run) -> int:
            rows = [1, 2, 3]

            def total() -> int:
                calls.note("total")
                return sum(rows)

            first = await run.step(step(name="total of rows")(total))
            second = await run.step(step(name="twice")(lambda: 2 * first))
            fail_once(run)
            return second

        async with working(app) as runtime:
            receipt = await app.emit("go")
            await runtime.drain()
            await pass_time(runtime)
            run = await the_run(runtime, receipt)
        assert (run["output"], steps(run)) == (12, [("total of rows", "done"), ("twice", "done")])
        assert calls.of("total") == 1

    @pytest.mark.parametrize("made", ["lambda", "partial", "callable"])
    async def test_a_step_without_a_name_is_refused_with_the_remedy(self, app: App, made):
        class Nameless:
            def __call__(self) -> int:
                return 1

        nameless = {"lambda": lambda: 1, "partial": functools.partial(int, "1"), "callable": Nameless()}[made]

        @app.agent(on("go"))
        async def agent(run: Run) -> int:
            return await run.step(nameless)

        async with working(app) as runtime:
            run = await go(runtime)
        assert run["state"] == "dead"
        assert "needs a name" in run["error"]["message"]
        assert "step(name=" in run["error"]["message"]

    async def test_two_functions_of_one_name_are_refused(self, app: App):
        @app.agent(on("go"))
        async def agent(run: Run) -> list[int]:
            def fetch() -> int:
                return 1

            one = fetch

            def fetch() -> int:  # type: ignore[no-redef]
                return 2

            return [await run.step(one), await run.step(fetch)]

        async with working(app) as runtime:
            run = await go(runtime)
        assert run["state"] == "dead"
        assert "two functions named fetch" in run["error"]["message"]
        assert "@step(name=" in run["error"]["message"]

    async def test_two_functions_given_one_name_are_refused_too(self, app: App):
        @step(name="fetch")
        def one() -> int:
            return 1

        @step(name="fetch")
        def other() -> int:
            return 2

        @app.agent(on("go"))
        async def agent(run: Run) -> list[int]:
            return [await run.step(one), await run.step(other)]

        async with working(app) as runtime:
            run = await go(runtime)
        assert run["state"] == "dead"
        assert "two functions named fetch" in run["error"]["message"]

    async def test_sets_are_found_again_in_another_process(self, store_url: str, app: App):
        """A set's own order changes from process to process (PYTHONHASHSEED)."""
        child = textwrap.dedent(
            """
            import asyncio, sys
            from wakeful import App, Run, Transient, on
            from wakeful.clock import VirtualClock, from_datetime, duration
            from dataclasses import dataclass

            clock = VirtualClock()
            clock.move(sys.argv[2])
            app = App("sets", store=sys.argv[1], clock=clock)

            @dataclass
            class Query:
                words: frozenset[str]

            async def search(words: set[str], query: Query) -> int:
                print("searched", flush=True)
                return len(words)

            @app.agent(on("go"))
            async def agent(run: Run) -> int:
                words = {f"word {number}" for number in range(50)}
                found = await run.step(search, words, Query(frozenset(words)))
                if run.attempt == 1:
                    raise Transient("again")
                return found

            async def main():
                async with app.running(lease=10**15) as runtime:
                    await app.emit("go", id="1", source="/s")
                    await runtime.drain()
                    print(await runtime.reader.counts(), flush=True)

            asyncio.run(main())
            """
        )

        def process(seed: str, later: str) -> list[str]:
            done = subprocess.run(
                [sys.executable, "-c", child, store_url, later],
                env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
                capture_output=True, text=True, check=True, timeout=60,
            )  # fmt: skip
            return [line for line in done.stdout.splitlines() if line.startswith(("searched", "{"))]

        assert await asyncio.to_thread(process, "1", "0s") == ["searched", "{'waiting': 1}"]
        assert await asyncio.to_thread(process, "2", "1h") == ["{'done': 1}"]


class Colour(Enum):
    RED = "red"


class Item(BaseModel):
    name: str
    price: Decimal


@dataclass
class Point:
    x: int
    y: int


class TestValues:
    @pytest.mark.parametrize(
        ("annotation", "value"),
        [
            (Item, Item(name="bread", price=Decimal("2.50"))),
            (list[Item], [Item(name="tea", price=Decimal(1))]),
            (Point, Point(1, 2)),
            (dict[str, Point], {"a": Point(1, 2)}),
            (datetime, datetime(2026, 1, 31, 8, tzinfo=UTC)),
            (tuple[int, str], (1, "a")),
            (set[int], {1, 2}),
            (Colour, Colour.RED),
            (Path, Path("/tmp/x")),
            (Item | None, None),
            (bytes, b"abc"),
            (float, 1.5),
            (None, None),
        ],
    )
    async def test_a_result_comes_back_as_the_type_that_was_declared(self, app: App, annotation, value):
        seen = []

        async def make():
            return value

        make.__annotations__["return"] = annotation

        @app.agent(on("go"))
        async def agent(run: Run) -> None:
            seen.append(await run.step(make))
            fail_once(run)

        async with working(app) as runtime:
            await go(runtime)
            await pass_time(runtime)
            assert await runtime.reader.counts() == {"done": 1}
        assert seen == [value, value]
        assert type(seen[0]) is type(seen[1]) is type(value)

    async def test_without_a_declared_type_the_first_time_is_like_the_second(self, app: App):
        seen = []

        async def make():
            return {"point": Point(1, 2), "when": datetime(2026, 1, 31, tzinfo=UTC), 1: (1, 2)}

        @app.agent(on("go"))
        async def agent(run: Run) -> None:
            seen.append(await run.step(make))
            fail_once(run)

        async with working(app) as runtime:
            await go(runtime)
            await pass_time(runtime)
        assert seen[0] == seen[1] == {"point": {"x": 1, "y": 2}, "when": "2026-01-31T00:00:00Z", "1": [1, 2]}

    async def test_a_result_that_is_not_json_is_a_persistent_failure_that_names_the_step_and_the_remedy(
        self, app: App, calls: Calls
    ):
        async def connect() -> object:
            calls.note("connect")
            return object()

        @app.agent(on("go"))
        async def agent(run: Run) -> None:
            await run.step(connect)

        async with working(app) as runtime:
            run = await go(runtime)
        assert run["state"] == "dead"
        assert run["error"]["type"] == "NotSerialisable"
        assert "the result of step connect cannot be stored as JSON" in run["error"]["message"]
        assert "return plain values, a dataclass or a pydantic model" in run["error"]["message"]
        assert calls.of("connect") == 1

    async def test_arguments_that_are_not_json_are_a_persistent_failure_with_the_remedy(self, app: App, calls: Calls):
        async def use(thing: object) -> None:
            calls.note("use")

        @app.agent(on("go"))
        async def agent(run: Run) -> None:
            await run.step(use, object())

        async with working(app) as runtime:
            run = await go(runtime)
        assert run["state"] == "dead"
        assert "the arguments of step use" in run["error"]["message"]
        assert "@step(key=" in run["error"]["message"]
        assert calls.made == []

    async def test_an_iterator_as_an_argument_is_refused_and_not_used_up(self, app: App):
        """Looking at it for the step's identity would leave the function an empty one."""

        async def count(numbers: Iterator[int]) -> int:
            return len(list(numbers))

        @app.agent(on("go"))
        async def agent(run: Run) -> int:
            return await run.step(count, (number for number in range(3)))

        async with working(app) as runtime:
            run = await go(runtime)
        assert run["state"] == "dead"
        assert "the arguments of step count" in run["error"]["message"]

    async def test_a_result_that_does_not_fit_its_annotation_names_the_step(self, app: App):
        async def numbers() -> list[int]:
            return ["one", "two"]  # type: ignore[list-item]

        @app.agent(on("go"))
        async def agent(run: Run) -> None:
            await run.step(numbers)

        async with working(app) as runtime:
            run = await go(runtime)
        assert run["state"] == "dead"
        assert "the result of step numbers" in run["error"]["message"]

    async def test_a_result_over_the_limit_is_refused_with_the_remedy(self, app: App):
        async def download() -> str:
            return "x" * (65 * 1024 * 1024)

        @app.agent(on("go"))
        async def agent(run: Run) -> None:
            await run.step(download)

        async with working(app) as runtime:
            run = await go(runtime)
        assert run["state"] == "dead"
        assert "the result of step download is 68,157,442 bytes" in run["error"]["message"]
        assert "pass their address" in run["error"]["message"]

    async def test_arguments_over_the_limit_are_refused(self, app: App):
        async def upload(text: str) -> None: ...

        @app.agent(on("go"))
        async def agent(run: Run) -> None:
            await run.step(upload, "x" * (65 * 1024 * 1024))

        async with working(app) as runtime:
            run = await go(runtime)
        assert run["state"] == "dead"
        assert "the arguments of step upload" in run["error"]["message"]

    async def test_long_arguments_are_stored_up_to_a_length_and_still_told_apart(self, app: App, calls: Calls):
        async def measure(text: str) -> int:
            calls.note(text[-1])
            return len(text)

        @app.agent(on("go"))
        async def agent(run: Run) -> list[int]:
            return [await run.step(measure, "x" * 10_000 + end) for end in "ab"]

        async with working(app) as runtime:
            run = await go(runtime)
        assert run["output"] == [10_001, 10_001]
        assert calls.made == ["a", "b"]
        assert len(json.dumps(run["steps"][0]["arguments"])) < 5_000

    async def test_the_agents_output_is_checked_the_same_way(self, app: App):
        @app.agent(on("go"))
        async def agent(run: Run) -> object:
            return object()

        async with working(app) as runtime:
            run = await go(runtime)
        assert run["state"] == "dead"
        assert "the output of agent agent" in run["error"]["message"]

    async def test_text_with_any_character_goes_through(self, app: App):
        text = "a\0b\u2028\U0001f600\x7f\ue000"

        async def echo(given: str) -> str:
            return given

        @app.agent(on("go"))
        async def agent(run: Run) -> str:
            echoed = await run.step(echo, text)
            fail_once(run)
            return echoed

        async with working(app) as runtime:
            receipt = await app.emit("go")
            await runtime.drain()
            await pass_time(runtime)
            run = await the_run(runtime, receipt)
        assert (run["state"], run["output"]) == ("done", text)


class Trouble(Exception):
    """An error of the user's own."""


class Odd(Exception):
    """One whose constructor takes more than a message."""

    def __init__(self, code: int, *, where: str) -> None:
        super().__init__(f"{code} at {where}")
        self.code = code


class TestErrors:
    async def test_a_caught_error_is_stored_and_raised_again_with_its_own_class(self, app: App, calls: Calls):
        seen = []

        @step(attempts=2, backoff="1ms")
        async def charge() -> None:
            calls.note("charge")
            raise Trouble("card declined")

        @app.agent(on("go"))
        async def agent(run: Run) -> str:
            try:
                await run.step(charge)
            except Trouble as error:
                seen.append((type(error), str(error)))
            fail_once(run)
            return "went on"

        async with working(app) as runtime:
            receipt = await app.emit("go")
            await runtime.drain()
            await pass_time(runtime)
            run = await the_run(runtime, receipt)
        assert (run["state"], run["output"]) == ("done", "went on")
        assert seen == [(Trouble, "card declined")] * 2
        assert calls.of("charge") == 2
        (stored,) = run["steps"]
        assert (stored["state"], stored["tries"], stored["error"]["type"]) == ("failed", 2, "Trouble")
        assert "raise Trouble" in stored["error"]["traceback"]

    async def test_a_class_with_a_constructor_of_its_own_is_raised_again_too(self, app: App):
        seen = []

        @step(attempts=1)
        async def fails() -> None:
            raise Odd(7, where="home")

        @app.agent(on("go"))
        async def agent(run: Run) -> None:
            try:
                await run.step(fails)
            except Odd as error:
                seen.append(str(error))
            fail_once(run)

        async with working(app) as runtime:
            await go(runtime)
            await pass_time(runtime)
        assert seen == ["7 at home", "7 at home"]

    async def test_an_error_whose_class_is_gone_is_a_step_failed(self, app: App):
        seen = []

        @step(attempts=1)
        async def fails() -> None:
            class Local(Exception):
                pass

            raise Local("hidden")

        @app.agent(on("go"))
        async def agent(run: Run) -> None:
            try:
                await run.step(fails)
            except Exception as error:
                seen.append((type(error).__name__, str(error)))
            fail_once(run)

        async with working(app) as runtime:
            await go(runtime)
            await pass_time(runtime)
        assert seen == [("Local", "hidden"), (StepFailed.__name__, "Local: hidden")]

    async def test_an_error_that_left_the_handler_is_cleared_by_the_retry(self, app: App, calls: Calls):
        @step(attempts=1)
        async def flaky() -> str:
            calls.note("flaky")
            if calls.of("flaky") == 1:
                raise Trouble("not today")
            return "fine"

        async def before() -> None:
            calls.note("before")

        @app.agent(on("go"))
        async def agent(run: Run) -> str:
            await run.step(before)
            return await run.step(flaky)

        async with working(app) as runtime:
            receipt = await app.emit("go")
            await runtime.drain()
            assert (await the_run(runtime, receipt))["state"] == "waiting"
            await pass_time(runtime)
            run = await the_run(runtime, receipt)
        assert (run["state"], run["output"]) == ("done", "fine")
        assert (calls.of("before"), calls.of("flaky")) == (1, 2)

    @pytest.mark.parametrize("how", ["wrapped", "group", "context"])
    async def test_also_when_it_left_inside_another(self, app: App, calls: Calls, how):
        @step(attempts=1)
        async def flaky() -> str:
            calls.note("flaky")
            if calls.of("flaky") == 1:
                raise Trouble("not today")
            return "fine"

        @app.agent(on("go"))
        async def agent(run: Run) -> str:
            if how == "group":
                async with asyncio.TaskGroup() as group:
                    task = group.create_task(run.step(flaky))
                return task.result()
            try:
                return await run.step(flaky)
            except Trouble as error:
                if how == "wrapped":
                    raise RuntimeError("wrapped") from error
                raise RuntimeError("in its context")  # noqa: B904 that is the case

        async with working(app) as runtime:
            receipt = await app.emit("go")
            await runtime.drain()
            await pass_time(runtime)
            run = await the_run(runtime, receipt)
        assert (run["state"], run["output"]) == ("done", "fine")
        assert calls.of("flaky") == 2

    async def test_a_caught_error_stays_when_another_leaves_the_handler(self, app: App, calls: Calls):
        @step(attempts=1)
        async def caught() -> None:
            calls.note("caught")
            raise Trouble("expected")

        @app.agent(on("go"))
        async def agent(run: Run) -> str:
            try:
                await run.step(caught)
            except Trouble:
                pass
            fail_once(run)
            return "done"

        async with working(app) as runtime:
            await go(runtime)
            await pass_time(runtime)
            assert await runtime.reader.counts() == {"done": 1}
        assert calls.of("caught") == 1

    async def test_the_errors_class_decides_how_often_a_step_is_tried(self, app: App, calls: Calls):
        async def persistent() -> None:
            calls.note("persistent")
            raise Persistent("never")

        @step(attempts=4, backoff="1ms")
        async def unknown() -> None:
            calls.note("unknown")
            raise Trouble("maybe later")

        @app.agent(on("go"))
        async def agent(run: Run) -> None:
            for fails in (persistent, unknown):
                try:
                    await run.step(fails)
                except (Persistent, Trouble):
                    pass

        async with working(app) as runtime:
            run = await go(runtime)
        assert (run["state"], run["attempts"]) == ("done", 1)
        assert (calls.of("persistent"), calls.of("unknown")) == (1, 4)

    @pytest.mark.parametrize("words", ["nul \0 inside", "half \ud800 a character", "x" * 100_000, ""])
    async def test_an_error_may_say_anything(self, app: App, words):
        @step(attempts=1)
        async def fails() -> None:
            raise Persistent(words)

        @app.agent(on("go"))
        async def agent(run: Run) -> None:
            await run.step(fails)

        async with working(app) as runtime:
            run = await go(runtime)
            alarms = (await runtime.reader.alarms())["alarms"]
        assert (run["state"], run["error"]["type"]) == ("dead", "Persistent")
        assert len(alarms) == 1

    async def test_not_serialisable_can_be_caught_as_persistent(self, app: App):
        async def connect() -> object:
            return object()

        @app.agent(on("go"))
        async def agent(run: Run) -> str:
            try:
                await run.step(connect)
            except NotSerialisable:
                return "caught"
            return "not reached"

        async with working(app) as runtime:
            assert (await go(runtime))["output"] == "caught"


class TestMap:
    async def test_results_are_in_the_order_of_the_items_and_each_is_a_checkpoint(self, app: App, calls: Calls):
        async def square(number: int) -> int:
            calls.note(number)
            return number * number

        @app.agent(on("go"))
        async def agent(run: Run) -> list[int]:
            squares = await run.map(square, range(5))
            fail_once(run)
            return squares

        async with working(app) as runtime:
            receipt = await app.emit("go")
            await runtime.drain()
            await pass_time(runtime)
            run = await the_run(runtime, receipt)
        assert run["output"] == [0, 1, 4, 9, 16]
        assert sorted(calls.made, key=str) == [0, 1, 2, 3, 4]
        assert len(run["steps"]) == 5

    async def test_at_most_limit_run_at_a_time(self, app: App):
        now, most = 0, 0
        gate = asyncio.Semaphore(0)

        async def work(number: int) -> int:
            nonlocal now, most
            now += 1
            most = max(most, now)
            if now == 3:
                for _ in range(20):
                    gate.release()
            await gate.acquire()
            now -= 1
            return number

        @app.agent(on("go"))
        async def agent(run: Run) -> int:
            return sum(await run.map(work, range(10), limit=3))

        async with working(app) as runtime:
            assert (await go(runtime))["output"] == 45
        assert most == 3

    async def test_the_first_error_stops_the_rest_and_is_raised(self, app: App, calls: Calls):
        started = asyncio.Event()

        @step(attempts=1)
        async def work(number: int) -> int:
            calls.note(number)
            if number == 1:
                await started.wait()
                raise Trouble("no ones")
            started.set()
            await asyncio.Event().wait()
            return number

        @app.agent(on("go"))
        async def agent(run: Run) -> str:
            try:
                await run.map(work, [0, 1, 2, 3], limit=2)
            except Trouble as error:
                return str(error)
            return "not reached"

        async with working(app) as runtime:
            run = await go(runtime)
        assert (run["state"], run["output"]) == ("done", "no ones")
        assert sorted(calls.made, key=str) == [0, 1]

    async def test_partial_gives_an_outcome_for_each(self, app: App, calls: Calls):
        @step(attempts=1)
        async def work(number: int) -> int:
            calls.note(number)
            if number % 2:
                raise Trouble(f"odd {number}")
            return number

        @app.agent(on("go"))
        async def agent(run: Run) -> list[object]:
            outcomes = await run.map(work, range(4), partial=True)
            fail_once(run)
            return [outcome.value if outcome.ok else str(outcome.error) for outcome in outcomes]

        async with working(app) as runtime:
            receipt = await app.emit("go")
            await runtime.drain()
            await pass_time(runtime)
            run = await the_run(runtime, receipt)
        assert run["output"] == [0, "odd 1", 2, "odd 3"]
        assert sorted(calls.made, key=str) == [0, 1, 2, 3]

    async def test_equal_items_are_counted(self, app: App, calls: Calls):
        async def work(word: str) -> int:
            calls.note(word)
            return len(calls.made)

        @app.agent(on("go"))
        async def agent(run: Run) -> list[int]:
            results = await run.map(work, ["a", "a", "a"], limit=1)
            fail_once(run)
            return results

        async with working(app) as runtime:
            receipt = await app.emit("go")
            await runtime.drain()
            await pass_time(runtime)
            assert (await the_run(runtime, receipt))["output"] == [1, 2, 3]
        assert calls.of("a") == 3

    async def test_nothing_is_a_list_too(self, app: App):
        async def work(number: int) -> int:
            return number

        @app.agent(on("go"))
        async def agent(run: Run) -> list[int]:
            return await run.map(work, [])

        async with working(app) as runtime:
            assert (await go(runtime))["output"] == []

    async def test_a_limit_below_one_is_refused(self, app: App):
        async def work(number: int) -> int:
            return number

        @app.agent(on("go"))
        async def agent(run: Run) -> list[int]:
            return await run.map(work, [1], limit=0)

        async with working(app) as runtime:
            run = await go(runtime)
        assert (run["state"], "limit must be at least 1" in run["error"]["message"]) == ("dead", True)
