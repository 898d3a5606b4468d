"""The unit and the image that the documentation offers are what it says they are."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "deploy/wakeful.service"
IMAGE = ROOT / "deploy/Dockerfile"
PAGE = ROOT / "docs/security.md"
ANALYZE = shutil.which("systemd-analyze")
UV = ROOT / ".venv/tool/bin/uv"


def options(text: str) -> dict[str, dict[str, list[str]]]:
    """The sections of a unit: each option with its values, in their order."""
    sections: dict[str, dict[str, list[str]]] = {}
    section = ""
    for line in text.splitlines():
        if line.startswith("#") or not line.strip():
            continue
        if heading := re.fullmatch(r"\[(\w+)\]", line):
            section = heading[1]
            sections[section] = {}
            continue
        name, equals, value = line.partition("=")
        assert equals, line
        sections[section].setdefault(name, []).append(value)
    return sections


def test_the_unit_takes_every_right_that_is_not_needed():
    unit = options(UNIT.read_text())
    assert list(unit) == ["Unit", "Service", "Install"]
    service = unit["Service"]
    for switch in ("DynamicUser", "NoNewPrivileges", "PrivateTmp", "PrivateDevices", "ProtectHome", "RestrictSUIDSGID"):
        assert service[switch] == ["yes"], switch
    assert service["ProtectSystem"] == ["strict"]
    assert service["CapabilityBoundingSet"] == [""]
    assert service["UMask"] == ["0077"]
    assert service["SystemCallFilter"] == ["@system-service", "~@privileged"]


@pytest.mark.parametrize("check", [["verify"], ["security", "--offline=true", "--threshold=20", "--no-pager"]])
def test_systemd_takes_the_unit_and_finds_it_safe(tmp_path: Path, check: list[str]):
    if ANALYZE is None:
        # No systemd on this machine: the options above are all that can be looked at.
        assert options(UNIT.read_text())["Service"]["ExecStart"]
        return
    command = Path(sys.executable).with_name("wakeful")
    unit = tmp_path / "wakeful.service"
    unit.write_text(UNIT.read_text().replace("/opt/wakeful/.venv/bin/wakeful", str(command)))
    done = subprocess.run([ANALYZE, *check, str(unit)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not done.stderr


def instructions() -> list[tuple[str, str]]:
    text = re.sub(r"\\\n", " ", IMAGE.read_text())
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in lines)]


def test_the_image_runs_as_a_user_that_is_not_root_and_holds_no_secret():
    said = instructions()
    assert {word for word, _ in said} <= {
        "FROM",
        "WORKDIR",
        "COPY",
        "RUN",
        "ENV",
        "VOLUME",
        "USER",
        "STOPSIGNAL",
        "EXPOSE",
        "HEALTHCHECK",
        "ENTRYPOINT",
    }
    assert [rest for word, rest in said if word == "USER"] == ["10001:10001"]
    assert not re.search("TOKEN=|SECRET=|KEYS=|PASSWORD=", IMAGE.read_text())
    assert "wakeful" in [rest for word, rest in said if word == "ENTRYPOINT"][-1]
    for word, rest in said:
        places = rest.split()[:-1] if word == "COPY" and "--from" not in rest else []
        assert all((ROOT / place).exists() for place in places if place != "app.py"), rest


def test_the_image_installs_by_hash_what_the_lock_says():
    runs = [rest for word, rest in instructions() if word == "RUN"]
    (pip,) = [line for line in runs if "pip install" in line]
    assert "--require-hashes" in pip
    (sync,) = [line for line in runs if line.startswith("uv sync")]
    assert "--locked" in sync
    done = subprocess.run(
        [UV, *sync.split()[1:], "--dry-run", "--offline"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert "unexpected argument" not in done.stderr


def test_the_page_runs_the_container_without_rights():
    page = PAGE.read_text()
    for option in (
        "--read-only",
        "--tmpfs /tmp:",
        "--cap-drop ALL",
        "--security-opt no-new-privileges",
        "--user 10001:10001",
    ):
        assert option in page
