"""Conditions: what matches, what does not and why, and what is refused before anything runs."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest

from wakeful.cel import Match, compile_condition, compile_expression, named_values
from wakeful.errors import ConfigError
from wakeful.model import Event


def event(data=None, **attributes) -> Event:
    return Event(source="/shop", id="1", type="order.created", data=data, **attributes)


def match(expression: str, data=None, **attributes) -> Match:
    return compile_condition(expression, where="here").matches(event(data, **attributes))


@pytest.mark.parametrize(
    ("expression", "data"),
    [
        ("data.severity >= 3", {"severity": 3}),
        ("data.severity >= 3", {"severity": 3.5, "other": 2**63 - 1}),
        ('data["a b"] == 1', {"a b": 1}),
        ("data['a'].b[0] == 1", {"a": {"b": [1]}}),
        ("data . severity == 1 // data.other", {"severity": 1}),
        (".data.severity == 1", {"severity": 1}),
        ("'x' in .data.tags", {"tags": ["x"]}),
        ('"urgent" in data.tags', {"tags": ["urgent"]}),
        ('"tags" in data', {"tags": []}),
        ("has(data.a) && data.a > 1", {"a": 2}),
        ("!has(data.a)", {"b": 2}),
        ("has(data.a.b)", {"a": {"b": None}}),
        ("data.a > 1 || data.b", {"b": True}),
        ("data.items.exists(item, item.sku == 'a')", {"items": [{"sku": "b"}, {"sku": "a"}]}),
        ("data.items.exists(data, data.sku == 'a')", {"items": [{"sku": "a"}]}),
        ("size(data) == 2", {"a": 1, "b": 2}),
        ("size(data) == 2", [1, 2]),
        ("data.size() == 3", "abc"),
        ("data.map(key, data[key]).exists(value, value == 2)", {"a": 1, "b": 2}),
        ("data == 'text'", "text"),
        ("data == null", None),
        ("data.title.lowerAscii().contains('fire')", {"title": "FIRE"}),
        ("data.quoted == 'data.x \\' data.y'", {"quoted": "data.x ' data.y"}),
        ("data.raw == r'a.b'", {"raw": "a.b"}),
        ("data.`a-b` == 1", {"a-b": 1}),
        ('data.long == """x"""', {"long": "x"}),
        ("timestamp(data.at) < timestamp('2026-01-02T00:00:00Z')", {"at": "2026-01-01T00:00:00Z"}),
        ("event.type == 'order.created' && event.source.startsWith('/')", None),
        ("event.data.severity == 3 && data.severity == 3", {"severity": 3}),
        ("true", None),
    ],
)
def test_it_matches(expression, data):
    assert match(expression, data) == Match(matched=True, reason=f'where "{expression}" was true')


def test_false_is_no_match_with_the_expression_as_the_reason():
    assert match("data.severity >= 3", {"severity": 2}) == Match(
        matched=False, reason='where "data.severity >= 3" was false'
    )


@pytest.mark.parametrize(
    ("expression", "data", "reason"),
    [
        ("data.severity >= 3", {}, "no field data.severity: counts as no match"),
        ("data.severity >= 3", None, "no field data.severity: counts as no match"),
        ("data.severity >= 3", [1], "no field data.severity: counts as no match"),
        ("data.severity >= 3", "text", "no field data.severity: counts as no match"),
        ("data.a.b.c == 1", {"a": {"b": {}}}, "no field data.a.b.c: counts as no match"),
        ("data.a.b.c == 1", {"a": 7}, "no field data.a.b: counts as no match"),
        ("data.a == 1 && data.b == 2", {"a": 1}, "no field data.b: counts as no match"),
        ("data.severity != 3", {}, "no field data.severity: counts as no match"),
        ("event.subject == 'x'", {}, "no field event.subject: counts as no match"),
        ("event.tenant == 'x'", {}, "no field event.tenant: counts as no match"),
        ("event.time > timestamp('2026-01-01T00:00:00Z')", {}, "no field event.time: counts as no match"),
        ("data.items.exists(item, item.sku == 'a')", {"items": [{}]}, "no field sku: counts as no match"),
    ],
)
def test_a_missing_field_is_no_match_and_is_named(expression, data, reason):
    assert match(expression, data) == Match(matched=False, reason=reason, misfit=True)


@pytest.mark.parametrize(
    ("expression", "data", "words"),
    [
        ("data.severity >= 3", {"severity": "high"}, "No matching overloads"),
        ("data.severity >= 3", {"severity": None}, "No matching overloads"),
        ("data.items[3] == 1", {"items": []}, "Index error"),
        ("1 / data.zero == 1", {"zero": 0}, "divide by zero"),
        ("data.text.matches('(')", {"text": "x"}, "invalid regular expression"),
        ("data.huge > 1", {"huge": 2**70}, "out of range"),
        ("data.count", {"count": 3}, "gave int, not true or false"),
        ("data.text", {"text": "UNKNOWN: looks like an error"}, "counts as no match"),
        ("data.text", {"text": "plain"}, "gave string, not true or false"),
        ("data.object", {"object": object()}, "counts as no match"),
    ],
)
def test_an_error_is_no_match_with_its_text(expression, data, words):
    answer = match(expression, data)
    assert not answer.matched
    assert words in answer.reason
    assert "counts as no match" in answer.reason


def test_attributes_times_and_extensions_can_be_asked_for():
    attributes = {
        "subject": "s",
        "time": datetime(2026, 1, 2, 3, tzinfo=UTC),
        "expirytime": datetime(2026, 1, 3, tzinfo=UTC),
        "correlationid": "c",
        "extensions": {"tenant": "acme", "sampled": True},
    }
    for expression in (
        "event.subject == 's' && event.correlationid == 'c'",
        "event.tenant == 'acme' && event.sampled",
        "event.time > timestamp('2026-01-01T00:00:00Z') && event.time.getHours() == 3",
        "event.expirytime - event.time < duration('24h')",
        "'time' in event && 'subject' in event && !('traceparent' in event)",
        "event['tenant'] == 'acme'",
        "has(event.tenant) && !has(event.causationid)",
    ):
        assert match(expression, {}, **attributes).matched, expression


def test_only_the_named_fields_are_handed_over():
    """What the expression does not name may be of any size, or of a kind that CEL cannot even take."""
    assert match("data.severity >= 3", {"severity": 3, "other": object()}).matched
    assert match("event.type == 'order.created'", object()).matched


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("", "empty"),
        ("  ", "empty"),
        ("severity >= 3", 'Did you mean "data.severity"?'),
        ("dta.severity >= 3", 'Did you mean "data.severity"?'),
        ("evnt.type == 'x'", 'Did you mean "event.type"?'),
        ("subject == 'x'", 'Did you mean "event.subject"?'),
        ("data.x.startWith('a')", 'Did you mean "startsWith"?'),
        ("data.x == True", 'Did you mean "true"?'),
        ("data.a == 1 and data.b == 2", 'Did you mean "&&"?'),
        ("not data.a", 'Did you mean "!"?'),
        ("data.a = 1", 'Did you mean "=="?'),
        ("data.a & data.b", 'Did you mean "&&"?'),
        ("data.a >=", "the end at column 10"),
        ("data.a == 'x", "at column 11"),
        ("1 + 1", "gives int, not true or false"),
        ("'text'", "gives string, not true or false"),
        ("event.correlation_id == 'x'", 'Did you mean "correlationid"?'),
        ("event.Type == 'x'", 'Did you mean "type"?'),
        ("has(event.time)", "'time' in event"),
        ("event.time == 'x'", "no matching overload"),
        ("(" * 300 + "true" + ")" * 300, "recursion limit"),
        ("data.a == 1\n&& foo", "line 2"),
    ],
)
def test_a_bad_expression_is_refused_in_one_line(expression, words):
    with pytest.raises(ConfigError) as caught:
        compile_condition(expression, where='on("t")')
    message = str(caught.value)
    assert message.startswith('on("t"): ')
    assert words in message
    assert len(message.splitlines()) == 1


def test_threads_may_share_a_condition():
    condition = compile_condition("data.severity >= 3 && data.text.contains('x')", where="here")

    def ask(severity: int) -> list[bool]:
        data = {"severity": severity, "text": "x" * severity}
        return [condition.matches(event(data)).matched for _ in range(300)]

    with ThreadPoolExecutor(8) as pool:
        for severity, answers in enumerate(pool.map(ask, range(16))):
            assert answers == [severity >= 3] * 300


def test_the_library_is_loaded_only_when_there_is_a_condition():
    code = (
        "import sys\n"
        "from wakeful.triggers.on import on\n"
        "on('a')\n"
        "assert not any(name.startswith('cel_expr_python') for name in sys.modules)\n"
        "on('a', where='true')\n"
        "assert any(name.startswith('cel_expr_python') for name in sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_the_library_only_conditions_are_refused():
    """It is an extension in C++, and some platforms have no wheel of it."""
    code = (
        "import sys\n"
        "sys.modules['cel_expr_python'] = None\n"
        "from wakeful import App, cron, on\n"
        "app = App('shop')\n"
        "@app.agent(on('a'), cron('0 8 * * *'), owner='ops')\n"
        "async def plain(run): ...\n"
        "try:\n"
        "    on('a', where='data.b == 1')\n"
        "except Exception as error:\n"
        "    print(type(error).__name__, error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    (line,) = done.stdout.splitlines()
    assert line.startswith(
        "ConfigError conditions and keys in CEL need the package cel-expr-python, which cannot be loaded here"
    )


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ("data.amount >= values.least", {"least"}),
        ("values.a == values.b.c && data.values.d", {"a", "b"}),
        ("has(values.a) && values.a == 1 || data.values == 'values.b'", set()),
        ("data in values", set()),
        ("values.size() > 0 && values['a'] == 1", set()),
        ("true", set()),
    ],
)
def test_the_values_that_an_expression_must_be_handed(expression, names):
    assert named_values(expression) == names


class TestTheNameOfAFieldAlone:
    """What is simply taken out of the data is what the language would give."""

    @pytest.mark.parametrize("data", [{"a": "x"}, {"a": ""}, {"a": {"b": "y"}}, {"a": 3}, {"a": True}, {"a": [1]}])
    @pytest.mark.parametrize(("short", "long"), [("data.a", "(data.a)"), (" data.a ", "(data.a)")])
    def test_gives_the_same(self, short: str, long: str, data: object):
        given = [compile_expression(one, where="here").value(event(data)) for one in (short, long)]
        assert given[0] == given[1]
        assert type(given[0]) is type(given[1])

    def test_below_another(self):
        assert compile_expression("data.a.b", where="here").value(event({"a": {"b": "y"}})) == "y"

    @pytest.mark.parametrize("data", [None, "text", [], {}, {"a": None}, {"a": "text"}, {"a": {}}, {"a": {"c": "x"}}])
    def test_that_is_not_there(self, data: object):
        said = []
        for one in ("data.a.b", "(data.a.b)"):
            with pytest.raises(ValueError, match=r".") as caught:
                compile_expression(one, where="here").value(event(data))
            said.append(str(caught.value))
        assert said[0] == said[1]
