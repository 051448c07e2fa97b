"""What a trainer needs of a tool before it can render its schema, checked when the class is made.

Without these checks the same faults appear at the first training batch, as exceptions that name neither the class nor
the fix. Only the standard library is used; `check_env` renders the real schema.
"""

from __future__ import annotations

import inspect
import re
from typing import Any

__all__ = ["NOT_TOOLS", "tool_faults"]

NOT_TOOLS = ("reset", "get_reward")
"""Public methods that the trainer calls itself and keeps from the model."""

_SECTION = re.compile(r"^[ \t]*Args:[ \t]*\n(?P<body>(?:[ \t]+.*\n?|[ \t]*\n)*)", re.MULTILINE)


def tool_faults(name: str, member: Any) -> list[str]:
    """Return one sentence for each thing that keeps `member` from being a tool; none when it is fit.

    Args:
        name: Attribute name on the class.
        member: The class attribute as written, before descriptors are resolved.
    """
    advice = f"prefix it with an underscore if {name} is no tool"
    if not inspect.isfunction(member):
        return [f"tool {name} is a {type(member).__name__}; write it as a plain method, or {advice}"]
    if member.__name__ != name:
        return [f"tool {name} is another name for {member.__name__}; trainers call tools by __name__: write a method"]
    docstring = inspect.getdoc(member)
    if not docstring:
        return [f"tool {name} has no docstring; the model reads it: add one with an Args: section, or {advice}"]
    section = _SECTION.search(docstring + "\n")
    described = (
        set(re.findall(r"^[ \t]+(\w+)[ \t]*(?:\([^)\n]*\))?:", section["body"], re.MULTILINE)) if section else set()
    )
    faults = []
    if inspect.isgeneratorfunction(member) or inspect.isasyncgenfunction(member):
        faults.append(f"tool {name} yields, so a model would read the name of a generator; return one text")
    parameters = list(inspect.signature(member).parameters.values())
    if not parameters or parameters[0].name != "self":
        faults.append(f"tool {name} does not take self; write it as a plain method, or {advice}")
    for parameter in parameters[1:]:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            faults.append(f"tool {name} takes *{parameter.name}; declare each parameter: dispatch is tolerant already")
            continue
        if parameter.kind is parameter.POSITIONAL_ONLY:
            faults.append(f"parameter {parameter.name} of tool {name} has no name in a call; write it behind the /")
        if parameter.annotation is parameter.empty:
            faults.append(f"parameter {parameter.name} of tool {name} has no type; annotate it")
        if parameter.name not in described:
            faults.append(
                f"parameter {parameter.name} of tool {name} is not described; add it under Args: in its docstring"
            )
    return faults
