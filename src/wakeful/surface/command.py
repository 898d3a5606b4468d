"""Commands generated from resources: `wakeful NOUN VERB KEY …`.

The verb is found first, anywhere among the options; it has a parser of its own, so that `wakeful circuits close --help` shows the
options of close. An option of another verb is refused with the name of that verb.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from wakeful.errors import did_you_mean
from wakeful.operations.pace import read_rate
from wakeful.operations.redo import MANY
from wakeful.resources import alias_of, resource_of
from wakeful.resources.declare import Bulk, Resource, Verb
from wakeful.resources.given import Given, parameters_of
from wakeful.resources.parameters import UNSET, FileText, FromFile, Typed
from wakeful.resources.refusals import Refused
from wakeful.resources.words import plain
from wakeful.shell.arguments import APP_HELP, Parser, UsageError, Wrapped, add_json, add_logs, add_store, read_data
from wakeful.shell.terminal import say
from wakeful.surface.carrying import carry_on, carry_out
from wakeful.surface.offers import Offer, offers_of
from wakeful.surface.performing import Asked, load_code, perform, perform_several
from wakeful.surface.writing import write_raw

HELP = ("-h", "--help")
UNFIT = 422  # a value does not fit: exits as a usage error


def call(name: str, summary: str, words: Sequence[str]) -> int:
    """Run a command that is a noun, or an alias of one of its verbs."""
    alias = alias_of(name)
    if alias is None:
        return call_noun(resource_of(name), summary, list(words))
    resource = resource_of(alias.noun)
    offers = {one.name: one for one in offers_of(resource)}
    chosen = next((one for one in alias.instead if one[0] in words), None)
    words = words if chosen is None else [one for one in words if one != chosen[0]]
    offer = offers[alias.verb if chosen is None else chosen[1]]
    parser = parser_of(resource, offer, command=name, summary=summary, bare=alias.without_key is not None)
    for flag, _, told in () if chosen is not None else alias.instead:
        parser.add_argument(flag, action="store_true", help=told)
    named = key_is_there(parser, words) or any(one.partition("=")[0] in alias.or_option for one in words)
    if chosen is not None:
        refuse_foreign(resource, offer, parser, words)
    elif alias.without_key is not None and not named and not any(one in HELP for one in words):
        offer = offers[alias.without_key]
        parser = parser_of(resource, offer, command=name, summary=summary)
        refuse_foreign(resource, offer, parser, words)
    arguments = parser.read(list(words))
    if resource.takes_for(offer.word) is None and offer.bulk is None:
        refuse_number(resource, offer, parser, arguments.words)
    return execute(resource, offer, arguments)


def refuse_number(resource: Resource, offer: Offer, parser: Parser, words: Sequence[str]) -> None:
    """The message for a wrong number of arguments, as in commands that are not nouns."""
    named = positionals_of(resource, offer)
    if len(words) > len(named):
        command = parser.prog.removeprefix("wakeful ")
        message = f'{command}: unexpected argument "{plain(words[len(named)])}"; see {parser.prog} --help'
        raise UsageError(message)
    missing = [one for one in named[len(words) :] if not one.startswith("[")]
    if missing:
        usage = parser.format_usage().removeprefix("usage: ").strip()
        raise UsageError(f"{either(missing, 'and')} {'is' if len(missing) == 1 else 'are'} missing: {usage}")


def call_noun(resource: Resource, summary: str, words: list[str]) -> int:
    offers = {one.word: one for one in offers_of(resource)}
    place = place_of_word(resource, words)
    if place is None and any(one in HELP for one in words):
        help_of(resource, summary).print_help()
        return 0
    if place is None or (len(offers) == 1 and words[place] not in offers):
        offer = offers["list"]
    elif words[place] in offers:
        offer = offers[words.pop(place)]
    elif resource.bare:
        offer = offers["show"]
    else:
        raise UsageError(unknown_word(resource, words[place], offers))
    parser = parser_of(resource, offer)
    if offer.kind == "show" and resource.show is not None and resource.show.bare and not key_is_there(parser, words):
        offer = offers["list"]
        parser = parser_of(resource, offer)
    refuse_foreign(resource, offer, parser, words)
    return execute(resource, offer, parser.read(words))


def unknown_word(resource: Resource, word: str, offers: Iterable[str]) -> str:
    """The message for an unknown word after a noun that is mostly listed: it is treated as a misspelt filter."""
    hint = did_you_mean(word, offers)
    if (resource.verbs and not resource.mostly_listed) or "Did" in hint:
        return f'there is no "{resource.spoken} {plain(word)}".{hint}'
    return f'{resource.spoken}: unexpected argument "{plain(word)}"; see wakeful {resource.spoken} --help'


# finding the verb


def place_of_word(resource: Resource, words: Sequence[str]) -> int | None:
    """The position of the first argument that is neither an option nor the value of one."""
    if words and not words[0].startswith("-"):
        return 0
    parsers = [parser_of(resource, offer) for offer in offers_of(resource)]
    with_value = {flag for parser in parsers for flag in value_flags(parser)}
    known = {flag for parser in parsers for flag in parser._option_string_actions}  # noqa: SLF001 argparse has no other way to list them
    skip = False
    for place, word in enumerate(words):
        if skip:
            skip = False
        elif word == "--":
            return place + 1 if place + 1 < len(words) else None
        elif not word.startswith("-"):
            return place
        elif word.partition("=")[0] not in known:
            return None  # the parser of the listing reports it
        else:
            skip = word in with_value
    return None


def key_is_there(parser: Parser, words: Sequence[str]) -> bool:
    with_value = value_flags(parser)
    return any(
        not word.startswith("-") and (place == 0 or words[place - 1] not in with_value)
        for place, word in enumerate(words)
    )


def value_flags(parser: Parser) -> set[str]:
    return {flag for action in parser._actions if action.nargs is None for flag in action.option_strings}  # noqa: SLF001 argparse has no other way to list them


def refuse_foreign(resource: Resource, offer: Offer, parser: Parser, words: Sequence[str]) -> None:
    """Refuse an option of another verb of this noun with that verb's name, and an unknown option with a suggestion."""
    own, with_value = set(parser._option_string_actions), value_flags(parser)  # noqa: SLF001 as above
    for place, word in enumerate(words):
        flag = word.partition("=")[0]
        if word == "--":
            return
        if not flag.startswith("-") or flag in {"-", *own} or " " in flag or (place and words[place - 1] in with_value):
            continue
        flags = {one.word: set(parser_of(resource, one)._option_string_actions) for one in offers_of(resource)}  # noqa: SLF001
        takers = [name for name, known in flags.items() if flag in known]
        if takers:
            said = [given.param.elsewhere for one in offers_of(resource) for given in one.options if given.flag == flag]
            message = (said and said[0]) or f"{flag} is for {either(takers, 'and')}, not for {{word}}"
            message = message.format(word=offer.word)
            raise UsageError(message)
        hint = did_you_mean(flag, set().union(*flags.values()))
        raise UsageError(f'{resource.spoken}: there is no option "{word}".{hint}')


