"""Draws the terminal picture of the README: the real output of real commands, as an SVG.

    .venv/bin/python -m tools.picture

Run it again after the look of `wakeful runs` or `wakeful trace` has changed.
"""

from __future__ import annotations

import html
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.color_triplet import ColorTriplet
from rich.console import Console
from rich.style import Style
from rich.terminal_theme import MONOKAI
from rich.text import Text

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "pictures" / "terminal.svg"
COLUMNS = 96
CHARACTER, LINE, MARGIN = 8.43, 19, 14  # of 14 px monospace
FONT = "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace"
BACKGROUND, FOREGROUND = "#14161b", "#d7dae0"


def main() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    example = re.search(r"```python\n# desk\.py\n(.*?)```", readme, re.DOTALL)
    if example is None:
        sys.exit("README.md has no block of Python that begins with # desk.py")
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "desk.py").write_text(example[1], encoding="utf-8")
        data = '{"title": "Printer on fire", "severity": 3}'
        run("emit", "desk.py", "ticket.created", "--id", "T-2", "--data", data, folder=folder)
        run("once", "desk.py", folder=folder)
        listing = run("runs", folder=folder)
        found = re.search(r"([0-9a-f]{10})[^\n]*triage", Text.from_ansi(listing).plain)
        if found is None:
            sys.exit(f"wakeful runs shows no run of triage:\n{listing}")
        trace = run("trace", found[1], folder=folder)
    shown = Text.from_ansi(f"$ wakeful runs\n{listing}\n$ wakeful trace {found[1]}\n{trace}")
    PICTURE.write_text(drawn(shown), encoding="utf-8")
    print(f"wrote {PICTURE.relative_to(ROOT)}")


def run(*words: str, folder: str) -> str:
    environment = {**os.environ, "FORCE_COLOR": "1", "COLUMNS": str(COLUMNS), "TERM": "xterm-256color"}
    command = [str(Path(sys.executable).with_name("wakeful")), *words]
    return subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True, text=True).stdout


def drawn(shown: Text) -> str:
    """One <text> per span of one style, placed by its column, so that no font can break the table's alignment."""
    lines = Console(width=COLUMNS).render_lines(shown, pad=False)
    while lines and not "".join(segment.text for segment in lines[-1]).strip():
        lines.pop()
    width, height = COLUMNS * CHARACTER + 2 * MARGIN, len(lines) * LINE + 2 * MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" font-family="{FONT}" font-size="14">',
        f'<rect width="{width:.0f}" height="{height}" rx="8" fill="{BACKGROUND}"/>',
    ]
    for number, line in enumerate(lines):
        column = 0
        for segment in line:
            text = segment.text.rstrip("\n")
            if text.strip():
                indent = len(text) - len(text.lstrip())
                x, y = MARGIN + (column + indent) * CHARACTER, MARGIN + (number + 0.75) * LINE
                stretch = len(text.strip()) * CHARACTER
                parts.append(
                    f'<text x="{x:.1f}" y="{y:.1f}" textLength="{stretch:.1f}" xml:space="preserve"{look(segment.style)}>'
                    f"{html.escape(text.strip())}</text>"
                )
            column += len(text)
    return "\n".join([*parts, "</svg>", ""])


def look(style: Style | None) -> str:
    color = FOREGROUND if style is None or style.color is None else hexadecimal(style.color.get_truecolor(MONOKAI))
    bold = ' font-weight="bold"' if style is not None and style.bold else ""
    dim = ' opacity="0.65"' if style is not None and style.dim else ""
    return f' fill="{color}"{bold}{dim}'


def hexadecimal(triplet: ColorTriplet) -> str:
    return "#{:02x}{:02x}{:02x}".format(*triplet)


if __name__ == "__main__":
    main()
