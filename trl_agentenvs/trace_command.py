"""`trl-agentenvs trace`: a trace as tables, or one of its rollouts turn by turn."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from .arguments import ArgumentParser
from .terminal import MISSING, printable, table
from .trace import Rollout, Trace, read_trace
from .trace_summary import mapping_in, number_in, render_summary

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
    lines = [f"rollout {rollout.id}  {rollout.env}  row {rollout.row}  phase {rollout.phase or MISSING}"]
    lines = [printable(line) for line in lines]
    rows = []
    for turn in rollout.turns:
        wall_s = number_in(turn.get("wall_s"))
        repairs = [f"{kind} x{count}" for kind, count in mapping_in(turn.get("repairs")).items()]
        remarks = [*([str(turn["error"])] if turn.get("error") else []), *repairs]
        arguments = turn.get("arguments")
        rows.append(
            [
                str(turn.get("turn", MISSING)),
                str(turn.get("tool", MISSING)),
                json.dumps(arguments, ensure_ascii=False, default=str),
                str(turn.get("result_chars", MISSING)),
                MISSING if wall_s is None else f"{wall_s * 1000:.1f}",
                ", ".join(remarks),
            ]
        )
    if rows:
        lines += ["", table(["turn", "tool", "arguments", "chars", "ms", "remarks"], rows, "lllrrl")]
    lines.append("")
    if rollout.unfinished:
        return "\n".join([*lines, "It did not end: the process that played it did, or it still runs."])
    reward, parts = number_in(rollout.reward), mapping_in(rollout.reward_parts)
    lines.append(f"stop {printable(str(rollout.stop))}, reward {MISSING if reward is None else f'{reward:g}'}")
    for title, figures in (("reward parts", parts), ("tokens", mapping_in(rollout.tokens))):
        if figures:
            lines.append(printable(f"{title}: {', '.join(f'{name} {value}' for name, value in figures.items())}"))
    if (wall_s := number_in(rollout.wall_s)) is not None:
        lines.append(f"{wall_s:.3f} s from start to end")
    if rollout.error:
        lines += ["", *(printable(line) for line in str(rollout.error)[-ERROR_CHARS:].splitlines())]
    return "\n".join(lines)


def _find(trace: Trace, rollout_id: str) -> Rollout:
    found = [rollout for rollout in trace.rollouts if rollout.id.startswith(rollout_id)]
    exact = [rollout for rollout in found if rollout.id == rollout_id]
    if len(exact or found) == 1:
        return (exact or found)[0]
    some = ", ".join(printable(rollout.id) for rollout in (found or trace.rollouts)[:SHOWN_ROLLOUTS])
    if found:
        raise ValueError(f"got {rollout_id!r}, with which {len(found)} rollouts begin; write more of it, as in: {some}")
    raise ValueError(f"got {rollout_id!r}; expected the id of one of {len(trace.rollouts)} rollouts, as in: {some}")
