"""Tolerant and instructive tool dispatch: what the model wrote -> the arguments a tool declares.

Tolerant: undeclared arguments are dropped, unambiguous aliases renamed, values coerced to the declared type, a JSON
object given as one string is unpacked; every repair is counted by kind. Instructive: what cannot be repaired becomes a
`ToolError` of one sentence that says what is missing or wrong, what was given, and what is accepted; the tool's body
does not run. Not covered: guessing. An alias that contradicts a given argument is refused.
"""

from __future__ import annotations

import inspect
import json
import re
import types
import typing
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from .coerce import NULL_WORDS, CoercionError, accepts_none, coerce
from .errors import ToolError

__all__ = ["COMMON_ALIASES", "BoundCall", "ToolSignature", "parse_arguments", "plain_tool_name", "resolve_tool"]

# Other names under which models give common parameters. An environment adds its own in `ToolEnv.aliases`.
COMMON_ALIASES: dict[str, tuple[str, ...]] = {
    "path": ("file_path", "filepath", "file", "filename", "paths", "file_name"),
    "command": ("cmd", "commands"),
    "query": ("q", "search_query", "keywords"),
    "content": ("contents", "file_content", "file_text"),
}
SHOWN_VALUE_CHARS = 60

_EMPTY = inspect.Parameter.empty
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


@dataclass(frozen=True)
class BoundCall:
    """Arguments that fit the tool, and how often each kind of repair was needed to get them."""

    arguments: dict[str, Any]
    repairs: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class ToolSignature:
    """The parameters one tool declares. Annotations are resolved at first use, so forward references work."""

    name: str
    func: Callable[..., Any]

    @cached_property
    def _parameters(self) -> dict[str, inspect.Parameter]:
        parameters = inspect.signature(self.func).parameters
        return {name: p for name, p in parameters.items() if name != "self" and p.kind in _NAMED}

    @cached_property
    def types(self) -> dict[str, Any]:
        """Resolved annotation of each declared parameter; `Any` where there is none.

        Raises:
            TypeError: An annotation is no name at run time.
        """
        declared = {name: p.annotation for name, p in self._parameters.items() if p.annotation is not _EMPTY}
        func: Any = inspect.unwrap(self.func)
        generics = {parameter.__name__: parameter for parameter in getattr(func, "__type_params__", ())}
        try:  # parameters alone: what a tool returns may be named by what only a type checker imports
            hints = typing.get_type_hints(types.SimpleNamespace(__annotations__=declared), func.__globals__, generics)
        except NameError as error:
            raise TypeError(f"an annotation of {self.name} cannot be read: {error}; import what it names") from error
        return {name: hints.get(name, Any) for name in self._parameters}

    @property
    def names(self) -> tuple[str, ...]:
        """Declared parameters in order."""
        return tuple(self._parameters)

    @cached_property
    def required(self) -> tuple[str, ...]:
        """Declared parameters without a default."""
        return tuple(name for name, p in self._parameters.items() if p.default is _EMPTY)

    @cached_property
    def accepted(self) -> str:
        """The parameters in words: "path, offset (optional), limit (optional)"."""
        if not self.names:
            return "no arguments"
        return ", ".join(name if name in self.required else f"{name} (optional)" for name in self.names)

    def bind(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any], aliases: Mapping[str, Iterable[str]] | None = None
    ) -> BoundCall:
        """Fit what was given to what is declared.

        Args:
            args: Positional arguments; a single mapping (or JSON object as a string) stands for named ones.
            kwargs: Named arguments, in any number.
            aliases: Declared parameter -> other names to accept for it, on top of `COMMON_ALIASES`.

        Raises:
            ToolError: Something required is missing, a value has no reading as the declared type, or two arguments
                contradict each other.
        """
        repairs: Counter[str] = Counter()
        given = dict(kwargs)
        if args:
            given = self._name_positional(args, given, repairs)
        given = self._rename(given, aliases or {}, repairs)
        self._drop_nulls(given, repairs)
        missing = [name for name in self.required if name not in given]
        if missing:
            nulls = [name for name in missing if name in kwargs]
            got = ", ".join(f"{name} as null" if name in nulls else name for name in {**kwargs, **given})
            got = got or "no arguments"
            raise ToolError(f"{self.name} needs {' and '.join(missing)}; you gave {got}; it accepts {self.accepted}.")
        wrong = []
        for name, value in given.items():
            try:
                given[name] = coerced = coerce(value, self.types[name])
            except CoercionError as error:
                wrong.append(f"{name} must be {error}, got {_show(value)}")
                continue
            if coerced is not value and (type(coerced) is not type(value) or coerced != value):
                repairs["coerced_argument"] += 1
        if wrong:
            raise ToolError(f"{self.name} did not run: {'; '.join(wrong)}.")
        return BoundCall(given, repairs)

    def _name_positional(self, args: tuple[Any, ...], kwargs: dict[str, Any], repairs: Counter[str]) -> dict[str, Any]:
        if len(args) == 1 and not kwargs:
            try:
                whole = parse_arguments(self.name, args[0])
            except ToolError:
                whole = {}
            if set(whole) & set(self.names):
                repairs["json_arguments"] += 1
                return whole
        if len(args) > len(self.names):
            raise ToolError(f"{self.name} got {len(args)} values; it accepts {self.accepted}.")
        named = dict(zip(self.names, args, strict=False))
        twice = [name for name in named if name in kwargs]
        if twice:
            raise ToolError(f"{self.name} got {' and '.join(twice)} twice; give it once.")
        return {**named, **kwargs}

    def _rename(
        self, given: dict[str, Any], aliases: Mapping[str, Iterable[str]], repairs: Counter[str]
    ) -> dict[str, Any]:
        """Keep declared names, rename aliases of declared names, drop the rest."""
        known = {name: name for name in self.names}
        for table in (COMMON_ALIASES, aliases):
            for name in self.names:
                known |= {alias: name for alias in table.get(name, ()) if alias not in self.names}
        kept = {name: value for name, value in given.items() if name in self.names}
        for name, value in given.items():
            if name in self.names:
                continue
            target = known.get(name) or known.get(_snake_case(name))
            if target is not None and self.types[target] is str and isinstance(value, list) and len(value) == 1:
                value = value[0]  # paths=["a.py"] for path
            if target is None or _is_null(value):
                repairs["dropped_argument"] += 1
            elif target not in kept or _is_null(kept[target]):
                kept[target] = value
                repairs["renamed_argument"] += 1
            elif kept[target] == value:
                repairs["dropped_argument"] += 1
            else:
                raise ToolError(
                    f"{self.name} got {target} twice with different values ({name} means {target}); give only {target}."
                )
        return kept

    def _drop_nulls(self, given: dict[str, Any], repairs: Counter[str]) -> None:
        """A None where None is not allowed is an argument that was not given."""
        for name in [name for name, value in given.items() if value is None and not accepts_none(self.types[name])]:
            del given[name]
            repairs["null_argument"] += 1


