"""Someone who can write to the database, and has no key, cannot make an agent act: a run is held, a message stays, an event is nobody's."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Sequence
from typing import Any

import pytest
from pydantic import BaseModel

from support.apps import NewApp, ended, pass_time, the_run, working
from support.stores import forge, query
from wakeful import App, Operation, Run, Transient, action, every, on
from wakeful.errors import PayloadTampered
from wakeful.output.channels.base import Channel, Message
from wakeful.stores.payloads import LARGE
from wakeful.stores.request import Actor
from wakeful.stores.verbs.approvals import AnswerApproval
from wakeful.stores.verbs.cancel import CancelRun
from wakeful.stores.verbs.commit import ReleaseRun
from wakeful.stores.verbs.fork import ForkRun
from wakeful.stores.verbs.redo import RedoRun
from wakeful.stores.verbs.settling import SettleEffect

pytest.importorskip("cryptography")

KEY = urlsafe_b64encode(bytes([7]) * 32).decode()


@pytest.fixture(autouse=True)
def strict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAKEFUL_ENCRYPTION_KEYS", KEY)
    monkeypatch.setenv("WAKEFUL_ENCRYPTION_STRICT", "1")


async def swap(url: str, table: str, column: str, where: str) -> None:
    """Two rows get each other's ciphertext."""
    key = {"wakeful_step": "run_seq"}.get(table, "seq")
    (first, one), (second, other) = await query(url, f"select {key}, {column} from {table} where {where} order by 1")
    for row, text in ((first, other), (second, one)):
        await query(url, f"update {table} set {column} = $1 where {key} = $2 and {where}", text, row)


def is_held(run: dict[str, Any], place: str) -> bool:
    return run["state"] == "held" and f"tampered with: {place}" in run["reason"]


async def alarms_of(runtime) -> str:
    return " ".join(one["text"] for one in (await runtime.reader.alarms())["alarms"])


@pytest.fixture
def transfers(new_app: NewApp) -> tuple[App, list[Any]]:
    app, done = new_app(), []

    @app.agent(on("go"))
    async def transfer(run: Run) -> None:
        done.append(run.event.data)

    return app, done


async def test_the_ciphertext_of_another_event_does_not_run(transfers, store_url: str):
    app, done = transfers
    first, second = await app.emit("go", "one"), await app.emit("go", "two")
    await swap(store_url, "wakeful_event", "envelope", "1 = 1")
    async with working(app) as runtime:
        runs = [await ended(runtime, receipt) for receipt in (first, second)]
        assert all(is_held(run, "wakeful_event.envelope") for run in runs)
        assert done == []
        assert "wakeful_event.envelope" in await alarms_of(runtime)
        assert "wakeful_event.envelope" in str(await runtime.reader.why(runs[0]["id"]))
        await swap(store_url, "wakeful_event", "envelope", "1 = 1")  # put right from a backup
        for run in runs:
            await runtime.store.do(RedoRun(run["id"], by=Actor("ada", "code")))
        assert [(await ended(runtime, receipt))["state"] for receipt in (first, second)] == ["done", "done"]
        assert sorted(done) == ["one", "two"]


async def test_plain_json_in_the_place_of_an_event_does_not_run(transfers, store_url: str):
    app, done = transfers
    receipt = await app.emit("go", "mine")
    forged = '{"specversion":"1.0","id":"1","source":"/x","type":"go","data":"forged"}'
    await query(store_url, "update wakeful_event set envelope = $1", forged)
    async with working(app) as runtime:
        run = await ended(runtime, receipt)
        assert is_held(run, "wakeful_event.envelope")
        assert "plain text" in run["reason"]
        assert "forged" not in str(await runtime.reader.why(run["id"]))
        assert done == []


async def test_a_run_that_was_moved_to_another_app_does_not_run(transfers, new_app: NewApp, store_url: str):
    app, done = transfers
    other = new_app("other")

    @other.agent(on("go"))
    async def transfer(run: Run) -> None:
        done.append(run.event.data)

    receipt = await app.emit("go", "mine")
    await query(store_url, "update wakeful_run set app = 'other'")
    async with working(other) as runtime:
        assert is_held(await ended(runtime, receipt), "wakeful_event.envelope")
        assert done == []


