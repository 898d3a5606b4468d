from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from wakeful.errors import ConfigError
from wakeful.loading import load_app

ONE = 'from wakeful import App\napp = App("one")\n'


@pytest.fixture(autouse=True)
def _clean_path(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "") or "").startswith(str(folder)):
            del sys.modules[name]


def write(name: str, text: str) -> None:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize("text", ["one.py", "one.py:app", "one:app", "one", "./one.py"])
def test_ways_to_name_an_app(text):
    write("one.py", ONE)
    assert load_app(text).name == "one"


def test_a_name_can_have_dots_and_a_file_can_be_anywhere():
    write("deep/down/one.py", "from wakeful import App\nclass Box:\n    app = App('boxed')\n")
    assert load_app("deep/down/one.py:Box.app").name == "boxed"


def test_the_same_app_under_two_names_is_one_app():
    write("one.py", ONE + "application = app\n")
    assert load_app("one.py").name == "one"


def test_siblings_can_be_imported():
    write("place/helper_of_one.py", "NAME = 'helped'\n")
    write("place/one.py", "from wakeful import App\nfrom helper_of_one import NAME\napp = App(NAME)\n")
    assert load_app("place/one.py").name == "helped"


def test_a_changed_file_is_loaded_anew():
    write("one.py", ONE)
    load_app("one.py")
    write("one.py", ONE.replace('"one"', '"changed"'))
    assert load_app("one.py").name == "changed"


def test_a_change_within_the_same_second_is_seen(monkeypatch: pytest.MonkeyPatch):
    """Kept bytecode would pass for current: the size is the same too."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    for name in ("one", "two"):
        write("one.py", ONE.replace("one", name))
        os.utime("one.py", (1_700_000_000, 1_700_000_000))
        assert load_app("one.py").name == name


@pytest.mark.parametrize("name", ["json.py", "wakeful.py", "my-app.py", "pytest.py"])
def test_a_file_may_have_any_name(name):
    write(name, ONE)
    assert load_app(name).name == "one"
    import json

    assert json.loads("1") == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def f(:\n", "app.py:1: SyntaxError: invalid syntax: def f(:"),
        ("x = 1\n  y = 2\n", "app.py:2: IndentationError: unexpected indent: y = 2"),
        ("import pydantik\n", 'app.py:1: there is no module "pydantik". Did you mean "pydantic"?'),
        ("import zzz_nothing\n", 'app.py:1: there is no module "zzz_nothing". Is it installed in this environment?'),
        ("from wakeful import Ap\n", "app.py:1: ImportError: cannot import name 'Ap' from 'wakeful'"),
        ("from wakeful import App, onn\n", 'Did you mean "on"?'),
        ("\n\n1 / 0\n", "app.py:3: ZeroDivisionError: division by zero"),
        ("raise RuntimeError\n", "app.py:1: RuntimeError"),
        ("raise RuntimeError('two\\nlines')\n", "app.py:1: RuntimeError: two lines"),
        ("titel = 1\nprint(title)\n", """app.py:2: NameError: name 'title' is not defined. Did you mean "titel"?"""),
        ("import os\nos.getcwdd()\n", 'Did you mean "getcwd"?'),
        ("import sys\nsys.exit(3)\n", "app.py:2: it exits while it is loaded"),
        ("x = 1\n", 'app.py: no App in it. Write: app = App("name")'),
        (ONE + 'other = App("two")\n', "app.py: 2 Apps in it. Say which: app.py:app or app.py:other"),
        (ONE + "app = App('a b')\n", "app.py:3: App('a b'): a name is letters"),
        (
            "from wakeful import App, on\n"
            + ONE
            + "@app.agent(on('a'))\nasync def f(run): ...\n@app.agent(on('b'), name='f')\nasync def g(run): ...\n",
            "agent f (app.py:6): app one already has an agent of that name (app.py:4)",
        ),
        (
            ONE + "from wakeful import on\n@app.agent(on('a'), ownr='x')\nasync def f(run): ...\n",
            'agent f (app.py:4): unknown option "ownr". Did you mean "owner"?',
        ),
        (ONE + "from wakeful import on\non('a', where='data.x >')\n", "app.py:4: "),
        (ONE + "from wakeful import on\non('')\n", 'app.py:4: on(""): the type is empty'),
    ],
)
def test_what_is_wrong_is_told_in_one_line(text, said):
    write("app.py", text)
    with pytest.raises(ConfigError) as caught:
        load_app("app.py")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("onee.py", 'there is no file onee.py. Did you mean "one.py"?'),
        ("nowhere/one.py", 'there is no file nowhere/one.py. Did you mean "one.py"?'),
        ("place/tow.py", 'there is no file place/tow.py. Did you mean "place/two.py"?'),
        ("place", 'place is a folder: name the file with the app in it. Did you mean "place/two.py"?'),
        ("onee:app", 'there is no module or file "onee". Did you mean "one.py"?'),
        ("one.py:ap", 'one.py: no "ap" in it. Did you mean "app"?'),
        ("one.py:App", 'one.py:App is a type, not an App. Did you mean "app"?'),
        (":app", '":app" names no app'),
        ("", "names no app"),
    ],
)
def test_what_is_not_there(text, said):
    write("one.py", ONE)
    write("place/two.py", ONE)
    with pytest.raises(ConfigError) as caught:
        load_app(text)
    assert said in str(caught.value)


def test_the_line_is_the_users_own_even_deep_in_a_helper():
    write("place/deep_helper.py", "def make():\n    return int('x')\n")
    write("place/app.py", "import deep_helper\n\ndeep_helper.make()\n")
    with pytest.raises(ConfigError, match=r"^place/deep_helper\.py:2: ValueError: invalid literal"):
        load_app("place/app.py")


def test_bytes_that_are_no_python():
    Path("app.py").write_bytes(b"x = '\xff\xfe'\n")
    with pytest.raises(ConfigError, match=r"app\.py"):
        load_app("app.py")
    Path("app.py").write_bytes(b"x = 1\x00\n")
    with pytest.raises(ConfigError, match=r"app\.py"):
        load_app("app.py")


@pytest.mark.parametrize("words", [["check"], ["once"], ["run", "peek"], ["emit", "x"], ["remind", "in 1 h", "tea"]])
def test_commands_find_the_app_alike(wakeful, tickets, monkeypatch, words):
    """app.py of this folder, or what WAKEFUL_APP names; and one word about it where there is none."""
    wakeful(*words)
    (tickets / "app.py").rename(tickets / "other.py")
    monkeypatch.setenv("WAKEFUL_APP", "other.py")
    wakeful(*words)
    monkeypatch.delenv("WAKEFUL_APP")
    (tickets / "wakeful.db").unlink(missing_ok=True)
    assert "WAKEFUL_APP" in wakeful(*words, code=2).err


def test_serve_and_worker_find_the_app_too(tickets, start):
    for command in (["serve", "--port", "0"], ["worker"]):
        assert start(*command).wait_for("tickets|working for")
