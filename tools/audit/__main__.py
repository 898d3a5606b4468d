"""`make audit`: known vulnerabilities, licences, and a bill of materials of the packages in uv.lock.

Exit code 0: nothing found. 1: a known vulnerability, or a licence that is not allowed. Any other: the audit itself
failed.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tools.audit import bill, licences, vulnerabilities


def main() -> int:
    parser = argparse.ArgumentParser(prog="make audit", description=__doc__)
    parser.add_argument("--uv", default=".venv/tool/bin/uv", help="the uv binary to run (default: %(default)s)")
    parser.add_argument(
        "--bill",
        type=Path,
        default=Path("build/wakeful.cdx.json"),
        help="file for the bill of materials (default: %(default)s)",
    )
    parser.add_argument("--service-url", help="an OSV-compatible advisory service to use instead of the default")
    asked = parser.parse_args()

    materials = bill.exported(asked.uv)
    looked = {
        one["name"]: licences.look(one["name"], one["version"], bill.marker_of(one)) for one in materials["components"]
    }
    found = [one for one in looked.values() if one]
    bill.write(bill.with_licences(materials, {one.name: one.licence for one in found if one.licence}), asked.bill)
    print(f"bill of materials: {asked.bill}, {len(looked)} packages")

    wrong = [one for one in found if one.trouble]
    print(f"licences: {len(found) - len(wrong)} of {len(found)} are allowed")
    for one in wrong:
        print(f"  {one.name} {one.version} {one.trouble}")
    if elsewhere := sorted(name for name, one in looked.items() if not one):
        print(f"  not for this platform, so not read: {', '.join(elsewhere)}")

    answer = vulnerabilities.ask(asked.uv, asked.service_url)
    print(f"vulnerabilities: {answer.answer.value}")
    if answer.answer is not vulnerabilities.Answer.NONE:
        print("  " + answer.words.replace("\n", "\n  "))
    return 1 if wrong or answer.answer is vulnerabilities.Answer.FOUND else 0


if __name__ == "__main__":
    sys.exit(main())
