"""The bill of materials: the production packages of uv.lock, in CycloneDX, with each package's licence."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

MARKER = "uv:package:marker"


def exported(uv: str) -> dict[str, Any]:
    """The bill as uv exports it from the lock: names, versions, hashes and dependencies, without licences."""
    command = [uv, "export", "--locked", "--quiet", "--format", "cyclonedx1.5", "--no-default-groups", "--all-extras"]
    done = subprocess.run([*command, "--preview-features", "sbom-export"], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"uv export failed:\n{done.stderr}")
    bill: dict[str, Any] = json.loads(done.stdout)
    return bill


def marker_of(component: dict[str, Any]) -> str | None:
    return next((one["value"] for one in component.get("properties", ()) if one["name"] == MARKER), None)


def with_licences(bill: dict[str, Any], licences: dict[str, str]) -> dict[str, Any]:
    components = [
        {**one, "licenses": [_worded(licences[one["name"]])]} if one["name"] in licences else one
        for one in bill["components"]
    ]
    return {**bill, "components": components}


def write(bill: dict[str, Any], file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(bill, indent=2) + "\n")


def _worded(licence: str) -> dict[str, Any]:
    try:
        return {"expression": str(canonicalize_license_expression(licence))}
    except InvalidLicenseExpression:
        return {"license": {"name": licence}}