@pytest.mark.parametrize("forged", ["swapped", '"forged"'])
async def test_the_result_of_a_step_of_another_run_is_not_returned(new_app: NewApp, store_url: str, forged: str):
    app, seen = new_app(), []

    async def look_up(name: str) -> str:
        return name

    @app.agent(on("go"))
    async def handle(run: Run) -> None:
        found = await run.step(look_up, run.event.data)
        await run.sleep("1h")
        seen.append(found)

    async with working(app) as runtime:
        receipts = [await app.emit("go", name) for name in ("ada", "bob")]
        await runtime.drain()
        if forged == "swapped":
            await swap(store_url, "wakeful_step", "result", "name = 'look_up'")
        else:
            await query(store_url, "update wakeful_step set result = $1 where name = 'look_up'", forged)
        await pass_time(runtime, "2h")
        assert all([is_held(await the_run(runtime, one), "wakeful_step.result") for one in receipts])
        assert seen == []


async def test_the_arguments_of_an_effect_are_those_that_were_stored(new_app: NewApp, store_url: str):
    app, paid = new_app(), []

    @action(safety="idempotent")
    async def pay(op: Operation, to: str) -> None:
        paid.append(to)

    @app.agent(on("go"))
    async def handle(run: Run) -> None:
        await run.act(pay, run.event.data)
        await run.sleep("1h")
        await run.act(pay, run.event.data)

    async with working(app) as runtime:
        receipt = await app.emit("go", "ada")
        await runtime.drain()
        await query(store_url, "update wakeful_effect set arguments = $1", '["mallory"]')
        await pass_time(runtime, "2h")
        assert is_held(await the_run(runtime, receipt), "wakeful_effect.arguments")
        assert paid == ["ada"]


async def test_a_message_that_was_replaced_does_not_leave(new_app: NewApp, store_url: str):
    sent: list[Any] = []

    class Listening(Channel):
        async def deliver(self, messages: Sequence[Message]) -> None:
            sent.extend(message.body for message in messages)
            if len(sent) == 1:
                raise ConnectionError

    app = new_app(channels={"out": Listening()})

    @app.agent(on("go"))
    async def handle(run: Run) -> None:
        run.send("out", run.event.data)

    async with working(app) as runtime:
        receipt = await app.emit("go", "mine")
        await runtime.drain()
        await query(store_url, "update wakeful_delivery set message = $1", '"forged"')
        await pass_time(runtime, "1h")
        run = await the_run(runtime, receipt)
        assert [one["state"] for one in run["deliveries"]] == ["dead"]
        assert "wakeful_delivery.message" in run["deliveries"][0]["error"]["message"]
        assert sent == ["mine"]
        assert "wakeful_delivery.message" in await alarms_of(runtime)


async def test_an_event_that_was_replaced_ends_no_wait(new_app: NewApp, store_url: str):
    app, heard = new_app(), []

    @app.agent(on("go"))
    async def handle(run: Run) -> None:
        await run.sleep("1h")
        heard.append((await run.wait_for("told", timeout="1d")).data)

    async with working(app) as runtime:
        receipt = await app.emit("go")
        await runtime.drain()
        await app.emit("told", "truth")
        await query(
            store_url,
            "update wakeful_event set envelope = $1 where type = 'told'",
            '{"specversion":"1.0","id":"1","source":"/x","type":"told","data":"forged"}',
        )
        await pass_time(runtime, "2h")
        assert (await the_run(runtime, receipt))["state"] == "waiting"
        await app.emit("told", "truth again")
        await runtime.drain()
        assert heard == ["truth again"]


async def test_a_schedule_whose_data_was_replaced_does_not_fire(new_app: NewApp, store_url: str):
    app, seen = new_app(), []

    @app.agent(every("1h"))
    async def handle(run: Run) -> None:
        seen.append(run.event.data)

    async with working(app) as runtime:
        await query(store_url, "update wakeful_schedule set data = $1", '"forged"')
        await pass_time(runtime, "90m")
        assert seen == []
        assert "wakeful_schedule.data" in await alarms_of(runtime)
        await query(store_url, "update wakeful_schedule set data = null")
        await pass_time(runtime, "1h")
        assert seen != []


