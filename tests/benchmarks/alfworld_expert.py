"""Measure the ALFWorld expert: how many games it wins within the step limit, and in how many steps.

    python tests/benchmarks/alfworld_expert.py [--sources official generated endless] [--json FILE]

One row per source, split and task type, then every game that was not won, with the reason: an exception of the expert
counts as a loss and is named. The column "plan" is the mean length of the planner's plan, which knows where everything
is; the last line says what planning takes (CPU time). Official games are read from ALFWORLD_DATA and left out, with a
notice, if it is not set.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from trl_agentenvs.alfworld import data
from trl_agentenvs.alfworld.engine import Engine
from trl_agentenvs.alfworld.expert import Expert
from trl_agentenvs.alfworld.planner import PlanError, plan

MAX_STEPS = 50
ENDLESS_GAMES = 1200  # drawn from each split
SOURCES = ("official", "generated", "endless")
OUT_OF_STEPS = f"not won in {MAX_STEPS} steps"
BAR_WIDTH = 40


@dataclass(frozen=True)
class Play:
    """One game played by the expert.

    Attributes:
        game: Its id.
        source: One of `SOURCES`.
        split: Its split.
        task_type: Its task type.
        steps: Commands it took to win; None if it was not won.
        plan_steps: Length of the planner's plan; None if there is none.
        plan_us: Microseconds of CPU time that planning took.
        reason: Why it was not won; empty if it was.
    """

    game: str
    source: str
    split: str
    task_type: str
    steps: int | None
    plan_steps: int | None
    plan_us: float
    reason: str


def play(game: str, source: str, split: str) -> Play:
    """Let the expert play a game once, in its fixed order of search."""
    engine = Engine(data.load(game))
    observation, steps, reason = engine.reset(), 0, ""
    planned, plan_us = timed_plan(engine)
    try:
        expert = Expert(observation)
        while not engine.won and steps < MAX_STEPS:
            observation = engine.step(expert.act(observation))
            steps += 1
        reason = "" if engine.won else OUT_OF_STEPS
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
    task_type = data.task_type_of(game) or "unknown"
    return Play(game, source, split, task_type, steps if engine.won else None, planned, plan_us, reason)


def timed_plan(engine: Engine) -> tuple[int | None, float]:
    """Length of the planner's plan, None if it has none, and the microseconds of CPU time it took."""
    start = time.thread_time()
    try:
        steps = len(plan(engine))
    except PlanError:
        steps = None
    return steps, (time.thread_time() - start) * 1e6


def games(sources: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Id, source and split of every game to play."""
    for source in sources:
        for split in data.SPLITS:
            number = ENDLESS_GAMES if source == "endless" else None
            for game in data.game_ids(split, source, n=number):
                yield game, source, split


def row(name: str, plays: Sequence[Play]) -> str:
    """A line of the table."""
    steps = [played.steps for played in plays if played.steps is not None]
    raised = sum(played.reason not in ("", OUT_OF_STEPS) for played in plays)
    lengths = f"{statistics.mean(steps):6.2f} {statistics.median(steps):6.1f} {max(steps):4d}" if steps else " " * 18
    planned = statistics.mean(played.plan_steps for played in plays if played.plan_steps is not None)
    share = f"{len(steps) / len(plays):8.2%}"
    return f"{name:56} {len(plays):6d} {len(steps):6d} {share} {lengths} {raised:6d} {planned:6.2f}"


def table(plays: Sequence[Play]) -> str:
    """The whole table, and the games that were not won."""
    lines = [f"{'source, split, task type':56} {'games':>6} {'won':>6} {'':8} {'mean':>6} {'median':>6} {'max':>4} "
             f"{'raised':>6} {'plan':>6}"]  # fmt: skip
    for source, split in dict.fromkeys((played.source, played.split) for played in plays):
        chosen = [played for played in plays if (played.source, played.split) == (source, split)]
        for task_type in data.TASK_TYPES:
            of_type = [played for played in chosen if played.task_type == task_type]
            if of_type:
                lines.append(row(f"{source}, {split}, {task_type}", of_type))
        lines.append(row(f"{source}, {split}, all", chosen))
    lost = [f"  {played.game}: {played.reason}" for played in plays if played.reason]
    unplanned = sum(played.plan_steps is None for played in plays)
    took_us = statistics.quantiles([played.plan_us for played in plays], n=100)
    lines += ["", f"not won: {len(lost)} of {len(plays)}", *lost]
    lines.append(f"planning: median {took_us[49]:.0f} us, p99 {took_us[98]:.0f} us, no plan in {unplanned} games")
    return "\n".join(lines)


def main() -> None:
    """Play, print the table, write the plays."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sources", nargs="+", choices=SOURCES, default=list(SOURCES))
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every play to this file")
    arguments = parser.parse_args()
    sources = arguments.sources
    if "official" in sources and not os.environ.get("ALFWORLD_DATA"):
        print("official games are left out: ALFWORLD_DATA is not set", file=sys.stderr)
        sources = [source for source in sources if source != "official"]
    if not sources:
        parser.error("no games are left to play; set ALFWORLD_DATA to the folder that holds json_2.1.1")
    chosen, plays, start = list(games(sources)), [], time.monotonic()
    for number, (game, source, split) in enumerate(chosen, start=1):
        plays.append(play(game, source, split))
        if sys.stderr.isatty() or number == len(chosen):
            bar = "#" * (BAR_WIDTH * number // len(chosen))
            took = time.monotonic() - start
            print(f"\r[{bar:{BAR_WIDTH}}] {number}/{len(chosen)} games, {took:.0f} s", end="", file=sys.stderr)
    print(file=sys.stderr)
    print(table(plays))
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(played) for played in plays], indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
