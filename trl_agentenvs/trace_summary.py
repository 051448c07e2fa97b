"""What happened in the rollouts of a trace, summed up by phase and environment.

Any trace can be summed up, also one that is being written, was cut by a kill, or lies: figures that are no numbers
count as missing, and a mean over nothing is shown as "-" and never as 0. Success is the stop reason `solved`; rates are
over the rollouts that ended.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .stop import StopReason
from .terminal import MISSING, table
from .trace import Rollout, Trace

__all__ = ["GroupSummary", "ToolSummary", "mapping_in", "number_in", "render_summary", "summarize"]

SHOWN_TOOLS = 10


@dataclass
class ToolSummary:
    """Calls of one tool: how many, how many the model got wrong, and how long they took."""

    calls: int = 0
    errors: int = 0
    wall_s: list[float] = field(default_factory=list)


@dataclass
class GroupSummary:
    """Rollouts of one environment in one phase of a run.

    Attributes:
        phase: Name of the phase, or "".
        env: Class name of the environment.
        rollouts: How many started.
        unfinished: Those whose process ended before they did.
        unscorable: Those that ended without a reward.
        stops: How many ended for each reason.
        turns: Tool calls of each rollout that ended.
        rewards: The rewards there are.
        repairs: Repaired arguments by kind.
        tools: Calls by tool.
        late_calls: Calls after the end of their episode.
    """

    phase: str
    env: str
    rollouts: int = 0
    unfinished: int = 0
    unscorable: int = 0
    stops: Counter[str] = field(default_factory=Counter)
    turns: list[int] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    repairs: Counter[str] = field(default_factory=Counter)
    tools: dict[str, ToolSummary] = field(default_factory=dict)
    late_calls: int = 0

    @property
    def finished(self) -> int:
        """Rollouts that ended."""
        return self.rollouts - self.unfinished

    @property
    def solved(self) -> int:
        """Rollouts that ended with success."""
        return self.stops[StopReason.SOLVED.value]

    @property
    def tool_error_rate(self) -> float | None:
        """Share of calls that the model got wrong; None without calls."""
        calls = sum(tool.calls for tool in self.tools.values())
        return sum(tool.errors for tool in self.tools.values()) / calls if calls else None

    def add(self, rollout: Rollout) -> None:
        """Count one rollout in."""
        self.rollouts += 1
        calls = 0
        for turn in rollout.turns:
            error = turn.get("error")
            if error == "after_end":
                self.late_calls += 1
                continue
            calls += 1
            tool = self.tools.setdefault(str(turn.get("tool")), ToolSummary())
            tool.calls += 1
            tool.errors += error == "tool_error"
            if (wall_s := number_in(turn.get("wall_s"))) is not None:
                tool.wall_s.append(wall_s)
            for kind, count in mapping_in(turn.get("repairs")).items():
                self.repairs[kind] += int(number_in(count) or 0)
        if rollout.unfinished:
            self.unfinished += 1
            return
        self.stops[str(rollout.stop)] += 1
        self.turns.append(calls)
        reward = number_in(rollout.reward)
        if reward is None:
            self.unscorable += 1
        else:
            self.rewards.append(reward)


def summarize(trace: Trace) -> list[GroupSummary]:
    """Sum up a trace by phase and environment, in order of first appearance."""
    groups: dict[tuple[str, str], GroupSummary] = {}
    for rollout in trace.rollouts:
        key = (rollout.phase, rollout.env)
        groups.setdefault(key, GroupSummary(*key)).add(rollout)
    return list(groups.values())


def render_summary(trace: Trace) -> str:
    """The tables for a whole trace."""
    groups = summarize(trace)
    if not groups:
        return f"The trace holds no rollouts (broken lines: {trace.broken_lines})."
    with_phase = any(group.phase for group in groups)
    head = ["phase", "environment"] if with_phase else ["environment"]
    labels = [[group.phase or MISSING, group.env] if with_phase else [group.env] for group in groups]
    sections = [
        table(
            [*head, "rollouts", "solved", "success", "turns", "reward", "tool errors", "unscorable", "unfinished"],
            [
                [
                    *label,
                    str(group.rollouts),
                    f"{group.solved}/{group.finished}",
                    _percent(group.solved / group.finished if group.finished else None),
                    _mean(group.turns, 1),
                    _mean(group.rewards, 3),
                    _percent(group.tool_error_rate),
                    str(group.unscorable),
                    str(group.unfinished),
                ]
                for label, group in zip(labels, groups, strict=True)
            ],
            "l" * len(head) + "r" * 8,
        )
    ]
    for title, counts in (
        ("stop reason", [group.stops for group in groups]),
        ("repaired arguments", [group.repairs for group in groups]),
    ):
        kinds = [kind for kind, _ in sum(counts, Counter()).most_common()]
        rows = [
            [*label, kind, str(count[kind])]
            for label, count in zip(labels, counts, strict=True)
            for kind in kinds
            if count[kind]
        ]
        if rows:
            sections.append(table([*head, title, "count"], rows, "l" * len(head) + "lr"))
    tools = sorted(
        (
            (label, name, tool)
            for label, group in zip(labels, groups, strict=True)
            for name, tool in group.tools.items()
        ),
        key=lambda entry: -sum(entry[2].wall_s),
    )
    if tools:
        rows = [
            [*label, name, str(tool.calls), _percent(tool.errors / tool.calls), *_times(tool.wall_s)]
            for label, name, tool in tools[:SHOWN_TOOLS]
        ]
        head_of_tools = [*head, "slowest tools", "calls", "errors", "total s", "mean ms", "max ms"]
        sections.append(table(head_of_tools, rows, "l" * len(head) + "lrrrrr"))
    notes = []
    if late := sum(group.late_calls for group in groups):
        notes.append(f"Calls after the end of their episode: {late}.")
    if trace.broken_lines:
        notes.append(f"Broken lines skipped: {trace.broken_lines}.")
    return "\n\n".join([*sections, *(["\n".join(notes)] if notes else [])])


def number_in(value: Any) -> float | None:
    """A finite number, or None for all else that a file may hold in its place."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def mapping_in(value: Any) -> Mapping[str, Any]:
    """An object, or an empty one for all else."""
    return value if isinstance(value, dict) else {}


def _mean(values: Sequence[float], digits: int) -> str:
    return f"{sum(values) / len(values):.{digits}f}" if values else MISSING


def _percent(share: float | None) -> str:
    return MISSING if share is None else f"{share:.1%}"


def _times(wall_s: Sequence[float]) -> list[str]:
    """Total in seconds, mean and longest in milliseconds."""
    if not wall_s:
        return [MISSING] * 3
    return [f"{sum(wall_s):.2f}", f"{sum(wall_s) / len(wall_s) * 1000:.1f}", f"{max(wall_s) * 1000:.1f}"]
