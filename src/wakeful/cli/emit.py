"""emit: send an event, directly to a store through its app, or to a running server."""

from __future__ import annotations

import argparse
import asyncio
from typing import TYPE_CHECKING, Any

from wakeful.cli.posting import add_url, post, refusal
from wakeful.errors import StoreUnavailable, WakefulError, did_you_mean
from wakeful.intake.cloudevents import new_event, to_envelope
from wakeful.model import Event
from wakeful.resources import events
from wakeful.resources.desk import looking
from wakeful.resources.processes import living
from wakeful.shell.arguments import (
    Command,
    Parser,
    UsageError,
    actor_of,
    add_data,
    add_json,
    add_store,
    app_and,
    read_data,
)
from wakeful.shell.opening import sending
from wakeful.shell.terminal import SHOWN_OF_AN_ID, plain, print_json, say
from wakeful.stores.verbs.sending import SentBy

if TYPE_CHECKING:
    from wakeful.declarations import Declarations

SOURCE = "/cli"
PATH = "/v1/events"


def declare(parser: Parser) -> None:
    parser.add_argument(
        "words",
        metavar="APP TYPE",
        nargs="+",
        help="the app (default: WAKEFUL_APP, else ./app.py) and the event type; with --url only the type",
    )
    add_data(parser)
    parser.add_argument(
        "--id", metavar="ID", help="the event id (default: a new one); a repeated source and id counts as a duplicate"
    )
    parser.add_argument("--source", metavar="SOURCE", default=SOURCE, help=f"the event source (default: {SOURCE})")
    parser.add_argument("--subject", metavar="TEXT", help="the event subject, what it is about")
    parser.add_argument(
        "--set",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="set another attribute, like expirytime=2030-01-01T00:00:00Z; repeatable",
    )
    add_url(parser, "send the event to this server instead of the store")
    add_store(parser)
    add_json(parser)


def execute(arguments: argparse.Namespace) -> int:
    if arguments.url:
        return _post(arguments)
    arguments.words = list(app_and(arguments.words, like="emit TYPE ticket.created"))
    from wakeful.loading import load_app
    from wakeful.telemetry.logs import configure_logs

    event = _event(arguments, arguments.words[1])
    configure_logs(level="none")  # the answer says what matters
    app = load_app(arguments.words[0])
    answer, reason, workers = asyncio.run(_emit(app, arguments, event))
    _show(arguments, answer, reason)
    if not arguments.json and answer["runs"] and answer["status"] == "accepted" and not workers:
        say(
            f"no worker is alive on this store: run `wakeful once {arguments.words[0]}` or `wakeful serve {arguments.words[0]}`"
        )
    if not arguments.json and answer["status"] == "unmatched":
        types = {trigger.type for agent in app.agents.values() for trigger in agent.triggers}
        say(f"the event is stored, but nothing ran: {reason}.{did_you_mean(event.type, types)}")
    return 0


emit_command = Command(declare, execute, usage="[options] APP TYPE")


async def _emit(
    app: Declarations, arguments: argparse.Namespace, event: Event
) -> tuple[dict[str, Any], str | None, int]:
    async with sending(app, arguments.store) as runtime:
        sent = SentBy(actor_of(arguments), "emit", f"{event.type} from {event.source}")
        receipt = (await runtime.door.accept([event], sent=sent))[0]
        workers = len(await living(looking(runtime.reader)))
        stored = await events.find(looking(runtime.reader), event.id) if receipt.status == "unmatched" else None
        return receipt.to_json(), stored["reason"] if stored else None, workers


def _event(arguments: argparse.Namespace, kind: str) -> Event:
    attributes: dict[str, Any] = {}
    for text in arguments.set:
        name, found, value = text.partition("=")
        if not found:
            raise UsageError(f'--set {text}: write NAME=VALUE, like --set expirytime="2030-01-01T00:00:00Z"')
        if name in {"id", "source", "type", "subject", "data", "specversion"}:
            raise UsageError(f"--set {text}: {name} has its own option or is set automatically")
        attributes[name] = value
    try:
        return new_event(
            kind,
            read_data(arguments.data),
            source=arguments.source,
            id=arguments.id,
            subject=arguments.subject,
            **attributes,
        )
    except UsageError:
        raise
    except WakefulError as error:
        raise UsageError(f"emit: {error}") from None


def _show(arguments: argparse.Namespace, answer: dict[str, Any], _reason: str | None = None) -> None:
    if arguments.json:
        print_json({"events": [answer]})
        return
    runs = answer["runs"]
    became = f" → run {', '.join(run[:SHOWN_OF_AN_ID] for run in runs)}" if runs else ""
    print(f"{answer['status']} {plain(answer['id'])}{became}")
    for agent, reason in answer.get("skipped", {}).items():
        say(f"skipped by agent {plain(agent)}: {plain(reason)}")
    if answer.get("conflict"):
        say(
            f"this id was used before with different content; the first event is kept, see `wakeful why {answer['id']}`"
        )


# to a server


def _post(arguments: argparse.Namespace) -> int:
    if len(arguments.words) != 1:
        raise UsageError("emit --url takes only TYPE: the server has the app")
    if arguments.store or arguments.operator:
        raise UsageError("emit --url does not take --store or --as: the server has its own store")
    event = _event(arguments, arguments.words[0])
    kind = "application/cloudevents+json"
    try:
        response = post(arguments.url, PATH, to_envelope(event), kind=kind, insecure=arguments.insecure)
    except StoreUnavailable as error:
        message = f"{error} Retry safely with --id {event.id}"
        raise StoreUnavailable(message) from None
    if response.status_code != 202:
        raise WakefulError(refusal(arguments.url, PATH, response))
    _show(arguments, response.json()["events"][0])
    return 0
