"""Rows of tool calls for `SFTTrainer` that are trained on as they were written.

Two things on the way to the loss change rows, and neither says so. Arrow stores the arguments of all calls as one
struct: every call gets every parameter of every tool, with None where it had none, and the model learns to write them.
The chat template strips, splits and drops: whitespace around a text, reasoning, what looks like markup.
`sft_dataset` keeps Arrow out of the conversations, and refuses what it could not keep; `check_sft_rows` tokenises each
row as `SFTTrainer` does and reads back what the loss is taken on, with the parser that reads a policy's turns in play.

What is covered: text conversations in `messages`, with `tools`, trained on with `assistant_only_loss`.
What is not covered: rows of `prompt` and `completion`, images, and packing.
"""

from __future__ import annotations

import copy
import inspect
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from datasets import Dataset, Features, Json
from transformers import PreTrainedTokenizerBase
from trl.chat_template_utils import parse_response

from .chat_template import add_parser, sft_template, training_sequence

__all__ = ["check_sft_rows", "sft_dataset"]

_FAULTS_SHOWN = 5
_SHOWN_CHARS = 200
_ABSENT = object()  # None is a value


def sft_dataset(rows: Iterable[Mapping[str, Any]] | str | os.PathLike[str]) -> Dataset:
    """Return rows as a dataset for `SFTTrainer`, every value as it was.

    Columns with lists or dicts get the `Json()` feature, the others Arrow's types.

    Args:
        rows: Dicts with equal keys, `messages` among them; or a file with one as JSON on each line.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: There are no rows, a row has no messages, keys differ, or a value would not come back as it is:
            mixed types in a column, integers beyond 64 bits, nan, half characters.
    """
    listed = _read(Path(rows)) if isinstance(rows, (str, os.PathLike)) else [dict(row) for row in rows]
    if not listed:
        raise ValueError("got no rows; expected at least one")
    columns = list(listed[0])
    for index, row in enumerate(listed):
        if not _is_conversation(row):
            raise ValueError(
                f"row {index} is no conversation; expected messages as a list of dicts with a role, and tools as a list"
            )
        if set(row) != set(columns):
            raise ValueError(f"row {index} has columns {sorted(row)}; expected {sorted(columns)} as in row 0")
    nested = {name for row in listed for name, value in row.items() if isinstance(value, (list, tuple, dict))}
    flat = [name for name in columns if name not in nested]
    try:
        inferred = Dataset.from_list([{name: row[name] for name in flat} for row in listed]).features if flat else {}
        features = Features({name: Json() if name in nested else inferred[name] for name in columns})
        dataset = Dataset.from_list(listed, features=features)
    except (ValueError, TypeError, OverflowError) as error:
        raise ValueError(f"Arrow cannot hold the rows: {error}; expected JSON, and one type in each column") from error
    for index, row in enumerate(listed):
        difference = _read_back(dataset, index, row)
        if difference:
            raise ValueError(
                f"row {index} would not come back as it is: {difference}; expected one type in each column, finite "
                "numbers, and integers of 64 bits"
            )
    return dataset


def _is_conversation(row: Mapping[str, Any]) -> bool:
    """Whether a row has messages with roles, and tools, if any, as a list."""
    messages, tools = row.get("messages"), row.get("tools")
    if not isinstance(messages, (list, tuple)) or not isinstance(tools, (list, tuple, type(None))):
        return False
    return all(isinstance(message, Mapping) and "role" in message for message in messages)


def _read(path: Path) -> list[dict[str, Any]]:
    """The rows of a JSON-lines file."""
    rows = []
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except ValueError as error:
                raise ValueError(f"{path}, line {number} is no JSON: {error}; write the file anew") from error
            if not isinstance(row, dict):
                raise ValueError(f"{path}, line {number} is a {type(row).__name__}; expected an object with 'messages'")
            rows.append(row)
    return rows


def check_sft_rows(
    dataset: Dataset | Sequence[Mapping[str, Any]],
    tokenizer: PreTrainedTokenizerBase,
    *,
    max_length: int | None,
    rows: Sequence[Mapping[str, Any]] | None = None,
) -> None:
    """Check that each row is trained on as it was written: all its assistant turns, unchanged, and nothing else.

    A turn in the loss is what the template marks as the assistant's, which includes an empty thinking block before it
    and the line feed behind it.

    Args:
        dataset: What `SFTTrainer` gets.
        tokenizer: What `SFTTrainer` gets as `processing_class`.
        max_length: What `SFTConfig` gets (1024 if it gets nothing): longer rows are cut; None: they are not.
        rows: What the dataset was made from, to compare it with.

    Raises:
        ValueError: Rows differ; one line for each of the first few.
    """
    reader = _Reader(tokenizer)
    faults: list[str] = []
    if rows is not None and len(rows) != len(dataset):
        raise ValueError(f"got a dataset of {len(dataset)} rows made from {len(rows)}; expected as many")
    if not len(dataset):
        raise ValueError("got no rows; expected at least one")
    for index, row in enumerate(dataset):
        changed = rows is not None and _read_back(dataset, index, rows[index])
        if changed:
            faults.append(f"row {index}: Arrow changed it: {changed}; make the dataset with sft_dataset")
        else:
            faults += [f"row {index}: {fault}" for fault in reader.faults(row, max_length)]
    if faults:
        more = f"\nand {len(faults) - _FAULTS_SHOWN} more" if len(faults) > _FAULTS_SHOWN else ""
        raise ValueError(f"{len(dataset)} rows have {len(faults)} faults:\n" + "\n".join(faults[:_FAULTS_SHOWN]) + more)


