"""Loads the App that APP names on a command line: `file.py`, `file.py:name`, `module` or `module:name`.

Every problem becomes a ConfigError of one line: where (file:line), what, did you mean.
"""

from __future__ import annotations

import builtins
import importlib
import importlib.util
import pkgutil
import re
import sys
from collections.abc import Iterable
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType, TracebackType
from typing import Any

from wakeful.declarations import Declarations
from wakeful.errors import ConfigError, did_you_mean

LOADED = "__wakeful_loaded__"
_OWN_FOLDER = str(Path(__file__).parent)
_CANNOT_IMPORT_NAME = re.compile(r"cannot import name '(\w+)' from (?:partially initialized module )?'([\w.]+)'")


def load_app(text: str) -> Declarations:
    """The App that APP names. ConfigError if there is none, or if loading it fails."""
    place, _, name = text.partition(":")
    if not place:
        message = f'"{text}" names no app: write file.py, file.py:name or module:name'
        raise ConfigError(message)
    if place.endswith(".py") or Path(place).exists():
        path = find_file(place)
        return find_app(load_file(path), name, shown(path))
    return find_app(load_module(place), name, place)


def app_folder(text: str) -> Path:
    """The folder of APP's code: the file's folder, or the current one for a module."""
    place = text.partition(":")[0]
    return Path(place).absolute().parent if place.endswith(".py") else Path.cwd()


def find_file(text: str) -> Path:
    path = Path(text)
    if path.is_file():
        return path.absolute()
    if path.is_dir():
        near = sorted(one.name for one in path.glob("*.py"))
        hint = f' Did you mean "{path / near[0]}"?' if near else ""
        message = f"{text} is a folder: name the file with the app in it.{hint}"
        raise ConfigError(message)
    folder = path.parent if path.parent.is_dir() else Path()
    names = [str(one) if folder != path.parent else str(path.parent / one.name) for one in folder.glob("*.py")]
    message = f"there is no file {text}.{close_to(text, names)}"
    raise ConfigError(message)


