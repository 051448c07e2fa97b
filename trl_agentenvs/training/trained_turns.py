"""Reads rows back from the tokens that `SFTTrainer` takes the loss on, as TRL reads the turns of a policy in play.

A row is trained on as it was written if each stretch of tokens in the loss begins where the prompt of a turn ends,
closes with the token that ends the turn, and is parsed to the message in the row: its calls, content and reasoning.

What is covered: the templates of Qwen2.5, Qwen3, Qwen3.5 and LFM2 that TRL ships, and such as are written like them.
What is not covered: other families' (of Nemotron, GPT-OSS and GLM good rows are refused, too), and whitespace at the
ends of reasoning, which changes nothing in play.
"""

from __future__ import annotations

import copy
import inspect
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from jinja2 import TemplateError
from transformers import PreTrainedTokenizerBase
from trl.chat_template_utils import parse_response

from .chat_template import add_parser, sft_template, training_sequence
from .conversations import conversation_fault

__all__ = ["RowReader", "difference"]

_SHOWN_CHARS = 200
_ABSENT = object()  # None is a value
_ARROW_PUT = "if your row has it neither, Arrow put it in: make the dataset with sft_dataset"


def difference(got: Any, expected: Any, where: str = "") -> str | None:
    """Return the first place where two JSON values differ, in words; None if they do not.

    1, 1.0 and True are different, and so are None and a key that is absent.

    Args:
        got: What came back.
        expected: What was put in.
        where: What the place is called.
    """
    if isinstance(got, dict) and isinstance(expected, dict):
        for name in [*expected, *(name for name in got if name not in expected)]:
            inner = f"{where}.{name}" if where else str(name)
            found = difference(got.get(name, _ABSENT), expected.get(name, _ABSENT), inner)
            if found:
                return found
        same = where == "" or list(got) == list(expected)  # the order of columns means nothing
    elif isinstance(got, (list, tuple)) and isinstance(expected, (list, tuple)) and len(got) == len(expected):
        places = (difference(*pair, f"{where}[{index}]") for index, pair in enumerate(zip(got, expected, strict=True)))
        return next((place for place in places if place), None)
    else:
        same = type(got) is type(expected) and repr(got) == repr(expected)
    return None if same else f"{where} is {_shown(got)} instead of {_shown(expected)}"


def _shown(value: Any) -> str:
    """A value, short enough for a message."""
    text = "absent" if value is _ABSENT else repr(value)
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}..."


