"""The tools of one rollout, as a dict that has an answer for every call.

TRL looks a call's name up and calls what it finds with the call's arguments. Here it always finds something: the tool,
or a refusal, which raises, so that TRL shows its sentence to the model and counts a failed call. What is wrong with a
call beyond its name travels in the name itself (`MarkedName`), since the dict sees nothing else of it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

__all__ = ["AnsweringTools", "MarkedName"]

SHOWN_VALUE_CHARS = 60


class MarkedName(str):
    """The name in a call, with what the parsed turn told of it.

    Attributes:
        kind: What to count it as.
        sentence: The answer, where the call cannot be made.
        arguments: The arguments, where they are no object and cannot be passed on.
    """

    kind: str
    sentence: str | None
    arguments: Any

    @classmethod
    def of(cls, name: str, kind: str, sentence: str | None = None, arguments: Any = None) -> MarkedName:
        """Mark a name."""
        made = cls(name)
        made.kind, made.sentence, made.arguments = kind, sentence, arguments
        return made


class AnsweringTools(dict[str, Any]):
    """The plain tools of one rollout by name; what cannot be called is answered. Asynchronous tools stay with TRL."""

    def __init__(self, sync_tools: Mapping[str, Any], async_tools: Mapping[str, Any], environment: Any) -> None:
        """Take the tools TRL found, and the rollout's environment, or None."""
        super().__init__(sync_tools)
        self.names = {*sync_tools, *async_tools}
        self._async_names = frozenset(async_tools)
        self._note_repair = getattr(environment, "_note_repair", None)
        call_tool = getattr(environment, "_call_tool", None)
        all_its_own = all(getattr(tool, "__self__", None) is environment for tool in sync_tools.values())
        self._call_tool = call_tool if callable(call_tool) and all_its_own and not async_tools else None

    def __contains__(self, name: object) -> bool:
        return isinstance(name, MarkedName) or name not in self._async_names

    def __getitem__(self, name: str) -> Callable[..., Any]:
        if isinstance(name, MarkedName):
            if callable(self._note_repair):
                self._note_repair(name.kind)
            if name.sentence is not None:
                return _refusal(name.sentence)
            if name.arguments is not None:
                return self._refuse_arguments(str(name), name.arguments)
        tool = self.get(name)
        if tool is not None:
            return _checking_arguments(name, tool)
        call_tool = self._call_tool
        if call_tool is not None:
            return lambda **arguments: call_tool(str(name), arguments)
        return _refusal(f"There is no tool {_show(str(name))}; the tools are {', '.join(sorted(self.names))}.")

    def _refuse_arguments(self, name: str, arguments: Any) -> Callable[..., Any]:
        call_tool = self._call_tool
        if call_tool is not None:
            return lambda: call_tool(name, arguments)
        return _refusal(f"The arguments of {name} must be one JSON object of names and values, got {_show(arguments)}.")


def _refusal(sentence: str) -> Callable[..., NoReturn]:
    def refuse(**arguments: Any) -> NoReturn:
        raise ValueError(sentence)

    return refuse


def _checking_arguments(name: str, tool: Callable[..., Any]) -> Callable[..., Any]:
    """The tool, with a sentence in the place of the TypeError that arguments it does not take would raise."""
    try:
        signature = inspect.signature(tool, follow_wrapped=False)  # a tolerant wrapper takes more than it declares
    except ValueError:  # not to be known of some built-in functions
        return tool

    def call(**arguments: Any) -> Any:
        try:
            signature.bind(**arguments)
        except TypeError:
            raise ValueError(_misfit(name, signature, arguments)) from None
        return tool(**arguments)

    return call


def _misfit(name: str, signature: inspect.Signature, given: Mapping[str, Any]) -> str:
    required = [p.name for p in signature.parameters.values() if p.default is p.empty and p.kind is not p.VAR_KEYWORD]
    missing = [parameter for parameter in required if parameter not in given]
    wrong = f"needs {' and '.join(missing)}" if missing else "does not take all of what you gave"
    accepted = ", ".join(p if p in required else f"{p} (optional)" for p in signature.parameters) or "no arguments"
    return f"{name} {wrong}; you gave {', '.join(given) or 'no arguments'}; it accepts {accepted}."


def _show(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN_VALUE_CHARS else f"{text[:SHOWN_VALUE_CHARS]}..."
