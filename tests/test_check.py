"""`check_env`: for each rule an environment that breaks this rule and no other, and good ones that break none."""

from __future__ import annotations

import contextlib
import functools
import inspect
import logging
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import types
from collections.abc import Callable
from typing import Any

import pytest

from trl_agentenvs import EnvError, StopReason, ToolEnv, ToolError, check, check_env
from trl_agentenvs import check_leaks as leaks
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


def rules(factory: Any, rows: list[dict[str, Any]] = ROWS, **options: Any) -> list[str]:
    return [finding.rule for finding in check_env(factory, rows, **options)]


@pytest.mark.parametrize("env", [Good, Plain, Good.configured(strict=True), functools.partial(Plain)])
def test_good_environment_has_no_findings(env):
    assert check_env(env, ROWS) == []


def test_fast_environment_is_checked_in_under_three_seconds():
    check_env(Good, ROWS)  # loads the libraries
    started = time.monotonic()
    check_env(Good, ROWS)
    assert time.monotonic() - started < 3


class AsyncTools(Good):
    async def guess(self, number: int) -> str:
        """Guess the number.

        Args:
            number: The guess.
        """
        return await super().guess(number) if False else "wrong"


def test_async_tools_are_awaited():
    assert check_env(AsyncTools, ROWS) == []


# The class


class NeedsArgument(Good):
    def __init__(self, folder: str) -> None:
        super().__init__()
        self._folder = folder


class NoReset:
    say = Plain.say


class AsyncReset(Plain):
    async def reset(self, **row: Any) -> str:
        return "Hello."


class ResetOfDict(Plain):
    def reset(self, **row: Any) -> Any:
        super().reset(**row)
        return {"text": "Hello."}


class ResetRefusesRow(Good):
    def reset(self, number: int) -> str:
        if number == 8:
            raise ValueError("no eights")
        return super().reset(number=number)


class NoTools:
    def reset(self, **row: Any) -> str:
        return "Hello."


class Undocumented(Plain):
    def helper(self) -> str:
        return "I am a tool now."


class Untyped(Plain):
    def look(self, where="here") -> str:
        """Look.

        Args:
            where: Where.
        """
        return "Nothing."


class CatchesAll(Plain):
    def look(self, **rest: str) -> str:
        """Look.

        Args:
            rest: Anything.
        """
        return "Nothing."


class NoJsonType(Plain):
    def look(self, where: bytes = b"") -> str:
        """Look.

        Args:
            where: Where.
        """
        return "Nothing."


class TwoNames(Plain):
    speak = Plain.say


class PublicClose(Plain):
    def close(self) -> str:
        """Close the environment."""
        return "closed"


class ClassMethod(Plain):
    @classmethod
    def build(cls) -> Plain:
        return cls()


class StaticMethod(Plain):
    @staticmethod
    def look() -> str:
        """Look."""
        return "Nothing."


class Property(Plain):
    @property
    def done(self) -> bool:
        return False


class BoundOnInstance(Plain):
    def __init__(self) -> None:
        self.on_end = self.get_reward


class MixedAsync(Plain):
    @tolerant
    async def wait(self) -> str:
        """Wait."""
        return "waited"


OF_CLASS = {
    NeedsArgument: "factory",
    NoReset: "reset",
    AsyncReset: "reset",
    ResetOfDict: "reset",
    ResetRefusesRow: "reset",
    NoTools: "tools",
    Undocumented: "tool-schema",
    Untyped: "tool-schema",
    CatchesAll: "tool-schema",
    TwoNames: "tool-schema",
    PublicClose: "public-helper",
    ClassMethod: "public-helper",
    StaticMethod: "public-helper",
    Property: "public-helper",
    BoundOnInstance: "public-helper",
    MixedAsync: "mixed-async",
}


# The start


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


# Calls


class PlainMethod(Plain):
    def look(self, where: str) -> str:
        """Look.

        Args:
            where: Where.
        """
        return "Nothing."


class RaisesForUnknownWord(Good):
    def look(self, where: str) -> str:
        """Look.

        Args:
            where: Where.
        """
        return {"a": "A.", "1": "One.", "look around": "All."}[where]


class Exits(Good):
    def leave(self) -> str:
        """Leave."""
        raise SystemExit(0)


class DiskFull(Good):
    def save(self) -> str:
        """Save."""
        raise EnvError("disk full")


class ReturnsDict(Plain):
    @tolerant
    def look(self) -> Any:
        """Look."""
        return {"seen": "nothing"}


class ReturnsNone(Plain):
    @tolerant
    def say(self, word: str) -> None:
        """Say a word.

        Args:
            word: The word.
        """


class ReturnsCoroutine(Plain):
    @tolerant
    def say(self, word: str) -> Any:
        """Say a word.

        Args:
            word: The word.
        """
        return self._say()

    async def _say(self) -> str:
        return "said"


