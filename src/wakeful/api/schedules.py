"""Schedules: looked at, and changed by a person. Those of other apps can be looked at; only the server's own are changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic_core import from_json
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from wakeful.api.ports import Agents, Reader, Scheduling, Shown
from wakeful.errors import ConfigError, InvalidData, NotFound, did_you_mean
from wakeful.http.change import Fields, bad_body, read_change
from wakeful.http.guarded import refuse_other_apps
from wakeful.http.parameters import bad_cursor, bad_parameter, is_plain, read_limit, read_parameters, read_state
from wakeful.http.problem import Problem
from wakeful.http.reply import JsonResponse, found
from wakeful.http.security import ApiSettings
from wakeful.model import SCHEDULE_STATES
from wakeful.operations.scheduling import (
    HOURS,
    OPTIONS,
    RULES,
    edited,
    made,
    refuse_foreign,
    refuse_past,
    refuse_removal,
)
from wakeful.stores.timing import StoredSchedule
from wakeful.triggers.schedule import Schedule, as_stored
from wakeful.triggers.schedules import refuse_name

COUNT_DEFAULT = 5
COUNT_LARGEST = 1_000
SHOWN_OF_A_NAME = 200
CHANGED = ("note",)


def schedule_routes(reader: Reader, schedules: Scheduling, agents: Agents, settings: ApiSettings) -> list[Route]:
    async def listing(request: Request) -> Response:
        given = read_parameters(request.query_params, ("app", "agent", "state", "all", "limit", "after"))
        if given.get("all", "false") not in {"true", "false"}:
            raise bad_parameter("all is true or false", "all")
        try:
            page = await reader.schedules(
                app=given.get("app"),
                agent=given.get("agent"),
                state=read_state(given, sorted(SCHEDULE_STATES)),
                whole=given.get("all") == "true",
                limit=read_limit(given),
                after=given.get("after"),
            )
        except ValueError:
            raise bad_cursor() from None
        return JsonResponse(page)

    async def show(request: Request) -> Response:
        app = read_parameters(request.query_params, ("app",)).get("app") or agents.name
        return found(await one(request.path_params["name"], app), "schedule")

    async def upcoming(request: Request) -> Response:
        given = read_parameters(request.query_params, ("app", "count"))
        name, app = request.path_params["name"], given.get("app") or agents.name
        instants = await reader.schedule_instants(name, app, read_count(given)) if is_plain(name) else None
        return found(instants, "schedule")

    async def add(request: Request) -> Response:
        change = await read_change(request, settings, ("name", "agent", *OPTIONS, "data", "note"))
        name, agent = required(change.fields, "name"), required(change.fields, "agent")
        try:
            refuse_name(name)
        except ConfigError as error:
            raise bad_body(str(error), "name") from None
        agents.refuse_unknown(agent)
        schedule = read_schedule(made, change.fields)
        refuse_misfit(agent, change.fields.given.get("data"))
        data, note = change.fields.given.get("data"), change.fields.text("note")
        try:
            refuse_past(schedule, await reader.time())
            await schedules.add(name, schedule, agent, data=data, by=change.by, note=note)
        except ConfigError as error:
            raise refused(error) from None
        return JsonResponse(await one(name, agents.name))

    async def edit(request: Request) -> Response:
        change = await read_change(request, settings, ("agent", *OPTIONS, "data", "note"))
        stored = await known(request)
        agent, given = change.fields.text("agent"), change.fields.given
        refuse_others(stored, "edit")
        before = as_stored(stored.definition)
        schedule = read_schedule(lambda options: edited(before, options) or before, change.fields)
        if agent is not None:
            agents.refuse_unknown(agent)
        carried = None if stored.data is None else from_json(stored.data)
        refuse_misfit(agent or stored.agent, given.get("data", carried))
        changes = {name for name in given if name != "note"}
        if not changes:
            raise bad_body("nothing is given that would change", "body")
        try:
            refuse_past(schedule, await reader.time())
            await schedules.edit(
                stored.name,
                (lambda now: edited(now, read_options(change.fields))) if changes & set(OPTIONS) else None,
                agent=agent,
                data=given.get("data", ...),
                by=change.by,
                note=change.fields.text("note"),
            )
        except ConfigError as error:
            raise refused(error) from None
        return JsonResponse(await one(stored.name, agents.name))

    async def remove(request: Request) -> Response:
        change = await read_change(request, settings, CHANGED)
        stored = await known(request)
        try:
            await refuse_removal(reader, stored, written_at=agents.written_at(stored.agent))
            await schedules.remove(stored.name, by=change.by, note=change.fields.text("note"))
        except ConfigError as error:
            raise refused(error) from None
        return JsonResponse(await one(stored.name, agents.name))

    async def pause(request: Request) -> Response:
        return await changed(request, schedules.pause)

    async def resume(request: Request) -> Response:
        await refuse_other_apps(settings, [agents.name])
        return await changed(request, schedules.resume)

    async def changed(request: Request, verb: Any) -> Response:
        change = await read_change(request, settings, CHANGED)
        stored = await known(request)
        if stored.origin == "reminder":
            refuse_others(stored, "change")
        try:
            await verb(stored.name, by=change.by, note=change.fields.text("note"))
        except ConfigError as error:
            raise refused(error) from None
        return JsonResponse(await one(stored.name, agents.name))

    async def fire(request: Request) -> Response:
        change = await read_change(request, settings, CHANGED)
        stored = await known(request)
        try:
            receipt = await schedules.fire(stored.name, by=change.by, note=change.fields.text("note"))
        except ConfigError as error:
            raise refused(error) from None
        return JsonResponse(
            {
                "app": agents.name,
                "name": stored.name,
                "event": receipt.id,
                "status": receipt.status,
                "runs": receipt.runs,
            }
        )

    # what they share

    async def one(name: str, app: str) -> Shown | None:
        return await reader.schedule(name, app) if is_plain(name) else None

    async def known(request: Request) -> StoredSchedule:
        """The schedule of this server's app that the path names."""
        name = request.path_params["name"]
        stored = await schedules.find(name) if is_plain(name) else None
        if stored is None or stored.state == "removed":
            there = [one.name for one in await schedules.all() if one.state != "removed" and one.origin != "reminder"]
            message = f'app {agents.name} has no schedule "{name[:SHOWN_OF_A_NAME]}".{did_you_mean(name, there)}'
            raise NotFound(message)
        return stored

    def refuse_others(stored: StoredSchedule, verb: str) -> None:
        try:
            refuse_foreign(stored, verb, written_at=agents.written_at(stored.agent))
        except ConfigError as error:
            raise refused(error) from None

    def refuse_misfit(agent: str, data: Any) -> None:
        try:
            agents.refuse_misfit(agent, data)
        except InvalidData as error:
            title = "The data does not fit"
            raise Problem(422, str(error), kind="data-does-not-fit", title=title, field="data") from None

    # The longer paths come first: a name may have a slash in it, as those of heartbeats do.
    return [
        Route("/v1/schedules", listing, name="schedules"),
        Route("/v1/schedules", add, methods=["POST"], name="add_schedule"),
        Route("/v1/schedules/{name:path}/next", upcoming, name="next_of_schedule"),
        Route("/v1/schedules/{name:path}/fire", fire, methods=["POST"], name="fire_schedule"),
        Route("/v1/schedules/{name:path}/pause", pause, methods=["POST"], name="pause_schedule"),
        Route("/v1/schedules/{name:path}/resume", resume, methods=["POST"], name="resume_schedule"),
        Route("/v1/schedules/{name:path}", show, name="schedule"),
        Route("/v1/schedules/{name:path}", edit, methods=["PATCH"], name="edit_schedule"),
        Route("/v1/schedules/{name:path}", remove, methods=["DELETE"], name="remove_schedule"),
    ]