def _read_back(dataset: Dataset | Sequence[Mapping[str, Any]], index: int, row: Mapping[str, Any]) -> str | None:
    """How a row that a dataset gives back differs from what was put in; None if it does not."""
    try:
        back = dataset[index]
    except (ValueError, TypeError) as error:
        return f"it cannot be read ({error})"
    return _difference(dict(back), dict(row), "")


def _difference(got: Any, expected: Any, where: str) -> str | None:
    """The first place where two JSON values differ, in words; 1, 1.0 and True are different."""
    if isinstance(got, dict) and isinstance(expected, dict):
        for name in [*expected, *(name for name in got if name not in expected)]:
            inner = f"{where}.{name}" if where else str(name)
            found = _difference(got.get(name, _ABSENT), expected.get(name, _ABSENT), inner)
            if found:
                return found
        same = where == "" or list(got) == list(expected)  # the order of columns means nothing
    elif isinstance(got, (list, tuple)) and isinstance(expected, (list, tuple)) and len(got) == len(expected):
        places = (_difference(*pair, f"{where}[{index}]") for index, pair in enumerate(zip(got, expected, strict=True)))
        return next((place for place in places if place), None)
    else:
        same = type(got) is type(expected) and repr(got) == repr(expected)
    return None if same else f"{where} is {_shown(got)} instead of {_shown(expected)}"


def _shown(value: Any) -> str:
    """A value, short enough for a message."""
    text = "absent" if value is _ABSENT else repr(value)
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}..."


class _Reader:
    """Reads rows back from the tokens that the loss is taken on."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self._tokenizer = copy.copy(tokenizer)  # gets a parser, like the trainer's
        self._template = sft_template(tokenizer)
        add_parser(self._tokenizer)
        added = tokenizer.added_tokens_decoder
        self._control_ids = {index for index, token in added.items() if token.special}
        self._control_texts = sorted(token.content for token in added.values() if token.special)
        self._typed = "tools" in inspect.signature(parse_response).parameters

    def faults(self, row: Mapping[str, Any], max_length: int | None) -> list[str]:
        """What is wrong with a row."""
        if not _is_conversation(row):
            return ["it is no conversation; expected messages as a list of dicts with a role, and tools as a list"]
        messages = row["messages"]
        faults = [f"messages[{index}]: {fault}" for index, message in enumerate(messages)
                  for fault in self._message_faults(message, row.get("tools"))]  # fmt: skip
        if faults:
            return faults
        try:
            ids, mask = training_sequence(self._tokenizer, row, self._template)
        except ValueError as error:
            return [str(error)]
        if max_length is not None and len(ids) > max_length:
            faults.append(f"it has {len(ids)} tokens and is cut to max_length={max_length}; raise it")
        turns = [index for index, message in enumerate(messages) if message["role"] == "assistant"]
        spans = _runs(mask)
        if not turns or len(spans) != len(turns):
            return [*faults, f"the loss is taken on {len(spans)} stretches of tokens for {len(turns)} assistant turns"]
        for index, span in zip(turns, spans, strict=True):
            fault = self._turn_fault(messages[index], ids, span, row.get("tools"))
            if fault:
                faults.append(f"messages[{index}]: {fault}")
        return faults

    def _message_faults(self, message: Mapping[str, Any], tools: Any) -> list[str]:
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
            declared = _parameters(tools, name)
            strange = [key for key in arguments if declared is not None and key not in declared]
            if strange:
                faults.append(
                    f"{name} is given {strange[0]}={_shown(arguments[strange[0]])}, which its schema does not have; if "
                    "your row has it neither, Arrow put it in: make the dataset with sft_dataset"
                )
        return faults

    def _turn_fault(self, message: Mapping[str, Any], ids: list[int], span: range, tools: Any) -> str | None:
        """How the trained tokens of a turn differ from its message."""
        start = next((at for at in span if str(self._tokenizer.decode([ids[at]])).strip()), span.start)
        end = next((at for at in reversed(span) if ids[at] in self._control_ids), None)
        if end is None:
            return "the token that ends the turn is not trained on; use a training template of TRL"
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


def _parameters(tools: Any, name: str) -> set[str] | None:
    """The parameters of a tool by its schema; None if there is no schema of it."""
    for tool in tools or []:
        schema = tool.get("function", tool)
        if schema.get("name") == name:
            properties = (schema.get("parameters") or {}).get("properties") or {}
            return {key for key, value in properties.items() if value is not None}
    return None


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
        _difference(_calls(read), _calls(message), "tool_calls")
        or _difference(content, their_content, "content")
        or _difference(reasoning, their_reasoning, "reasoning_content")
    )
    if not found:
        return None
    only_spaces = _unspaced(_calls(read), content) == _unspaced(_calls(message), their_content)
    remedy = "; strip it in the row, or keep it in arguments with the patch keep_whitespace" if only_spaces else ""
    return f"read back from its tokens, {found}{remedy}"


def _unspaced(*values: Any) -> str:
    """Values without any whitespace, to tell what else differs."""
    return re.sub(r"\\[nrt]|\s", "", json.dumps(values))