# parsers


def parser_of(
    resource: Resource, offer: Offer, *, command: str | None = None, summary: str | None = None, bare: bool = False
) -> Parser:
    """The parser of one verb; for an alias, with `command` and its summary. `bare`: without a key it is another verb."""
    short = len(offers_of(resource)) == 1
    name = command or (resource.spoken if short else f"{resource.spoken} {offer.word}")
    told = summary or offer.summary
    strict = None if offer.verb is None else offer.verb.usage
    listed = [f"[{one}]" if bare and one[0] != "[" else one for one in positionals_of(resource, offer)]
    parser = Parser(
        prog=f"wakeful {command or resource.spoken}",
        usage=" ".join([f"wakeful {name}", strict or " ".join([*listed, "[options]"])]).replace("%", "%%"),
        description=f"{told[:1].upper()}{told[1:]}.",
        epilog=(offer.verb.more if offer.verb is not None else "") or resource.more or None,
        allow_abbrev=False,
        formatter_class=Wrapped,
    )
    if not short or command is not None:
        told = positional_help(resource, offer) if listed else argparse.SUPPRESS
        metavar = " ".join(listed) if strict is None else " ".join(listed).replace("[", "").replace("]", "")
        parser.add_argument("words", metavar=metavar or None, nargs="*" if strict is None else "+", help=told)
    for one in offer.options:
        add_option(parser, one, required=strict is not None and one.required)
    add_common(parser, offer)
    if offer.kind == "show" and resource.show is not None and resource.show.raw is not None:
        parser.add_argument("--raw", metavar="FILE", help="write the original bytes to FILE; - is standard output")
    if offer.code is not None:
        parser.add_argument("--app", dest="code", metavar="APP", help=f"{offer.code}: {APP_HELP}")
    add_json(parser)
    add_store(parser)
    return parser


