"""Rules about what the class of an environment shows: its tools, their schemas, and what becomes a tool by accident.

Schemas are rendered by transformers' `get_json_schema` where transformers is installed; otherwise the docstring is read
with the standard library, which finds missing parts but no type that has no JSON schema.
"""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable, Iterator
from typing import Any

from ..toollint import tool_faults
from .subject import Finding, Subject, show

__all__ = ["check_tools", "schema_renderer"]

logger = logging.getLogger("trl_agentenvs.check")

# Names under which other frameworks keep what a trainer, not a model, should call.
HELPER_NAMES = frozenset(
    {"cleanup", "close", "evaluate", "grade", "render", "score", "seed", "setup", "shutdown", "step", "teardown"}
)
_EVALUATED = (property, functools.cached_property)


def schema_renderer() -> Callable[[Any], Any] | None:
    """Return `get_json_schema` of transformers, or None (and a line in the log) where transformers is not installed."""
    try:
        from transformers.utils.chat_template_utils import get_json_schema
    except ImportError:
        logger.warning("not checked: JSON schemas of tools as a trainer renders them; transformers is not installed")
        return None
    get_json_schema(_sample)  # loads what it loads at its first use
    return get_json_schema


def _sample() -> None:
    """Do nothing."""


def check_tools(subject: Subject, env: Any, render: Callable[[Any], Any] | None) -> Iterator[Finding]:
    """Find what keeps the class from being an environment, before any episode is played; mark tools that are unfit."""
    cls, tools = type(env), subject.tools(env)
    reset = inspect.getattr_static(cls, "reset", None)
    if not inspect.isfunction(reset):
        yield Finding(
            "reset",
            f"{cls.__name__} has no method reset; the trainer refuses the environment when it is built. Define"
            " reset(self, **row) -> str, which starts the episode that the row describes.",
        )
    elif inspect.iscoroutinefunction(reset):
        yield Finding(
            "reset",
            "reset is async def; the trainer does not await it and appends a coroutine to the prompt. Write it as a"
            " plain def.",
        )
    if not tools:
        yield Finding(
            "tools",
            f"{cls.__name__} has no tools, so a model can do nothing in it. Write each tool as a public method with a"
            " docstring and types.",
        )
    kinds = {name: inspect.iscoroutinefunction(tool) for name, tool in tools.items()}
    if len(set(kinds.values())) > 1:
        slow = ", ".join(name for name, is_async in kinds.items() if is_async)
        yield Finding(
            "mixed-async",
            f"the tools {slow} are async def and the others are not; the trainer appends results of async tools"
            " behind all others, so the model reads them in another order than it called. Make all tools async def,"
            " or none.",
        )
    for name, tool in tools.items():
        findings = list(_check_tool(name, inspect.getattr_static(cls, name), tool, render))
        yield from findings
        subject.unfit |= {name} if findings else set()
    yield from _check_other_members(env)


def _check_tool(name: str, member: Any, tool: Any, render: Callable[[Any], Any] | None) -> Iterator[Finding]:
    if isinstance(member, staticmethod):
        yield _leak(name, "is a static method, which TRL since 1.15 takes for a tool and earlier releases do not")
        return
    if name in HELPER_NAMES:
        yield _leak(name, "is public, so the model is told of it and can call it")
        return
    faults = tool_faults(name, member)
    if not faults and render is not None:
        try:
            render(tool)
        except Exception as error:  # whatever it raises is what the trainer would raise
            faults = [f"tool {name} has no JSON schema: {show(error)}"]
    for fault in faults:
        yield Finding(
            "tool-schema",
            f"{fault}. The trainer renders every public method for the model at its first batch: it fails there, or"
            " tells the model something wrong.",
        )


def _check_other_members(env: Any) -> Iterator[Finding]:
    cls = type(env)
    for name in (name for name in dir(cls) if not name.startswith("_")):
        member = inspect.getattr_static(cls, name, None)
        if isinstance(member, classmethod):
            yield _leak(name, "is a class method, which TRL before 1.15 takes for a tool")
        elif isinstance(member, _EVALUATED):
            yield _leak(name, "is a property, which TRL before 1.15 evaluates while it looks for tools")
    for name, value in vars(env).items() if hasattr(env, "__dict__") else ():
        if not name.startswith("_") and inspect.ismethod(value):
            yield _leak(name, "is a bound method kept on the instance, which TRL before 1.15 takes for a tool")


def _leak(name: str, what: str) -> Finding:
    return Finding(
        "public-helper",
        f"{name} {what}. Rename it to _{name}; if it is meant as a tool, write it as a plain method whose name says"
        " what it does.",
    )
