"""Rule about processes: the same row gives the same start in a process of its own, with another hash seed.

The members of a group can be spread over several training processes, and asynchronous trainers play in a child. What
depends on `hash()` of text, on the order of a set, or on what the first process did before differs there. A factory
that is defined in the main script is not checked, since a child cannot import it from there.
"""

from __future__ import annotations

import functools
import json
import logging
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator

from .subject import Finding, Subject, show, show_difference

__all__ = ["check_other_process"]

logger = logging.getLogger("trl_agentenvs.check")

PROCESS_WAIT_S = 120.0
_HASH_SEEDS = ("1", "2")
_ADVICE = (
    "Processes of one training run would play different tasks for one row. Derive everything from the row, as in"
    " random.Random(f'{seed}'); do not use hash() of text or the order of a set."
)


def check_other_process(subject: Subject) -> Iterator[Finding]:
    """Start every row in a child process and compare. The factory must be picklable."""
    made_by: object = subject.factory
    while isinstance(made_by, functools.partial):
        made_by = made_by.func
    if getattr(made_by, "__module__", None) == "__main__":
        logger.warning("not checked: starts in another process, which cannot import from the main script")
        return
    seed = next(seed for seed in _HASH_SEEDS if seed != os.environ.get("PYTHONHASHSEED"))
    surroundings = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", f"from {__name__} import start_all; start_all()"]
    try:
        child = subprocess.run(
            command,
            input=pickle.dumps((subject.factory, subject.rows)),
            capture_output=True,
            env=surroundings,
            timeout=PROCESS_WAIT_S,
            check=True,
        )
    except subprocess.TimeoutExpired:
        yield Finding("other-process", f"in a process of its own it did not start in {PROCESS_WAIT_S:g} s. {_ADVICE}")
        return
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        yield Finding(
            "other-process",
            f"in a process of its own it failed: {show(said)}. Asynchronous trainers play in a child process: let what"
            " it needs be importable there.",
        )
        return
    env = subject.make()
    expected = [str(subject.reset(env, row)) for row in subject.rows]
    if difference := show_difference(expected, json.loads(child.stdout)):
        yield Finding("other-process", f"in a process of its own a row started differently: {difference}. {_ADVICE}")


def start_all() -> None:
    """What the child does: starts to standard output, as JSON."""
    out, sys.stdout = sys.stdout, sys.stderr  # the environment may print
    factory, rows = pickle.load(sys.stdin.buffer)
    with Subject(factory, rows, None) as subject:
        env = subject.make()
        json.dump([str(subject.reset(env, row)) for row in rows], out)
