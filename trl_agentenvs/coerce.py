"""Turn the value a model gave into the type a tool declares, or say what was expected.

Covered: `str int float bool list dict tuple Optional Union Literal Enum Any`, nested. A conversion is made only where
one reading exists: "7" is an integer where an integer is declared, "[1, 2]" a list where a list is declared. Not
covered: validation of ranges and formats; that is the tool's own work.
"""

from __future__ import annotations

import enum
import json
import math
import types
import typing
from typing import Any

__all__ = ["CoercionError", "accepts_none", "coerce", "describe"]

NULL_WORDS = frozenset({"None", "null"})
TRUE_WORDS = frozenset({"true", "yes", "1"})
FALSE_WORDS = frozenset({"false", "no", "0"})


class CoercionError(ValueError):
    """The value has no reading as the declared type."""


def _options(kind: Any) -> tuple[Any, ...] | None:
    """The members of a union, or None if `kind` is no union."""
    return typing.get_args(kind) if typing.get_origin(kind) in (typing.Union, types.UnionType) else None


def accepts_none(kind: Any) -> bool:
    """Whether the declared type admits None."""
    options = _options(kind)
    if typing.get_origin(kind) is typing.Literal:
        return None in typing.get_args(kind)
    return kind in (Any, None, types.NoneType) or (options is not None and any(map(accepts_none, options)))


def describe(kind: Any) -> str:
    """The declared type in words for a model: "an integer", "one of 'a', 'b'", "a list"."""
    options = _options(kind)
    if options is not None:
        return " or ".join(describe(option) for option in options if option is not types.NoneType)
    origin = typing.get_origin(kind) or kind
    if origin is typing.Literal:
        return "one of " + ", ".join(repr(choice) for choice in typing.get_args(kind))
    if isinstance(origin, type) and issubclass(origin, enum.Enum):
        return "one of " + ", ".join(repr(member.value) for member in origin)
    names = {str: "a string", int: "an integer", float: "a number", bool: "true or false", list: "a list"}
    names |= {tuple: "a list", dict: "an object"}
    return names.get(origin, "a value") if isinstance(origin, type) else "a value"


def coerce(value: Any, kind: Any) -> Any:
    """Return `value` as the declared type `kind`.

    Args:
        value: What the model gave (JSON types).
        kind: A resolved annotation.

    Returns:
        The same object if it fits, else its one reading as `kind`.

    Raises:
        CoercionError: `value` cannot be read as `kind`; the message is `describe(kind)`.
    """
    options = _options(kind)
    if options is not None:
        return _coerce_union(value, options)
    if kind is Any or isinstance(kind, str | typing.TypeVar):
        return value
    if value is None and kind in (None, types.NoneType):
        return None
    origin = typing.get_origin(kind) or kind
    if origin is typing.Literal:
        return _choose(value, [(choice, choice) for choice in typing.get_args(kind)], kind)
    if isinstance(origin, type) and issubclass(origin, enum.Enum):
        choices = [*((member.name, member) for member in origin), *((member.value, member) for member in origin)]
        return value if isinstance(value, origin) else _choose(value, choices, kind)
    convert = _CONVERSIONS.get(origin)
    if convert is None:
        return value
    return convert(value, kind)


def _coerce_union(value: Any, options: tuple[Any, ...]) -> Any:
    if types.NoneType in options and (value is None or (isinstance(value, str) and value in NULL_WORDS)):
        return None
    kinds = [option for option in options if option is not types.NoneType]
    # A value that already fits is not to be turned into an earlier member's type.
    for kind in sorted(kinds, key=lambda kind: not _is_exactly(value, kind)):
        try:
            return coerce(value, kind)
        except CoercionError:
            continue
    raise CoercionError(" or ".join(map(describe, kinds)))


def _is_exactly(value: Any, kind: Any) -> bool:
    return type(value) is (typing.get_origin(kind) or kind)


def _choose(value: Any, choices: list[tuple[Any, Any]], kind: Any) -> Any:
    for key, choice in choices:
        if type(key) is type(value) and key == value:
            return choice
    word = _word(value)
    close = [choice for key, choice in choices if word is not None and _word(key) == word]
    if close and all(choice is close[0] for choice in close):
        return close[0]
    raise CoercionError(describe(kind))


def _word(value: Any) -> str | None:
    """What a scalar reads like, to compare spellings; None for all else, which may nest too deeply to be shown."""
    return str(value).strip().lower() if isinstance(value, str | int | float) else None


def _to_str(value: Any, kind: Any) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        raise CoercionError(describe(kind))
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (ValueError, RecursionError):
        raise CoercionError(describe(kind)) from None


def _to_float(value: Any, kind: Any) -> float:
    if isinstance(value, int | float | str) and not isinstance(value, bool):
        try:
            number = float(value)
        except (ValueError, OverflowError):
            raise CoercionError(describe(kind)) from None
        if math.isfinite(number):
            return number
    raise CoercionError(describe(kind))


def _to_int(value: Any, kind: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str):
        try:
            return int(value)
        except ValueError:
            pass  # "7.0" is still to be read below
    number = _to_float(value, kind)
    if number.is_integer():
        return int(number)
    raise CoercionError(describe(kind))


def _to_bool(value: Any, kind: Any) -> bool:
    if isinstance(value, bool):
        return value
    word = _word(value)
    if word in TRUE_WORDS | FALSE_WORDS:
        return word in TRUE_WORDS
    raise CoercionError(describe(kind))


def _from_json(value: Any, wanted: type) -> Any:
    if isinstance(value, str):
        try:
            parsed = json.loads(value)
        except (ValueError, RecursionError):
            return value
        return parsed if isinstance(parsed, wanted) else value
    return value


def _to_list(value: Any, kind: Any) -> list[Any]:
    value = _from_json(value, list)
    (item_kind,) = typing.get_args(kind) or (Any,)
    if isinstance(value, str) and item_kind is str:
        return [value]
    if not isinstance(value, list | tuple):
        raise CoercionError(describe(kind))
    return [coerce(item, item_kind) for item in value]


def _to_tuple(value: Any, kind: Any) -> tuple[Any, ...]:
    value = _from_json(value, list)
    item_kinds = typing.get_args(kind)
    if not isinstance(value, list | tuple):
        raise CoercionError(describe(kind))
    if not item_kinds:
        return tuple(value)
    if len(item_kinds) == 2 and item_kinds[1] is Ellipsis:
        return tuple(coerce(item, item_kinds[0]) for item in value)
    if len(item_kinds) != len(value):
        raise CoercionError(f"a list of {len(item_kinds)} items")
    return tuple(coerce(item, item_kind) for item, item_kind in zip(value, item_kinds, strict=True))


def _to_dict(value: Any, kind: Any) -> dict[Any, Any]:
    value = _from_json(value, dict)
    if not isinstance(value, dict):
        raise CoercionError(describe(kind))
    key_kind, value_kind = typing.get_args(kind) or (Any, Any)
    return {coerce(key, key_kind): coerce(item, value_kind) for key, item in value.items()}


_CONVERSIONS: dict[Any, Any] = {
    str: _to_str,
    int: _to_int,
    float: _to_float,
    bool: _to_bool,
    list: _to_list,
    tuple: _to_tuple,
    dict: _to_dict,
}
