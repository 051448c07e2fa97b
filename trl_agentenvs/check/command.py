"""`trl-agentenvs check`: find the environment, find rows for it, run the contract, print what is broken."""

from __future__ import annotations

import functools
import json
import textwrap
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ..arguments import ArgumentParser, positive_int
from ..registry import ENVIRONMENTS, load_factory
from ..terminal import printable
from . import RULES, check_env

__all__ = ["environment_rows", "main", "read_rows"]

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
    names = ", ".join(ENVIRONMENTS)
    parser.add_argument("environment", help=f"{names}, module:Class or path/to/file.py:Class; any factory will do")
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
