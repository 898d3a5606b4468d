"""The README as a package index shows it. An index has no folder around it, so the links to our pages become addresses.

In the repository they stay relative: there they lead to the page of the same commit. The address comes from `Homepage` in
pyproject.toml, and stands nowhere else.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

from hatchling.metadata.plugin.interface import MetadataHookInterface

FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?![a-z]+:|#)([^)\s]+)\)")


class Readme(MetadataHookInterface):
    def update(self, metadata: dict[str, Any]) -> None:
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        shown = for_an_index(text, metadata["urls"]["Homepage"])
        metadata["readme"] = {"content-type": "text/markdown", "text": shown}


def for_an_index(text: str, home: str) -> str:
    """The same text with whole addresses. Code is left as it is."""
    parts = []
    end = 0
    for fence in FENCE.finditer(text):
        parts += [_linked(text[end : fence.start()], home), fence[0]]
        end = fence.end()
    return "".join([*parts, _linked(text[end:], home)])


def _linked(text: str, home: str) -> str:
    return LINK.sub(lambda link: f"]({urljoin(home, link[1])})", text)