def load_file(path: Path) -> ModuleType:
    """Execute a file as a module. Its folder comes first on sys.path, as when Python runs a script."""
    folder = str(path.parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    name = path.stem
    taken = sys.modules.get(name)
    if (taken is not None and not hasattr(taken, LOADED)) or name in sys.stdlib_module_names or not name.isidentifier():
        name = f"wakeful_app_{re.sub(r'[^A-Za-z0-9_]', '_', name)}"
    specification = importlib.util.spec_from_file_location(name, path)
    if specification is None or specification.loader is None:
        message = f"{shown(path)} is not a Python file"
        raise ConfigError(message)
    if isinstance(specification.loader, SourceFileLoader):
        specification.loader = PresentSource(name, str(path))
    module = importlib.util.module_from_spec(specification)
    setattr(module, LOADED, True)
    sys.modules[name] = module
    try:
        specification.loader.exec_module(module)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a file may do anything, sys.exit() included
        sys.modules.pop(name, None)
        raise ConfigError(explain(error, path)) from error
    return module


class PresentSource(SourceFileLoader):
    """Reads the source on every load. Python's cached bytecode counts as current if the file's size and the second of
    its last change are the same, but two edits may come within one second.
    """

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


def load_module(name: str) -> ModuleType:
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        return importlib.import_module(name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        if isinstance(error, ModuleNotFoundError) and error.name and f"{name}.".startswith(f"{error.name}."):
            here = [one.name for one in Path().glob("*.py")]
            message = f'there is no module or file "{name}".{close_to(f"{name}.py", here) or close_to(name, modules())}'
            raise ConfigError(message) from None
        raise ConfigError(explain(error, None)) from error


def find_app(module: ModuleType, name: str, where: str) -> Declarations:
    apps = {key: value for key, value in vars(module).items() if isinstance(value, Declarations)}
    if name:
        found: Any = module
        for part in name.split("."):
            if not hasattr(found, part):
                message = f'{where}: no "{name}" in it.{did_you_mean(name, apps)}'
                raise ConfigError(message)
            found = getattr(found, part)
        if not isinstance(found, Declarations):
            message = f"{where}:{name} is a {type(found).__name__}, not an App.{did_you_mean(name, apps)}"
            raise ConfigError(message)
        return found
    distinct = {id(app): app for app in apps.values()}
    if not distinct:
        message = f'{where}: no App in it. Write: app = App("name")'
        raise ConfigError(message)
    if len(distinct) > 1:
        names = sorted(next(key for key, app in apps.items() if app is one) for one in distinct.values())
        choices = " or ".join(f"{where}:{one}" for one in names)
        message = f"{where}: {len(distinct)} Apps in it. Say which: {choices}"
        raise ConfigError(message)
    return next(iter(distinct.values()))


def explain(error: BaseException, path: Path | None) -> str:
    """One line about what went wrong while a user's code was loaded."""
    if isinstance(error, SyntaxError) and error.filename:
        text = f": {' '.join(error.text.split())[:80]}" if error.text else ""
        return f"{shown(Path(error.filename))}:{error.lineno or 1}: {type(error).__name__}: {error.msg}{text}"
    what = shorter_paths(" ".join(str(error).split()))
    where = place_of(error.__traceback__, path)
    if isinstance(error, ConfigError):
        file = where.rpartition(":")[0]
        return what if f"({file}:" in what else f"{where}: {what}"
    if isinstance(error, SystemExit):
        return f'{where}: it exits while it is loaded: put that under if __name__ == "__main__":'
    hint = suggestion(error)
    if isinstance(error, ModuleNotFoundError) and error.name:
        return f'{where}: there is no module "{error.name}".{hint or " Is it installed in this environment?"}'
    kind = type(error).__name__
    return (
        f"{where}: {kind}: {what}{'.' if hint and not what.endswith('.') else ''}{hint}" if what else f"{where}: {kind}"
    )


def place_of(trace: TracebackType | None, path: Path | None) -> str:
    """The deepest line of the user's own code in the traceback."""
    folder = str(path.parent if path is not None else Path.cwd())
    place = shown(path) if path is not None else "?"
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        own = file.startswith(folder) and "site-packages" not in file and not file.startswith(_OWN_FOLDER)
        if own or (path is not None and file == str(path)):
            place = f"{shown(Path(file))}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place


def suggestion(error: BaseException) -> str:
    """' Did you mean "x"?' for errors that are typing mistakes."""
    if isinstance(error, ModuleNotFoundError) and error.name:
        return close_to(error.name.rpartition(".")[2], modules())
    if isinstance(error, ImportError) and (match := _CANNOT_IMPORT_NAME.search(str(error))):
        module = sys.modules.get(match[2])
        return close_to(match[1], [*dir(module), *getattr(module, "__all__", ())]) if module else ""
    if isinstance(error, NameError) and error.name:
        names: set[str] = set(dir(builtins))
        trace = error.__traceback__
        while trace is not None:
            names |= {*trace.tb_frame.f_globals, *trace.tb_frame.f_locals}
            trace = trace.tb_next
        return close_to(error.name, names)
    if isinstance(error, AttributeError) and error.name and error.obj is not None:
        return close_to(error.name, dir(error.obj))
    return ""


def close_to(word: str, known: Iterable[str]) -> str:
    """Like did_you_mean, but without the list of known words if none is close."""
    hint = did_you_mean(word, known)
    return hint if "Did you mean" in hint else ""


def modules() -> set[str]:
    """The names of all importable modules."""
    return {*sys.stdlib_module_names, *(one.name for one in pkgutil.iter_modules())}


def shown(path: Path) -> str:
    """A path as a person in this folder would write it."""
    try:
        return str(path.absolute().relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def shorter_paths(text: str) -> str:
    return text.replace(f"{Path.cwd()}/", "")
