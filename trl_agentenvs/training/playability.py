"""Whether an environment can be played: it is found, takes its options, lists its rows, and each row starts.

Starting a row here also shows how long the first message will be, which `budget` needs.
"""

from __future__ import annotations

import functools
import inspect
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trl_agentenvs.env import ToolEnv
from trl_agentenvs.registry import load_env
from trl_agentenvs.stop import StopReason

from .arguments import Resolved

if TYPE_CHECKING:
    from datasets import Dataset

__all__ = ["EVAL_SEED", "Playable", "open_environment"]

EVAL_SEED = 0
"""Evaluation rows are drawn with this seed, whatever the run's: runs are compared on the same games."""

START_ROWS_S = 20.0
"""Seconds after which no further rows are tried; thousands of rows of a text game take a few."""

TRAIN_ONLY = ("hint", "step_limit")
"""Row options that evaluation rows are drawn without: hints tell the result, other limits compare with no other run."""

SHOWN_ROWS = 3
"""Rows that do not start are told up to this number, then counted."""


@dataclass
class Playable:
    """An environment that was found, with rows.

    Attributes:
        env_class: The class.
        options: Constructor options.
        max_turns: Calls the longest episode may take, or None when unlimited.
        train_rows: Rows to train on.
        eval_rows: Rows to evaluate on, or None.
        longest_prompt: Messages of the longest first prompt met, the first observation included.
        tools: The tools, bound to an instance that is only for looking at.
    """

    env_class: type[ToolEnv]
    options: dict[str, Any]
    max_turns: int | None
    train_rows: Dataset
    eval_rows: Dataset | None
    longest_prompt: list[dict[str, Any]]
    tools: list[Callable[..., Any]]

    @property
    def name(self) -> str:
        """Name of the class."""
        return self.env_class.__name__

    def factory(self, trace_path: str) -> Callable[[], ToolEnv]:
        """Return the picklable factory of instances that write to a trace."""
        return functools.partial(self.env_class, **self.options, trace_path=trace_path)


def open_environment(resolved: Resolved) -> tuple[Playable | None, list[str]]:
    """Find the environment, list its rows and start each of them once.

    Args:
        resolved: The configuration.

    Returns:
        The environment, None when it cannot be used at all, and a sentence for each thing that is wrong.
    """
    values = resolved.values
    try:
        env_class = load_env(values["env"])
        options, data_options = resolved.options("env_options"), resolved.options("data_options")
    except (ValueError, ImportError, OSError) as error:
        return None, [str(error)]
    try:
        probe = env_class(**options)
    except (TypeError, ValueError) as error:
        takes = ", ".join(n for n in inspect.signature(env_class).parameters if n not in ("strict", "trace_path"))
        return None, [f"{env_class.__name__} cannot be made with {options}: {error}; it takes {takes or 'no options'}"]

    sentences: list[str] = []
    listed: dict[str, Dataset | None] = {"train": None, "eval": None}
    wanted = {
        "train": (values["split"], values["n_train"], values["seed"]),
        "eval": (resolved.eval_split, values["n_eval"], EVAL_SEED),
    }
    for purpose, (split, n, seed) in wanted.items():
        if split is None:
            continue
        chosen = {name: value for name, value in data_options.items() if purpose == "train" or name not in TRAIN_ONLY}
        try:
            listed[purpose] = env_class.dataset(split, n, seed, **chosen)
        except (ValueError, TypeError, OSError, NotImplementedError) as error:
            sentences.append(f"cannot list the {purpose} rows of {env_class.__name__}: {error}")
    if listed["train"] is None:
        return None, sentences

    longest: list[dict[str, Any]] = []
    limits: set[int | None] = set()
    for rows in listed.values():
        if rows is not None:
            prompt, limits_of_rows, broken = _start_rows(probe, rows)
            sentences += broken
            longest = max(longest, prompt, key=_chars)
            limits |= limits_of_rows
    limits = limits or {probe.max_turns}
    max_turns = None if None in limits else max(limit for limit in limits if limit is not None)
    tools = list(probe._tools().values())
    return Playable(env_class, options, max_turns, listed["train"], listed["eval"], longest, tools), sentences


def _start_rows(env: ToolEnv, rows: Dataset) -> tuple[list[dict[str, Any]], set[int | None], list[str]]:
    """Reset to each row; return the longest first prompt, the turn limits met, and what keeps rows from starting."""
    longest: list[dict[str, Any]] = []
    limits: set[int | None] = set()
    broken: list[str] = []
    deadline = time.monotonic() + START_ROWS_S
    for index, row in enumerate(rows):
        if time.monotonic() > deadline:
            break
        try:
            observation = env.reset(**row)
        except (ValueError, TypeError, OSError) as error:
            broken.append(f"row {index} of {type(env).__name__} does not start: {error}")
            continue
        if env._stop is StopReason.ENV_ERROR:
            reason = env._episode.failure.strip().splitlines()[-1:] or ["the environment failed"]
            broken.append(f"row {index} of {type(env).__name__} does not start: {reason[0]}")
            continue
        limits.add(env.max_turns)
        *before, last = row["prompt"]
        prompt = [*before, {**last, "content": f"{last['content']}{observation}"}]
        longest = max(longest, prompt, key=_chars)
    env._close()
    if len(broken) > SHOWN_ROWS:
        broken = [*broken[:SHOWN_ROWS], f"... and {len(broken) - SHOWN_ROWS} more rows do not start"]
    return longest, limits, broken


def _chars(messages: list[dict[str, Any]]) -> int:
    return sum(len(str(message["content"])) for message in messages)
