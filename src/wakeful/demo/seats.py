"""Which run is shown in which line of the table.

A run keeps its line until it has ended and a newer one needs the line, so that nothing jumps about and a run can be
followed through the death of its worker.
"""

from __future__ import annotations

from wakeful.demo.scene import Row

DEAD_STAY = 8.0


class Seats:
    """The lines, each with the id of a run or with nothing."""

    def __init__(self) -> None:
        self._seats: list[str] = []

    def give(self, rows: list[Row], places: int) -> list[str]:
        """New runs get free lines, then those of runs that ended first. `rows` are the newest runs, oldest first."""
        known = {row.id: row for row in rows}
        oldest_first = list(known)
        seats = [seat if seat in known else "" for seat in self._seats][:places]
        seats += [""] * (places - len(seats))
        for row in rows:
            if row.id in seats or (row.ended_for or 0.0) > DEAD_STAY:
                continue
            leaving = [seat for seat in seats if seat and may_go(known[seat], row)]
            if "" in seats:
                seats[seats.index("")] = row.id
            elif leaving:
                seats[seats.index(min(leaving, key=oldest_first.index))] = row.id
        self._seats = seats
        return seats


def may_go(seated: Row, newcomer: Row) -> bool:
    """Ended runs make room for open ones and for new dead letters; a dead letter stays a little longer."""
    if seated.ended_for is None:
        return False
    if newcomer.state == "dead":
        return seated.state == "done"
    return seated.state != "dead" or seated.ended_for > DEAD_STAY
