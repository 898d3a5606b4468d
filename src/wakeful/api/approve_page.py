"""The page behind a link to an approval: what will be done, and two buttons. Plain HTML without a script, for a phone too.

Everything on it is escaped, and known secrets and the arguments that a policy redacts are replaced. It loads nothing, and no page may frame it.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from html import escape
from typing import Any

from starlette.responses import HTMLResponse

from wakeful.http.change import NOTE_LIMIT
from wakeful.redaction import redact
from wakeful.resources.words import clock_time, indented_json, plain, plain_lines

Approval = Mapping[str, Any]

LONGEST_VALUE = 20_000  # characters
STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 40rem; padding: 1.25rem; overflow-wrap: anywhere; }
h1 { font-size: 1.25rem; white-space: pre-wrap; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .25rem 1rem; }
dt { color: color-mix(in srgb, currentColor 72%, transparent); }
dd { margin: 0; }
pre { margin: 0; white-space: pre-wrap; font-size: .875rem; }
table { border-collapse: collapse; width: 100%; }
th, td { border-top: 1px solid; border-color: color-mix(in srgb, currentColor 25%, transparent); padding: .4rem .5rem .4rem 0; text-align: left; vertical-align: top; }
th { font-weight: 600; }
textarea { box-sizing: border-box; font: inherit; padding: .5rem; width: 100%; }
button { border: 0; border-radius: .4rem; color: white; cursor: pointer; font: inherit; font-weight: 600; margin: .75rem 0; padding: .75rem 0; width: 48%; }
.yes { background: #1a7f37; float: left; }
.no { background: #b42318; float: right; }
.outcome { border-left: .3rem solid; padding-left: .75rem; }
.small { clear: both; color: color-mix(in srgb, currentColor 72%, transparent); font-size: .875rem; }
"""
HEADERS = {
    "Content-Security-Policy": (
        f"default-src 'none'; style-src 'sha256-{b64encode(sha256(STYLE.encode()).digest()).decode()}'; form-action 'self'; "
        "base-uri 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "X-Robots-Tag": "noindex, nofollow",
}


def question_page(approval: Approval, *, person: str, until: str | None, digest: str) -> HTMLResponse:
    """The open question, with the form."""
    form = (
        '<form method="post">'
        f'<input type="hidden" name="digest" value="{said(digest)}">'
        f'<label>Note<textarea name="note" rows="2" maxlength="{NOTE_LIMIT}"></textarea></label>'
        '<button class="yes" name="answer" value="approve">Approve</button>'
        '<button class="no" name="answer" value="deny">Deny</button>'
        "</form>"
        f'<p class="small">You answer as {said(person)}. The link answers once, until {said(clock_time(until))}.</p>'
    )
    return page("An approval waits for you", [*about(approval), form])


def unanswerable_page(approval: Approval, *, command: str) -> HTMLResponse:
    """A question that needs more than a yes or a no."""
    words = f"This question needs more than a yes or a no. Answer it with <code>{said(command)}</code>."
    return page("An approval waits for you", [*about(approval), f"<p>{words}</p>"])


def outcome_page(approval: Approval, words: str, *, status: int = 200) -> HTMLResponse:
    """What became of the approval."""
    return page("An approval", [f'<p class="outcome">{said(words)}</p>', *about(approval)], status=status)


def refusal_page(words: str, status: int, headers: Mapping[str, str] | None = None) -> HTMLResponse:
    """A link that shows nothing."""
    return page("This link does not work", [f"<h1>This link does not work</h1><p>{said(words)}</p>"], status, headers)


def page(title: str, parts: Iterable[str], status: int = 200, headers: Mapping[str, str] | None = None) -> HTMLResponse:
    content = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{said(title)}</title><style>{STYLE}</style></head><body><main>{''.join(parts)}</main></body></html>"
    )
    return HTMLResponse(content, status_code=status, headers={**HEADERS, **(headers or {})})


def about(approval: Approval) -> list[str]:
    """What is asked, by which agent, and what would be done. Fields that an approval does not have are left out."""
    rows = [
        ("App", approval.get("app")),
        ("Agent", approval.get("agent")),
        ("Action", approval.get("action")),
        ("Rule", approval.get("rule")),
        ("Reason", approval.get("reason")),
        ("Asked", names(approval.get("by")) or approval.get("to")),
        ("Until", clock_time(approval["due_at"]) if approval.get("due_at") else None),
        ("Votes", votes(approval)),
        ("Remark", approval.get("note") if approval.get("state") == "open" else None),
    ]
    shown = "".join(f"<dt>{name}</dt><dd>{said(value)}</dd>" for name, value in rows if value)
    return [f"<h1>{said(approval['question'])}</h1>", *arguments(approval.get("arguments")), f"<dl>{shown}</dl>"]


def arguments(given: Any) -> list[str]:
    if not given:
        return []
    named = given.items() if isinstance(given, Mapping) else enumerate(given, 1) if isinstance(given, Sequence) else ()
    rows = "".join(
        f'<tr><th scope="row">{said(name)}</th><td><pre>{value_of(value)}</pre></td></tr>' for name, value in named
    )
    return [f"<table>{rows}</table>"] if rows else [f"<pre>{value_of(given)}</pre>"]


def value_of(value: Any) -> str:
    text = value if isinstance(value, str) else indented_json(value)
    more = len(text) - LONGEST_VALUE
    return said(text[:LONGEST_VALUE]) + (f"\n… and {more:,} more characters" if more > 0 else "")


def votes(approval: Approval) -> str | None:
    """How many people agreed so far, if more than one must."""
    of = approval.get("of")
    if not isinstance(of, int) or of < 2:
        return None
    given = approval.get("votes") or []
    return f"{len(given)} of {of}"


def names(given: Any) -> str | None:
    return ", ".join(map(str, given)) if isinstance(given, list | tuple) else given


def said(text: Any) -> str:
    """Text for HTML: escaped, without unprintable characters, on as many lines as it has."""
    lines = str(text)
    return escape(plain_lines(lines) if "\n" in lines else plain(redact(lines)))
