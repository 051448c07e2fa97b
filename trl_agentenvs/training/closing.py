"""The closing table of a run, from its trace alone: what the policy did before, during and after training.

Outcomes are counted as `trace_summary` counts them: success, steps and reward are those of scored episodes, and what
was spoiled or cut is told apart. Success comes with its 95 % Wilson interval. What is not known is None, "-" in the
table, never 0.

What is not covered: whether two rates differ by more than chance; intervals that overlap are no test.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from trl_agentenvs.stop import StopReason
from trl_agentenvs.terminal import MISSING, table
from trl_agentenvs.trace import Trace
from trl_agentenvs.trace_summary import Summary, summarize

__all__ = ["PHASES", "closing_numbers", "closing_table", "wilson"]

PHASES = ("before", "train", "after")
"""Names of the phases that `mark_phase` writes, in order."""

Z_95 = 1.959964


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
    phases: dict[str, Summary] = {}
    for phase in PHASES:
        rollouts = [rollout for rollout in trace.rollouts if rollout.phase == phase]
        if rollouts:
            phases[phase] = summarize(rollouts)
    before, after = phases.get("before"), phases.get("after")
    return {
        "seed": seed,
        "success_before": before and before.success,
        "success_after": after and after.success,
        "steps_before": before and before.steps,
        "steps_after": after and after.steps,
        "minutes": minutes,
        **facts,
        "phases": {phase: _as_json(summary) for phase, summary in phases.items()},
    }


def _as_json(summary: Summary) -> dict[str, Any]:
    return {
        "episodes": summary.episodes,
        "scored": summary.scored,
        "solved": summary.solved,
        "success": summary.success,
        "success_interval": list(wilson(summary.solved, summary.scored)) if summary.scored else None,
        "steps": summary.steps,
        "reward": summary.reward,
        "calls": summary.calls,
        "failed_calls": summary.failed_calls,
        "tool_error_rate": summary.tool_error_rate,
        "stops": dict(summary.stops),
        "spoiled": summary.spoiled,
        "unfinished": summary.unfinished,
    }


def closing_table(numbers: Mapping[str, Any]) -> str:
    """Write what `closing_numbers` returned as a plain text table, a column for each phase."""
    phases = [numbers["phases"].get(phase) for phase in PHASES]
    known = [phase for phase in phases if phase]

    def row(label: str, cell: Callable[[Mapping[str, Any]], str]) -> list[str]:
        return [label, *(MISSING if phase is None else cell(phase) for phase in phases)]

    rows = [
        row("episodes", lambda p: str(p["episodes"])),
        row("scored", lambda p: str(p["scored"])),
        row("success", _success),
        row("steps when solved", lambda p: _shown(p["steps"], ".1f")),
        row("reward", lambda p: _shown(p["reward"], ".3f")),
        row("tool calls that failed", lambda p: _shown(p["tool_error_rate"], ".1%")),
    ]
    stops = {stop for phase in known for stop in phase["stops"]}
    rows += [row(f"  ended: {stop}", partial(_stopped, stop)) for stop in sorted(stops, key=_stop_order)]
    for label, key in (("spoiled, not scored", "spoiled"), ("cut, not scored", "unfinished")):
        if any(phase[key] for phase in known):
            rows.append(row(label, partial(_count, key)))
    return table(["", *PHASES], rows, "lrrr")


def _stop_order(stop: str) -> tuple[int, str]:
    """That of `StopReason`; names that it does not know come last."""
    known = [reason.value for reason in StopReason]
    return (known.index(stop) if stop in known else len(known), stop)


def _stopped(stop: str, phase: Mapping[str, Any]) -> str:
    return str(phase["stops"].get(stop, 0))


def _count(key: str, phase: Mapping[str, Any]) -> str:
    return str(phase[key])


def _shown(value: float | None, form: str) -> str:
    return MISSING if value is None else format(value, form)


def _success(phase: Mapping[str, Any]) -> str:
    if phase["success"] is None:
        return MISSING
    low, high = phase["success_interval"]
    return f"{phase['success']:.2f} [{low:.2f}, {high:.2f}]"
