"""Known vulnerabilities of every package in uv.lock, the tools of developers too, as `uv audit` finds them.

The advisories are asked for over the network. Where their service cannot be reached the audit says so, and the answer
is "not known": neither "none" nor a failure.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from enum import Enum

FOUND = 1
NO_SERVICE = ("error sending request", "Request failed after", "timed out")


class Answer(Enum):
    NONE = "none known"
    FOUND = "found"
    UNKNOWN = "not known: the service of advisories could not be reached"


@dataclass(frozen=True)
class Asked:
    answer: Answer
    words: str


def ask(uv: str, service: str | None) -> Asked:
    command = [uv, "audit", "--locked", "--preview-features", "audit-command"]
    if service:
        command += ["--service-url", service]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    words = "\n".join(text for text in (done.stdout.strip(), done.stderr.strip()) if text)
    if done.returncode == 0:
        return Asked(Answer.NONE, words)
    if done.returncode == FOUND:
        return Asked(Answer.FOUND, words)
    if any(sign in done.stderr for sign in NO_SERVICE):
        return Asked(Answer.UNKNOWN, words)
    raise SystemExit(f"uv audit failed:\n{words}")
