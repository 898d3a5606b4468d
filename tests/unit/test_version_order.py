"""The order of the versions of an agent's code, and what a process leaves to others."""

from __future__ import annotations

from pydantic_core import from_json

from wakeful.stores.base import ClaimRuns
from wakeful.stores.verbs.versions import Version, apart_of, looked_at, put_to_work

Known = dict[str, Version]


def order(known: Known) -> list[str]:
    return sorted(known, key=lambda version: known[version].place)


def after(*coming: tuple[str, list[str]]) -> Known:
    """Processes that came one after the other; each with those that others served then."""
    known: Known = {}
    for version, living in coming:
        known = put_to_work(known, version, living)
    return known


class TestTheOrder:
    def test_what_nobody_has_seen_is_the_newest(self):
        assert order(after(("a", []), ("b", ["a"]), ("c", ["a", "b"]))) == ["a", "b", "c"]

    def test_an_old_process_that_starts_again_beside_others_changes_nothing(self):
        assert order(after(("a", []), ("b", ["a", "a"]), ("a", ["a", "b"]))) == ["a", "b"]

    def test_a_rollback_is_the_newest(self):
        assert order(after(("a", []), ("b", ["a"]), ("a", ["b"]))) == ["b", "a"]

    def test_the_last_old_process_that_starts_again_is_overtaken_by_the_next_new_one(self):
        known = after(("a", []), ("b", ["a"]), ("a", ["b"]))
        assert order(put_to_work(known, "b", ["a", "b"])) == ["a", "b"]

    def test_a_start_of_the_newest_changes_nothing(self):
        known = after(("a", []), ("b", []))
        assert put_to_work(known, "b", []) == known


class TestApart:
    def test_one_version_alone_is_not(self):
        known = looked_at(after(("a", []), ("b", [])), ["b", "b"])
        assert [known[one].live for one in "ab"] == [False, True]
        assert not any(one.apart for one in known.values())

    def test_two_are(self):
        assert all(one.apart for one in looked_at(after(("a", []), ("b", [])), ["a", "b"]).values())

    def test_an_older_one_alone_is(self):
        assert all(one.apart for one in looked_at(after(("a", []), ("b", [])), ["a"]).values())

    def test_nobody_is_not(self):
        assert not any(one.apart for one in looked_at(after(("a", []), ("b", [])), []).values())


def left_alone(own: str, *rows: tuple[str, int, bool], goes_back: bool = False) -> tuple[list[str], list[str]]:
    request = ClaimRuns("app", "process", list, bool, versions={"agent": own}, drains={"agent": (600, goes_back)})
    apart = apart_of(request, "agent", rows)
    return from_json(apart.never), from_json(apart.later)


class TestWhatIsLeftAlone:
    def test_what_others_serve(self):
        assert left_alone("a", ("a", 1, True), ("b", 2, True)) == (["b"], [])
        assert left_alone("b", ("a", 1, True), ("b", 2, True)) == ([], ["a"])

    def test_what_nobody_serves_of_older_code_is_taken(self):
        assert left_alone("c", ("a", 1, False), ("b", 2, True), ("c", 3, True)) == ([], ["b"])

    def test_what_nobody_serves_of_newer_code_waits(self):
        assert left_alone("a", ("a", 1, True), ("b", 2, False)) == ([], ["b"])
        assert left_alone("a", ("a", 1, True), ("b", 2, False), goes_back=True) == ([], [])
