"""The schema a trainer renders from a wrapped tool is that of the plain function."""

from __future__ import annotations

import enum
from typing import Any, Literal

import pytest

from trl_agentenvs import ToolEnv

get_json_schema = pytest.importorskip("transformers.utils.chat_template_utils").get_json_schema


class Color(enum.Enum):
    RED = "red"


def none(self) -> str:
    """Take nothing."""
    return ""


def plain(self, path: str, limit: int = 10) -> str:
    """Take simple things.

    It has a longer text, too.

    Args:
        path: A path, relative
            to the root.
        limit: How many lines.

    Returns:
        The text.
    """
    return ""


def rich(
    self, names: list[str], one: Literal["a", "b"], table: dict[str, Any] | None = None, x: int | float = 1.5
) -> str:
    """Take all kinds of things.

    Args:
        names: Some names.
        one: One of them. (choices: ["a", "b"])
        table: A table.
        x: A number.
    """
    return ""


async def late(self, seconds: float) -> str:
    """Wait.

    Args:
        seconds: How long.
    """
    return ""


@pytest.mark.parametrize("func", [none, plain, rich, late])
def test_schema_is_that_of_the_plain_function(func):
    env_class = type("Env", (ToolEnv,), {func.__name__: func})
    wrapped = getattr(env_class(), func.__name__)
    assert wrapped.__func__ is not func
    bound_plain = func.__get__(object())
    assert get_json_schema(wrapped) == get_json_schema(bound_plain)
