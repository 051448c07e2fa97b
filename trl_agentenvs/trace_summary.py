"""What happened in the rollouts of a trace, summed up: the one place where outcomes are counted.

Any trace can be summed up, also one that is being written or was cut by a kill. Success is the stop reason `solved`.
Success, steps and reward are those of scored rollouts alone: one that ended without a reward was spoiled, one without
an end was cut by the end of its process, and neither says that a policy failed. Calls are counted in all of them. A
figure of nothing is None, shown as "-" and never as 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import mean

from .stop import StopReason
from .terminal import MISSING, table
from .trace import Rollout, Trace

__all__ = ["Summary", "ToolSummary", "render_summary", "summarize", "summarize_groups"]

SHOWN_TOOLS = 10


@dataclass
class ToolSummary:
    """Calls of one tool: how many, how many the model got wrong, and how long they took."""

    calls: int = 0
    errors: int = 0
    wall_s: list[float] = field(default_factory=list)


@dataclass
class Summary:
    """What happened in some rollouts.

    Attributes:
        episodes: How many started.
        scored: Those that ended with a reward.
        solved: Those of the scored that were solved.
        solved_steps: Tool calls of each solved one.
        rewards: Reward of each scored one.
        spoiled: Those that ended without a reward.
        unfinished: Those whose process ended before they did.
        stops: How many ended for each reason.
        calls: Tool calls while episodes ran.
        failed_calls: Those of them that the model got wrong.
        late_calls: Calls after the end of their episode.
        repairs: Repaired arguments by kind.
        tools: Calls by tool.
    """

    episodes: int = 0
    scored: int = 0
    solved: int = 0
    solved_steps: list[int] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    spoiled: int = 0
    unfinished: int = 0
    stops: Counter[str] = field(default_factory=Counter)
    calls: int = 0
    failed_calls: int = 0
    late_calls: int = 0
    repairs: Counter[str] = field(default_factory=Counter)
    tools: dict[str, ToolSummary] = field(default_factory=dict)

    @property
    def success(self) -> float | None:
        """Share of the scored rollouts that were solved; None where none was scored."""
        return self.solved / self.scored if self.scored else None

    @property
    def steps(self) -> float | None:
        """Mean tool calls of the solved rollouts: an agent that gives up early does not look quick."""
        return _mean(self.solved_steps)

    @property
    def reward(self) -> float | None:
        """Mean reward of the scored rollouts."""
        return _mean(self.rewards)

    @property
    def tool_error_rate(self) -> float | None:
        """Share of calls that the model got wrong; None without calls."""
        return self.failed_calls / self.calls if self.calls else None

    def add(self, rollout: Rollout) -> None:
        """Count one rollout in."""
        calls = rollout.calls
        self.episodes += 1
        self.unfinished += rollout.unfinished
        self.spoiled += rollout.spoiled
        if rollout.stop is not None:
            self.stops[rollout.stop] += 1
        if rollout.scored and rollout.reward is not None:
            self.scored += 1
            self.rewards.append(rollout.reward)
            if rollout.stop == StopReason.SOLVED:
                self.solved += 1
                self.solved_steps.append(len(calls))
        self.late_calls += len(rollout.turns) - len(calls)
        for turn in calls:
            failed = turn["error"] == "tool_error"
            self.calls += 1
            self.failed_calls += failed
            tool = self.tools.setdefault(turn["tool"], ToolSummary())
            tool.calls += 1
            tool.errors += failed
            if turn["wall_s"] is not None:
                tool.wall_s.append(turn["wall_s"])
            self.repairs.update(turn["repairs"])


def summarize(rollouts: Iterable[Rollout]) -> Summary:
    """Sum up some rollouts."""
    summary = Summary()
    for rollout in rollouts:
        summary.add(rollout)
    return summary


def summarize_groups(trace: Trace) -> dict[tuple[str, str], Summary]:
    """Sum up a trace by phase ("" for none) and class name of the environment, in order of first appearance."""
    groups: dict[tuple[str, str], Summary] = {}
    for rollout in trace.rollouts:
        groups.setdefault((rollout.phase, rollout.env), Summary()).add(rollout)
    return groups


def render_summary(trace: Trace) -> str:
    """The tables for a whole trace."""
    by_label = summarize_groups(trace)
    if not by_label:
        return f"The trace holds no rollouts (broken lines: {trace.broken_lines})."
    with_phase = any(phase for phase, _ in by_label)
    head = ["phase", "environment"] if with_phase else ["environment"]
    groups = [([phase or MISSING, env] if with_phase else [env], group) for (phase, env), group in by_label.items()]
    sections = [
        table(
            [*head, "episodes", "solved", "success", "steps", "reward", "tool errors", "spoiled", "unfinished"],
            [
                [
                    *label,
                    str(group.episodes),
                    f"{group.solved}/{group.scored}",
                    _shown(group.success, ".1%"),
                    _shown(group.steps, ".1f"),
                    _shown(group.reward, ".3f"),
                    _shown(group.tool_error_rate, ".1%"),
                    str(group.spoiled),
                    str(group.unfinished),
                ]
                for label, group in groups
            ],
            "l" * len(head) + "r" * 8,
        )
    ]
    for title, counts in (
        ("stop reason", [group.stops for _, group in groups]),
        ("repaired arguments", [group.repairs for _, group in groups]),
    ):
        kinds = [kind for kind, _ in sum(counts, Counter()).most_common()]
        rows = [
            [*label, kind, str(count[kind])]
            for (label, _), count in zip(groups, counts, strict=True)
            for kind in kinds
            if count[kind]
        ]
        if rows:
            sections.append(table([*head, title, "count"], rows, "l" * len(head) + "lr"))
    tools = [(label, name, tool) for label, group in groups for name, tool in group.tools.items()]
    tools.sort(key=lambda entry: -sum(entry[2].wall_s))
    if tools:
        rows = [
            [*label, name or MISSING, str(tool.calls), f"{tool.errors / tool.calls:.1%}", *_times(tool.wall_s)]
            for label, name, tool in tools[:SHOWN_TOOLS]
        ]
        head_of_tools = [*head, "slowest tools", "calls", "errors", "total s", "mean ms", "max ms"]
        sections.append(table(head_of_tools, rows, "l" * len(head) + "lrrrrr"))
    notes = []
    if late := sum(group.late_calls for _, group in groups):
        notes.append(f"Calls after the end of their episode: {late}.")
    if trace.broken_lines:
        notes.append(f"Broken lines skipped: {trace.broken_lines}.")
    return "\n\n".join([*sections, *(["\n".join(notes)] if notes else [])])


def _mean(values: Sequence[float]) -> float | None:
    return mean(map(float, values)) if values else None  # its sum is exact: huge rewards have a mean, too


def _shown(value: float | None, form: str) -> str:
    return MISSING if value is None else format(value, form)


def _times(wall_s: Sequence[float]) -> list[str]:
    """Total in seconds, mean and longest in milliseconds."""
    if not wall_s:
        return [MISSING] * 3
    return [f"{sum(wall_s):.2f}", f"{mean(wall_s) * 1000:.1f}", f"{max(wall_s) * 1000:.1f}"]