def parse_arguments(tool: str, arguments: Any) -> dict[str, Any]:
    """Return a call's arguments as a dict: a mapping as it is, None as empty, a JSON object from its string.

    Raises:
        ToolError: `arguments` is neither.
    """
    if arguments is None:
        return {}
    if isinstance(arguments, str):
        try:
            parsed = json.loads(arguments, strict=False)
        except (ValueError, RecursionError):
            parsed = arguments
        arguments = {} if parsed is None else parsed
    if isinstance(arguments, Mapping):
        return {str(name): value for name, value in arguments.items()}
    raise ToolError(f"The arguments of {tool} must be one JSON object of names and values, got {_show(arguments)}.")


def plain_tool_name(name: str) -> str:
    """A tool's name without spaces around it or a namespace before it, in lower case."""
    return name.strip().rpartition(".")[2].lower()


def resolve_tool(name: Any, tools: Iterable[str], aliases: Mapping[str, Iterable[str]] | None = None) -> str:
    """Return the tool meant by `name`: exact, or the only one that differs in case, spaces or a namespace prefix.

    Args:
        name: What the model wrote.
        tools: Names of the tools there are.
        aliases: Tool -> other names to accept where no tool is meant by its own, as `plain_tool_name` writes them.

    Raises:
        ToolError: There is no such tool; the sentence lists those there are.
    """
    names = sorted(tools)
    if isinstance(name, str):
        plain = plain_tool_name(name)
        matches = [name] if name in names else [tool for tool in names if tool.lower() == plain]
        matches = matches or [tool for tool in names if plain in (aliases or {}).get(tool, ())]
        if len(matches) == 1:
            return matches[0]
    raise ToolError(f"There is no tool {_show(name)}; the tools are {', '.join(names)}.")


def _snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", str(name).strip()).replace("-", "_").lower()


def _is_null(value: Any) -> bool:
    return value is None or (isinstance(value, str) and value in NULL_WORDS)


def _show(value: Any) -> str:
    try:
        text = repr(value[: SHOWN_VALUE_CHARS + 1] if isinstance(value, str) else value)
    except (RecursionError, ValueError):  # nested too deeply, or an integer of thousands of digits
        return f"a {type(value).__name__} too large to show"
    return text if len(text) <= SHOWN_VALUE_CHARS else text[:SHOWN_VALUE_CHARS] + "..."