def positionals_of(resource: Resource, offer: Offer) -> list[str]:
    names = [f"{resource.typed}{'…' if offer.several else ''}"] if offer.of_one else []
    named = [f"[{one}]" if offer.bulk is not None or offer.usual else one for one in names]
    for one in offer.positionals:
        metavar = f"{one.metavar}…" if one.param.several else one.metavar
        named.append(metavar if one.needed else f"[{metavar}]")
    if offer.verb is None or offer.verb.needs_app != "yes":
        return named
    return ["[APP]", *named] if offer.verb.app_first else [*named, "[APP]"]


def positional_help(resource: Resource, offer: Offer) -> str:
    helps = [f"the {resource.name}, like {resource.example}"] if offer.of_one else []
    helps += [one.help for one in offer.positionals]
    if offer.verb is not None and offer.verb.needs_app == "yes":
        helps.append("APP: file.py, file.py:name or module:name (default: WAKEFUL_APP, else app.py in this folder)")
    return "; ".join(helps).replace("%", "%%")


def add_option(parser: Parser, one: Given, *, required: bool = False) -> None:
    flags = [one.flag] if one.param.short is None else [one.param.short, one.flag]
    told = one.help
    if one.kind == "choice" and not all(choice in told for choice in one.choices):
        told = f"{told}: {', '.join(one.choices)}"
    default = one.default if one.in_shell is UNSET else one.in_shell
    if one.kind == "number" and one.param.most is not None:
        told += f", at most {one.param.most}"
    if one.kind == "number" and isinstance(default, int):
        told += f" (default: {default})"
    told = told.replace("%", "%%")
    if one.kind == "flag":
        parser.add_argument(*flags, dest=one.name, action="store_true", default=argparse.SUPPRESS, help=told)
        return
    parser.add_argument(
        *flags,
        dest=one.name,
        metavar=one.metavar,
        type=reader_of(one),
        default=argparse.SUPPRESS,
        help=told,
        required=required,
    )


