"""One progress bar that goes away and one short line a step, instead of a screen of metrics and bars.

Everything that TRL logs still goes to the trainer's log history and to whatever `--report_to` names. Bars are shown in
a terminal only: a log file gets the lines.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Mapping
from typing import Any

from tqdm.auto import tqdm  # type: ignore[import-untyped]
from transformers import TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_callback import ProgressCallback
from transformers.trainer_utils import has_length

from trl_agentenvs.terminal import MISSING

__all__ = ["CompactProgress", "ShortBar", "quiet_libraries", "say", "step_line"]

# Of transformers to TRL, about names that TRL 1.16 still uses; the user of either can do nothing about them.
KNOWN_WARNINGS = (r"`(is_)?gradient_checkpointing\w*` is deprecated",)


def quiet_libraries() -> None:
    """Silence what tells a user nothing.

    That is: warnings that only the authors of other libraries can act on, TRL's notice about experiments, and the bars
    with which transformers reads and writes weights. Bars of downloads stay.
    """
    from huggingface_hub.utils import (  # type: ignore[attr-defined]
        are_progress_bars_disabled,
        enable_progress_bars,
    )
    from transformers.utils import logging

    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
    for message in KNOWN_WARNINGS:
        warnings.filterwarnings("ignore", message=message, category=FutureWarning)
    shows_downloads = not are_progress_bars_disabled()
    logging.disable_progress_bar()
    if shows_downloads:
        enable_progress_bars()


def say(text: str, *, aside: bool = False) -> None:
    """Print for the user, once however many processes there are.

    Args:
        text: What to print.
        aside: Print to the error stream: not part of the result.
    """
    if os.environ.get("RANK", "0") == "0":
        print(text, file=sys.stderr if aside else sys.stdout, flush=True)


class ShortBar(ProgressCallback):
    """The trainer's own bars, gone when they are full, and none for what comes in one batch."""

    def __init__(self, title: str) -> None:
        """Make the callback.

        Args:
            title: What the bar of training is called.
        """
        super().__init__()
        self.training_bar: Any = None
        self.prediction_bar: Any = None
        self.title = title

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Show the bar of training."""
        if state.is_world_process_zero:
            self.training_bar = _bar(self.title, state.max_steps)
        self.current_step = 0

    def on_prediction_step(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        eval_dataloader: Any = None,
        **kwargs: Any,
    ) -> None:
        """Move the bar of evaluation; there is one from two batches on."""
        batches = len(eval_dataloader) if has_length(eval_dataloader) else 0
        if state.is_world_process_zero and batches > 1:
            if self.prediction_bar is None:
                self.prediction_bar = _bar("playing", batches)
            self.prediction_bar.update(1)

    def on_log(self, *args: Any, **kwargs: Any) -> None:
        """Write nothing."""


class CompactProgress(ShortBar):
    """A bar, and a line of four figures for each logged step."""

    def __init__(self, env_name: str) -> None:
        """Make the callback.

        Args:
            env_name: Class of the environment, under which `EpisodeLog` logs.
        """
        super().__init__("training")
        self.env_name = env_name

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Write the line of a training step; evaluations are told by whoever started them."""
        if state.is_world_process_zero and self.training_bar is not None and logs and "reward" in logs:
            self.training_bar.write(f"step {state.global_step}/{state.max_steps}  {step_line(logs, self.env_name)}")
            sys.stdout.flush()


def step_line(logs: Mapping[str, Any], env_name: str) -> str:
    """Return reward, success, failed tool calls and seconds of a step; what was not logged is "-".

    Args:
        logs: What the trainer logged.
        env_name: Class of the environment.
    """
    figures = (
        ("reward", logs.get("reward"), "{:.3f}"),
        ("success", logs.get(f"{env_name}/success"), "{:.2f}"),
        ("tool errors", logs.get(f"{env_name}/tool_error_rate"), "{:.1%}"),
        ("seconds", logs.get("step_time"), "{:.1f}"),
    )
    return "  ".join(f"{name} {MISSING if value is None else form.format(value)}" for name, value, form in figures)


def _bar(title: str, total: int) -> Any:
    return tqdm(desc=title, total=total, dynamic_ncols=True, leave=False, disable=None)  # None: where it is no terminal
