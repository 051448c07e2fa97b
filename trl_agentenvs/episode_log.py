"""A reward function that scores nothing and sees everything: why rollouts ended and what they took.

TRL hands live environments, messages and token ids to reward functions alone, before it asks environments for their
reward. `EpisodeLog` uses that place to settle each episode's `StopReason`, to log figures of the environment under
`<class>/...`, and to let the trace know the tokens. It returns None for each rollout, so rewards stay untouched.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from .env import ToolEnv
from .stop import StopReason

__all__ = ["EpisodeLog", "classify_stop"]

_CALL_MARKS = ("<tool_call", "<function=", "[TOOL_CALLS]", "<|tool_call")

# The name under which the patch recover_calls answers a call that could not be parsed; it reaches no environment.
_STAND_IN = "malformed_tool_call"


class EpisodeLog:
    """Reward function for `GRPOTrainer(reward_funcs=[EpisodeLog(...)])` beside environments with `get_reward`."""

    def __init__(self, eos_token_ids: Iterable[int] = ()) -> None:
        """Make the log.

        Args:
            eos_token_ids: Ids that end a turn of the model at hand; without them a rollout that was cut in mid-turn
                cannot be told from one that ended by itself.
        """
        self.__name__ = "episode_log"
        self.eos_token_ids = frozenset(eos_token_ids)

    def __call__(
        self,
        completions: Sequence[list[dict[str, Any]]],
        completion_ids: Sequence[Sequence[int]],
        environments: Sequence[Any] | None = None,
        log_metric: Any = None,
        **columns: Any,
    ) -> list[None]:
        """Settle the episodes of a batch and log them.

        Args:
            completions: Messages of each rollout behind its prompt.
            completion_ids: Token ids of each rollout behind its prompt, those of tools included.
            environments: The environment of each rollout; those that are no `ToolEnv` are passed over.
            log_metric: The trainer's `log_metric(name, value)`.
            **columns: The other columns and tools a trainer passes to reward functions.
        """
        episodes: dict[str, list[dict[str, float]]] = {}
        for env, messages, ids in zip(environments or (), completions, completion_ids, strict=False):
            if not isinstance(env, ToolEnv):
                continue
            env._note_generation(classify_stop(env, messages, ids, self.eos_token_ids), {"completion": len(ids)})
            reward = env.get_reward()
            figures = env._metrics() | {f"stop/{reason}": float(env._stop is reason) for reason in StopReason}
            figures["unscorable"] = float(reward is None)
            if reward is not None:  # an episode without a score is missing, not failed
                figures["success"] = float(env._stop is StopReason.SOLVED)
            episodes.setdefault(type(env).__name__, []).append(figures)
        if log_metric is not None:
            for name, figures_of in episodes.items():
                _log_means(name, figures_of, log_metric)
        return [None] * len(completions)


def _log_means(env_name: str, episodes: list[dict[str, float]], log_metric: Any) -> None:
    for figure in sorted({figure for episode in episodes for figure in episode}):
        known = [episode[figure] for episode in episodes if figure in episode]
        if figure.startswith("repairs/"):  # a kind that an episode does not list was not needed there
            known += [0.0] * (len(episodes) - len(known))
        log_metric(f"{env_name}/{figure}", fmean(known))
    turns = sum(episode["turns"] for episode in episodes)
    if turns:
        log_metric(f"{env_name}/tool_error_rate", sum(episode["tool_errors"] for episode in episodes) / turns)


def classify_stop(
    env: ToolEnv, messages: Sequence[Mapping[str, Any]], ids: Sequence[int], eos_token_ids: frozenset[int]
) -> StopReason:
    """Say why a rollout ended, from the environment where it knows, else from what was generated.

    Args:
        env: The environment the rollout played.
        messages: Messages behind the prompt.
        ids: Their token ids.
        eos_token_ids: Ids that end a turn; empty when unknown.
    """
    if env._stop is not None:
        return env._stop
    if eos_token_ids and ids and ids[-1] not in eos_token_ids:
        return StopReason.TRUNCATED
    called = [call.get("function") or call for message in messages for call in message.get("tool_calls") or ()]
    calls = sum(function.get("name") != _STAND_IN for function in called)
    last = messages[-1] if messages else {}
    if last.get("tool_calls"):
        # Executed and still last: the result did not fit. Not executed: the trainer's own turn limit was reached.
        return StopReason.TOKEN_BUDGET if env._turns >= calls else StopReason.TURN_BUDGET
    written = f"{last.get('reasoning_content') or ''}{last.get('content') or ''}"
    if any(mark in written for mark in _CALL_MARKS):
        return StopReason.MALFORMED
    return StopReason.GAVE_UP if calls else StopReason.NO_CALL
