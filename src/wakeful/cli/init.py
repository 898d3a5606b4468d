"""init: create a small project that runs out of the box."""

from __future__ import annotations

import argparse
from importlib import resources
from pathlib import Path

from wakeful.errors import ConfigError
from wakeful.shell.arguments import Command, Parser

# Each file of the project, and the template in this package that it is copied from.
FILES = {"app.py": "app.py.template", "README.md": "README.md.template", "test_app.py": "test_app.py.template"}
NEXT = """\
wakeful emit app.py ticket.created --data '{"title": "Printer on fire", "severity": 3}'
wakeful once app.py
wakeful runs"""


def declare(parser: Parser) -> None:
    parser.add_argument(
        "folder",
        metavar="FOLDER",
        nargs="?",
        default=".",
        help="the folder of the project (default: the current one); created if missing",
    )


def execute(arguments: argparse.Namespace) -> int:
    folder = Path(arguments.folder)
    taken = [name for name in FILES if (folder / name).exists()]
    if taken:
        message = f"{folder / taken[0]} already exists and is not overwritten: name another folder"
        raise ConfigError(message)
    templates = resources.files("wakeful.cli") / "project"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, template in FILES.items():
            with (folder / name).open("x", encoding="utf-8") as file:
                file.write((templates / template).read_text(encoding="utf-8"))
    except OSError as error:
        message = f"cannot write into {folder}: {error.strerror or error}"
        raise ConfigError(message) from None
    print(f"created {', '.join(str(folder / name) for name in FILES)}")
    print("\nnext:\n")
    if folder.resolve() != Path.cwd():
        print(f"  cd {folder}")
    for line in NEXT.splitlines():
        print(f"  {line}")
    print("\nto keep it running while you edit it: wakeful dev app.py")
    return 0


init_command = Command(declare, execute)
