"""Rules of `check_env` about calls and rewards: for each an environment that breaks this rule and no other."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.checked import ROWS, Good, Plain, assert_breaks_only, tolerant
from trl_agentenvs import EnvError, ToolError, check, check_env


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


class Panic(BaseException):
    """Derives from no Exception."""


class Panics(Good):
    def leave(self) -> str:
        """Leave."""
        raise Panic


class EchoesHalves(Plain):
    @tolerant
    def say(self, word: str) -> str:
        """Say a word.

        Args:
            word: The word.
        """
        return f"You said {word.replace('<', '(')}"


class WordlessError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class Wordless(Good):
    def leave(self) -> str:
        """Leave."""
        raise WordlessError


class CancelsItself(Plain):
    @tolerant
    async def say(self, word: str) -> str:
        """Say a word.

        Args:
            word: The word.
        """
        raise asyncio.CancelledError


class DiskFull(Good):
    def save(self) -> str:
        """Save."""
        raise EnvError("disk full")


class ReturnsDict(Plain):
    @tolerant
    def look(self) -> Any:
        """Look."""
        return {"seen": "nothing"}


class Shapeless:
    def __repr__(self) -> str:
        raise RuntimeError("no words")


class ReturnsShapeless(Plain):
    @tolerant
    def look(self) -> Any:
        """Look."""
        return Shapeless()


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
    Panics: "tool-raises",
    Wordless: "tool-raises",
    CancelsItself: "tool-raises",
    DiskFull: "tool-raises",
    ReturnsDict: "str-results",
    ReturnsNone: "str-results",
    ReturnsShapeless: "str-results",
    ReturnsCoroutine: "str-results",
    Echo: "control-tokens",
    EchoesHalves: "control-tokens",
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
    assert_breaks_only(env, rule)


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
