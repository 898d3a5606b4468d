"""The package as it is given away: what an index shows of it."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email import message_from_bytes
from email.message import Message
from pathlib import Path
from urllib.parse import urlsplit

import pytest

ROOT = Path(__file__).parents[2]
URLS: dict[str, str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]
HOME = URLS["Homepage"]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(folder)], cwd=ROOT, check=True, capture_output=True
    )
    return folder


@pytest.fixture(scope="module")
def metadata(built: Path) -> Message:
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        (name,) = (one for one in packed.namelist() if one.endswith(".dist-info/METADATA"))
        return message_from_bytes(packed.read(name))


def words_of(metadata: Message) -> str:
    raw = metadata.get_payload(decode=True)
    assert isinstance(raw, bytes)
    return raw.decode()


def test_every_link_of_the_readme_works_without_the_repository_around_it(metadata: Message):
    assert metadata["Description-Content-Type"].startswith("text/markdown")
    shown = re.sub(r"^```.*?^```$", "", words_of(metadata), flags=re.MULTILINE | re.DOTALL)
    targets = re.findall(r"\]\(([^)\s]+)\)|\b(?:src|href)=\"([^\"]+)\"", shown)
    links = [markdown or html for markdown, html in targets]
    assert len(links) > 10
    assert [link for link in links if not link.startswith(("https://", "#"))] == []
    ours = [link for link in links if link.startswith(HOME)]
    missing = [link for link in ours if not (ROOT / urlsplit(link).path.lstrip("/")).exists()]
    assert missing == []


def test_the_code_of_the_readme_is_as_it_is_written(metadata: Message):
    fences = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
    assert fences.findall(words_of(metadata)) == fences.findall((ROOT / "README.md").read_text())


def test_the_addresses_of_the_project_are_of_one_place_and_lead_to_pages_that_are_there(metadata: Message):
    told = dict(line.split(", ", 1) for line in metadata.get_all("Project-URL", []))
    assert told == URLS
    assert {"Homepage", "Documentation", "Changelog"} <= set(told)
    for address in told.values():
        assert address.startswith(HOME)
        assert (ROOT / address.removeprefix(HOME)).exists(), address


def test_a_package_can_be_built_from_the_source_that_is_given_away(built: Path, tmp_path: Path):
    (source,) = built.glob("*.tar.gz")
    with tarfile.open(source) as packed:
        packed.extractall(tmp_path, filter="data")
    (folder,) = tmp_path.iterdir()
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel"], cwd=folder, check=True, capture_output=True
    )
    assert len(list((folder / "dist").glob("*.whl"))) == 1
