"""`emits=`: what an agent may say, on both stores."""

from __future__ import annotations

from typing import Any

import pytest

from support.apps import NewApp, working
from wakeful import App, Run, on, webhook
from wakeful.channels import event
from wakeful.errors import ConfigError
from wakeful.runtime import Runtime
from wakeful.undeclared import unknown_channels
from wakeful.verify import none


def speaking(app: App, type_: str, **options: Any) -> App:
    @app.agent(on("go"), attempts=1, **options)
    async def desk(run: Run) -> None:
        await run.emit(type_)

    return app


async def error_of(runtime: Runtime) -> str | None:
    receipt = await runtime.app.emit("go")
    await runtime.drain()
    run = await runtime.reader.run(receipt.runs[0])
    assert run is not None
    return run["error"]["message"] if run["state"] == "dead" else None


@pytest.mark.parametrize("emits", [None, ["ticket.*"], ("note", "ticket.opened"), ["*"]])
async def test_what_is_allowed_goes_out(new_app: NewApp, emits: Any):
    async with working(speaking(new_app(), "ticket.opened", emits=emits)) as runtime:
        assert await error_of(runtime) is None
        assert len((await runtime.reader.events(type="ticket.opened"))["events"]) == 1


async def test_anything_else_is_an_error_that_says_what_is_allowed(new_app: NewApp):
    async with working(speaking(new_app(), "tickets.opened", emits=["ticket.opened", "note.*"])) as runtime:
        error = await error_of(runtime)
        assert error == (
            "agent desk: run.emit('tickets.opened'): type \"tickets.opened\" is not allowed: "
            'the agent may emit only emits=["ticket.opened", "note.*"]. Did you mean "ticket.opened"? '
            "Add the type there if it is intended"
        )
        assert (await runtime.reader.events(type="tickets.opened"))["events"] == []


async def test_with_an_empty_list_it_emits_nothing(new_app: NewApp):
    async with working(speaking(new_app(), "note", emits=[])) as runtime:
        assert "emits=[] means that the agent emits nothing" in str(await error_of(runtime))


async def test_types_of_wakefuls_own_are_emitted_by_nobody(new_app: NewApp):
    async with working(speaking(new_app(), "wakeful.checkin")) as runtime:
        assert 'types that begin with "wakeful." are reserved for Wakeful' in str(await error_of(runtime))


async def test_a_channel_that_makes_events_is_bounded_too(new_app: NewApp):
    app = new_app(channels={"out": event("secret.told"), "fine": event("ticket.opened")})

    @app.agent(on("go"), attempts=1, emits=["ticket.*"])
    async def desk(run: Run) -> None:
        run.send("fine", "x")
        run.send("out", "x")

    async with working(app) as runtime:
        assert 'a message to channel "out": type "secret.told" is not allowed' in str(await error_of(runtime))
        assert (await runtime.reader.events(type="secret.told"))["events"] == []


def test_an_output_that_would_become_another_event_is_refused_before_the_app_runs():
    app = App("app", channels={"out": event("secret.told")})
    speaking(app, "ticket.opened", emits=["ticket.*"], deliver="out")
    assert 'deliver="out": type "secret.told" is not allowed' in unknown_channels(app)[0]


@pytest.mark.parametrize(
    ("emits", "words"),
    [
        ("ticket.*", "emits must be a list of types or patterns, like [\"ticket.*\"], not 'ticket.*'"),
        ([7], "emits: 7 is not a type"),
        ([" ticket"], "emits: ' ticket' is not a type"),
        ([""], "emits: '' is not a type"),
        (["wakeful.*"], 'types that begin with "wakeful." are reserved for Wakeful'),
    ],
)
def test_bad_patterns_are_refused_where_they_are_written(emits: Any, words: str):
    with pytest.raises(ConfigError) as caught:
        speaking(App("app"), "x", emits=emits)
    assert words in str(caught.value)
    assert "agent desk (" in str(caught.value)


async def test_a_run_cannot_speak_for_a_webhook_that_has_its_name(new_app: NewApp):
    app = speaking(new_app(), "ticket.opened")

    @app.agent(webhook("/hooks/desk", verify=none(), source="/app/desk"))
    async def signed(run: Run) -> None: ...

    async with working(app) as runtime:
        error = await error_of(runtime)
        assert 'source "/app/desk" is reserved: its events come only through webhook "/hooks/desk".' in str(error)
        assert (await runtime.reader.runs(agent="signed"))["runs"] == []
