"""What is wrong with the tool call that a turn seems to hold, when the parser found none.

Recognised: the tags of the Qwen families (JSON between call tags, or function and parameter tags), whole or in part, in
the answer or in a thinking block that nothing follows; and a bare JSON object with "name" and "arguments". Not
recognised: calls written as Python code, as prose, or in the tags of other families.

The sentences are read by the model. They name no tag literally: a tokenizer would turn it into the control token.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Diagnosis", "call_format", "diagnose"]

_TAGS = re.compile(r"</?tool_call>|<function=|</function>")
_BARE_JSON = re.compile(r"\s*(?:```\w*\s*)?\{\s*\"name\"\s*:.*\"arguments\"\s*:", re.DOTALL)
_CALL_BODY = re.compile(r"<tool_call>(.*?)(?:</tool_call>|$)", re.DOTALL)

_FORMS = {
    "json": 'as one JSON object with "name" and "arguments" between the tool-call tags',
    "parameter tags": "between the tool-call tags, as a function tag with one parameter tag for each argument",
}
_UNKNOWN_FORM = "exactly in the form that the instructions show"


@dataclass(frozen=True)
class Diagnosis:
    """Why a call was not parsed: `kind` for counting, `sentence` for the model."""

    kind: str
    sentence: str


def call_format(tokenizer: Any) -> str | None:
    """How the model at hand writes tool calls, by its chat template: "json", "parameter tags", or None for others."""
    template = str(getattr(tokenizer, "chat_template", None))
    if "<parameter=" in template:
        return "parameter tags"
    return "json" if "<tool_call>" in template and "<arg_key>" not in template else None


def diagnose(message: Mapping[str, Any], form: str | None, tools: Iterable[str]) -> Diagnosis | None:
    """Say what is wrong with the call in a turn, or None where the turn holds nothing like a call.

    Args:
        message: The parsed turn, without tool calls.
        form: What `call_format` says of the tokenizer.
        tools: Names of the tools there are.

    Returns:
        Kind "call_in_thinking" or "malformed_call", with one sentence that names the fix.
    """
    known = f"The tools are {', '.join(sorted(tools))}."
    content = str(message.get("content") or "")
    thinking = str(message.get("reasoning_content") or "")
    if not content.strip() and _TAGS.search(thinking):
        sentence = "The tool call did not run, because it is inside your thinking: end that first, then write the call."
        return Diagnosis("call_in_thinking", f"{sentence} {known}")
    if not _TAGS.search(content) and not _BARE_JSON.match(content):
        return None
    again = _FORMS.get(form or "", _UNKNOWN_FORM)
    sentence = f"The tool call did not run, because {_fault(content, form)}: write it again, {again}."
    return Diagnosis("malformed_call", f"{sentence} {known}")


def _fault(content: str, form: str | None) -> str:
    bodies = _CALL_BODY.findall(content)
    if not bodies:
        return "it does not start with the tool-call tag"
    faults = [fault for fault in (_body_fault(body.strip(), form) for body in bodies) if fault]
    return faults[0] if faults else "it could not be parsed"


def _body_fault(body: str, form: str | None) -> str | None:
    """What is wrong between the tags, or None where that is not to be seen."""
    is_json = body.startswith("{")
    if form == "parameter tags":
        return "it is written in JSON" if is_json else "its tags are not complete"
    if form != "json":
        return None
    if not is_json:
        return "it is not a JSON object"
    try:
        call = json.loads(body)
    except ValueError as error:
        return f"its JSON is not valid ({error})"
    except RecursionError:
        return "its JSON is nested too deeply"
    if not isinstance(call.get("name"), str):
        return 'it has no "name"'
    return None if isinstance(call.get("arguments"), dict) else 'its "arguments" are not a JSON object'
