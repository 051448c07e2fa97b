"""Rules of `check_env` about episodes, threads and processes: for each an environment that breaks it and no other."""

from __future__ import annotations

import functools
import inspect
import random
import signal
import sqlite3
import sys
import threading
import types
from collections.abc import Callable
from typing import Any

import pytest

from trl_agentenvs import StopReason, ToolEnv, check, check_env
from trl_agentenvs import check_threads as threads
from trl_agentenvs.results import neutralise

ROWS = [{"number": 3}, {"number": 8}]


class Good(ToolEnv):
    """Guess a number; the environments below break one rule each."""

    max_turns = 20

    def reset(self, number: int) -> str:
        self._number, self._guesses = number, 0
        return f"Hidden: a number below {number + 10}."

    def guess(self, number: int) -> str:
        """Guess the number.

        Args:
            number: The guess.
        """
        self._guesses += 1
        if number == self._number:
            self._end(StopReason.SOLVED)
        return f"guess {self._guesses}: {'right' if number == self._number else 'wrong'}"

    def get_reward(self) -> float | None:
        return float(self._stop is StopReason.SOLVED)


def tolerant(func: Callable[..., Any]) -> Callable[..., Any]:
    """Let a plain method take anything, with the signature and schema of the original."""

    names = list(inspect.signature(func).parameters)[1:]

    def texts(given: dict[str, Any]) -> dict[str, str]:
        return {name: given[name] if isinstance(given.get(name), str) else "" for name in names}

    @functools.wraps(func)
    def wrapper(self: Any, **given: Any) -> Any:
        return func(self, **texts(given))

    @functools.wraps(func)
    async def async_wrapper(self: Any, **given: Any) -> Any:
        return await func(self, **texts(given))

    return async_wrapper if inspect.iscoroutinefunction(func) else wrapper


class Plain:
    """An environment that derives from nothing of ours."""

    def reset(self, **row: Any) -> str:
        self.row, self.words = row["number"], 0
        return f"Say {row['number']} words."

    @tolerant
    def say(self, word: str) -> str:
        """Say a word.

        Args:
            word: The word.
        """
        self.words += 1
        return f"You said {neutralise(word)}, {self.words} so far."

    def get_reward(self) -> float:
        return float(getattr(self, "words", 0))


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


def rules(factory: Any, rows: list[dict[str, Any]] = ROWS, **options: Any) -> list[str]:
    return [finding.rule for finding in check_env(factory, rows, **options)]


@pytest.fixture(autouse=True)
def _no_child(monkeypatch):
    """Start no child process: it takes longer than all other rules together."""
    monkeypatch.setattr(check, "check_other_process", lambda subject: ())


@pytest.mark.parametrize(("env", "rule"), BROKEN.items(), ids=lambda value: getattr(value, "__name__", value))
def test_broken_environment_breaks_exactly_one_rule(env, rule):
    findings = check_env(env, ROWS)
    assert {finding.rule for finding in findings} == {rule}, findings
    for finding in findings:
        assert finding.message.endswith(".")
        assert " at 0x" not in finding.message
        assert len(finding.message) < 900


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
