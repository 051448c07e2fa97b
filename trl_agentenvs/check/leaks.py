"""Rule about what an environment leaves behind: open files, threads, temporary files and processes.

Trainers never close environments and reset them thousands of times, so what one episode leaves adds up. Open files and
child processes are counted where the system shows them under /proc or /dev/fd; elsewhere they are not checked.
Temporary files are counted in a private folder that stands in for the system's while the check runs.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import logging
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from .subject import Finding, Subject

__all__ = ["check_leaks", "only_new_garbage", "private_temp_folder"]

logger = logging.getLogger("trl_agentenvs.check")

RESETS = 100
WARM_UP_RESETS = 10
LEAK_WALL_S = 20.0
TOLERATED_GROWTH = 3
SETTLE_S = 0.3
CALLS_PER_EPISODE = 4

_ADVICE = {
    "open files": "close it before the next reset, for example with self._resources.enter_context(open(...))",
    "threads": "stop it before the next reset, for example with self._resources.callback(...)",
    "temporary files": (
        "delete them before the next reset, for example with"
        " self._resources.enter_context(tempfile.TemporaryDirectory())"
    ),
    "child processes": "end and wait for them before the next reset, for example with self._resources.callback(...)",
}


def check_leaks(subject: Subject, temp_folder: Path) -> Iterator[Finding]:
    """Reset one instance many times, in the middle and at the end of episodes, and count what it holds."""
    env = subject.make()
    deadline = time.monotonic() + LEAK_WALL_S
    before: dict[str, int] = {}
    resets = 0
    for resets in range(1, RESETS + 1):
        row = subject.rows[resets % len(subject.rows)]
        subject.play(env, row, subject.players[-1], max_steps=None if resets % 2 else CALLS_PER_EPISODE)
        if resets == WARM_UP_RESETS:
            before = _held(temp_folder)
        if time.monotonic() > deadline:
            break
    if not before:
        logger.warning("not checked: leaks; %d resets took more than %g s", resets, LEAK_WALL_S)
        return
    after = _held(temp_folder)
    if any(after[kind] > before[kind] for kind in before):
        time.sleep(SETTLE_S)  # what is on its way out may take a moment
        after = _held(temp_folder)
    for kind, count in before.items():
        if after[kind] - count > TOLERATED_GROWTH:
            yield Finding(
                "leaks",
                f"{kind} grew from {count} to {after[kind]} over {resets - WARM_UP_RESETS} resets of one instance; a"
                f" training run makes thousands. What an episode opens: {_ADVICE[kind]}.",
            )


@contextlib.contextmanager
def only_new_garbage() -> Iterator[None]:
    """Spare the garbage collector what was there before, which takes most of the time of a check otherwise."""
    frozen = gc.get_freeze_count()
    if not frozen:
        gc.freeze()
    try:
        yield
    finally:
        if not frozen:
            gc.unfreeze()


def _held(temp_folder: Path) -> dict[str, int]:
    gc.collect()
    counts = {
        "threads": threading.active_count(),
        "temporary files": sum(len(folders) + len(files) for _, folders, files in os.walk(temp_folder)),
    }
    for descriptors in ("/proc/self/fd", "/dev/fd"):
        with contextlib.suppress(OSError):
            counts["open files"] = len(os.listdir(descriptors))
            break
    if (children := _child_processes()) is not None:
        counts["child processes"] = children
    return counts


def _child_processes() -> int | None:
    """Children of this process, ended but not awaited ones included; None where /proc does not tell."""
    parent, count = os.getpid(), None
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):  # a process that ends while it is read
            fields = stat.read_text(errors="replace").rpartition(")")[2].split()
            count = (count or 0) + (int(fields[1]) == parent)
    return count


@contextlib.contextmanager
def private_temp_folder() -> Iterator[Path]:
    """Let temporary files go to a folder of their own, for this process and its children.

    What is left in it stays until the process ends, since a module may have cached a path there.
    """
    folder = Path(tempfile.mkdtemp(prefix="check_env-"))
    cached, variable = tempfile.tempdir, os.environ.get("TMPDIR")
    tempfile.tempdir = os.environ["TMPDIR"] = str(folder)
    try:
        yield folder
    finally:
        tempfile.tempdir = cached
        if variable is None:
            os.environ.pop("TMPDIR", None)
        else:
            os.environ["TMPDIR"] = variable
        gc.collect()
        try:
            folder.rmdir()
        except OSError:
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
