"""How fast finished runs leave a store, by hand and by retention."""

from collections.abc import Iterator

from bench.plan import Figure, Places

PER_SECOND = 2_000
PLANNED_WITHIN = 1.0


class Archives(Places):
    """The measurements of archives."""

    def archive(self) -> Iterator[Figure]:
        count = self.plan.archived
        for name, store, _ in self._both():
            mine = self._left(store, name)
            before = None if self.plan.before is None else self._left(store, f"{name} before", before=True)
            yield Figure(
                f"archive --plan of {count:,} runs, {name}", f"{mine['plan']:.2f} s",
                "–" if before is None else f"before: {before['plan']:.2f} s",
                None if before is None else mine["plan"] / before["plan"],
                f"≤ {PLANNED_WITHIN:g} s", "", mine["plan"] - mine["start"] <= PLANNED_WITHIN,
                f"of which {mine['start']:.2f} s are the start of the command",
            )  # fmt: skip
            rate = count / (mine["archive"] - mine["start"])
            yield Figure(
                f"archive --remove of {count:,} runs, {name}", f"{mine['archive']:.1f} s, {rate:,.0f} runs/s",
                "–" if before is None else f"before: {before['archive']:.1f} s",
                None if before is None else mine["archive"] / before["archive"],
                f"{PER_SECOND:,} runs/s", "", rate >= PER_SECOND, "found, written, on disk and removed",
            )  # fmt: skip
            yield Figure(
                f"retention with an archive, {name}", f"{mine['retention']:,.0f} runs/s",
                "–" if before is None else f"before: {before['retention']:,.0f} runs/s",
                None if before is None else mine["retention"] / before["retention"],
                f"{PER_SECOND:,} runs/s", "", mine["retention"] >= PER_SECOND, f"{count:,} runs, beside a worker that rests",
            )  # fmt: skip

    def _left(self, store: object, name: str, *, before: bool = False) -> dict[str, float]:
        assert callable(store)
        folder = self.folder / f"archive {name}"
        folder.mkdir()
        options = ["--stores", store(), store(), "--folder", str(folder), "--count", str(self.plan.archived)]
        code = self.plan.before if before else None
        return self._measured("engine_archive", *options, patience=1800, code=code)
