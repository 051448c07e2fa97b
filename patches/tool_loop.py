"""TRL's tool loop, seen rollout by rollout: what the patches of `GRPOTrainer._tool_call_loop` share.

TRL passes messages and token ids around without saying whose they are. Messages are told by identity (TRL appends the
very dict it made to the rollout's list), token ids by value: rollouts with equal ids have an equal history.

Each patch wraps the loop as a whole and shadows methods on the trainer instance while it runs, so that methods a
subclass overrides are covered too, and several patches may wrap the same loop in any order.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .frame import PatchTargetMoved, Replacement, find, replace_function

__all__ = ["TOOL_LOOP", "Rollouts", "loop_source", "shadowed", "wrap_tool_loop"]

TOOL_LOOP = "trl.trainer.grpo_trainer:GRPOTrainer._tool_call_loop"
_NEEDED = ("prompt_ids", "completion_ids", "completions")


@dataclass(frozen=True)
class Rollouts:
    """The rollouts of one call of the tool loop, as TRL's own lists: they grow while it runs.

    Attributes:
        trainer: The GRPOTrainer.
        prompt_ids: Token ids of each prompt.
        completion_ids: Token ids behind each prompt so far, tool results included.
        completions: Messages behind each prompt so far.
    """

    trainer: Any
    prompt_ids: list[list[int]]
    completion_ids: list[list[int]]
    completions: list[list[dict[str, Any]]]

    def environment(self, row: int) -> Any:
        """The environment of a rollout, or None where the trainer has none."""
        environments = self.trainer.environments
        return environments[row] if environments else None

    def row_ending_with(self, message: Mapping[str, Any]) -> int | None:
        """The rollout whose last message is this very object, or None."""
        return next((row for row, messages in enumerate(self.completions) if messages[-1] is message), None)

    def row_of_ids(self, ids: list[int]) -> int | None:
        """A rollout whose prompt and completion so far are these ids, or None. Several such have an equal history."""
        rows = zip(self.prompt_ids, self.completion_ids, strict=True)
        return next((row for row, (prompt, completion) in enumerate(rows) if prompt + completion == ids), None)


def loop_source(patch: str) -> str:
    """Source text of TRL's tool loop, whatever wraps it.

    Raises:
        SteppedAside: TRL is not installed.
        PatchTargetMoved: TRL has no such loop, or it does not take the lists the patches work on.
    """
    owner, name = find(patch, TOOL_LOOP)
    loop = getattr(owner, name)
    parameters = inspect.signature(loop).parameters
    missing = [parameter for parameter in _NEEDED if parameter not in parameters]
    if missing:
        raise PatchTargetMoved(patch, TOOL_LOOP, f"no parameter {' or '.join(missing)} in ({', '.join(parameters)})")
    return inspect.getsource(loop)


def wrap_tool_loop(
    patch: str,
    around: Callable[[Rollouts], contextlib.AbstractContextManager[None]],
    options: Mapping[str, Any] | None = None,
) -> Replacement:
    """Replace TRL's tool loop by itself inside the context manager `around`, which gets its rollouts."""

    def make(loop: Any) -> Callable[..., Any]:
        signature = inspect.signature(loop)

        def _tool_call_loop(self: Any, *args: Any, **kwargs: Any) -> Any:
            given = signature.bind(self, *args, **kwargs).arguments
            with around(Rollouts(self, *(given[name] for name in _NEEDED))):
                return loop(self, *args, **kwargs)

        return _tool_call_loop

    return replace_function(patch, TOOL_LOOP, make, options)


@contextlib.contextmanager
def shadowed(instance: Any, **attributes: Any) -> Iterator[None]:
    """Set attributes on an instance, over those of its class, and put back on leaving what the instance had."""
    own = vars(instance)
    before = {name: own[name] for name in attributes if name in own}
    own.update(attributes)
    try:
        yield
    finally:
        for name in attributes:
            del own[name]
        own.update(before)
