"""The two failures an environment may signal; everything else that escapes a tool is a bug.

`ToolError` is text for the model: one sentence that names the fix. `EnvError` means the infrastructure failed (disk
full, sandbox gone): the episode cannot be scored and its reward is `None`, never 0.
"""

from __future__ import annotations

__all__ = ["EnvError", "ToolError"]


class ToolError(Exception):
    """A policy error. The message is shown to the model as the tool's result: one sentence, with the fix."""


class EnvError(Exception):
    """The environment itself failed. The episode ends with `StopReason.ENV_ERROR` and reward `None`."""