class Echo(Plain):
    @tolerant
    def say(self, word: str) -> str:
        """Say a word.

        Args:
            word: The word.
        """
        return f"You said {word}"


# The reward


class NotANumber(Plain):
    def get_reward(self) -> float:
        return float("nan")


class RewardText(Plain):
    def get_reward(self) -> Any:
        return "1.0"


class RewardNeedsReset(Plain):
    def get_reward(self) -> float:
        return float(self.words)


class RewardForgets(Plain):
    def get_reward(self) -> float:
        reward, self.words = super().get_reward(), 0
        return reward


class Unwrapped(Good):
    pass


@tolerant
def look(self) -> str:  # type: ignore[no-untyped-def]
    """Look."""
    return "There is nothing."


Unwrapped.look = look  # type: ignore[attr-defined]


# Episodes


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


# What is left behind


class LeaksFiles(Good):
    def reset(self, number: int) -> str:
        KEPT.append(open(os.devnull))  # noqa: SIM115
        return super().reset(number=number)


class LeaksThreads(Good):
    def reset(self, number: int) -> str:
        threading.Thread(target=STOP.wait, daemon=True).start()
        return super().reset(number=number)


class LeaksTempFolders(Good):
    def reset(self, number: int) -> str:
        tempfile.mkdtemp()
        return super().reset(number=number)


class LeaksProcesses(Good):
    def reset(self, number: int) -> str:
        self._episodes = getattr(self, "_episodes", 0) + 1
        if self._episodes > 5 and self._episodes % 8 == 0:  # a process costs more time than the rest of the check
            KEPT.append(subprocess.Popen([sys.executable, "-c", "input()"], stdin=PIPE_END))
        return super().reset(number=number)


class DependsOnHash(Good):
    def reset(self, number: int) -> str:
        return super().reset(number=number) + f" Today's words: {', '.join({'apple', 'pear', 'plum', 'fig', 'lime'})}."


class NotImportableInChild(Good):
    """Pickled by a name that only this process knows."""


NotImportableInChild.__module__ = "made_up_module"
sys.modules["made_up_module"] = types.ModuleType("made_up_module")
sys.modules["made_up_module"].NotImportableInChild = NotImportableInChild  # type: ignore[attr-defined]

KEPT: list[Any] = []
STOP = threading.Event()
PIPE_END, PIPE_START = os.pipe()


class ChangesFolder(Good):
    def reset(self, number: int) -> str:
        os.chdir(tempfile.gettempdir())
        return super().reset(number=number)


class ChangesVariable(Good):
    def reset(self, number: int) -> str:
        os.environ["NUMBER_OF_TESTS"] = str(number)
        return super().reset(number=number)


class SeedsGlobalRandom(Good):
    def reset(self, number: int) -> str:
        random.seed(number)
        return super().reset(number=number)


class ChangesArguments(Good):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        sys.argv.append("--x")


class SetsSignal(Good):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        with contextlib.suppress(ValueError):  # not in the main thread
            signal.signal(signal.SIGUSR1, signal.SIG_IGN)


BROKEN = OF_CLASS | {
    DeclaredColumnsOnly: "extra-columns",
    CountsColumns: "extra-columns",
    NewTaskEachTime: "same-start",
    PlainMethod: "tolerant-arguments",
    RaisesForUnknownWord: "tool-raises",
    Exits: "tool-raises",
    DiskFull: "tool-raises",
    ReturnsDict: "str-results",
    ReturnsNone: "str-results",
    ReturnsCoroutine: "str-results",
    Echo: "control-tokens",
    NotANumber: "reward-value",
    RewardText: "reward-value",
    RewardNeedsReset: "reward-value",
    RewardForgets: "reward-twice",
    Unwrapped: "after-end",
    Dice: "deterministic",
    SharedList: "deterministic",
    LeftOver: "clean-reset",
    OneGameForAll: "separate-instances",
    ThreadBound: "threads",
    NeedsMainThread: "threads",
    LeaksFiles: "leaks",
    LeaksThreads: "leaks",
    LeaksTempFolders: "leaks",
    ChangesFolder: "global-state",
    ChangesVariable: "global-state",
    SeedsGlobalRandom: "global-state",
    ChangesArguments: "global-state",
    SetsSignal: "global-state",
    DependsOnHash: "other-process",
    NotImportableInChild: "other-process",
}


@pytest.fixture(autouse=True)
def _clean_up(request, monkeypatch):
    """Start a child only where it matters: it takes longer than all other rules together."""
    if not any(words in request.node.name for words in ("other-process", "good_environment")):
        monkeypatch.setattr(check, "check_other_process", lambda subject: ())
    yield
    STOP.set()
    STOP.clear()
    for kept in KEPT:
        if isinstance(kept, subprocess.Popen):
            kept.kill()
            kept.wait()
        else:
            kept.close()
    KEPT.clear()


