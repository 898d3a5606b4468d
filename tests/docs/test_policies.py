"""Every policy and every people file that the documentation shows can be read."""

from __future__ import annotations

import pytest

from docs.pages import all_pages
from wakeful.policy.people import read_people
from wakeful.policy.text import read_policy

SHOWN = [
    (f"{page}:{block.line}", block.text) for page in all_pages() for block in page.blocks if block.language == "yaml"
]


@pytest.mark.parametrize(("place", "text"), SHOWN, ids=[place for place, _ in SHOWN])
def test_policies_can_be_read(place: str, text: str):
    if "\npeople:" in f"\n{text}":
        assert read_people(place, text).entries
        return
    whole = text if "policy: 1" in text else f"policy: 1\nrules:\n{text}"
    assert read_policy([(place, whole)]).rules


def test_there_are_some():
    assert SHOWN
