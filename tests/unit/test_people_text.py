"""The people file: what is read, and each mistake at its exact place, with a guess."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wakeful.clock import SECOND, VirtualClock
from wakeful.errors import ConfigError
from wakeful.policy.approvers import Person, members, stand_in
from wakeful.policy.people import Entry, PeopleError, read_people
from wakeful.policy.text import version_of

WHOLE = """\
people:
  ada: {groups: [ops, leads], token_env: ADA_TOKEN}
  bob:
    groups: ops
    token_env: BOB_TOKEN
    away: {until: 2026-10-01, instead: ada}
  eve@shop.example:
    away: {until: "2026-10-01T09:00+02:00"}
  tom:
"""
OCTOBER = VirtualClock("2026-10-01").now()
HOUR = 3600 * SECOND


def problems(text: str) -> list[str]:
    with pytest.raises(PeopleError) as caught:
        read_people("people.yaml", text)
    assert str(caught.value) == "\n".join(caught.value.problems)
    return [one.removeprefix("people.yaml:") for one in caught.value.problems]


def test_everything_that_can_be_written():
    found = read_people("people.yaml", WHOLE)
    assert found.version == version_of([WHOLE])
    assert found.entries == (
        Entry(Person("ada", ("ops", "leads")), "ADA_TOKEN"),
        Entry(Person("bob", ("ops",), OCTOBER, "ada"), "BOB_TOKEN"),
        Entry(Person("eve@shop.example", (), OCTOBER + 7 * HOUR)),
        Entry(Person("tom")),
    )
    assert found.groups == {"ada": ("ops", "leads"), "bob": ("ops",), "eve@shop.example": (), "tom": ()}


def test_an_app_may_have_no_people_any_more():
    assert read_people("people.yaml", "people: {}").entries == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ["1:1: the file is empty: begin it with people:"]),
        ("- ada", ["1:1: a people file is a map that begins with people:, not a list"]),
        ("people:", ["1:8: people must be a map, not empty"]),
        (
            "persons: {}",
            [
                '1:1: a people file has no field "persons". Known: people.',
                '1:1: the field "people" is missing: begin the file with people:',
            ],
        ),
        ("people: [ada]", ["1:9: people must be a map, not a list"]),
        ("people: {ada: 3}", ["1:15: ada must be a map like {groups: [ops]}, not the number 3"]),
        ("people: {ada: {}, ada: {}}", ['1:19: the field "ada" is given twice; the first one is at people.yaml:1:10']),
        (
            "people: {a b: {}, 7: {}}",
            [
                '1:10: "a b" is not a name: write letters, digits and . _ @ + -, beginning with a letter, at most 100',
                '1:19: "7" is not a name: write letters, digits and . _ @ + -, beginning with a letter, at most 100',
            ],
        ),
        ("people: {ada: {group: [ops]}}", ['1:16: a person has no field "group". Did you mean "groups"?']),
        (
            "people: {ada: {groups: [ops, ops, bob, x/y]}, bob: {}}",
            [
                '1:30: groups: "ops" is given twice; the first one is at people.yaml:1:25',
                (
                    '1:35: groups: "bob" is the name of a person (at people.yaml:1:47): a rule that names it would mean either; '
                    "choose another name"
                ),
                '1:40: groups: "x/y" is not a name: write letters, digits and . _ @ + -, beginning with a letter, at most 100',
            ],
        ),
        (
            "people: {ada: {token_env: A}, bob: {token_env: A}, tom: {token_env: WAKEFUL_TOKEN}}",
            [
                '1:48: token_env: "A" is the token of two people; the first one is at people.yaml:1:27',
                "1:69: token_env: WAKEFUL_TOKEN belongs to Wakeful itself; choose a name like ADA_TOKEN",
            ],
        ),
        (
            "people: {ada: {token_env: s3cret-of-ada}}",
            ['1:27: token_env must be the name of an environment variable (letters, digits, "_"), not the token'],
        ),
        ("people: {ada: {away: {}}}", ['1:22: away: the field "until" is missing: a date like 2026-10-01']),
        (
            "people: {ada: {away: {until: soon, insted: bob}}}",
            [
                '1:30: until: "soon" is not a date: write a date like 2026-10-01, or a time with its zone like 2026-10-01T09:00+02:00',
                '1:36: away has no field "insted". Did you mean "instead"?',
            ],
        ),
        (
            "people: {ada: {away: {until: 2026-02-30}}, bob: {away: {until: 2026-10-01T09:00}}, tom: {away: {until: 20261001}}}",
            [
                "1:30: until: 2026-02-30 is not a date: write a date like 2026-10-01, or a time with its zone like 2026-10-01T09:00+02:00",
                (
                    '1:64: until: "2026-10-01T09:00" is not a date: write a date like 2026-10-01, or a time with its zone like '
                    "2026-10-01T09:00+02:00"
                ),
                (
                    "1:104: until: the number 20261001 is not a date: write a date like 2026-10-01, or a time with its zone like "
                    "2026-10-01T09:00+02:00"
                ),
            ],
        ),
        (
            "people: {adam: {away: {until: 2026-10-01, instead: adem}}, adele: {away: {until: 2026-10-01, instead: adele}}}",
            [
                '1:52: instead: there is no person "adem". Did you mean "adele"?',
                "1:103: instead: adele cannot answer instead of adele",
            ],
        ),
        (
            """\
