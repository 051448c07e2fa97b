"""One progress bar and one short line a step, instead of a screen of metrics.

Everything that TRL logs still goes to the trainer's log history and to whatever `--report_to` names.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Mapping
from typing import Any

from transformers import TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_callback import ProgressCallback

__all__ = ["CompactProgress", "hide_known_warnings", "say", "step_line"]

# Of transformers to TRL, about names that TRL 1.16 still uses; the user of either can do nothing about them.
KNOWN_WARNINGS = (r"`(is_)?gradient_checkpointing\w*` is deprecated",)


def hide_known_warnings() -> None:
    """Silence warnings that only the authors of other libraries can act on, and TRL's notice about experiments."""
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
    for message in KNOWN_WARNINGS:
        warnings.filterwarnings("ignore", message=message, category=FutureWarning)


def say(text: str, *, aside: bool = False) -> None:
    """Print for the user, once however many processes there are.

    Args:
        text: What to print.
        aside: Print to the error stream: not part of the result.
    """
    if os.environ.get("RANK", "0") == "0":
        print(text, file=sys.stderr if aside else sys.stdout, flush=True)


class CompactProgress(ProgressCallback):
    """The trainer's own progress bars, with a line of four figures for each logged step."""

    def __init__(self, env_name: str) -> None:
        """Make the callback.

        Args:
            env_name: Class of the environment, under which `EpisodeLog` logs.
        """
        super().__init__()
        self.training_bar: Any = None
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


def step_line(logs: Mapping[str, Any], env_name: str) -> str:
    """Return reward, success, failed tool calls and seconds of a step; what was not logged is "n/a".

    Args:
        logs: What the trainer logged.
        env_name: Class of the environment.
    """
    figures = (
        ("reward", logs.get("reward"), "{:.3f}"),
        ("success", logs.get(f"{env_name}/stop/solved"), "{:.2f}"),
        ("tool errors", logs.get(f"{env_name}/tool_error_rate"), "{:.1%}"),
        ("seconds", logs.get("step_time"), "{:.1f}"),
    )
    return "  ".join(f"{name} {'n/a' if value is None else form.format(value)}" for name, value, form in figures)
