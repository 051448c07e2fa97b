"""Rules of `check_env` about calls and rewards: for each an environment that breaks this rule and no other."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import pytest

from trl_agentenvs import EnvError, StopReason, ToolEnv, ToolError, check, check_env
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


BROKEN = {
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
}


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


def test_message_names_the_call_what_came_back_and_the_fix():
    (finding,) = check_env(RaisesForUnknownWord, ROWS)
    assert finding.message.startswith("look(where=")
    assert "raised KeyError" in finding.message
    assert "ToolError" in finding.message


def test_tool_error_is_an_answer_and_no_fault():
    class Refuses(Good):
        def guess(self, number: int) -> str:
            """Guess the number.

            Args:
                number: The guess.
            """
            raise ToolError("Not now.")

    assert [finding.rule for finding in check_env(Refuses, ROWS)] == ["picklable-factory"]
