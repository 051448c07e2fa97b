"""Read PDDL text into nested lists.

What is covered: s-expressions, `;` comments, case folding (PDDL names are case-insensitive) and typed lists
(`a b - kind`). What is not covered: the meaning of anything. A syntax fault is a `PddlSyntaxError` that says where.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeAlias

__all__ = ["MAX_DEPTH", "Expression", "PddlSyntaxError", "parse", "typed_names"]

Expression: TypeAlias = "str | list[Expression]"
"""A name, or a list of expressions."""

MAX_DEPTH = 200
"""Deepest nesting that is read. ALFRED goals nest 8 deep; a limit keeps recursive readers of the result safe."""

_COMMENT = re.compile(r";[^\n]*")


class PddlSyntaxError(ValueError):
    """The text is not one balanced s-expression."""


def parse(text: str) -> list[Expression]:
    """Parse the single parenthesised expression that `text` holds, in lower case.

    Args:
        text: PDDL source, for example a whole problem file.

    Returns:
        The expression as nested lists of names.

    Raises:
        PddlSyntaxError: The parentheses do not balance, nest deeper than `MAX_DEPTH`, or there is no expression, or
            more than one.
    """
    open_lists: list[list[Expression]] = []
    current: list[Expression] = []
    for token in _COMMENT.sub("", text).lower().replace("(", " ( ").replace(")", " ) ").split():
        if token == "(":
            open_lists.append(current)
            current = []
            if len(open_lists) > MAX_DEPTH:
                raise PddlSyntaxError(f"parentheses nest deeper than {MAX_DEPTH}")
        elif token == ")":
            if not open_lists:
                raise PddlSyntaxError("a closing parenthesis has no opening one")
            parent = open_lists.pop()
            parent.append(current)
            current = parent
        else:
            current.append(token)
    if open_lists:
        raise PddlSyntaxError(f"{len(open_lists)} opening parentheses are never closed (is the text cut off?)")
    if len(current) != 1 or isinstance(current[0], str):
        raise PddlSyntaxError(f"expected one expression in parentheses, found {len(current)} items at the top level")
    return current[0]


def typed_names(tokens: Sequence[Expression]) -> dict[str, str]:
    """Read a typed list such as `?o - object ?a ?b - agent` into {name: kind}.

    Args:
        tokens: The names, dashes and kinds in order.

    Returns:
        Kind by name, in the order of the list.

    Raises:
        PddlSyntaxError: A name has no kind, or something is nested.
    """
    kinds: dict[str, str] = {}
    untyped: list[str] = []
    names = iter(tokens)
    for name in names:
        if not isinstance(name, str):
            raise PddlSyntaxError("a typed list holds a nested list; expected names only")
        if name != "-":
            untyped.append(name)
            continue
        kind = next(names, None)
        if not isinstance(kind, str) or not untyped:
            raise PddlSyntaxError("a typed list has a '-' without a name before it or a kind after it")
        kinds.update(dict.fromkeys(untyped, kind))
        untyped.clear()
    if untyped:
        raise PddlSyntaxError(f"{untyped[0]!r} has no kind; expected 'name - kind'")
    return kinds
