"""Which rows `SFTTrainer` trains on as conversations: the text of their `messages`, and nothing else in the row.

What is covered: the shape of messages, calls and tools, and the columns that the trainer takes in place of `messages`
without saying so. What is not covered: whether a chat template can render the row.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["conversation_fault"]

_TAKEN_INSTEAD = ("prompt", "completion", "conversations", "input_ids", "labels", "image", "images")


def conversation_fault(row: Any) -> str | None:
    """Return why `SFTTrainer` would not train on the messages of a row, in words; None if it would."""
    if not isinstance(row, Mapping):
        return f"it is a {type(row).__name__}; expected a dict with messages"
    instead = [name for name in _TAKEN_INSTEAD if name in row]
    if instead:
        return f"it has the column {instead[0]!r}, which SFTTrainer takes in place of messages; remove it"
    messages = row.get("messages")
    if not messages or not _are_dicts(messages) or not all(map(_is_message, messages)):
        return (
            "it is no conversation; expected messages as a list of dicts, each with a role, a text or None as content, "
            "and tool_calls, if any, as a list of dicts with a name"
        )
    if not _are_functions(row.get("tools") or []):
        return "its tools are no list of JSON schemas; expected those of get_json_schema, as dicts"
    if not isinstance(row.get("chat_template_kwargs", {}), Mapping):
        return "its chat_template_kwargs are no dict; expected {} where there are none"
    return None


def _is_message(message: Mapping[str, Any]) -> bool:
    texts = (message.get("content"), message.get("reasoning_content"))
    return (
        isinstance(message.get("role"), str)
        and all(isinstance(text, (str, type(None))) for text in texts)
        and _are_functions(message.get("tool_calls") or [])
    )


def _are_functions(items: Any) -> bool:
    """Whether they are calls or schemas, with or without `function` around them."""
    return _are_dicts(items) and all(_is_function(item.get("function", item)) for item in items)


def _is_function(function: Any) -> bool:
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        return False
    parameters = function.get("parameters") or {}  # a schema has them, a call does not
    return isinstance(parameters, Mapping) and isinstance(parameters.get("properties") or {}, Mapping)


def _are_dicts(items: Any) -> bool:
    return isinstance(items, (list, tuple)) and all(isinstance(item, Mapping) for item in items)
