"""Known vulnerabilities of every package in uv.lock, developer tools included, as `uv audit` finds them.

The advisories come over the network. If the service cannot be reached, the answer is "not known": neither "none" nor a
failure.
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
    UNKNOWN = "not known: the advisory service could not be reached"


@dataclass(frozen=True)
class Audited:
    answer: Answer
    words: str


def ask(uv: str, service: str | None) -> Audited:
    command = [uv, "audit", "--locked", "--preview-features", "audit-command"]
    if service:
        command += ["--service-url", service]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    words = "\n".join(text for text in (done.stdout.strip(), done.stderr.strip()) if text)
    if done.returncode == 0:
        return Audited(Answer.NONE, words)
    if done.returncode == FOUND:
        return Audited(Answer.FOUND, words)
    if any(sign in done.stderr for sign in NO_SERVICE):
        return Audited(Answer.UNKNOWN, words)
    raise SystemExit(f"uv audit failed:\n{words}")
