"""Rules of `check_env` about episodes, threads and processes: for each an environment that breaks it and no other."""

from __future__ import annotations

import functools
import random
import signal
import sqlite3
import sys
import threading
import types
from typing import Any

import pytest

from tests.checked import ROWS, Good, Plain, assert_breaks_only, rules
from trl_agentenvs import check, check_env
from trl_agentenvs.check import threads


class DeclaredColumnsOnly(Plain):
    def reset(self, number: int) -> str:
        return super().reset(number=number)


class CountsColumns(Plain):
    def reset(self, **row: Any) -> str:
        return super().reset(**row) + f" {len(row)} columns."


class NewTaskEachTime(Good):
    _made = 0

    def reset(self, number: int) -> str:
        NewTaskEachTime._made += 1
        super().reset(number=number)
        return f"Task {NewTaskEachTime._made}."


class Dice(Good):
    def roll(self) -> str:
        """Roll the dice."""
        return f"{random.SystemRandom().random()}"


class SharedList(Good):
    _log: list[int] = []  # noqa: RUF012

    def look(self) -> str:
        """Look."""
        self._log.append(1)
        return f"{len(self._log)} looks."


class LeftOver(Good):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._bag = 0

    def take(self) -> str:
        """Take one."""
        self._bag += 1
        return f"{self._bag} in the bag."


class OneGameForAll(Good):
    _looks = 0

    def reset(self, number: int) -> str:
        OneGameForAll._looks = 0
        return super().reset(number=number)

    def look(self) -> str:
        """Look."""
        OneGameForAll._looks += 1
        return f"{self._looks} looks."


class ThreadBound(Good):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._db = sqlite3.connect(":memory:")

    def ask(self) -> str:
        """Ask the database."""
        return str(self._db.execute("select 1").fetchone())


class NeedsMainThread(Good):
    def ring(self) -> str:
        """Ring."""
        signal.signal(signal.SIGALRM, signal.getsignal(signal.SIGALRM))
        return "rang"


class KeepsLock(Good):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._own_lock = threading.RLock()

    def hold(self) -> str:
        """Take the lock and keep it."""
        self._own_lock.acquire()
        return "held"


class DependsOnHash(Good):
    def reset(self, number: int) -> str:
        return super().reset(number=number) + f" Today's words: {', '.join({'apple', 'pear', 'plum', 'fig', 'lime'})}."


class NotImportableInChild(Good):
    """Pickled by a name that only this process knows."""


NotImportableInChild.__module__ = "made_up_module"
sys.modules["made_up_module"] = types.ModuleType("made_up_module")
sys.modules["made_up_module"].NotImportableInChild = NotImportableInChild  # type: ignore[attr-defined]


class DependsOnOptions(Good):
    def reset(self, number: int, options: dict[str, int] | None = None) -> str:
        return super().reset(number=number) + f" Options: {sorted(options or {})}."


class NoColumns(Good):
    def reset(self) -> str:
        return super().reset(number=3)


BROKEN = {
    DeclaredColumnsOnly: "extra-columns",
    CountsColumns: "extra-columns",
    NewTaskEachTime: "same-start",
    Dice: "deterministic",
    SharedList: "deterministic",
    LeftOver: "clean-reset",
    OneGameForAll: "separate-instances",
    ThreadBound: "threads",
    NeedsMainThread: "threads",
}


@pytest.fixture(autouse=True)
def _no_child(monkeypatch):
    """Start no child process: it takes longer than all other rules together."""
    monkeypatch.setattr(check, "check_other_process", lambda subject: ())


@pytest.mark.parametrize(("env", "rule"), BROKEN.items(), ids=lambda value: getattr(value, "__name__", value))
def test_broken_environment_breaks_exactly_one_rule(env, rule):
    assert_breaks_only(env, rule)


def test_deadlock_between_threads_is_a_finding_and_does_not_hang(monkeypatch):
    monkeypatch.setattr(threads, "THREAD_WAIT_S", 0.3)
    assert rules(KeepsLock) == ["threads"]


def test_factory_of_a_local_class_cannot_be_pickled():
    class Local(Good):
        pass

    assert rules(Local) == ["picklable-factory"]
    assert rules(lambda: Good()) == ["picklable-factory"]


def test_start_that_depends_on_the_hash_seed_is_found(monkeypatch):
    monkeypatch.undo()
    assert rules(DependsOnHash) == ["other-process"]


def test_class_that_a_child_process_cannot_import_is_found(monkeypatch):
    monkeypatch.undo()
    assert rules(NotImportableInChild) == ["other-process"]


def test_rows_that_arrow_changes_are_found():
    pytest.importorskip("datasets")
    rows = [{"number": 3, "options": {"a": 1}}, {"number": 8, "options": {"b": 2}}]
    (finding,) = check_env(DependsOnOptions, rows)
    assert finding.rule == "dataset-rows"
    assert "json.dumps" in finding.message


def test_rows_that_arrow_cannot_hold_are_found():
    pytest.importorskip("datasets")
    assert rules(Plain, [{"number": 3}, {"number": "x"}]) == ["dataset-rows"]


def test_row_without_columns_is_a_row():
    assert rules(functools.partial(NoColumns), [{}]) == []


def test_rows_may_be_a_dataset():
    datasets = pytest.importorskip("datasets")
    assert check_env(Good, datasets.Dataset.from_list([{"prompt": [{"role": "user", "content": ""}], **ROWS[0]}])) == []
