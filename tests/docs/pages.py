"""The pages of the documentation, taken apart: blocks of code, headings, links.

```python              is run; all blocks of a page in order, in one namespace and one folder
```python no-run       is only shown
# app.py               as the first line of Python: the block is also written to that file, run or not
```text                right after a block of Python: what that block prints
```console             each `$ …` is run, and what it prints must be what stands below it
```console fails       the same, for commands that end with an exit code other than 0
```console soon        the same, for commands that print it after a moment: each is repeated until it does
```yaml                is a policy, or some rules of one: it is read
```sh                  is only shown
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

_FENCE = re.compile(r"^( *)```([^\n`]*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^(#+) (.+)$", re.MULTILINE)
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
_CODE = re.compile(r"`([^`\n]+)`")


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block. `line` is where its first line of content stands in the page."""

    language: str
    flags: frozenset[str]
    text: str
    line: int
    adjoins: bool  # nothing but blank lines between the block before and this one

    @property
    def file_name(self) -> str | None:
        """The file that a block of Python names in its first line."""
        match = re.match(r"# (\w+\.py)\n", self.text) if self.language == "python" else None
        return match[1] if match else None


class Page:
    """One Markdown file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = str(path.relative_to(ROOT))
        self.text = path.read_text(encoding="utf-8")

    def __repr__(self) -> str:
        return self.name

    @cached_property
    def blocks(self) -> list[Block]:
        found = []
        before = 0
        for match in _FENCE.finditer(self.text):
            language, *flags = match[2].split() or [""]
            indent = len(match[1])
            text = "".join(
                line[indent:] if line[:indent].isspace() else line for line in match[3].splitlines(keepends=True)
            )
            line = self.text.count("\n", 0, match.start(3)) + 1
            adjoins = not self.text[before : match.start()].strip()
            found.append(Block(language, frozenset(flags), text, line, adjoins))
            before = match.end()
        return found

    @cached_property
    def prose(self) -> str:
        """The text without its blocks."""
        return _FENCE.sub("", self.text)

    @cached_property
    def headings(self) -> list[str]:
        return [match[2].strip() for match in _HEADING.finditer(self.prose)]

    @cached_property
    def anchors(self) -> set[str]:
        """What `#…` may name: headings as GitHub spells them."""
        return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in self.headings}

    @cached_property
    def links(self) -> list[str]:
        return _LINK.findall(_CODE.sub("", self.prose))

    @cached_property
    def code(self) -> list[str]:
        """Everything that stands in `backticks` outside of blocks."""
        return _CODE.findall(self.prose)

    def section(self, heading: str) -> str:
        """The text under a heading, up to the next one of the same or a higher level; empty if there is none."""
        lines = self.text.splitlines()
        level, collected, fenced = 0, [], False
        for line in lines:
            fenced ^= line.lstrip().startswith("```")
            match = None if fenced else _HEADING.match(line)
            if level and match and len(match[1]) <= level:
                break
            if level:
                collected.append(line)
            elif match and match[2].strip() == heading:
                level = len(match[1])
        return "\n".join(collected)

    def table(self, heading: str) -> list[list[str]]:
        """The rows of the first table under a heading, without its head."""
        lines = itertools.dropwhile(lambda line: not line.startswith("|"), self.section(heading).splitlines())
        rows = list(itertools.takewhile(lambda line: line.startswith("|"), lines))
        return [[cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in rows[2:]]


def all_pages() -> list[Page]:
    """The pages at the root, and everything under docs/."""
    files = [
        *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")),
        *sorted((ROOT / "docs").rglob("*.md")),
    ]
    return [Page(path) for path in files]


def page(name: str) -> Page:
    return Page(ROOT / name)