def read_schedule(build: Any, fields: Fields) -> Schedule:
    """The options of a body as a schedule; 400 for what cannot be meant."""
    given = read_options(fields)
    try:
        schedule: Schedule = build(given)
    except ConfigError as error:
        raise bad_body(str(error), guilty(given)) from None
    return schedule


def read_options(fields: Fields) -> dict[str, Any]:
    """Those that are there; null takes one away."""
    given: dict[str, Any] = {}
    for option in OPTIONS:
        if option not in fields.given:
            continue
        value = fields.given[option]
        if option == "max_count":
            if value is not None and (type(value) is not int or not 1 <= value <= 100_000):
                raise fields.refusal(option, "is a whole number from 1 to 100,000")
            given[option] = value
        else:
            given[option] = fields.text(option)
        if value is None and option in {*RULES, "tz"}:
            raise fields.refusal(option, "cannot be taken away: give another one, or leave it out")
    return given


def guilty(given: Mapping[str, Any]) -> str:
    """The field that is most likely meant by what is wrong."""
    return next((one for one in (*RULES, *HOURS, "tz") if one in given), next(iter(given), "cron"))


def required(fields: Fields, name: str) -> str:
    value = fields.text(name)
    if value is None:
        raise fields.refusal(name, "is missing")
    return value


def read_count(given: Mapping[str, str]) -> int:
    text = given.get("count")
    if text is None:
        return COUNT_DEFAULT
    if not (text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= COUNT_LARGEST):
        raise bad_parameter(f"count is a number from 1 to {COUNT_LARGEST:,}", "count")
    return int(text)


def refused(error: ConfigError) -> Problem:
    title = "The schedule cannot be changed like that"
    return Problem(409, str(error), kind="schedule-refused", title=title)
