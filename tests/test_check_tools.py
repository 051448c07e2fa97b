"""Rules of `check_env` about classes: for each an environment that breaks this rule and no other."""

from __future__ import annotations

from typing import Any

import pytest

from tests.checked import ROWS, Plain, assert_breaks_only, tolerant
from trl_agentenvs import check, check_env


class NeedsArgument(Plain):
    def __init__(self, folder: str) -> None:
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


class ResetRefusesRow(Plain):
    def reset(self, **row: Any) -> str:
        if row["number"] == 8:
            raise ValueError("no eights")
        return super().reset(**row)


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


BROKEN = {
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


@pytest.fixture(autouse=True)
def _no_child(monkeypatch):
    """Start no child process: it takes longer than all other rules together."""
    monkeypatch.setattr(check, "check_other_process", lambda subject: ())


@pytest.mark.parametrize(("env", "rule"), BROKEN.items(), ids=lambda value: getattr(value, "__name__", value))
def test_broken_environment_breaks_exactly_one_rule(env, rule):
    assert_breaks_only(env, rule)


def test_type_without_a_json_schema_is_found():
    pytest.importorskip("transformers")
    assert [finding.rule for finding in check_env(NoJsonType, ROWS)] == ["tool-schema"]