class RowReader:
    """Reads rows back from the tokens that the loss is taken on."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self.longest = 0  # tokens, of the rows read so far
        self._tokenizer = copy.copy(tokenizer)  # gets a parser, like the trainer's
        self._template = sft_template(tokenizer)
        add_parser(self._tokenizer)
        added = tokenizer.added_tokens_decoder
        self._control_ids = {index for index, token in added.items() if token.special}
        self._control_texts = sorted(token.content for token in added.values() if token.special)
        self._header, self._opening = self._end_of_prompt()
        self._typed = "tools" in inspect.signature(parse_response).parameters

    def faults(self, row: Mapping[str, Any], max_length: int | None) -> list[str]:
        """What is wrong with a row."""
        unfit = conversation_fault(row)
        if unfit:
            return [unfit]
        messages = row["messages"]
        parameters = _parameters(row.get("tools"))
        faults = [f"the tool {name} has the parameter {key!r} without a schema; {_ARROW_PUT}"
                  for name, found in parameters.items() for key, value in found.items() if value is None]  # fmt: skip
        faults += [f"messages[{index}]: {fault}" for index, message in enumerate(messages)
                   for fault in self._message_faults(message, parameters)]  # fmt: skip
        if faults:
            return faults
        try:
            ids, mask = training_sequence(self._tokenizer, row, self._template)
        except ValueError as error:
            return [str(error)]
        self.longest = max(self.longest, len(ids))
        if max_length is not None and len(ids) > max_length:
            faults.append(f"it has {len(ids)} tokens and is cut to max_length={max_length}; raise it in SFTConfig")
        turns = [index for index, message in enumerate(messages) if message["role"] == "assistant"]
        spans = _runs(mask)
        if not turns or len(spans) != len(turns):
            return [*faults, f"the loss is taken on {len(spans)} stretches of tokens for {len(turns)} assistant turns"]
        behind = 0
        for index, span in zip(turns, spans, strict=True):
            before = str(self._tokenizer.decode(ids[behind : span.start]))
            fault = self._start_fault(before) or self._turn_fault(messages[index], ids, span, row.get("tools"))
            if fault:
                faults.append(f"messages[{index}]: {fault}")
            behind = span.stop
        return faults

    def _end_of_prompt(self) -> tuple[str, str]:
        """What a prompt adds to its messages: the header of the turn, and thinking where the template opens it."""
        question = [{"role": "user", "content": "x"}]
        options: dict[str, Any] = {"chat_template": self._template, "tokenize": False}
        try:
            bare = str(self._tokenizer.apply_chat_template(question, **options))
            prompt = str(self._tokenizer.apply_chat_template(question, add_generation_prompt=True, **options))
        except (TemplateError, TypeError) as error:
            raise ValueError(f"the chat template cannot render a question: {error}; use one of TRL's") from error
        end = prompt.removeprefix(bare)
        header = end.split("<think>")[0].rstrip()
        if not header:
            raise ValueError("the chat template ends a prompt with no header of the next turn; use one of TRL's")
        return header, end.removeprefix(header)

    def _start_fault(self, before: str) -> str | None:
        """Whether the loss begins where the prompt ends, within the line feeds and thinking tags there."""
        _, found, rest = before.rpartition(self._header)
        if found and self._opening.startswith(rest):
            return None
        opened = self._header + self._opening
        return f"the loss does not begin behind {opened!r}, where the turn does; use a training template of TRL"

    def _message_faults(self, message: Mapping[str, Any], parameters: Mapping[str, Mapping[str, Any]]) -> list[str]:
        """What is wrong with a message before it is rendered."""
        faults = []
        said = json.dumps(dict(message), ensure_ascii=False, default=str)
        control = [text for text in self._control_texts if text in said]
        if control:
            faults.append(f"its text holds the control token {control[0]!r}; take it out, it would end or open a turn")
        for call in _calls(message):
            name, arguments = call["name"], call["arguments"]
            if not isinstance(arguments, Mapping):
                faults.append(f"the arguments of {name} are {_shown(arguments)}; expected a dict, not its JSON")
                continue
            if name not in parameters:
                faults.append(f"it calls {name}, which is not in the row's tools; add its schema, as play does")
                continue
            strange = [key for key in arguments if key not in parameters[name]]
            if strange:
                value = _shown(arguments[strange[0]])
                faults.append(f"{name} is given {strange[0]}={value}, which its schema does not have; {_ARROW_PUT}")
        return faults

    def _turn_fault(self, message: Mapping[str, Any], ids: list[int], span: range, tools: Any) -> str | None:
        """How the trained tokens of a turn differ from its message."""
        # Qwen2.5's template counts the line feed before a turn as the assistant's.
        start = next((at for at in span if str(self._tokenizer.decode([ids[at]])).strip("\n")), span.start)
        end = next((at for at in reversed(span) if ids[at] in self._control_ids), None)
        if end is None:
            return "the token that ends the turn is not trained on; use a training template of TRL"
        if ids[end] != self._tokenizer.eos_token_id:  # TRL's tool loop cuts turns there
            ended, eos = self._tokenizer.decode([ids[end]]), self._tokenizer.eos_token
            return f"the turn ends with {ended!r}, and the tokenizer's eos_token is {eos!r}; set it to {ended!r}"
        if span.stop - end > 2:  # the line feed behind a turn may be in
            behind = self._tokenizer.decode(ids[end + 1 : span.stop])
            return f"the loss is taken on what follows the turn, too: {_shown(behind)}; use a training template of TRL"
        options = {"tools": tools} if self._typed else {}
        read = parse_response(self._tokenizer, ids[start : end + 1], prefix=ids[:start], **options)
        return _changed(read, message)


def _runs(mask: Sequence[int]) -> list[range]:
    """The stretches of ones in a mask."""
    edges = [index for index, pair in enumerate(zip([0, *mask], [*mask, 0], strict=True)) if pair[0] != pair[1]]
    return [range(start, stop) for start, stop in zip(edges[::2], edges[1::2], strict=True)]


def _calls(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The tool calls of a message: `name` and `arguments`."""
    calls = [call.get("function", call) for call in message.get("tool_calls") or []]
    return [{"name": call.get("name"), "arguments": call.get("arguments", {})} for call in calls]


def _parameters(tools: Any) -> dict[str, Mapping[str, Any]]:
    """The parameters of each tool, by its schema."""
    schemas = [tool.get("function", tool) for tool in tools or []]
    return {schema.get("name"): (schema.get("parameters") or {}).get("properties") or {} for schema in schemas}


def _said(message: Mapping[str, Any]) -> tuple[str, str]:
    """Reasoning and content of a message; a template takes reasoning out of the content, too."""
    content, reasoning = message.get("content") or "", message.get("reasoning_content")
    if reasoning is None and "</think>" in content:
        before, _, content = content.rpartition("</think>")
        reasoning, content = before.split("<think>")[-1], content.lstrip("\n")
    return (reasoning or "").strip(), content


def _changed(read: Mapping[str, Any], message: Mapping[str, Any]) -> str | None:
    """How a message that was read back differs from the row's; None if it does not."""
    (reasoning, content), (their_reasoning, their_content) = _said(read), _said(message)
    found = (
        difference(_calls(read), _calls(message), "tool_calls")
        or difference(content, their_content, "content")
        or difference(reasoning, their_reasoning, "reasoning_content")
    )
    if not found:
        return None
    only_spaces = _unspaced(_calls(read), content) == _unspaced(_calls(message), their_content)
    remedy = "; strip it in the row, or keep it in arguments with the patch keep_whitespace" if only_spaces else ""
    return f"read back from its tokens, {found}{remedy}"


def _unspaced(*values: Any) -> str:
    """Values without any whitespace, to tell what else differs."""
    return re.sub(r"\\[nrt]|\s", "", json.dumps(values, default=str))
