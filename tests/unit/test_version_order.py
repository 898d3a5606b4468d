"""The order of the versions of an agent's code, and what a process leaves to others."""

from __future__ import annotations

from wakeful.stores.verbs.versions import Version, apart_of, put_to_work

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


def left_alone(own: str, known: Known, living: str) -> tuple[str, str] | None:
    apart = apart_of(known, set(living), own, 600)
    return None if apart is None else ("".join(apart.never), "".join(apart.later))


class TestWhatIsLeftAlone:
    known = after(("a", []), ("b", []), ("c", []))

    def test_nothing_while_all_have_the_newest_code(self):
        assert left_alone("c", self.known, "c") is None

    def test_what_others_serve(self):
        assert left_alone("a", self.known, "ac") == ("bc", "")
        assert left_alone("c", self.known, "ac") == ("", "a")

    def test_what_nobody_serves_of_older_code_is_taken(self):
        assert left_alone("c", self.known, "bc") == ("", "b")

    def test_what_nobody_serves_of_newer_code_waits(self):
        assert left_alone("b", self.known, "b") == ("", "c")

    def test_what_was_forgotten_is_older(self):
        assert left_alone("z", self.known, "bz") == ("ab", "c")
