"""The rollout ends when its environment says so.

Upstream: trl#5389 (open; PR#5390 and PR#5321 were closed unmerged). TRL 1.10 to 1.16 ask the model for another turn
after each tool call, until it writes one without a call or the token budget is gone, even where the game is won.

An environment says so through `_stop`: None while the episode runs, a non-empty `str` (a `StopReason`) after its end;
environments without it, or with something else of that name, are untouched. After the tools of a turn have run, a
rollout whose environment has stopped keeps the final tool result, in its messages and (masked, as every tool result) in
its ids, and generates no further turn. Its ids end on the end-of-turn token instead of on the opener of a turn that
never comes, so it counts as terminated, not as clipped. A result that does not fit into the token budget is dropped by
TRL as ever; the rollout has ended all the same. Rewards are asked for as ever.

Limits: GRPOTrainer and its subclasses; AsyncGRPOTrainer has a loop of its own. The last message is then a tool message,
which reward functions that read the last message must expect. Where turns carry images, an ended rollout still takes
part in one more generation, whose result is dropped. As with TRL's own loop, processes that share one engine (server
mode, tensor parallelism) may leave the loop at different turns.

Delete when: every supported TRL lets an environment end its rollout.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from .frame import PatchTargetMoved, SteppedAside, Undo, find, marked_options, undo_together
from .tool_loop import TOOL_LOOP, Rollouts, loop_source, shadowed, wrap_tool_loop

__all__ = ["GIVES", "UPSTREAM", "active", "apply", "superseded"]

NAME = "episode_end"
GIVES = "the rollout ends when its environment says so"
UPSTREAM = "trl#5389"

_TRAINER = "trl.trainer.grpo_trainer:GRPOTrainer"


def active() -> Mapping[str, Any] | None:
    """Return {} while the patch is applied, None otherwise."""
    return marked_options(NAME, TOOL_LOOP)


def superseded() -> str | None:
    """Return why the patch is not needed here, or None."""
    try:
        source = loop_source(NAME)
    except SteppedAside as reason:
        return str(reason)
    return "TRL's tool loop asks environments itself whether they are done" if "is_done" in source else None


def apply() -> Undo:
    """Apply the patch and return its undo.

    Raises:
        SteppedAside: It is not needed here.
        PatchTargetMoved: The tool loop, or what it calls, is not where it was.
    """
    if active() is not None:
        return undo_together()
    reason = superseded()
    if reason is not None:
        raise SteppedAside(reason)
    for method in ("_get_tool_suffix_ids", "_generate_single_turn"):
        find(NAME, f"{_TRAINER}.{method}")
    return undo_together(wrap_tool_loop(NAME, _ending_rollouts))


def _has_stopped(environment: Any) -> bool:
    stop = getattr(environment, "_stop", None)
    return isinstance(stop, str) and bool(stop)


@contextlib.contextmanager
def _ending_rollouts(rollouts: Rollouts) -> Iterator[None]:
    """Let rollouts whose environment has stopped take their last tool result and no further turn."""
    trainer = rollouts.trainer
    if not any(hasattr(environment, "_stop") for environment in trainer.environments or ()):
        yield
        return
    suffix_ids_of, generate = trainer._get_tool_suffix_ids, trainer._generate_single_turn
    ended: list[list[int]] = []  # all ids of each ended rollout: prompt, completion, last tool result

    def _get_tool_suffix_ids(tool_messages: list[dict[str, Any]]) -> list[int]:
        suffix: list[int] = suffix_ids_of(tool_messages)
        row = rollouts.row_ending_with(tool_messages[-1])
        if row is None:
            raise PatchTargetMoved(NAME, TOOL_LOOP, "tool messages that are no rollout's own")
        if not _has_stopped(rollouts.environment(row)):
            return suffix
        suffix = _up_to_end_of_turn(trainer, suffix)
        ended.append(rollouts.prompt_ids[row] + rollouts.completion_ids[row] + suffix)
        return suffix

    def _generate_single_turn(prompt_ids: list[list[int]], *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        over = [ids in ended for ids in prompt_ids]
        if not any(over):
            return generate(prompt_ids, *args, **kwargs)  # type: ignore[no-any-return]
        if all(over):
            return [[] for _ in over], [[] for _ in over]
        if any(isinstance(value, list | dict) and value for value in (*args, *kwargs.values())):
            turns, logprobs = generate(prompt_ids, *args, **kwargs)  # images go row by row: generate all, drop some
            turns, logprobs = _going_on(turns, over), logprobs and _going_on(logprobs, over)
        else:
            turns, logprobs = generate(_going_on(prompt_ids, over), *args, **kwargs)
        return _spread(turns, over), logprobs and _spread(logprobs, over)

    with shadowed(trainer, _get_tool_suffix_ids=_get_tool_suffix_ids, _generate_single_turn=_generate_single_turn):
        yield


def _going_on(values: list[Any], over: list[bool]) -> list[Any]:
    """The values of the rollouts that are not over."""
    return [value for value, is_over in zip(values, over, strict=True) if not is_over]


def _spread(values: list[Any], over: list[bool]) -> list[Any]:
    """Put the values of the rollouts that go on where they belong among those that are over, which have none."""
    rest = iter(values)
    return [[] if is_over else next(rest) for is_over in over]


def _up_to_end_of_turn(trainer: Any, suffix: list[int]) -> list[int]:
    """Cut what follows the last end-of-turn token: the opener of the model's next turn.

    A template that ends tool results without one of the tokenizer's end tokens gets one appended (masked, too), so that
    the rollout counts as terminated.
    """
    eos: int = trainer._tokenizer.eos_token_id
    ends = {eos, *getattr(trainer, "eos_token_ids", ())}  # several since TRL 1.14
    last = max((i for i, token in enumerate(suffix) if token in ends), default=None)
    return [*suffix, eos] if last is None else suffix[: last + 1]