async def test_a_state_that_was_replaced_is_not_read(new_app: NewApp, store_url: str):
    class Balance(BaseModel):
        value: int = 0

    app, seen = new_app(), []

    @app.agent(on("go"), state=Balance)
    async def handle(run: Run) -> None:
        seen.append(run.state.value)
        run.state.value += 1

    async with working(app) as runtime:
        await ended(runtime, await app.emit("go"))
        genuine = (await query(store_url, "select value from wakeful_state"))[0][0]
        await query(store_url, "update wakeful_state set value = $1", '{"value": 1000}')
        held = await app.emit("go")
        assert is_held(await ended(runtime, held), "wakeful_state.value")
        await query(store_url, "update wakeful_state set value = $1", genuine)
        await runtime.store.do(RedoRun(held.runs[0], by=Actor("ada", "code")))
        await runtime.drain()
        assert seen == [0, 1]


async def test_a_run_that_is_held_for_it_can_be_given_up(transfers, store_url: str):
    app, done = transfers
    receipt = await app.emit("go", "mine")
    await query(store_url, "update wakeful_event set envelope = $1", "@sealed:")
    async with working(app) as runtime:
        assert is_held(await ended(runtime, receipt), "wakeful_event.envelope")
        await runtime.store.do(RedoRun(receipt.runs[0], discard=True, by=Actor("ada", "code")))
        assert (await ended(runtime, receipt))["state"] == "cancelled"
        assert done == []


async def test_a_release_is_refused_and_the_run_is_cancelled(transfers, store_url: str):
    app, done = transfers
    receipt = await app.emit("go", "mine")
    await query(store_url, "update wakeful_event set envelope = $1", "@sealed:")
    async with working(app) as runtime:
        run = await ended(runtime, receipt)
        released = await runtime.store.do(ReleaseRun(run["id"], by=Actor("ada", "code")))
        assert released is not None
        assert "is held for tampering" in (released.refused or "")
        await runtime.store.do(CancelRun(run["id"], by=Actor("ada", "code")))
        assert (await ended(runtime, receipt))["state"] == "cancelled"
        assert done == []


async def test_what_a_run_had_promised_is_done_when_it_is_replayed(new_app: NewApp, store_url: str):
    """It was held after its commit: the handler does not run again, and would not stage its effects anew."""
    app, paid = new_app(), []

    @action(safety="idempotent")
    async def pay(op: Operation, to: str) -> None:
        paid.append(to)
        if len(paid) == 1:
            raise Transient("not now", retry_after="1h")

    @app.agent(on("go"))
    async def handle(run: Run) -> None:
        run.stage(pay, "ada")
        run.stage(pay, "bob")

    async with working(app) as runtime:
        receipt = await app.emit("go")
        await runtime.drain()
        rows = await query(store_url, "select seq, arguments from wakeful_effect order by seq")
        await query(store_url, "update wakeful_effect set arguments = $1", '["mallory"]')
        await pass_time(runtime, "2h")
        run = await the_run(runtime, receipt)
        assert is_held(run, "wakeful_effect.arguments")
        released = await runtime.store.do(ReleaseRun(run["id"], by=Actor("ada", "code")))
        assert released is not None
        assert "is held for tampering" in (released.refused or "")
        for seq, genuine in rows:
            await query(store_url, "update wakeful_effect set arguments = $1 where seq = $2", genuine, seq)
        await runtime.store.do(RedoRun(run["id"], by=Actor("ada", "code")))
        await runtime.drain()
        assert (await the_run(runtime, receipt))["state"] == "done"
        assert paid == ["ada", "ada", "bob"]


