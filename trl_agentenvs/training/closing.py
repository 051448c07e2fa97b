"""The closing table of a run, from its trace alone: what the policy did before, during and after training.

Success is `stop == "solved"`. Rates are told with 95 % Wilson intervals. Steps are tool calls of solved episodes, so
that an agent which gives up early does not look quick. Episodes that the environment spoiled and such that the end of
the process cut are counted, but are no part of any rate. What is not known is None, "n/a" in the table, never 0.

What is not covered: whether two rates differ by more than chance; intervals that overlap are no test.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import Any

from trl_agentenvs.stop import StopReason
from trl_agentenvs.trace import Rollout, Trace

__all__ = ["PHASES", "PhaseFigures", "closing_numbers", "closing_table", "phase_figures", "wilson"]

PHASES = ("before", "train", "after")
"""Names of the phases that `mark_phase` writes, in order."""

Z_95 = 1.959964
NOT_KNOWN = "n/a"
LABEL_COLUMNS, CELL_COLUMNS = 24, 20


@dataclass(frozen=True)
class PhaseFigures:
    """What happened in one phase of a run.

    Attributes:
        episodes: Episodes with an outcome.
        solved: Those of them that were solved.
        steps: Mean tool calls of the solved ones, or None when there are none.
        reward: Mean reward of the scored ones, or None when there are none.
        calls: Tool calls while episodes ran.
        failed_calls: Those of them that were answered with an error.
        stops: Episodes by the name of their stop reason.
        spoiled: Episodes that the environment failed.
        unfinished: Episodes without an end.
    """

    episodes: int
    solved: int
    steps: float | None
    reward: float | None
    calls: int
    failed_calls: int
    stops: Mapping[str, int]
    spoiled: int
    unfinished: int

    @property
    def success(self) -> float | None:
        """Share of solved episodes, or None without episodes."""
        return self.solved / self.episodes if self.episodes else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """95 % Wilson interval of `success`, or None without episodes."""
        return wilson(self.solved, self.episodes) if self.episodes else None

    @property
    def tool_error_rate(self) -> float | None:
        """Share of failed calls, or None without calls."""
        return self.failed_calls / self.calls if self.calls else None


def wilson(successes: int, trials: int) -> tuple[float, float]:
    """Return the 95 % Wilson score interval of a rate.

    Raises:
        ValueError: There are no trials, or not 0 <= successes <= trials.
    """
    if not 0 <= successes <= trials or trials == 0:
        raise ValueError(f"got {successes} successes of {trials} trials; expected 0 <= successes <= trials, trials > 0")
    rate, z2 = successes / trials, Z_95**2
    middle = (rate + z2 / (2 * trials)) / (1 + z2 / trials)
    half = Z_95 * math.sqrt(rate * (1 - rate) / trials + z2 / (4 * trials**2)) / (1 + z2 / trials)
    return max(0.0, middle - half), min(1.0, middle + half)


def phase_figures(rollouts: Sequence[Rollout]) -> PhaseFigures:
    """Count what happened in some rollouts."""
    ended = [r for r in rollouts if r.stop is not None and r.stop != StopReason.ENV_ERROR]
    solved = [r for r in ended if r.stop == StopReason.SOLVED]
    rewards = [r.reward for r in ended if r.reward is not None]
    calls = [turn for r in ended for turn in r.turns if turn.get("error") != "after_end"]
    return PhaseFigures(
        episodes=len(ended),
        solved=len(solved),
        steps=fmean(sum(turn.get("error") != "after_end" for turn in r.turns) for r in solved) if solved else None,
        reward=fmean(rewards) if rewards else None,
        calls=len(calls),
        failed_calls=sum(turn.get("error") == "tool_error" for turn in calls),
        stops=Counter(str(r.stop) for r in ended),
        spoiled=sum(r.stop == StopReason.ENV_ERROR for r in rollouts),
        unfinished=sum(r.unfinished for r in rollouts),
    )


def closing_numbers(trace: Trace, /, *, seed: int, minutes: float | None, **facts: Any) -> dict[str, Any]:
    """Return the figures of a run as plain JSON values.

    Args:
        trace: The run's trace.
        seed: Seed of the run.
        minutes: Wall time of the run.
        **facts: Anything else to record: model, split, where the trace lies.

    Returns:
        `seed`, `success_before`, `success_after`, `steps_before`, `steps_after`, `minutes`, the facts, and under
        `phases` all figures of each phase that was played.
    """
    phases = {}
    for phase in PHASES:
        rollouts = [rollout for rollout in trace.rollouts if rollout.phase == phase]
        if rollouts:
            phases[phase] = phase_figures(rollouts)
    before, after = phases.get("before"), phases.get("after")
    return {
        "seed": seed,
        "success_before": before and before.success,
        "success_after": after and after.success,
        "steps_before": before and before.steps,
        "steps_after": after and after.steps,
        "minutes": minutes,
        **facts,
        "phases": {phase: _as_json(figures) for phase, figures in phases.items()},
    }


def _as_json(figures: PhaseFigures) -> dict[str, Any]:
    derived = {
        "success": figures.success,
        "success_interval": figures.interval and list(figures.interval),
        "tool_error_rate": figures.tool_error_rate,
    }
    return derived | vars(figures) | {"stops": dict(figures.stops)}


def closing_table(numbers: Mapping[str, Any]) -> str:
    """Write what `closing_numbers` returned as a plain text table, a column for each phase."""
    phases = [numbers["phases"].get(phase) for phase in PHASES]
    known = [phase for phase in phases if phase]
    stops = sorted({stop for phase in known for stop in phase["stops"]}, key=list(StopReason).index)

    def row(label: str, cell: Callable[[Mapping[str, Any]], str | None]) -> list[str]:
        return [label, *((phase and cell(phase)) or NOT_KNOWN for phase in phases)]

    rows = [
        ["", *PHASES],
        row("episodes", lambda p: f"{p['episodes']}"),
        row("success", _success),
        row("steps when solved", lambda p: _format(p["steps"], ".1f")),
        row("reward", lambda p: _format(p["reward"], ".3f")),
        row("tool calls that failed", lambda p: _format(p["tool_error_rate"], ".1%")),
        *(row(f"  ended: {stop}", partial(_stopped, stop)) for stop in stops),
    ]
    if any(phase["spoiled"] for phase in known):
        rows.append(row("spoiled, not counted", lambda p: f"{p['spoiled']}"))
    if any(phase["unfinished"] for phase in known):
        rows.append(row("cut, not counted", lambda p: f"{p['unfinished']}"))
    lines = [f"{label:<{LABEL_COLUMNS}}" + "".join(f"{c:>{CELL_COLUMNS}}" for c in cells) for label, *cells in rows]
    return "\n".join(lines)


def _stopped(stop: str, phase: Mapping[str, Any]) -> str:
    return str(phase["stops"].get(stop, 0))


def _format(value: float | None, form: str) -> str | None:
    return None if value is None else format(value, form)


def _success(phase: Mapping[str, Any]) -> str | None:
    if phase["success"] is None:
        return None
    low, high = phase["success_interval"]
    return f"{phase['success']:.2f} [{low:.2f}, {high:.2f}]"
