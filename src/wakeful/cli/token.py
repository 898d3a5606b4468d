"""`wakeful token`: print a new token for the HTTP API. Nothing is stored; set it where the server is started."""

from __future__ import annotations

import argparse

from wakeful.shell.arguments import Command, Parser, add_json
from wakeful.shell.terminal import print_json
from wakeful.tokens import new_token


def declare(parser: Parser) -> None:
    add_json(parser)


def execute(arguments: argparse.Namespace) -> int:
    token = new_token()
    print_json({"token": token}) if arguments.json else print(token)
    return 0


token_command = Command(
    declare,
    execute,
    "Set it as WAKEFUL_TOKEN where the server and its clients run. To replace a token, set the new one as WAKEFUL_TOKEN_NEXT on all servers, "
    "then as WAKEFUL_TOKEN of all clients, then as WAKEFUL_TOKEN of the servers.",
)
