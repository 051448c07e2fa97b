"""Tool arguments keep the whitespace they begin and end with (Qwen3.5, 3.6, 3.8 and Nemotron 3).

Upstream: no TRL issue known; the same defect in vLLM is vllm#48753. TRL 1.10 to 1.16 on transformers >= 5.13 parse the
parameter tags of these models with a template that strips each value: the indentation of a first line and the final
newline are lost, which is fatal to an `edit(old, new)` tool and to Python files. The chat template puts exactly one
newline before and one after a value; with this patch exactly these are taken off.

The patch mends TRL's templates in place, which tokenizers share, so it holds for those that were set up before, too,
and for AsyncGRPOTrainer, where the lost whitespace also takes the call's tokens out of the loss.

Limits: templates with parameter tags only; GLM's are not mended. A tokenizer that was given a template of its own, or a
copy, is not reached. A value written on the line of its tags keeps its spaces: `> 7 <` is " 7 ".

Delete when: TRL's own template returns what its chat template renders (`superseded` tries it).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from .frame import MARK, PatchTargetMoved, SteppedAside, Undo, find, is_installed, replace, undo_together

__all__ = ["GIVES", "UPSTREAM", "active", "apply", "superseded"]

NAME = "keep_whitespace"
GIVES = "tool arguments keep their leading and trailing whitespace"
UPSTREAM = "vllm#48753"

_MODULE = "trl.chat_template_utils"
_QWEN3_5 = f"{_MODULE}:qwen3_5_template"
_PARSE = "transformers.utils.chat_parsing:parse_response"
_VALUE = "    indented\n"  # comes back as it is, or the template strips
_CALL = f"<tool_call>\n<function=f>\n<parameter=x>\n{_VALUE}\n</parameter>\n</function>\n</tool_call>"
_PARAMETER = r"<parameter=(?P<key>[^>\n]+)>\n?(?P<value>.*?)\n?</parameter>"


class _KeepingArguments(dict[str, Any]):
    """Parser arguments that keep whitespace; a class of its own, to carry the mark."""


def active() -> Mapping[str, Any] | None:
    """Return {} while the patch is applied, None otherwise."""
    module = sys.modules.get(_MODULE)
    marked = any(hasattr(fields["content_args"], MARK) for fields in _parameter_tag_fields(module).values())
    return {} if marked else None


def superseded() -> str | None:
    """Return why the patch is not needed here, or None."""
    try:
        find(NAME, _QWEN3_5)
    except SteppedAside as reason:
        return str(reason)
    if not is_installed("transformers.utils.chat_parsing"):
        return "this transformers has no response templates"
    return None if _stripping_fields() else "TRL's templates keep whitespace"


def apply() -> Undo:
    """Apply the patch and return its undo.

    Raises:
        SteppedAside: It is not needed here.
        PatchTargetMoved: TRL's template, or what reads it, is not where it was.
    """
    if active() is not None:
        return undo_together()
    reason = superseded()
    if reason is not None:
        raise SteppedAside(reason)
    replacements = []
    for fields in _stripping_fields().values():
        stripping = fields["content_args"]
        parser = stripping.get("value_parser", {"name": "text"})
        keeping = _KeepingArguments(
            stripping,
            tag_pattern=_PARAMETER,
            value_parser={**parser, "args": {**parser.get("args", {}), "strip": False}},
        )
        setattr(keeping, MARK, {NAME: {}})
        replacements.append(replace(NAME, fields, "content_args", keeping))
    if _stripping_fields():
        for replacement in replacements:
            replacement.restore()
        raise PatchTargetMoved(NAME, _PARSE, "a parser that strips values whatever the template says")
    return undo_together(*replacements)


def _parameter_tag_fields(module: Any) -> dict[str, dict[str, Any]]:
    """The tool-call fields of each of TRL's response templates that parses parameter tags, by the template's name."""
    templates = {name: value for name, value in vars(module).items() if name.endswith("_template")} if module else {}
    fields = {
        name: template["fields"]["tool_calls"]
        for name, template in templates.items()
        if isinstance(template, dict) and "tool_calls" in template.get("fields", {})
    }
    return {name: field for name, field in fields.items() if "<parameter=" in str(field.get("content_args"))}


def _stripping_fields() -> dict[str, dict[str, Any]]:
    """Those of them that lose whitespace, found out by parsing a call."""
    module, name = find(NAME, _QWEN3_5)
    parse_owner, parse_name = find(NAME, _PARSE)
    parse = getattr(parse_owner, parse_name)
    fields = _parameter_tag_fields(module)
    if name not in fields:
        raise PatchTargetMoved(NAME, _QWEN3_5, "a template without parameter tags")
    stripping = {}
    for template_name, field in fields.items():
        (call,) = parse(_CALL, vars(module)[template_name], prefix="")["tool_calls"]
        if call["function"]["arguments"] != {"x": _VALUE}:
            stripping[template_name] = field
    return stripping
