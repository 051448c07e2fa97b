"""Rows of tool calls for `SFTTrainer` that are trained on as they were written.

Two things on the way to the loss change rows, and neither says so. Arrow stores the arguments of all calls as one
struct: every call gets every parameter of every tool, with None where it had none, and the model learns to write them.
The chat template strips, splits and drops: whitespace around a text, reasoning, what looks like markup.
`sft_dataset` keeps Arrow out of the conversations, and refuses what it could not keep; `check_sft_rows` refuses a
dataset in which Arrow merged them, tokenises each row as `SFTTrainer` does and reads back what the loss is taken on,
with the parser that reads a policy's turns in play.

What is covered: text conversations in `messages`, with `tools`, trained on with `assistant_only_loss`.
What is not covered: rows of `prompt` and `completion`, images, and packing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from datasets import Dataset, Features, Json
from transformers import PreTrainedTokenizerBase

from .conversations import conversation_fault
from .trained_turns import RowReader, difference

__all__ = ["check_sft_rows", "sft_dataset"]

_FAULTS_SHOWN = 5


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
        fault = conversation_fault(row)
        if fault:
            raise ValueError(f"row {index}: {fault}")
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
        changed = _read_back(dataset, index, row)
        if changed:
            raise ValueError(
                f"row {index} would not come back as it is: {changed}; expected one type in each column, finite "
                "numbers, and integers of 64 bits"
            )
    return dataset


def _read(path: Path) -> list[dict[str, Any]]:
    """The rows of a JSON-lines file."""
    rows = []
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
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
) -> None:
    """Check that each row is trained on as it was written: all its assistant turns, unchanged, and nothing else.

    A turn in the loss is what the template marks as the assistant's, which includes an empty thinking block before it
    and the line feed behind it.

    Args:
        dataset: What `SFTTrainer` gets, made with `sft_dataset`; or such rows in a list.
        tokenizer: What `SFTTrainer` gets as `processing_class`.
        max_length: What `SFTConfig` gets (1024 if it gets nothing): longer rows are cut; None: they are not.

    Raises:
        ValueError: Calls or tools are in Arrow's structs, which have changed them; or rows differ: one line for each of
            the first few.
    """
    if not isinstance(dataset, (Dataset, Sequence)):
        raise ValueError(f"got a {type(dataset).__name__}; expected a Dataset or a list of rows: one split, unstreamed")
    if not len(dataset):
        raise ValueError("got no rows; expected at least one")
    column = _column_of_structs(dataset.features) if isinstance(dataset, Dataset) else None
    if column:
        raise ValueError(
            f"the column {column!r} holds Arrow structs, where each call or schema has the keys of all, in one order; "
            "make the dataset with sft_dataset, of rows that were in no such dataset before"
        )
    reader = RowReader(tokenizer)
    faults = [f"row {index}: {fault}" for index, row in enumerate(dataset) for fault in reader.faults(row, max_length)]
    if faults:
        more = f"\nand {len(faults) - _FAULTS_SHOWN} more" if len(faults) > _FAULTS_SHOWN else ""
        longest = f"\nthe longest row has {reader.longest} tokens" if max_length and reader.longest > max_length else ""
        shown = "\n".join(faults[:_FAULTS_SHOWN])
        raise ValueError(f"{len(dataset)} rows have {len(faults)} faults:\n{shown}{more}{longest}")


def _column_of_structs(features: Features) -> str | None:
    """The first column in which Arrow merged the keys of calls or of schemas; None if there is none."""
    for column, merged in (("messages", "tool_calls"), ("tools", "function")):
        items = getattr(features.get(column), "feature", None)
        if isinstance(items, dict) and merged in items:
            return column
    return None


def _read_back(dataset: Dataset, index: int, row: Mapping[str, Any]) -> str | None:
    """How a row that a dataset gives back differs from what was put in; None if it does not."""
    try:
        back = dataset[index]
    except (ValueError, TypeError) as error:
        return f"it cannot be read ({error})"
    return difference(dict(back), dict(row))
