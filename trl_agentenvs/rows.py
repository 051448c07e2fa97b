"""Rows for a trainer: `prompt` plus flat columns that survive Arrow.

Arrow stores a column of dicts as one struct: every row gets every row's keys, with None where it had none. What a row
says must therefore be flat; `build_dataset` refuses nested values and mixed types instead of letting them change.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datasets import Dataset

__all__ = ["EnvSpec", "build_dataset"]

_FLAT = (str, int, float, bool)


@dataclass(frozen=True)
class EnvSpec:
    """What a trainer needs of an environment; `vars(spec)` are keyword arguments of `GRPOTrainer`."""

    train_dataset: Dataset
    environment_factory: Callable[[], Any]
    reward_funcs: list[Callable[..., Any]]


def build_dataset(rows: list[dict[str, Any]], system_prompt: str = "", user_prompt: str = "") -> Dataset:
    """Return the rows as a `datasets.Dataset` with a conversational `prompt` column in front.

    Args:
        rows: Flat dicts with equal keys; values are str, int, float, bool or None.
        system_prompt: Content of the system message; "" for no system message.
        user_prompt: Content of the user message; what `reset` returns is appended to it by the trainer.

    Raises:
        ValueError: There are no rows, keys differ, or a value is nested, of mixed type, or more than Arrow can hold.
        ImportError: `datasets` is not installed.
    """
    if not rows:
        raise ValueError("got no rows; expected at least one")
    columns = list(rows[0])
    for index, row in enumerate(rows):
        if set(row) != set(columns):
            raise ValueError(f"row {index} has columns {sorted(row)}; expected {sorted(columns)} as in row 0")
    for column in columns:
        kinds = {type(row[column]) for row in rows} - {type(None)}
        if len(kinds) > 1 or not kinds <= set(_FLAT):
            names = sorted(kind.__name__ for kind in kinds)
            raise ValueError(
                f"column {column!r} holds {', '.join(names)}; expected one of str, int, float, bool, since Arrow"
                " changes nested and mixed values: store them as JSON strings (json.dumps)"
            )
    try:
        from datasets import Dataset
    except ImportError as error:
        raise ImportError('datasets is not installed; run: pip install "trl_agentenvs[train]"') from error
    system = [{"role": "system", "content": system_prompt}] if system_prompt else []
    prompt = [*system, {"role": "user", "content": user_prompt}]
    try:
        return Dataset.from_list([{"prompt": prompt, **row} for row in rows])
    except (OverflowError, UnicodeError) as error:
        raise ValueError(
            f"Arrow cannot hold the rows ({error}); expected integers of 64 bits and text without half characters"
        ) from error
