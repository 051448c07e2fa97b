"""Environments that keep the contract, for tests of the check to break rule by rule, and how findings are judged."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from trl_agentenvs import StopReason, ToolEnv, check_env
from trl_agentenvs.results import neutralise

__all__ = ["ROWS", "Good", "Plain", "assert_breaks_only", "rules", "tolerant"]

ROWS = [{"number": 3}, {"number": 8}]
MAX_MESSAGE_CHARS = 900


class Good(ToolEnv):
    """Guess a number; the environments of the tests break one rule each."""

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


def assert_breaks_only(env: Any, rule: str) -> None:
    """The check finds this rule broken and no other, and says so in words that are fit to be read."""
    findings = check_env(env, ROWS)
    assert {finding.rule for finding in findings} == {rule}, findings
    for finding in findings:
        assert finding.message.endswith(".")
        assert " at 0x" not in finding.message
        assert len(finding.message) < MAX_MESSAGE_CHARS
