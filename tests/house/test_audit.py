"""`make audit`: what it finds, what it says where the advisories cannot be reached, and the bill that it writes."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import metadata
from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar

import pytest
from jsonschema import Draft7Validator
from referencing import Registry, Resource

ROOT = Path(__file__).parents[2]
UV = ROOT / ".venv/tool/bin/uv"
NOWHERE = "http://127.0.0.1:9/"

_spec = importlib.util.spec_from_file_location("licences", ROOT / "tools/audit/licences.py")
assert _spec
assert _spec.loader
licences = importlib.util.module_from_spec(_spec)
sys.modules["licences"] = licences
_spec.loader.exec_module(licences)


def audit(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tools.audit", "--uv", str(UV), *options]
    alone = os.environ | {"UV_HTTP_RETRIES": "0", "NO_PROXY": "127.0.0.1"}
    return subprocess.run(command, cwd=ROOT, env=alone, capture_output=True, text=True, check=False)


def validator() -> Draft7Validator:
    """Of CycloneDX 1.5, by the schemas that its own library carries."""
    folder = files("cyclonedx") / "schema/_res"
    schemas = [
        json.loads((folder / f"{name}.SNAPSHOT.schema.json").read_text()) for name in ("bom-1.5", "spdx", "jsf-0.82")
    ]
    return Draft7Validator(
        schemas[0], registry=Registry().with_resources([(one["$id"], Resource.from_contents(one)) for one in schemas])
    )


class Advisories(BaseHTTPRequestHandler):
    """Speaks OSV: one advisory about one package, or none."""

    about: ClassVar[str] = ""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        known = [{"id": "TEST-1", "modified": "2026-01-01T00:00:00Z"}]
        names = [one["package"]["name"] for one in asked["queries"]]
        self.answer({"results": [{"vulns": known} if name == self.about else {} for name in names]})

    def do_GET(self) -> None:
        whole = {
            "id": "TEST-1",
            "summary": "A door is open",
            "modified": "2026-01-01T00:00:00Z",
            "affected": [{"package": {"ecosystem": "PyPI", "name": self.about}}],
        }
        self.answer(whole)

    def answer(self, content: dict[str, Any]) -> None:
        body = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 the name that it has
        pass


@pytest.fixture
def advisories() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Advisories) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def test_without_the_advisories_it_says_so_and_does_the_rest(tmp_path: Path):
    bill = tmp_path / "bill.json"
    done = audit("--bill", str(bill), "--service-url", NOWHERE)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "vulnerabilities: not known: the advisory service could not be reached" in done.stdout
    assert bill.exists()


@pytest.mark.parametrize(("about", "code", "said"), [("starlette", 1, "TEST-1"), ("", 0, "none known")])
def test_a_known_vulnerability_fails_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, advisories: str, about: str, code: int, said: str
):
    monkeypatch.setattr(Advisories, "about", about)
    done = audit("--bill", str(tmp_path / "bill.json"), "--service-url", advisories)
    assert done.returncode == code, done.stdout + done.stderr
    assert said in done.stdout


def test_the_bill_keeps_to_its_schema_and_names_every_package_that_runs_with_its_licence(tmp_path: Path):
    file = tmp_path / "bill.json"
    audit("--bill", str(file), "--service-url", NOWHERE)
    bill = json.loads(file.read_text())
    assert [error.message for error in validator().iter_errors(bill)] == []
    assert list(validator().iter_errors({**bill, "components": [{"name": "without a type"}]}))
    components = {one["name"]: one for one in bill["components"]}
    for name in ("starlette", "apsw", "asyncpg", "cryptography", "psycopg", "aiobotocore"):
        assert components[name]["version"] == metadata.version(name)
        assert components[name]["licenses"]
        assert components[name]["externalReferences"][0]["hashes"]
    assert "pytest" not in components


@pytest.mark.parametrize(
    ("fields", "trouble"),
    [
        ({"License-Expression": "MIT"}, None),
        ({"License-Expression": "(MIT OR GPL-3.0-only) AND BSD-3-Clause"}, None),
        ({"License": "Apache 2.0"}, None),
        ({"License": "Dual", "Classifier": "License :: OSI Approved :: MIT License"}, None),
        ({"License-Expression": "AGPL-3.0-only"}, "has a licence that is not allowed: AGPL-3.0-only"),
        ({"License-Expression": "MIT AND GPL-3.0-only"}, "has a licence that is not allowed: MIT AND GPL-3.0-only"),
        ({"License-Expression": "GPL-2.0-only WITH Classpath-exception-2.0"}, "has a licence that is not allowed"),
        ({"License-Expression": "LGPL-3.0-only"}, "has a licence that is not allowed"),  # allowed for psycopg alone
        ({"License": "Look inside\nfor more"}, "has a licence that is not known: 'Look inside'"),
        ({}, "states no licence"),
        ({"Version": "2"}, "is installed as 2: run `make setup`"),
    ],
)
def test_licences(fields: dict[str, str], trouble: str | None):
    about: Any = Message()
    for name, value in {"Version": "1", **fields}.items():
        about[name] = value
    found = licences.look("package", "1", None, lambda _: about)
    assert (found.trouble is None) if trouble is None else found.trouble.startswith(trouble)


def test_what_is_not_installed():
    def missing(name: str) -> Any:
        raise metadata.PackageNotFoundError(name)

    assert licences.look("package", "1", "sys_platform == 'emscripten'", missing) is None
    assert "not installed" in licences.look("package", "1", None, missing).trouble


def test_setup_installs_uv_by_hash_alone():
    pinned = (ROOT / "tools/uv.txt").read_text()
    makefile = (ROOT / "Makefile").read_text()
    assert pinned.count("--hash=sha256:") > 10
    assert "--only-binary :all:" in pinned
    assert "--require-hashes" in makefile
    assert not [line for line in makefile.splitlines() if "pip install" in line and "$(PINNED)" not in line]