people:
  ada: {away: {until: 2026-10-01, instead: bob}}
  bob: {away: {until: 2026-11-01, instead: tom}}
  tom: {away: {until: 2026-12-01, instead: ada}}
  eve: {away: {until: 2026-12-01, instead: ada}}
""",
            ["2:44: instead: ada → bob → tom → ada is a circle: while all of them are away, no person answers"],
        ),
        (
            "people: {ada: &a {}, bob: *a}",
            [
                "1:15: anchors and aliases are not allowed in a people file",
                "1:27: anchors and aliases are not allowed in a people file: write the value again",
            ],
        ),
        ("people: {}\n---\npeople: {}", ["2:1: a second document begins here; a people file is one document"]),
    ],
)
def test_mistakes(text: str, expected: list[str]):
    assert problems(text) == expected


@settings(max_examples=200)
@given(st.text() | st.text(alphabet="people: {}[],\n-&*!\"'adb"))
def test_no_text_breaks_the_reader(text: str):
    try:
        read_people("people.yaml", text)
    except ConfigError as error:
        assert str(error).startswith("people.yaml:")  # noqa: PT017


PEOPLE = {
    one.name: one
    for one in (
        Person("ada", ("ops", "leads")),
        Person("bob", ("ops",), 100, "tom"),
        Person("tom", ("night",), 50, "eve"),
        Person("eve", ("night",)),
        Person("kim", ("lonely",), 100),
    )
}


class TestStandIn:
    def test_is_the_person_who_is_there(self):
        assert [stand_in(name, PEOPLE, 0) for name in ("ada", "eve")] == ["ada", "eve"]

    def test_while_away_another_answers_and_perhaps_another_again(self):
        assert [stand_in("bob", PEOPLE, now) for now in (0, 49, 50, 99, 100)] == ["eve", "eve", "tom", "tom", "bob"]

    def test_nobody_answers_for_a_stranger_or_without_a_stand_in(self):
        assert stand_in("nobody", PEOPLE, 0) is None
        assert (stand_in("kim", PEOPLE, 99), stand_in("kim", PEOPLE, 100)) == (None, "kim")

    def test_a_circle_in_the_store_ends(self):
        circle = {"a": Person("a", (), 9, "b"), "b": Person("b", (), 9, "a"), "c": Person("c", (), 9, "gone")}
        assert [stand_in(name, circle, 0) for name in circle] == [None, None, None]


class TestMembers:
    def test_of_groups_and_people(self):
        assert members(["ops"], PEOPLE, 200) == {"ada", "bob"}
        assert members(["leads", "eve", "nobody"], PEOPLE, 200) == {"ada", "eve"}
        assert members([], PEOPLE, 200) == frozenset()

    def test_people_who_are_away_are_replaced_once(self):
        assert members(["ops", "night"], PEOPLE, 0) == {"ada", "eve"}
        assert members(["bob"], PEOPLE, 60) == {"tom"}
        assert members(["lonely"], PEOPLE, 0) == frozenset()


def test_a_circle_is_told_from_its_first_person_however_it_is_reached():
    text = "people:\n" + "".join(
        f"  {name}: {{away: {{until: 2999-01-01, instead: {other}}}}}\n"
        for name, other in (("tail", "c"), ("a", "b"), ("b", "c"), ("c", "a"), ("end", "tail"))
    )
    with pytest.raises(PeopleError) as refused:
        read_people("people.yaml", text)
    assert refused.value.problems == [
        "people.yaml:3:42: instead: a → b → c → a is a circle: while all of them are away, no person answers"
    ]


def test_too_many_people_are_refused_without_comparing_them():
    text = "people:\n" + "".join(f"  p{n}: {{away: {{until: 2999-01-01, instead: q{n}}}}}\n" for n in range(15_000))
    with pytest.raises(PeopleError) as refused:
        read_people("people.yaml", text)
    assert refused.value.problems == ["people.yaml:2:3: people: 15,000 are more than 1,000"]
