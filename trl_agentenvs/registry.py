"""Environments by name: those of this package, and anybody's as `module:Class` or `path/to/file.py:Class`.

Every command that takes an environment takes it by these rules and refuses it with these sentences. This package's own
are strings here, imported when they are asked for, so that the contract depends on none of them.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from .env import ToolEnv

__all__ = ["ENVIRONMENTS", "Registered", "load_env", "load_factory"]


class Registered(NamedTuple):
    """An environment of this package.

    Attributes:
        env: Its class, as `module:name`.
        purpose: What it is, in a few words.
        commands: The subcommands of `trl-agentenvs SUBCOMMAND NAME` that it has, and the function of each as
            `cli.Command` describes it.
    """

    env: str
    purpose: str
    commands: Mapping[str, str]


ENVIRONMENTS: dict[str, Registered] = {
    "alfworld": Registered(
        "trl_agentenvs.alfworld.env:ALFWorldEnv",
        "household tasks in a text world",
        {
            "play": "trl_agentenvs.alfworld.play:main",
            "data": "trl_agentenvs.alfworld.data_command:main",
            "demos": "trl_agentenvs.training.demos_command:main",
        },
    ),
}
"""By their names on the command line."""


def load_factory(name: str) -> Callable[[], Any]:
    """Import a class or another factory of environments.

    Args:
        name: One of `ENVIRONMENTS`, `module:Class`, or `path/to/file.py:Class`; modules are looked for in the current
            folder, too.

    Raises:
        ValueError: The name has another form, or the module has no such factory.
        FileNotFoundError: There is no such file.
        ImportError: The module cannot be imported.
    """
    place, _, attribute = (ENVIRONMENTS[name].env if name in ENVIRONMENTS else name).rpartition(":")
    if not place or not attribute:
        near = difflib.get_close_matches(name, ENVIRONMENTS, n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        known = ", ".join(ENVIRONMENTS)
        raise ValueError(f"got the environment {name!r}{hint}; expected {known}, module:Class or path/to/file.py:Class")
    here = os.getcwd()
    if "" not in sys.path and here not in sys.path:
        sys.path.append(here)  # last: a file of the current folder hides no library
    module = _import_file(Path(place).expanduser()) if place.endswith(".py") else _import(place)
    factory: Any = module
    for part in attribute.split("."):
        factory = getattr(factory, part, None)
    if not callable(factory):
        classes = {other: value for other, value in vars(module).items() if inspect.isclass(value)}
        found = [other for other, value in classes.items() if hasattr(value, "reset") and value is not ToolEnv]
        has = f"; it has {', '.join(found)}" if found else ""
        raise ValueError(f"got the environment {name!r}, but {place} has no class or factory {attribute!r}{has}")
    return factory  # type: ignore[no-any-return]


def load_env(name: str) -> type[ToolEnv]:
    """Import a `ToolEnv` subclass, by the rules of `load_factory`.

    Raises:
        ValueError: As there, or it is another factory.
        FileNotFoundError: There is no such file.
        ImportError: The module cannot be imported, or the class breaks the contract of `ToolEnv`.
    """
    found = load_factory(name)
    if not isinstance(found, type) or not issubclass(found, ToolEnv):
        raise ValueError(f"got the environment {name!r}, which is no subclass of trl_agentenvs.ToolEnv; expected one")
    return found


def _import(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:  # a module may raise anything while it is imported
        raise ImportError(f"{name} cannot be imported: {type(error).__name__}: {error}") from error


def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise FileNotFoundError(f"got {path}; expected a Python file, but there is none")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    known = sys.modules.get(path.stem)
    if known is not None and Path(getattr(known, "__file__", None) or "").resolve() == path.resolve():
        return known
    if spec is None or spec.loader is None or known is not None:
        raise ImportError(f"{path} cannot be imported under the name {path.stem!r}, which is taken; rename the file")
    # Pickle and annotations look a class up by the name of its module; a file imports its neighbours.
    module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.resolve().parent))
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # a module may raise anything while it is imported
        del sys.modules[path.stem]
        raise ImportError(f"{path} cannot be imported: {type(error).__name__}: {error}") from error
    return module
