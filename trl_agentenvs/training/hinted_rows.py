"""Rows with hints that fade: the trainer must draw them in their order, and each of them once.

What is covered: GRPOTrainer's sampler. Rows are hinted if they have a column whose name begins with `hint_`; those
that end in `_chance` say how likely a hint is. What is not covered: other trainers, and a run that is stopped early.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from .arguments import Resolved
from .settings import Obstacle

if TYPE_CHECKING:
    from datasets import Dataset

__all__ = ["FADED_CHANCE", "HINT_COLUMNS", "fit_hints", "rows_drawn"]

HINT_COLUMNS = "hint_"
"""How the columns begin that say which hints an episode shows."""

FADED_CHANCE = 0.05
"""A last row with a chance of a hint up to this one is taken for the end of the hints."""


def fit_hints(resolved: Resolved, rows: Dataset) -> Iterator[Obstacle]:
    """Have hinted rows drawn in order, and look whether each is drawn once.

    Args:
        resolved: The configuration; `shuffle_dataset` is switched off where nobody set it.
        rows: The rows to train on.
    """
    if not any(name.startswith(HINT_COLUMNS) for name in rows.column_names):
        return
    if "shuffle_dataset" not in resolved.sources:
        resolved.values["shuffle_dataset"] = False
        resolved.sources["shuffle_dataset"] = "rows with hints"
    if resolved.values["shuffle_dataset"]:
        yield Obstacle(
            f"got shuffle_dataset True from the {resolved.sources['shuffle_dataset']}, but the rows carry hints that "
            "fade in the order of the rows; leave it out, or draw rows without hints"
        )
    values, n = resolved.values, len(rows)
    drawn = rows_drawn(values, n)
    if drawn > n:
        once = f"--max_steps {values['max_steps'] * n // drawn}" if values["max_steps"] > 0 else "--num_train_epochs 1"
        yield Obstacle(
            f"the run draws {drawn} rows, but there are {n}, so hints that have faded start again; use {once}",
            stops=False,
        )
    elif drawn < n and any(_chance(rows[max(drawn, 1) - 1], column) > FADED_CHANCE for column in rows.column_names):
        yield Obstacle(
            f"the run draws {drawn} of {n} rows, so hints do not fade to their end; use --n_train {drawn}", stops=False
        )


def rows_drawn(values: Mapping[str, Any], n: int) -> int:
    """How many rows a run draws, a row that is drawn twice counted twice.

    Args:
        values: Every field of the configuration by name.
        n: How many rows there are.
    """
    if values["max_steps"] <= 0:
        return int(values["num_train_epochs"] * n)
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    a_step = values["per_device_train_batch_size"] * processes * values["gradient_accumulation_steps"]
    reused = values["num_generations"] * values["num_iterations"]
    return int(values["max_steps"] * a_step // reused)


def _chance(row: Mapping[str, Any], column: str) -> float:
    """The chance that a column says; 0 where it says none, or the row has none, as unhinted rows."""
    return (row[column] or 0.0) if column.startswith(HINT_COLUMNS) and column.endswith("_chance") else 0.0
