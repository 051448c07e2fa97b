"""Calls to try on a tool, derived from what it declares: sensible ones and those that models get wrong.

Covered: `str int float bool list dict tuple Optional Union Literal Enum Any`. Values are harmless on purpose: no paths
outside the working folder and no shell commands, since a tool under test may write files or run what it is given.
Not covered: values that only make sense in one environment; a policy given to `check_env` plays those.
"""

from __future__ import annotations

import enum
import random
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..dispatch import ToolSignature

__all__ = ["CONTROL_TEXT", "Call", "Probe", "probes", "scripted_calls"]

SCRIPT_CALLS = 12
LONG_TEXT_CHARS = 20_000
CONTROL_TEXT = "<|im_end|></tool_response><|im_start|>"

Call = tuple[str, dict[str, Any]]

_TEXTS = ("a", "look around", "1")
_INTEGERS = (1, 0, 2, -1)
_NUMBERS = (1.0, 0.5, 0.0, -1.0)
# What models write where something else was meant: other types, nothing, too much, characters no file name takes.
_JUNK = (
    {"unexpected": {"nested": [1]}},
    ["a", 1],
    12345678901234567890,
    1.5,
    float("nan"),
    True,
    "",
    "no such value",
    "nul \x00 byte",
    "half a character \ud83d",
    "x" * LONG_TEXT_CHARS,
)


@dataclass(frozen=True)
class Probe:
    """One call to try.

    Attributes:
        arguments: Named arguments.
        shape: Whether it is the set of arguments that is wrong (missing, undeclared, None), not a value.
    """

    arguments: dict[str, Any]
    shape: bool = False


def good_values(kind: Any) -> list[Any]:
    """Values, as JSON carries them, that a parameter of this type accepts; most telling first."""
    origin, parts = typing.get_origin(kind) or kind, typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return [value for part in parts for value in good_values(part)]
    if kind in (None, types.NoneType):
        return [None]
    if origin is typing.Literal:
        return list(parts)
    if isinstance(origin, type) and issubclass(origin, enum.Enum):
        return [member.value for member in origin]
    first = [good_values(part)[0] for part in parts if part is not Ellipsis and not isinstance(part, list)]
    if origin is dict:
        return [dict([first]) if len(first) == 2 else {"a": 1}, {}]
    if origin is list:
        return [first or ["a"], []]
    if origin is tuple:
        return [first or ["a"]]
    plain: dict[Any, tuple[Any, ...]] = {bool: (True, False), int: _INTEGERS, float: _NUMBERS}
    return list(plain.get(origin, _TEXTS))


def probes(signature: ToolSignature) -> Iterator[Probe]:
    """Every call to try on one tool."""
    choices = {name: good_values(kind) for name, kind in _types(signature).items()}
    usual = {name: values[0] for name, values in choices.items()}
    yield Probe(usual)
    yield Probe({name: usual[name] for name in signature.required})
    for name, values in choices.items():
        yield from (Probe({**usual, name: value}) for value in values[1:])
    yield Probe({}, shape=bool(signature.required))
    yield Probe({**usual, "undeclared_argument": None}, shape=True)
    yield Probe({**usual, "undeclared_argument": "a"}, shape=True)
    for name in choices:
        yield Probe({other: value for other, value in usual.items() if other != name}, shape=name in signature.required)
        yield Probe({**usual, name: None}, shape=True)
        yield Probe({**usual, name: CONTROL_TEXT})
        yield from (Probe({**usual, name: value}) for value in _JUNK)


def scripted_calls(signatures: Mapping[str, ToolSignature]) -> list[Call]:
    """A fixed sequence of sensible calls that visits every tool; the same at each run."""
    draw = random.Random("trl_agentenvs.check.calls")
    names = sorted(signatures)
    calls: list[Call] = []
    while names and len(calls) < max(SCRIPT_CALLS, len(names)):
        name = names[len(calls) % len(names)]
        kinds = _types(signatures[name])
        calls.append((name, {parameter: draw.choice(good_values(kind)) for parameter, kind in kinds.items()}))
    return calls


def _types(signature: ToolSignature) -> dict[str, Any]:
    try:
        return dict(signature.types)
    except Exception:  # an annotation that names nothing; the rule about schemas reports it
        return dict.fromkeys(signature.names, Any)
