"""Rows of tool calls for tests: three tools, and conversations that call them."""

from __future__ import annotations

__all__ = ["THREE_TOOLS", "TOOLS", "calling", "row"]


def schema(name: str, **parameters: str) -> dict:
    properties = {key: {"type": kind, "description": f"The {key}."} for key, kind in parameters.items()}
    function = {"name": name, "description": f"To {name}.", "parameters": {"type": "object", "properties": properties}}
    return {"type": "function", "function": function}


TOOLS = [
    schema("read", path="string", lines="integer"),
    schema("write", path="string", content="string"),
    schema("run", command="string", options="object", seconds="number", names="array"),
]


def calling(*calls: tuple[str, dict], **fields) -> dict:
    made = [{"type": "function", "function": {"name": name, "arguments": arguments}} for name, arguments in calls]
    return {"role": "assistant", "content": "", "tool_calls": made, **fields}


def row(*turns: dict, tools: list | None = TOOLS, **columns) -> dict:
    """Turns of the assistant, a result behind each that calls."""
    messages = [{"role": "system", "content": "Work."}, {"role": "user", "content": "Go."}]
    for turn in turns:
        messages.append(turn)
        names = [made["function"]["name"] for made in turn.get("tool_calls", [])]
        messages += [{"role": "tool", "name": name, "content": "ok"} for name in names]
    return {"messages": messages, **({"tools": tools} if tools else {}), **columns}


THREE_TOOLS = row(
    calling(("read", {"path": "a.py"})),
    calling(("write", {"path": "a.py", "content": "x = 1"})),
    calling(("run", {"command": "pytest"})),
    {"role": "assistant", "content": "All pass."},
)
