from __future__ import annotations

import subprocess
import sys

import pytest

import wakeful as package
from support.command_line import WAKEFUL, environment
from wakeful.cli import COMMANDS, HEADINGS, main
from wakeful.names import HOMES


def test_help_lists_every_command_with_one_line(wakeful):
    shown = wakeful("--help").out
    for name, (_, summary) in COMMANDS.items():
        assert f"  {name:<12} {summary}\n" in shown
    assert max(len(line) for line in shown.splitlines()) <= 80
    assert set(HEADINGS) <= set(COMMANDS)
    assert wakeful().out == wakeful("help").out == shown


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(wakeful, name, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    shown = wakeful(name, "--help").out
    assert shown.startswith(f"usage: wakeful {name}")
    assert max(len(line) for line in shown.splitlines()) <= 80
    assert wakeful("help", name).out == shown


def test_help_loads_nothing_heavy():
    code = (
        "import sys; from wakeful.cli import main; main(['--help']); "
        "print(sorted({'pydantic', 'rich', 'structlog', 'uvicorn', 'apsw', 'asyncio'} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


@pytest.mark.parametrize("module", ["wakeful", "wakeful.cli"])
def test_without_the_script_on_the_path(module):
    done = subprocess.run([sys.executable, "-m", module, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"wakeful {package.__version__}\n"


def test_public_names_are_where_they_are_said_to_be():
    listed = [name for names in HOMES.values() for name in names]
    assert sorted(listed) == sorted({*package.__all__, "__version__"})
    for name in package.__all__:
        assert getattr(package, name) is not None
    assert set(package.__all__) <= set(dir(package))
    with pytest.raises(AttributeError, match="nonsense"):
        _ = package.nonsense


def test_version(wakeful):
    assert wakeful("--version").out == f"wakeful {package.__version__}\n"


@pytest.mark.parametrize("module", ["wakeful", "wakeful.cli"])
def test_without_the_script(module):
    words = [sys.executable, "-m", module, "--version"]
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=environment())
    assert done.stdout == f"wakeful {package.__version__}\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["rnus"], 'wakeful: there is no command "rnus". Did you mean "runs"?\n'),
        (["xyzzy"], 'wakeful: there is no command "xyzzy". See wakeful --help.\n'),
        (["--nope"], 'wakeful: there is no option "--nope". See wakeful --help.\n'),
        (["runs", "--jsn"], 'wakeful: runs: there is no option "--jsn". Did you mean "--json"?\n'),
        (["runs", "--state", "daed"], 'wakeful: runs: --state: no state "daed". Did you mean "dead"?\n'),
        (["runs", "--limit", "0"], 'wakeful: runs: --limit: "0" is not a whole number from 1 to 500\n'),
        (["runs", "extra"], 'wakeful: runs: unexpected argument "extra"; see wakeful runs --help\n'),
        (["serve", "app.py", "--grace", "soon"], "wakeful: serve: --grace: 'soon' is not a duration"),
        (["trace"], "wakeful: ID is missing: wakeful trace"),
        (["remind"], "wakeful: WHEN and TEXT are missing: wakeful remind"),
        (["emit", "app.py"], "wakeful: emit takes APP and TYPE"),
        (["emit", "app.py", "a", "--data", "{"], "wakeful: --data: data is not JSON"),
        (["emit", "app.py", "a", "--data", "hello"], """Text needs quotes: --data '"hello"'"""),
        (["emit", "app.py", "a", "--data", "@none.json"], "wakeful: --data @none.json: No such file"),
        (["emit", "app.py", "a", "--set", "x"], "wakeful: --set x: write NAME=VALUE"),
        (["emit", "app.py", "a", "--set", "expirytime=soon"], 'wakeful: emit: expirytime is "soon"'),
        (["emit", "a", "--url", "x", "--store", "sqlite:///a.db"], "wakeful: emit --url does not take --store"),
        (["emit", "a", "--url", "ftp://x"], "wakeful: --url ftp://x: write it like http://"),
    ],
)
def test_wrong_calls_get_one_line_and_exit_code_2(wakeful, words, said):
    result = wakeful(*words, code=2)
    assert said in result.err
    assert result.err.count("\n") == 1
    assert result.out == ""


def test_an_error_is_one_line_and_exit_code_1(wakeful):
    result = wakeful("runs", "--store", "mysql://x", code=1)
    assert result.err == "wakeful: store 'mysql://x': write sqlite:///file.db or postgresql://user@host/database\n"


def test_a_traceback_only_for_those_who_ask(wakeful, monkeypatch):
    monkeypatch.setattr("wakeful.surface.performing.reading", lambda *_: 1 / 0)
    assert wakeful("alarms", code=1).err == (
        "wakeful: unexpected ZeroDivisionError: division by zero (WAKEFUL_DEBUG=1 shows where)\n"
    )
    monkeypatch.setenv("WAKEFUL_DEBUG", "1")
    assert "Traceback" in wakeful("alarms", code=1).err


def test_ctrl_c_in_a_listing(wakeful, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("wakeful.surface.performing.reading", interrupt)
    assert wakeful("alarms", code=130).err == ""


def test_a_reader_that_leaves_early_is_no_error(tickets):
    for number in range(3):
        assert main(["emit", "app.py", "ticket.odd", "--id", str(number)]) == 0
    for words in (["events"], ["events", "--json"]):
        shown = subprocess.Popen(
            [str(WAKEFUL), *words], cwd=tickets, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert shown.stdout is not None
        shown.stdout.close()  # as `| head` does, only sooner
        _, said = shown.communicate(timeout=60)
        assert said == b""
        assert shown.returncode == 141