def reader_of(one: Given) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        if one.param.content:
            return content_of(text)
        if one.param.file:
            return FromFile(read_data("-" if text == "-" else f"@{text}", what=one.flag, shown=text), text)
        if one.kind == "json":
            return read_data(text, what=one.flag)
        if text == one.param.none:
            return None
        try:
            return one.text(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return read


def add_common(parser: Parser, offer: Offer) -> None:
    """Options that verbs take besides their own parameters."""
    verb = offer.verb
    if verb is None:
        return
    if verb.bulk is not None:
        parser.add_argument("--yes", action="store_true", help=f"confirm more than {MANY:,} at once")
        parser.add_argument(
            "--rate",
            metavar="N/s",
            type=read_pace,
            default=verb.bulk.rate,
            help="at most N per second, or max"
            + ("" if verb.bulk.rate is None else f" (default: {verb.bulk.rate:g}/s)"),
        )
    if verb.paced:
        parser.add_argument("--yes", action="store_true", help="confirm more than 1,000 at once")
        parser.add_argument(
            "--rate",
            metavar="N/s",
            type=read_pace,
            default=None,
            help="at most this many per time, such as 10/m (default: as fast as workers finish them)",
        )
    if verb.bulk is not None or verb.plan is not None:
        flags = ["--plan"] if verb.plan_flag is None else ["--plan", verb.plan_flag]
        parser.add_argument(*flags, action="store_true", help=verb.plan_help)
    if verb.needs_app == "if named":
        parser.add_argument(
            "--app",
            dest="code",
            metavar="APP",
            help="check against the agents of this app: file.py, file.py:name or module:name",
        )
    if verb.note:
        parser.add_argument("--note", metavar="TEXT", help="reason, kept with the record")
    if verb.paced or verb.logs:
        add_logs(parser)
    parser.set_defaults(in_flight=None, log_level=None, log_format=None)  # as loading an app expects them


def read_pace(text: str) -> float | None:
    try:
        return read_rate(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def help_of(resource: Resource, summary: str) -> Parser:
    """The help of a noun: its verbs, and the options of its listing."""
    offers = offers_of(resource)
    listing = next((one for one in offers if one.kind == "list"), offers[0])
    parser = parser_of(resource, listing, summary=summary)
    if len(offers) == 1:
        return parser
    heads = [" ".join([one.word, *positionals_of(resource, one)]) for one in offers]
    wide = max(map(len, heads))
    lines = [f"  {head:<{wide}}  {one.summary}" for head, one in zip(heads, offers, strict=True)]
    usage = f"wakeful {resource.spoken} [COMMAND] [options]"
    parser.usage = usage
    told = (
        f"wakeful {resource.spoken} COMMAND --help shows the options of a command. Below: options of list, the default."
    )
    parser.description = "\n".join([f"{summary[:1].upper()}{summary[1:]}.", "", *lines, "", told])
    return parser


# execution


def execute(resource: Resource, offer: Offer, arguments: argparse.Namespace) -> int:
    asked = asked_of(resource, offer, arguments)
    load_code(offer.verb, asked)
    if offer.verb is not None:
        refuse_strangers(offer.verb, asked)
    try:
        if getattr(arguments, "raw", None) is not None:
            return asyncio.run(write_raw(resource, offer, asked))
        if offer.bulk is not None and asked.key is None:
            return carry_out(resource, offer, asked)
        if offer.verb is not None and offer.verb.paced:
            return carry_on(resource, offer, asked)
        if offer.several:
            return asyncio.run(perform_several(resource, offer, asked))
        return asyncio.run(perform(resource, offer, asked))
    except Refused as error:
        for one in error.said:
            say(plain(one))
        if error.typed is not None or (error.status == UNFIT and error.wrong_call):
            raise UsageError(error.typed or str(error)) from None
        raise


def refuse_strangers(verb: Verb, asked: Asked) -> None:
    """Refuse decisions that belong to people if a program started by an app asks. A plan is allowed: it decides nothing."""
    from wakeful.shell.person import needs_token, people_only

    if asked.plan:
        return
    if verb.person is not None:
        asked.token = people_only(verb.person, asked.url)
    elif verb.guarded is not None:
        asked.token = needs_token(verb.guarded, asked.url)


def asked_of(resource: Resource, offer: Offer, arguments: argparse.Namespace) -> Asked:
    """Check the call: the key, the other arguments, and every given parameter."""
    given = {one.name: getattr(arguments, one.name) for one in offer.options if hasattr(arguments, one.name)}
    typed = tuple(given)
    for one in offer.options:
        if one.name not in given and one.in_shell is not UNSET:
            given[one.name] = one.in_shell
    words = list(getattr(arguments, "words", ()))
    verb = offer.verb
    code = getattr(arguments, "code", None)
    keys = tuple(words) if offer.several else ()
    words = words[:1] if offer.several else words
    least = offer.needs_key + sum(one.needed for one in offer.positionals)
    most = offer.of_one + len(offer.positionals)
    if any(one.param.several for one in offer.positionals):
        most = max(most, len(words))
    if offer.bulk is not None and offer.bulk.wrong is not None:
        if (message := offer.bulk.wrong(words, given)) is not None:
            raise UsageError(message)
        most = 0 if any(given.get(name) for name in offer.bulk.some) else most
    if verb is not None and verb.needs_app == "yes" and len(words) == most + 1:
        code = words.pop(0 if verb.app_first else -1)
    elif verb is not None and verb.app_first and verb.usage is not None:
        refuse_app_alone(resource, offer, words)
    many = offer.bulk is not None and not words
    if not many and not least <= len(words) <= most:
        raise UsageError(resource.takes_for(offer.word) or takes(resource))
    key = words.pop(0) if offer.of_one and words else None
    for one, word in zip(offer.positionals, words, strict=False):
        try:
            given[one.name] = spoken(one, word)
        except ValueError as error:
            raise UsageError(f"{resource.spoken}: {one.metavar}: {error}") from None
        if one.param.several:
            given[one.name].more = tuple(content_of(further) for further in words[len(offer.positionals) :])
    kind = None if offer.bulk is None else kind_of(resource, offer, offer.bulk, key, typed)
    if kind is not None and key is not None and not kind.beside_key:
        refuse_choice(resource, offer, given, arguments)
    for one in offer.which if many else (*offer.which, *offer.takes):
        if one.required and one.name not in given:
            like = "" if one.param.example is None else f", like: {one.flag} {one.param.example}"
            message = f"{offer.word} takes {one.flag} and {one.param.help}{like}"
            raise UsageError(message)
    return Asked(arguments, key, given, code, keys=keys, kind=kind)


def kind_of(resource: Resource, offer: Offer, bulk: Bulk, key: str | None, given: Sequence[str]) -> Bulk:
    """The kind of items that is meant. Options of another kind, or for one item, are refused."""
    for other in bulk.others:
        choice = {one.name: one for one in parameters_of(other.plan)} if other.in_shell else {}
        first = choice.get(other.some[0])
        if first is None or first.name not in given:
            continue
        for one in choice.values():
            if one.required and one.name not in given:
                raise UsageError(f"{first.flag} needs {one.flag} {one.metavar}, like: {other.example}")
        wrong = [resource.typed] if key is not None else []
        wrong += [one.flag for one in offer.options if one.name in given and one.name not in choice]
        if wrong:
            told = f"it is for {other.many}, not for {resource.plural}"
            raise UsageError(f"{first.flag} takes no {wrong[0]}: {told}")
        return other
    chosen = {one.name for one in offer.choice}
    usual = {one.name for one in (*offer.which, *offer.takes)} | chosen
    for one in offer.options:
        if one.name in given and one.name not in usual:
            raise UsageError(one.param.elsewhere or f"{one.flag} is not for {resource.plural}")
    for one in offer.takes:
        if one.name in given and one.name not in chosen and key is None:
            raise UsageError(one.param.alone or f"{one.flag} takes a {resource.typed}")
    return bulk


def refuse_app_alone(resource: Resource, offer: Offer, words: Sequence[str]) -> None:
    from wakeful.settings import default_app

    if words and words[0] == default_app():
        raise UsageError(resource.takes_for(offer.word) or takes(resource))


def spoken(one: Given, word: str) -> Any:
    """A positional argument. JSON may be read from a file or standard input."""
    if one.param.content:
        return word if one.param.or_word and word != "-" and not Path(word).exists() else content_of(word)
    if one.kind != "json":
        return one.text(word)
    if one.param.understood and word != "-" and not word.startswith("@"):
        return Typed(word)
    return read_data(word, what=one.param.said or one.metavar)


def content_of(word: str) -> FileText:
    """The text of a file, or of standard input."""
    try:
        text = sys.stdin.read() if word == "-" else Path(word).read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise UsageError(f"{word}: the file cannot be read: {reason}") from None
    return FileText(
        text, "standard input" if word == "-" else Path(word).name, "." if word == "-" else str(Path(word).parent)
    )


def refuse_choice(resource: Resource, offer: Offer, given: dict[str, Any], arguments: argparse.Namespace) -> None:
    own = {one.name for one in (*offer.which, *offer.takes)}
    many = [one.flag for one in offer.choice if one.name in given and one.name not in own]
    if offer.bulk is not None and offer.bulk.wrong is not None:
        many = []  # the noun has already checked them
    if many or (arguments.plan and offer.verb is not None and offer.verb.plan is None):
        flags = [one.flag for one in offer.choice if one.name not in own]
        message = f"{either([*flags, '--plan'], 'and')} are for many {resource.names}: leave out either the {resource.typed} or these options"
        raise UsageError(message)


def takes(resource: Resource) -> str:
    """The message for a wrong number of arguments."""
    offers = offers_of(resource)
    bare = [one.word for one in offers if not positionals_of(resource, one)]
    plain_key = [one for one in offers if positionals_of(resource, one) == [resource.typed]]
    rest = [one for one in offers if one.word not in bare and one not in plain_key]
    parts = [", ".join(bare)] if bare else []
    if plain_key:
        parts.append(f"{either([one.word for one in plain_key], 'or')} and a {resource.typed}")
    parts += [" ".join([one.word, *positionals_of(resource, one)]) for one in rest]
    verbs = [one for one in plain_key if one.kind == "verb"] or plain_key
    like = f", like: wakeful {resource.spoken} {verbs[0].word} {resource.example}" if verbs else ""
    return f"{resource.spoken} takes {', or '.join(parts)}{like}"


def either(words: Sequence[str], joined: str) -> str:
    *others, last = words
    return f"{', '.join(others)} {joined} {last}" if others else last
