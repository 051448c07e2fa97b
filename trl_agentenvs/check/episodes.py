"""Rules about episodes: they start from the row alone, leave nothing behind, and play the same everywhere.

Trainers build an instance once and reset it often, hand all members of a group the same row, and subtract their mean
reward: an episode that differs for any other reason than the model's calls is noise in every gradient. Everywhere
includes other processes, over which the members of a group can be spread: what depends on `hash()` of text, on the
order of a set, or on what the first process did before differs there. A factory that is defined in the main script is
not checked there, since a child cannot import it.
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
from typing import Any

from .subject import Finding, Subject, show, show_difference

__all__ = ["check_datasets", "check_episodes", "check_other_process", "check_pickling", "check_starts", "round_trip"]

logger = logging.getLogger("trl_agentenvs.check")

INSTANCES = 8
ROWS_PLAYED = 3
PROCESS_WAIT_S = 120.0
_HASH_SEEDS = ("1", "2")
_INDEX = "check_env row"

_ROW_ONLY = "Derive everything from the row, as in random.Random(f'{seed}') with a seed column."
_ANY_PROCESS = (
    "Processes of one training run would play different tasks for one row. Derive everything from the row, as in"
    " random.Random(f'{seed}'); do not use hash() of text or the order of a set."
)


def check_starts(subject: Subject) -> Iterator[Finding]:
    """Start every row, with further columns too, and the same row on several instances by turns."""
    env = subject.make()
    for row in subject.rows:
        started = subject.reset(env, row)
        if started.error is not None:
            yield Finding(
                "reset",
                f"reset {started} for the row {show(row)}; the trainer stops there. Take the columns the row has, or"
                " mend the row.",
            )
            return
        if not (started.value is None or type(started.value) is str):
            yield Finding(
                "reset",
                f"reset returned {show(started)} ({type(started.value).__name__}); the trainer appends it to the"
                " prompt's text and fails. Return str.",
            )
            return
    row = subject.rows[0]
    extra = {"prompt": [{"role": "user", "content": ""}], **row, "unknown_column": "x"}
    plain, started = subject.reset(subject.make(), row), subject.reset(subject.make(), extra)
    if started.error is not None:
        yield Finding(
            "extra-columns",
            f"reset {started} when the row had the columns {', '.join(extra)}; the trainer passes every column, prompt"
            " included. Take **columns as well.",
        )
    instances = [subject.make() for _ in range(INSTANCES)]
    for row in subject.rows[:ROWS_PLAYED]:
        starts = [str(subject.reset(instance, row)) for instance in instances]
        for start in starts:
            if start != starts[0]:
                yield Finding(
                    "same-start",
                    f"{INSTANCES} instances started differently from the same row: "
                    f"{show_difference(starts[:1], [start])}. The members of a group would play different tasks."
                    f" {_ROW_ONLY}",
                )
                return
    if started.error is None and str(started) != str(plain):
        yield Finding(
            "extra-columns",
            f"reset started differently when the row had more columns:"
            f" {show_difference([str(plain)], [str(started)])}. Name the columns it depends on and ignore others.",
        )


def check_episodes(subject: Subject) -> Iterator[Finding]:
    """Play the same calls on fresh, used and interleaved instances, and compare the transcripts."""
    for row, player in _episodes(subject):
        again = subject.play(subject.make(), subject.rows[row], subject.players[player])
        if difference := show_difference(subject.reference(row, player), again):
            yield Finding(
                "deterministic",
                f"the same calls from the same row played differently on two fresh instances: {difference}. The"
                f" reward then measures luck. {_ROW_ONLY} Keep state on the instance, and"
                " times and addresses out of results.",
            )
            return  # what follows compares transcripts, too
    yield from _check_cut_episodes(subject)
    yield from _check_interleaved(subject)


def _episodes(subject: Subject) -> list[tuple[int, int]]:
    rows = range(min(ROWS_PLAYED, len(subject.rows)))
    return [(row, player) for row in rows for player in range(len(subject.players))]


def _check_cut_episodes(subject: Subject) -> Iterator[Finding]:
    env = subject.make()
    for row, player in _episodes(subject):
        expected = subject.reference(row, player)
        for cut_after in (1, 2, len(expected) // 2, len(expected) - 1):
            subject.play(env, subject.rows[row], subject.players[player], max_steps=cut_after)
            again = subject.play(env, subject.rows[row], subject.players[player])
            if difference := show_difference(expected, again):
                yield Finding(
                    "clean-reset",
                    f"an episode played differently after another one was cut on the same instance: {difference}. The"
                    " trainer reuses instances, also those whose episode never ended. Let reset set every attribute.",
                )
                return


def _check_interleaved(subject: Subject) -> Iterator[Finding]:
    for row, player in _episodes(subject):
        transcripts: list[list[str]] = [[], []]
        episodes = [
            subject.steps(subject.make(), subject.rows[row], subject.players[player], transcript)
            for transcript in transcripts
        ]
        for _ in zip(*episodes, strict=False):
            pass
        expected = subject.reference(row, player)
        for transcript in transcripts:
            if difference := show_difference(expected[: len(transcript)], transcript):
                yield Finding(
                    "separate-instances",
                    f"two instances that played by turns did not play as each alone: {difference}. They share state,"
                    " such as a list written on the class or a module-level variable. Keep state on the instance.",
                )
                return


def check_pickling(subject: Subject) -> Iterator[Finding]:
    """Send the factory to another process and back, as asynchronous trainers do."""
    try:
        factory = pickle.loads(pickle.dumps(subject.factory))
        env = subject.make(factory)
    except Exception as error:  # pickle raises whatever the object does
        yield Finding(
            "picklable-factory",
            f"the factory {show(subject.factory)} cannot be sent to another process: {show(error)}. Asynchronous"
            " trainers do that. Use the class itself, MyEnv.configured(...) or functools.partial of a class that a"
            " module defines.",
        )
        return
    again = subject.play(env, subject.rows[0], subject.players[0])
    if difference := show_difference(subject.reference(0, 0), again):
        yield Finding(
            "picklable-factory",
            f"an instance of the pickled factory played differently: {difference}. Give the constructor all it needs"
            " as arguments of functools.partial.",
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
        yield Finding(
            "other-process", f"in a process of its own it did not start in {PROCESS_WAIT_S:g} s. {_ANY_PROCESS}"
        )
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
        yield Finding(
            "other-process", f"in a process of its own a row started differently: {difference}. {_ANY_PROCESS}"
        )


def start_all() -> None:
    """What the child does: starts to standard output, as JSON."""
    out, sys.stdout = sys.stdout, sys.stderr  # the environment may print
    factory, rows = pickle.load(sys.stdin.buffer)
    with Subject(factory, rows, None) as subject:
        env = subject.make()
        json.dump([str(subject.reset(env, row)) for row in rows], out)


def round_trip(rows: list[dict[str, Any]]) -> list[dict[str, Any]] | Exception:
    """The rows after `datasets.Dataset` stored them, or why it cannot.

    Raises:
        ImportError: datasets is not installed.
    """
    from datasets import Dataset

    try:
        # The extra column keeps rows that have none: Arrow knows no row without columns.
        stored = Dataset.from_list([{_INDEX: index, **row} for index, row in enumerate(rows)])
        return [{name: value for name, value in row.items() if name != _INDEX} for row in stored]
    except Exception as error:  # Arrow's errors have no common base
        return error


def check_datasets(subject: Subject, stored: list[dict[str, Any]] | Exception) -> Iterator[Finding]:
    """Start from the rows as a trainer reads them, which is from Arrow.

    Args:
        subject: The environment under test.
        stored: What `round_trip` returned for its rows.
    """
    advice = "Keep columns flat and of one type; store nested values as JSON text (json.dumps)."
    if isinstance(stored, Exception):
        yield Finding("dataset-rows", f"datasets.Dataset cannot hold the rows: {show(stored)}. {advice}")
        return
    env = subject.make()
    for row, kept in zip(subject.rows, stored, strict=True):
        expected, got = subject.reset(env, row), subject.reset(env, kept)
        if difference := show_difference([str(expected)], [str(got)]):
            changed = {name: value for name, value in kept.items() if name not in row or row[name] != value}
            yield Finding(
                "dataset-rows",
                f"a row that went through datasets.Dataset started differently: {difference}; its columns"
                f" {', '.join(changed) or 'are equal'} came back as {show(changed)}. Arrow gives every row the keys of"
                f" all rows, with None. {advice}",
            )
            return
