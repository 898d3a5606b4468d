"""Changing schedules at run time: options become a rule, the agent and app are found, and foreign schedules are refused. The
command line and the HTTP API share this.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from wakeful.clock import Microseconds
from wakeful.errors import ConfigError, NotFound, did_you_mean
from wakeful.model import OWN_AGENTS
from wakeful.stores.known import known_apps, loaded_last
from wakeful.stores.reads import ReadsDatabase
from wakeful.triggers.at import At, at
from wakeful.triggers.cron import Cron, cron
from wakeful.triggers.every import Every, every
from wakeful.triggers.occurrences import is_span, zone_of
from wakeful.triggers.schedule import TIMING_FIELDS, Schedule, Timing, read_timing
from wakeful.triggers.zones import local, zone_named

RULES = ("cron", "every", "at")
HOURS = ("active", "days")
# All options of a schedule; None removes one.
OPTIONS = (*RULES, "tz", *HOURS, *TIMING_FIELDS)

Given = Mapping[str, Any]
Shown = Mapping[str, Any]  # a schedule as its view


# rules


def made(given: Given) -> Schedule:
    """A schedule from options. Raises ConfigError for options that conflict or are missing."""
    kinds = _kinds(given)
    if not kinds:
        message = 'a schedule needs a rule: give cron ("0 8 * * 1-5"), every ("30m") or at ("2026-12-24T18:00")'
        raise ConfigError(message)
    options = {name: given[name] for name in TIMING_FIELDS if given.get(name) is not None}
    return _built(kinds[0], given[kinds[0]], given, options)


def edited(before: Schedule, given: Given) -> Schedule | None:
    """The schedule with the given options changed; None if none is given. Raises ConfigError for options that conflict."""
    if not any(option in given for option in OPTIONS):
        return None
    kinds = _kinds(given)
    rule, zone = before.rule, zone_of(before)
    kind, value = (kinds[0], given[kinds[0]]) if kinds else (rule.kind, _value(before))
    wanted = {**given, "tz": given.get("tz") or zone}
    schedule = _built(kind, value, wanted, _options(before.timing, given))
    if isinstance(rule, Every) and isinstance(schedule.rule, Every):
        kept = {field: getattr(rule, field) for field in HOURS if field not in given}
        schedule = replace(schedule, rule=replace(schedule.rule, **kept))
    return schedule


def refuse_past(schedule: Schedule, now: Microseconds) -> None:
    """Raise ConfigError for a schedule that would never fire."""
    if schedule.rule.next(now) is None:
        message = f"{schedule.rule.describe()} is in the past: it would never fire"
        raise ConfigError(message)


def _kinds(given: Given) -> list[str]:
    kinds = [kind for kind in RULES if given.get(kind) is not None]
    if len(kinds) > 1:
        message = f"a schedule has one rule: give {kinds[0]} or {kinds[1]}"
        raise ConfigError(message)
    return kinds


def _built(kind: str, value: Any, given: Given, options: Mapping[str, Any]) -> Schedule:
    tz = given.get("tz")
    hours = {name: given[name] for name in HOURS if given.get(name) is not None}
    if kind == "every":
        return every(value, tz=tz, **hours, **options)
    if hours:
        message = f"{next(iter(hours))} goes with every, not with {kind}"
        raise ConfigError(message)
    return (cron if kind == "cron" else at)(value, tz=tz, **options)


def _value(before: Schedule) -> Any:
    """The options that a rule was made from. A single local time stays the same local time in another zone."""
    match before.rule:
        case Cron() as rule:
            return rule.expression
        case Every() as rule:
            return timedelta(microseconds=rule.interval)
        case At() as rule:
            return local(rule.moment, zone_named(rule.zone, where="at")).replace(tzinfo=None)
        case other:
            message = f"{other.describe()} cannot be edited: give it another rule"
            raise ConfigError(message)


def _options(timing: Timing, given: Given) -> dict[str, Any]:
    """The original options, overridden by the given ones. Options that were never set follow the new defaults."""
    usual, _ = read_timing({"catch_up": timing.catch_up}, where="schedule")
    catch_up = (given["catch_up"] or "latest") if "catch_up" in given else timing.catch_up
    options: dict[str, Any] = {"catch_up": catch_up}
    for name in TIMING_FIELDS:
        value = getattr(timing, name)
        if name in given:
            options |= {} if given[name] is None else {name: given[name]}
        elif value != getattr(usual, name) and (catch_up == "all" or name not in {"max_age", "max_count"}):
            options[name] = timedelta(microseconds=value) if is_span(name, value) else value
    return options


# permitted changes


def refuse_foreign(shown: Shown, verb: str, *, written_at: str | None = None) -> None:
    """Raise ConfigError for a schedule that belongs to code, to a heartbeat's file, or to a reminder."""
    name, agent = shown["name"], shown["agent"]
    match shown["origin"]:
        case "code":
            place = written_at or f"in the code of app {shown['app']}, and `wakeful check APP` shows where"
            message = (
                f"schedule {name} is declared with agent {agent} ({place}): {verb} it there. "
                f"`wakeful schedules pause {name}` stops it until then"
            )
        case "heartbeat":
            message = f"schedule {name} comes from a heartbeat's file: {verb} it there. `wakeful schedules pause {name}` stops it until then"
        case "reminder":
            message = f"{name} is a reminder: see `wakeful reminders --help` for how to change it"
        case _:
            return
    raise ConfigError(message)


async def refuse_removal(reads: ReadsDatabase, shown: Shown, *, written_at: str | None = None) -> None:
    """As refuse_foreign, but a schedule whose agent is no longer in the code may be removed."""
    if shown["origin"] == "code" and shown["agent"] not in await loaded_last(reads, shown["app"]):
        return
    refuse_foreign(shown, "remove", written_at=written_at)


async def app_for(reads: ReadsDatabase, agent: str, app: str | None) -> tuple[str, bool]:
    """The app whose agent is to be scheduled, and whether the agent is known there. Raises NotFound with a suggestion for an
    unknown agent or app.
    """
    known = await known_apps(reads)
    if app is None:
        having = sorted(name for name, agents in known.items() if agent in agents)
        if len(having) > 1:
            message = f"agent {agent} is in several apps ({', '.join(having)}): choose one with --of NAME"
            raise NotFound(message)
        if not having and len(known) != 1:
            everybody = {one for agents in known.values() for one in agents}
            message = (
                f'there is no agent "{agent}" that has been loaded or has run here.{_guess(agent, everybody)}'
                if known
                else "no app has used this store yet: name one with --of NAME"
            )
            raise NotFound(message)
        app = having[0] if having else next(iter(known))
    if known and app not in known:
        message = f'no app "{app}" has used this store yet.{did_you_mean(app, known)}'
        raise NotFound(message)
    agents = await loaded_last(reads, app) or known.get(app, set())
    if agents and agent not in agents:
        message = f'app {app} has no agent "{agent}".{_guess(agent, agents)}'
        raise NotFound(message)
    return app, bool(agents)


def _guess(agent: str, agents: set[str]) -> str:
    return did_you_mean(agent, [one for one in agents if not one.startswith(OWN_AGENTS)])
