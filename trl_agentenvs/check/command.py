"""`trl-agentenvs check`: find the environment, find rows for it, run the contract, print what is broken."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
import json
import sys
import textwrap
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from ..arguments import ArgumentParser, positive_int
from ..env import ToolEnv
from ..terminal import printable
from . import RULES, check_env

__all__ = ["environment_rows", "load_factory", "main", "read_rows"]

WIDTH_CHARS = 100


def main(argv: Sequence[str], program: str) -> int:
    """Run the contract against the environment that the arguments name.

    Args:
        argv: Arguments behind the subcommand.
        program: Name for usage messages.

    Returns:
        0 without findings, 1 with.

    Raises:
        ValueError: The environment or its rows cannot be had as asked for.
        ImportError: The module cannot be imported.
        OSError: A file cannot be read.
    """
    parser = ArgumentParser(prog=program, description="Run the contract against an environment.")
    parser.add_argument("environment", help="module:Name or path/to/file.py:Name of a class or another factory")
    # Rows
    parser.add_argument("--rows", type=Path, metavar="FILE", help="rows to start from, one JSON object a line")
    parser.add_argument("--split", default="train", help="split of the environment's own rows (default: train)")
    parser.add_argument("--n", type=positive_int, default=4, help="number of the environment's own rows (default: 4)")
    parser.add_argument("--seed", type=int, default=0, help="seed of their draw (default: 0)")
    args = parser.parse_args(argv)

    started = time.monotonic()
    factory = load_factory(args.environment)
    rows = read_rows(args.rows) if args.rows else environment_rows(factory, args.split, args.n, args.seed)
    findings = check_env(factory, rows)
    for finding in findings:
        print(textwrap.fill(printable(f"{finding.rule}: {finding.message}"), WIDTH_CHARS, subsequent_indent="    "))
    took = f"rules: {len(RULES)}, rows: {len(rows)}, {time.monotonic() - started:.1f} s"
    if findings:
        print(f"\n{args.environment} has findings: {len(findings)} ({took})")
        return 1
    print(f"{args.environment} keeps the contract ({took})")
    return 0


def load_factory(name: str) -> Callable[[], Any]:
    """Import the class or factory that `module:Name` or `path/to/file.py:Name` names, from the current folder too.

    Raises:
        ValueError: The name has another form, or the module has no such factory.
        ImportError: The module cannot be imported.
    """
    place, _, attribute = name.rpartition(":")
    if not place or not attribute:
        raise ValueError(f"got {name!r}; expected module:Name or path/to/file.py:Name")
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    module = _import_file(Path(place)) if place.endswith(".py") else _import(place)
    factory: Any = module
    for part in attribute.split("."):
        factory = getattr(factory, part, None)
    if not callable(factory):
        classes = {other: value for other, value in vars(module).items() if inspect.isclass(value)}
        found = [other for other, value in classes.items() if hasattr(value, "reset") and value is not ToolEnv]
        has = f"; it has {', '.join(found)}" if found else ""
        raise ValueError(f"{place} has no class or factory {attribute!r}{has}")
    return factory  # type: ignore[no-any-return]


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


def environment_rows(factory: Callable[[], Any], split: str, n: int | None, seed: int) -> list[dict[str, Any]]:
    """The environment's own rows, without needing `datasets`.

    Raises:
        ValueError: The environment has none, or not so many, or no such split.
    """
    cls = factory
    while isinstance(cls, functools.partial):
        cls = cls.func
    name = getattr(cls, "__name__", repr(cls))
    own = getattr(cls, "_rows", None)
    advice = "give some with --rows FILE, one JSON object a line"
    if own is None:
        raise ValueError(f"{name} has no rows of its own; {advice}")
    try:
        rows = [dict(row) for row in own(split, n, seed)]
    except NotImplementedError:
        raise ValueError(f"{name} has no rows of its own; {advice}") from None
    if not rows:
        raise ValueError(f"{name} has no rows in split {split!r}; name another with --split, or {advice}")
    return rows


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Rows from a file with one JSON object a line.

    Raises:
        OSError: The file cannot be read.
        ValueError: A line is no JSON object, or there are none.
    """
    rows: list[dict[str, Any]] = []
    with path.open(encoding="utf-8", errors="replace") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise ValueError(f"{path}, line {number}: got no JSON ({error}); expected one object a line") from None
            if not isinstance(row, dict):
                raise ValueError(f"{path}, line {number}: got {type(row).__name__}; expected one JSON object a line")
            rows.append(row)
    if not rows:
        raise ValueError(f"{path} holds no rows; expected one JSON object a line")
    return rows