async def test_a_cancelled_run_undoes_what_it_did_once_its_row_is_restored(new_app: NewApp, store_url: str):
    app, booked = new_app(), []

    async def unbook(op: Operation, room: str) -> None:
        booked.remove(room)

    @action(safety="idempotent", undo=unbook)
    async def book(op: Operation, room: str) -> None:
        booked.append(room)

    @app.agent(on("go"))
    async def handle(run: Run) -> None:
        await run.act(book, "blue")
        await run.sleep("1h")

    async with working(app) as runtime:
        receipt = await app.emit("go")
        await runtime.drain()
        ((genuine,),) = await query(store_url, "select envelope from wakeful_event")
        await query(store_url, "update wakeful_event set envelope = $1", "@sealed:")
        await pass_time(runtime, "2h")
        await runtime.store.do(CancelRun(receipt.runs[0], by=Actor("ada", "code")))
        await runtime.drain()
        assert is_held(await the_run(runtime, receipt), "wakeful_event.envelope")
        assert booked == ["blue"]
        await query(store_url, "update wakeful_event set envelope = $1", genuine)
        await runtime.store.do(RedoRun(receipt.runs[0], by=Actor("ada", "code")))
        await runtime.drain()
        assert (await the_run(runtime, receipt))["state"] == "cancelled"
        assert booked == []


async def test_the_output_of_a_run_is_what_it_returned(new_app: NewApp, store_url: str):
    app = new_app()

    @app.agent(on("go"))
    async def handle(run: Run) -> str:
        return "mine"

    async with working(app) as runtime:
        receipt = await app.emit("go")
        await runtime.drain()
        assert await app.result(receipt) == "mine"
        await query(store_url, "update wakeful_run set output = $1", '"forged"')
        with pytest.raises(PayloadTampered, match=r"wakeful_run\.output"):
            await app.result(receipt)
        assert "forged" not in str(await the_run(runtime, receipt))
        await runtime.sealing.run_once()
        await runtime.drain()
        assert "wakeful_run.output" in await alarms_of(runtime)


async def test_a_fork_and_a_second_run_have_their_own_ciphertexts(new_app: NewApp, store_url: str):
    """Rows that are made out of others are sealed for their own places, large ones in blobs of their own."""
    app, calls = new_app(), []
    large = "x" * (LARGE + 1)

    async def first(text: str) -> str:
        calls.append("first")
        return text * 2

    async def second(text: str) -> int:
        calls.append("second")
        return len(text)

    @app.agent(on("go"))
    async def handle(run: Run) -> int:
        return await run.step(second, await run.step(first, run.event.data))

    async with working(app) as runtime:
        receipt = await app.emit("go", large)
        run = await ended(runtime, receipt)
        assert run["output"] == 2 * len(large)
        key = next(row[0] for row in await query(store_url, "select key from wakeful_step where name = 'second'"))
        forked = await runtime.store.do(ForkRun(run["id"], key, "second", by=Actor("ada", "code")))
        await runtime.drain()
        again = await runtime.store.do(RedoRun(run["id"], data=f'"{large}y"', again=True, by=Actor("ada", "code")))
        await runtime.drain()
        assert calls == ["first", "second", "second", "first", "second"]
        assert forked is not None
        assert again is not None
        outputs = [((await runtime.reader.run(one.run)) or {})["output"] for one in (forked, again)]
        assert outputs == [2 * len(large), 2 * len(large) + 2]
        third = await runtime.store.do(RedoRun(again.run, again=True, by=Actor("ada", "code")))
        await runtime.drain()
        assert third is not None
        assert ((await runtime.reader.run(third.run)) or {})["output"] == 2 * len(large) + 2


# what a step that is not done yet has noted is no result


async def asked(app: App, url: str, result: str, state: str) -> tuple[dict[str, Any], list[Any], str]:
    """A run waits for an answer, is made to believe that it has one, and goes on: (the run, what it was answered, alarms)."""
    heard: list[Any] = []

    @app.agent(on("go"))
    async def pay(run: Run) -> None:
        heard.append(await run.ask("free?"))

    async with working(app) as runtime:
        receipt = await app.emit("go")
        await runtime.drain()
    await query(url, f"update wakeful_step set state = '{state}', result = {result} where name = 'ask'")
    await query(url, "update wakeful_run set state = 'ready', due_at = 0")
    async with working(app) as runtime:
        run = await ended(runtime, receipt)
        await runtime.sealing.run_once()
        await runtime.drain()
        return run, heard, await alarms_of(runtime)


@pytest.mark.parametrize("state", ["done", "fact", "retrying"])
async def test_the_note_of_a_question_is_no_answer(new_app: NewApp, store_url: str, state: str):
    run, heard, alarms = await asked(new_app(), store_url, "result", state)
    assert heard == []
    assert is_held(run, "wakeful_step.result")
    assert "wakeful_step.result" in alarms


