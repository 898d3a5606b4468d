"""What the documentation points at is there."""

from __future__ import annotations

from urllib.parse import unquote

import pytest

from docs.pages import ROOT, Page, all_pages

PAGES = all_pages()


@pytest.mark.parametrize("page", PAGES, ids=repr)
def test_links_lead_somewhere(page: Page):
    for link in page.links:
        if link.startswith(("https://", "http://", "mailto:")):
            continue
        place, _, anchor = link.partition("#")
        target = (page.path.parent / unquote(place)).resolve() if place else page.path
        assert target.exists(), f"{page}: {link} leads nowhere"
        assert target.is_relative_to(ROOT), f"{page}: {link} leads out of the project"
        if anchor:
            assert anchor in Page(target).anchors, f"{page}: {link} names a heading that is not there"


def test_every_page_can_be_reached():
    reached = set()
    waiting = [ROOT / "README.md"]
    while waiting:
        path = waiting.pop()
        if path in reached or path.suffix != ".md":
            continue
        reached.add(path)
        places = (link.partition("#")[0] for link in Page(path).links if "://" not in link)
        waiting += [(path.parent / place).resolve() for place in places if place]
    missing = {page.name for page in PAGES if page.path not in reached} - {"CHANGELOG.md"}
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=repr)
def test_one_title_and_no_stray_fences(page: Page):
    assert page.text.startswith("# ")
    assert page.prose.count("\n# ") == 0
    assert "```" not in page.prose
    languages = {block.language for block in page.blocks}
    assert languages <= {"", "python", "text", "console", "sh", "yaml"}, "see pages.py"
