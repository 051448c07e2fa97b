"""`trl-agentenvs trace`: a trace as tables, or one of its rollouts turn by turn."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .arguments import ArgumentParser
from .terminal import MISSING, printable, table
from .trace import Rollout, Trace, read_trace
from .trace_summary import render_summary

__all__ = ["main", "render_rollout"]

SHOWN_ROLLOUTS = 10
ERROR_CHARS = 4000


def main(argv: Sequence[str], program: str) -> int:
    """Show a trace, or one of its rollouts.

    Args:
        argv: Arguments behind the subcommand.
        program: Name for usage messages.

    Returns:
        0.

    Raises:
        OSError: The file cannot be read.
        ValueError: The arguments are wrong, or no rollout has that id.
    """
    parser = ArgumentParser(prog=program, description="Show what happened in the rollouts of a run.")
    parser.add_argument("file", type=Path, help="trace of a run (rollouts.jsonl)")
    parser.add_argument("--rollout", metavar="ID", help="show this rollout turn by turn; the start of its id will do")
    args = parser.parse_args(argv)
    trace = read_trace(args.file)
    print(render_summary(trace) if args.rollout is None else render_rollout(_find(trace, args.rollout)))
    return 0


def render_rollout(rollout: Rollout) -> str:
    """One episode, turn by turn."""
    title = f"rollout {rollout.id}  {rollout.env}  row {rollout.row}  phase {rollout.phase or MISSING}"
    lines = [printable(title)]
    rows = []
    for turn in rollout.turns:
        repairs = [f"{kind} x{count}" for kind, count in turn["repairs"].items()]
        rows.append(
            [
                _or_missing(turn["turn"]),
                turn["tool"] or MISSING,
                _as_json(turn["arguments"]),
                _or_missing(turn["result_chars"]),
                _or_missing(turn["wall_s"] and turn["wall_s"] * 1000, ".1f"),
                ", ".join([*([turn["error"]] if turn["error"] else []), *repairs]),
            ]
        )
    if rows:
        lines += ["", table(["turn", "tool", "arguments", "chars", "ms", "remarks"], rows, "lllrrl")]
    lines.append("")
    if rollout.unfinished:
        return "\n".join([*lines, "It did not end: the process that played it did, or it still runs."])
    lines.append(f"stop {printable(rollout.stop or MISSING)}, reward {_or_missing(rollout.reward, 'g')}")
    for name, figures in (("reward parts", rollout.reward_parts), ("tokens", rollout.tokens)):
        if figures:
            lines.append(printable(f"{name}: {', '.join(f'{part} {value}' for part, value in figures.items())}"))
    if rollout.wall_s is not None:
        lines.append(f"{rollout.wall_s:.3f} s from start to end")
    if rollout.error:
        lines += ["", *(printable(line) for line in rollout.error[-ERROR_CHARS:].splitlines())]
    return "\n".join(lines)


def _or_missing(value: float | None, form: str = "") -> str:
    return MISSING if value is None else format(value, form)


def _as_json(arguments: dict[str, Any]) -> str:
    try:
        return json.dumps(arguments, ensure_ascii=False, default=str)
    except RecursionError:
        return "(nested too deeply to be shown)"


def _find(trace: Trace, rollout_id: str) -> Rollout:
    found = [rollout for rollout in trace.rollouts if rollout.id.startswith(rollout_id)]
    exact = [rollout for rollout in found if rollout.id == rollout_id]
    if len(exact or found) == 1:
        return (exact or found)[0]
    some = ", ".join(printable(rollout.id) for rollout in (found or trace.rollouts)[:SHOWN_ROLLOUTS])
    if found:
        raise ValueError(f"got {rollout_id!r}, with which {len(found)} rollouts begin; write more of it, as in: {some}")
    raise ValueError(f"got {rollout_id!r}; expected the id of one of {len(trace.rollouts)} rollouts, as in: {some}")