@pytest.mark.parametrize(("env", "rule"), BROKEN.items(), ids=lambda value: getattr(value, "__name__", value))
def test_broken_environment_breaks_exactly_one_rule(env, rule):
    findings = check_env(env, ROWS)
    assert {finding.rule for finding in findings} == {rule}, findings
    for finding in findings:
        assert finding.message.endswith(".")
        assert " at 0x" not in finding.message
        assert len(finding.message) < 900


def test_process_that_each_episode_leaves_is_found(monkeypatch):
    monkeypatch.setattr(leaks, "WARM_UP_RESETS", 5)
    assert rules(LeaksProcesses) == ["leaks"]


def test_deadlock_between_threads_is_a_finding_and_does_not_hang(monkeypatch):
    monkeypatch.setattr(threads, "THREAD_WAIT_S", 0.3)
    assert rules(KeepsLock) == ["threads"]


def test_factory_of_a_local_class_cannot_be_pickled():
    class Local(Good):
        pass

    assert rules(Local) == ["picklable-factory"]
    assert rules(lambda: Good()) == ["picklable-factory"]


class DependsOnOptions(Good):
    def reset(self, number: int, options: dict[str, int] | None = None) -> str:
        return super().reset(number=number) + f" Options: {sorted(options or {})}."


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


class NoColumns(Good):
    def reset(self) -> str:
        return super().reset(number=3)


# The policy


class Deep(Good):
    """Fails only where the right guess leads."""

    def reset(self, number: int) -> str:
        super().reset(number=number + 1000)
        return f"{number + 1000}"

    def guess(self, number: int) -> str:
        """Guess the number.

        Args:
            number: The guess.
        """
        return f"{random.SystemRandom().random()}" if number == self._number else super().guess(number)


def test_policy_reaches_what_derived_calls_do_not():
    def policy(seen: list[str]) -> tuple[str, dict[str, Any]] | None:
        return ("guess", {"number": int(seen[0])}) if len(seen) == 1 else None

    assert rules(Deep) == []
    assert rules(Deep, policy=policy) == ["deterministic"]


def test_policy_that_calls_an_unknown_tool_is_told_which_there_are():
    with pytest.raises(ValueError, match="policy called 'jump'; expected one of guess"):
        check_env(Good, ROWS, policy=lambda seen: ("jump", {}))


def test_policy_that_never_stops_is_stopped():
    assert rules(Good, policy=lambda seen: ("guess", {"number": 0})) == []


# Messages and manners


def test_type_without_a_json_schema_is_found():
    pytest.importorskip("transformers")
    assert rules(NoJsonType) == ["tool-schema"]


def test_every_rule_but_those_tested_apart_has_an_environment_that_breaks_it():
    assert set(check.RULES) - set(BROKEN.values()) == {"picklable-factory", "dataset-rows"}


def test_message_names_the_call_what_came_back_and_the_fix():
    (finding,) = check_env(RaisesForUnknownWord, ROWS)
    assert finding.message.startswith("look(where=")
    assert "raised KeyError" in finding.message
    assert "ToolError" in finding.message


def test_no_rows_are_an_error_of_the_user():
    with pytest.raises(ValueError, match="got no rows"):
        check_env(Good, [])


@pytest.mark.parametrize("env", [ChangesFolder, ChangesVariable, SeedsGlobalRandom, ChangesArguments, SetsSignal])
def test_check_puts_global_state_back(env):
    before = os.getcwd(), dict(os.environ), random.getstate(), list(sys.argv), signal.getsignal(signal.SIGUSR1)
    check_env(env, ROWS)
    assert before == (
        os.getcwd(), dict(os.environ), random.getstate(), list(sys.argv), signal.getsignal(signal.SIGUSR1)
    )  # fmt: skip


def test_check_leaves_no_thread_and_no_temporary_file_behind(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    running = threading.active_count()
    check_env(AsyncTools, ROWS)
    deadline = time.monotonic() + 5
    while threading.active_count() > running and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() == running
    assert list(tmp_path.iterdir()) == []


def test_check_leaves_the_users_trace_alone(tmp_path):
    assert check_env(Good.configured(trace_path=str(tmp_path / "rollouts.jsonl")), ROWS) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("library", ["datasets", "transformers"])
def test_check_without_a_library_says_what_it_left_out(library, monkeypatch, caplog):
    for name in [name for name in sys.modules if name == library or name.startswith(f"{library}.")]:
        monkeypatch.delitem(sys.modules, name)
    for name in {library, "datasets"}:  # datasets itself looks for transformers
        monkeypatch.setitem(sys.modules, name, None)
    with caplog.at_level(logging.WARNING):
        assert check_env(Good, ROWS) == []
        assert rules(Undocumented) == ["tool-schema"]
    assert f"{library} is not installed" in caplog.text


def test_tool_error_is_an_answer_and_no_fault():
    class Refuses(Good):
        def guess(self, number: int) -> str:
            """Guess the number.

            Args:
                number: The guess.
            """
            raise ToolError("Not now.")

    assert rules(Refuses) == ["picklable-factory"]
