"""Files: how soon an agent hears of one."""

from collections.abc import Iterator

from bench.plan import Figure, Places


class Folder(Places):
    """The measurements of files."""

    def files(self) -> Iterator[Figure]:
        for name, store, _ in self._both():
            found = self._measured("engine_files", "--store", store(), "--samples", str(self.plan.samples))
            yield Figure(
                f"file written → handler, {name}",
                f"p50 {found['written_p50']:.1f} ms, p99 {found['written_p99']:.1f} ms", "–", None, "p50 ≤ 50 ms", "",
                found["written_p50"] <= 50, "less the time it must stay as it is",
            )  # fmt: skip
            yield Figure(
                f"file renamed into place → handler, {name}",
                f"p50 {found['renamed_p50']:.1f} ms, p99 {found['renamed_p99']:.1f} ms", "–", None, "p50 ≤ 50 ms", "",
                found["renamed_p50"] <= 50, "it is complete at once",
            )  # fmt: skip