@pytest.mark.parametrize(
    ("nothing", "state"), [("null", "done"), ("''", "done"), ("null", "retrying"), ("null", "fact")]
)
async def test_a_result_that_was_taken_away_is_no_answer(new_app: NewApp, store_url: str, nothing: str, state: str):
    run, heard, alarms = await asked(new_app(), store_url, nothing, state)
    assert heard == []
    assert is_held(run, "wakeful_step.result")
    assert "wakeful_step.result" in alarms


async def test_the_note_of_a_question_that_an_earlier_version_asked_is_no_answer(
    new_app: NewApp, store_url: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("wakeful.execution.waiting.note", str)
    run, heard, _ = await asked(new_app(), store_url, "result", "done")
    assert heard == []
    assert is_held(run, "wakeful_step.result")


async def test_the_note_of_a_step_that_is_tried_again_is_no_result(new_app: NewApp, store_url: str):
    app, seen = new_app(), []

    async def look_up() -> int:
        raise ConnectionError

    @app.agent(on("go"))
    async def handle(run: Run) -> None:
        seen.append(await run.step(look_up))

    async with working(app) as runtime:
        receipt = await app.emit("go")
        await pass_time(runtime, "1h")
        assert await query(store_url, "select 1 from wakeful_step where state = 'retrying'")
        await query(store_url, "update wakeful_step set state = 'done', error = null")
        await pass_time(runtime, "1h")
        assert is_held(await the_run(runtime, receipt), "wakeful_step.result")
        assert seen == []


async def test_the_output_of_a_called_run_that_was_taken_away_is_not_returned(new_app: NewApp, store_url: str):
    app, seen = new_app(), []

    @app.agent(on("go"))
    async def caller(run: Run) -> None:
        seen.append(await run.call("callee"))

    @app.agent(on("never"))
    async def callee(run: Run) -> None:
        await run.ask("free?")

    async with working(app) as runtime:
        receipt = await app.emit("go")
        await runtime.drain()
        await forge(store_url, "update wakeful_run set state = 'done', output = null where agent = 'callee'")
        await query(store_url, "update wakeful_run set state = 'ready', due_at = 0 where agent = 'caller'")
        await runtime.drain()
        assert is_held(await the_run(runtime, receipt), "wakeful_step.result")
        assert seen == []


# a person's word


async def test_an_answer_to_another_question_is_not_taken_for_this_one(new_app: NewApp, store_url: str):
    """The row of a harmless question is made to point at the step of another one, so that a person would answer both."""
    app, heard = new_app(), []

    @app.agent(on("go"))
    async def pay(run: Run) -> None:
        heard.append(await run.ask(run.event.data))

    async with working(app) as runtime:
        for question in ("Is it noon?", "Pay all of it?"):
            await app.emit("go", question)
        await runtime.drain()
        harmless, costly = reversed((await runtime.reader.approvals())["approvals"])
        assert harmless["question"] == "Is it noon?"
        wanted = "select run_seq from wakeful_approval where id = $1"
        ((seq,),) = await query(store_url, wanted, costly["id"])
        ((key,),) = await query(store_url, wanted.replace("run_seq", "key"), costly["id"])
        await query(store_url, "update wakeful_approval set key = key || '.' where id = $1", costly["id"])
        change = "update wakeful_approval set run_seq = $1, key = $2 where id = $3"
        await query(store_url, change, seq, key, harmless["id"])
        with pytest.raises(PayloadTampered, match=r"points at a step of run .* that did not ask for it"):
            await runtime.store.do(AnswerApproval(harmless["id"], "true", by=Actor("ada", "code")))
        await runtime.drain()
        assert heard == []


async def test_an_answer_in_the_question_alone_is_not_heard(new_app: NewApp, store_url: str):
    """As a run that asks again finds it: the state says that a person answered, and the answer is not one."""
    app, heard = new_app(), []

    @app.agent(on("go"))
    async def pay(run: Run) -> None:
        heard.append(await run.ask("free?"))

    async with working(app) as runtime:
        receipt = await app.emit("go")
        await runtime.drain()
        for answer in ("'true'", "question", "null"):
            await query(store_url, f"update wakeful_approval set state = 'answered', answer = {answer}")
            await query(store_url, "delete from wakeful_step")
            await query(store_url, "update wakeful_run set state = 'ready', due_at = 0")
            await runtime.drain()
            assert (await the_run(runtime, receipt))["state"] == "waiting"
            assert heard == []


def paying(app: App, *, holds: bool) -> list[str]:
    """An agent whose payment is held: before it is called, or because what became of it is not known."""
    paid: list[str] = []

    def is_fine(amount: int) -> bool:
        return not holds

    @action(safety="at_most_once", checks=[is_fine])
    async def pay(operation: Operation, amount: int) -> None:
        paid.append(operation.id)
        raise ConnectionError

    @app.agent(on("go"))
    async def settle(run: Run) -> None:
        await run.act(pay, 7)
        paid.append("went on")

    return paid


@pytest.mark.parametrize("state", ["intent", "unknown", "retrying", "confirmed"])
async def test_an_effect_that_waits_for_a_person_does_not_go_on_by_its_state(
    new_app: NewApp, store_url: str, state: str
):
    app = new_app()
    paid = paying(app, holds=True)
    async with working(app) as runtime:
        receipt = await app.emit("go")
        await runtime.drain()
        assert (await the_run(runtime, receipt))["state"] == "held"
        await forge(store_url, f"update wakeful_effect set state = '{state}', reason = null, settled_by = 'ada'")
        await query(store_url, "update wakeful_run set state = 'ready', due_at = 0")
        run = await ended(runtime, receipt)
        assert is_held(run, "wakeful_effect.state")
        assert paid == []
        await runtime.sealing.run_once()
        await runtime.drain()
        assert "wakeful_effect.state" in await alarms_of(runtime)


async def test_an_effect_is_not_confirmed_by_its_state(new_app: NewApp, store_url: str):
    app = new_app()
    paid = paying(app, holds=False)
    async with working(app) as runtime:
        receipt = await app.emit("go")
        await runtime.drain()
        assert (await the_run(runtime, receipt))["state"] == "held"
        await forge(store_url, "update wakeful_effect set state = 'confirmed', reason = null, settled_by = 'ada'")
        await query(store_url, "update wakeful_run set state = 'ready', due_at = 0")
        assert is_held(await ended(runtime, receipt), "wakeful_effect.state")
        assert "went on" not in paid


@pytest.mark.parametrize(
    ("word", "forged"), [("confirmed", "retrying"), ("abandoned", "retrying"), ("abandoned", "confirmed")]
)
async def test_a_persons_word_about_an_effect_is_not_turned_into_another(
    new_app: NewApp, store_url: str, word: Any, forged: str
):
    app = new_app()
    paid = paying(app, holds=True)
    receipt = await app.emit("go")
    async with working(app) as runtime:
        await runtime.drain()
    ((effect,),) = await query(store_url, "select id from wakeful_effect")
    async with working(app, worker=False) as runtime:
        assert await runtime.store.do(SettleEffect(effect, word, by=Actor("ada", "code")))
    await forge(store_url, f"update wakeful_effect set state = '{forged}'")
    async with working(app) as runtime:
        assert is_held(await ended(runtime, receipt), "wakeful_effect.state")
        assert paid == []


@pytest.mark.parametrize(
    ("word", "became", "paid_for"), [("confirmed", "done", []), ("retrying", "held", [1]), ("abandoned", "dead", [])]
)
async def test_a_persons_word_about_an_effect_counts(
    new_app: NewApp, store_url: str, word: Any, became: str, paid_for: list[int]
):
    app = new_app()
    paid = paying(app, holds=True)
    async with working(app) as runtime:
        receipt = await app.emit("go")
        await runtime.drain()
        ((effect,),) = await query(store_url, "select id from wakeful_effect")
        assert await runtime.store.do(SettleEffect(effect, word, by=Actor("ada", "code")))
        run = await ended(runtime, receipt)
        assert run["state"] == became
        assert "tampered" not in (run["reason"] or "")
        assert [1 for one in paid if one != "went on"] == paid_for
        assert ("went on" in paid) == (word == "confirmed")
