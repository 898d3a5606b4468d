"""A bulk verb on the command line: count, then work slice by slice with a progress line until nothing is left."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from wakeful.errors import NotFound
from wakeful.operations.pace import Pace
from wakeful.resources.declare import Bulk, Planned, Resource
from wakeful.resources.desk import Course, Desk
from wakeful.resources.given import parameters_of
from wakeful.resources.refusals import Unfit
from wakeful.shell.arguments import UsageError
from wakeful.shell.carrying import ProgressLine, refuse_many, said_stop
from wakeful.shell.life import Stopping, live
from wakeful.shell.logs import start_logs
from wakeful.shell.terminal import print_json, say, terminal
from wakeful.surface.acting import refuse_unallowed
from wakeful.surface.offers import Offer
from wakeful.surface.performing import Asked, author_of, desk_for, perform
from wakeful.surface.table import look_of, print_all


def carry_out(resource: Resource, offer: Offer, asked: Asked) -> int:
    """Plan the work, or do all of it. Ctrl-C stops between two batches; the same command continues."""
    bulk, verb, arguments = asked.kind, offer.verb, asked.arguments
    if bulk is None or verb is None:
        raise AssertionError(offer)
    choice = asked.of(parameters_of(bulk.plan))
    refuse_unchosen(resource, offer, bulk, choice)
    stopped = False
    told: dict[str, Any] = {}

    async def go(stopping: Stopping) -> int:
        nonlocal stopped
        async with desk_for(verb, asked) as desk:
            refuse_unallowed(desk, verb)
            try:
                planned = told["planned"] = await bulk.plan(desk, **choice)
            except Unfit as error:
                raise UsageError(error.typed) from None
            if not planned.count and bulk.none is not None:
                raise NotFound(bulk.none("cli"))
            if not asked.plan:
                desk.by = await author_of(asked, desk, partial(apps_of_many, bulk, desk, planned))
            said = [*planned.said, *([planned.doubt[1]] if planned.doubt is not None else [])]
            if planned.doubt is not None and not (asked.plan or arguments.yes):
                raise NotFound(planned.doubt[0])
            for one in said:
                say(one)
            if bulk.before is not None and not arguments.json:
                for one in bulk.before(planned, look_of(terminal())):
                    say(one)
            if asked.plan:
                return 0
            refuse_many(arguments, planned.count, bulk.many)
            line, pace = ProgressLine(), Pace(arguments.rate, stopping.asked)
            try:
                told["done"] = await bulk.slice(desk, planned, planned.count, pace, line.show)
            finally:
                line.end()
            stopped = pace.cut_short
        return 0

    live(go)
    out, planned, given = terminal(), told["planned"], {**choice, "rate": arguments.rate}
    if asked.plan:
        if arguments.json:
            words = {} if bulk.words is None else {"plan": bulk.words(planned, given)}
            print_json(words | planned.answer | planned.more)
        else:
            print_all(out, bulk.planned(planned, given, look_of(out)))
        return 0
    if arguments.json:
        counted = {bulk.done: told["done"], **planned.more, "of": planned.count}
        print_json({**counted, **planned.last, "stopped": stopped})
    else:
        print_all(out, bulk.says(told["done"], planned, look_of(out)))
    return said_stop(stopped=stopped) or int(planned.failed)


def carry_on(resource: Resource, offer: Offer, asked: Asked) -> int:
    """A long-running verb. Ctrl-C stops it between two batches; the same command continues."""
    line, arguments = ProgressLine(), asked.arguments
    start_logs(arguments)
    stopped = False

    async def go(stopping: Stopping) -> int:
        nonlocal stopped
        pace = Pace(arguments.rate, stopping.asked)
        asked.course = Course(pace, arguments.rate, line.show, arguments.yes, line.end)
        try:
            return await perform(resource, offer, asked)
        finally:
            line.end()
            stopped = pace.cut_short

    code = live(go)
    return said_stop(stopped=stopped) or code


async def apps_of_many(bulk: Bulk, desk: Desk, planned: Planned) -> Iterable[str]:
    return () if bulk.apps is None else await bulk.apps(desk, planned)


def refuse_unchosen(resource: Resource, offer: Offer, bulk: Bulk, choice: dict[str, Any]) -> None:
    if not any(choice.get(name) for name in bulk.some):
        flags = [one.flag for one in offer.choice if one.name in bulk.some]
        message = (
            bulk.which
            or resource.takes_for(offer.word)
            or f"{resource.spoken} {offer.word} takes a {resource.typed}, or for many at once {', '.join(flags)}"
        )
        raise UsageError(message)
