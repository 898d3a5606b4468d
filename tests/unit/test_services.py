"""The table of services: started in order, stopped in reverse, whatever goes wrong."""

from __future__ import annotations

import pytest

from wakeful.service import Part, Services


class Diary:
    """Parts that write down what is done to them."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def part(self, name: str, *, fails: str = "", dies: bool = False) -> Part:
        async def start() -> None:
            self._note("start", name, fails)

        async def stop() -> None:
            self._note("stop", name, fails)

        async def die() -> None:
            self._note("die", name, fails)

        return Part(name, start, stop, die if dies else None)

    def _note(self, what: str, name: str, fails: str) -> None:
        self.lines.append(f"{what} {name}")
        if what == fails:
            raise RuntimeError(name)


async def test_they_stop_in_reverse():
    diary = Diary()
    services = Services([diary.part("one"), diary.part("two"), diary.part("three")])
    await services.start(without=("two",))
    await services.stop()
    await services.stop()
    assert services.names == ["one", "two", "three"]
    assert diary.lines == ["start one", "start three", "stop three", "stop one"]


async def test_one_that_does_not_start_is_stopped_with_those_before_it():
    diary = Diary()
    services = Services([diary.part("one"), diary.part("two", fails="start"), diary.part("three")])
    with pytest.raises(RuntimeError, match="two"):
        await services.start()
    await services.stop()
    assert diary.lines == ["start one", "start two", "stop two", "stop one"]


async def test_one_that_does_not_stop_keeps_no_other_from_it():
    diary = Diary()
    services = Services([diary.part("one", fails="stop"), diary.part("two", fails="stop"), diary.part("three")])
    await services.start()
    with pytest.raises(RuntimeError, match="two"):
        await services.stop()
    assert diary.lines[3:] == ["stop three", "stop two", "stop one"]


async def test_a_killed_process_ends_each_part_its_own_way():
    diary = Diary()
    services = Services([diary.part("one", dies=True), diary.part("two")])
    await services.start()
    await services.die()
    await services.stop()
    assert diary.lines[2:] == ["stop two", "die one"]
