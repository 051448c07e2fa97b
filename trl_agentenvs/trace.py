"""Rollouts on disk: `rollouts.jsonl`, one event a line, written as it happens.

Promise: each event is one `write` in append mode, so a `kill -9` loses nothing that was logged before it, and several
environments, threads and processes may share one file. Events of a rollout share its `rollout` id:

    {"event": "start", "rollout": ..., "env": ..., "row": ..., "time": ...}
    {"event": "turn",  "rollout": ..., "turn": 1, "tool": ..., "arguments": {...}, "repairs": {...},
                       "result_chars": ..., "wall_s": ..., "error": null}
    {"event": "end",   "rollout": ..., "stop": ..., "reward": ..., "reward_parts": {...}, "turns": ...,
                       "tokens": {"completion": ...}, "wall_s": ...}
    {"event": "phase", "name": ..., "time": ...}          from here on, rollouts belong to this phase of the run

Whatever a file holds, what is read keeps the types it promises: a figure that is no finite number is missing.

Limits: results are logged by length, not in full, and long arguments by their head; `tokens` is absent where no trainer
reported them. A pipe that nobody reads takes no event. A rollout without an `end` event was cut by the end of the
process. A line that a crash cut short is skipped and counted.
"""

from __future__ import annotations

import errno
import json
import math
import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict

__all__ = ["Rollout", "Trace", "Turn", "append_event", "mark_phase", "read_trace"]

_EVENT_START = '{"event": '
_DECODER = json.JSONDecoder()


class Turn(TypedDict):
    """One tool call; what the trace does not tell is None, "" for the tool, or empty.

    Keys:
        turn: Number of the call in its episode, from 1.
        tool: Name of the tool.
        arguments: What it was called with; long values are cut.
        repairs: Repaired arguments by kind.
        result_chars: Length of its result.
        wall_s: Seconds it took.
        error: None where it was answered; "tool_error", "env_error", "after_end", "interrupted".
    """

    turn: int | None
    tool: str
    arguments: dict[str, Any]
    repairs: dict[str, int]
    result_chars: int | None
    wall_s: float | None
    error: str | None


@dataclass
class Rollout:
    """One episode as read back from a trace.

    Attributes:
        id: Unique name of the rollout.
        env: Class name of the environment.
        row: Row id: the same for all members of a group.
        phase: Name given by the last `mark_phase` before the start, or "".
        started: Seconds since the epoch.
        turns: The calls in order, those after the end included.
        stop: Name of the `StopReason`, or None when the process ended first.
        reward: A finite number, or None when missing or unscorable.
        reward_parts: What the reward was made of.
        tokens: `completion`: tokens of the rollout behind its prompt (model and tools), where a trainer reported it.
        wall_s: Seconds from start to end, or None when the process ended first.
        error: Traceback or message of the failure behind `env_error`, else "".
    """

    id: str
    env: str
    row: str
    phase: str = ""
    started: float = 0.0
    turns: list[Turn] = field(default_factory=list)
    stop: str | None = None
    reward: float | None = None
    reward_parts: dict[str, float] = field(default_factory=dict)
    tokens: dict[str, int] = field(default_factory=dict)
    wall_s: float | None = None
    error: str = ""

    @property
    def unfinished(self) -> bool:
        """Whether the process ended before the rollout did."""
        return self.stop is None

    @property
    def scored(self) -> bool:
        """Whether it ended with a reward; only such rollouts say how good a policy is."""
        return self.stop is not None and self.reward is not None

    @property
    def spoiled(self) -> bool:
        """Whether it ended without a reward: environment or grader failed, or nobody came to score it."""
        return self.stop is not None and self.reward is None

    @property
    def calls(self) -> list[Turn]:
        """The turns while it ran."""
        return [turn for turn in self.turns if turn["error"] != "after_end"]


@dataclass
class Trace:
    """All that a trace file holds.

    Attributes:
        rollouts: In order of their start.
        broken_lines: Lines that are no event: cut short by a crash, or foreign.
    """

    rollouts: list[Rollout]
    broken_lines: int = 0


def append_event(path: str | os.PathLike[str], event: Mapping[str, Any]) -> None:
    """Append one event to the trace at `path`, which is created with its folder if needed.

    The whole line goes out in one `write` to a file opened for appending, so writers do not mix and a kill loses
    nothing. Values JSON does not know are written as their `str`.

    Raises:
        OSError: The file cannot be written.
    """
    line = json.dumps(event, ensure_ascii=True, default=str).encode() + b"\n"
    # Without waiting: a named pipe that nobody reads would hold up the run.
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NONBLOCK", 0)
    try:
        descriptor = os.open(path, flags, 0o644)
    except FileNotFoundError:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, flags, 0o644)
    try:
        written = os.write(descriptor, line)
    finally:
        os.close(descriptor)
    if written < len(line):
        raise OSError(errno.ENOSPC, "the event was written in part", str(path))


def mark_phase(path: str | os.PathLike[str], name: str) -> None:
    """Write that rollouts which start from now on belong to phase `name` ("before", "train", ...)."""
    append_event(path, {"event": "phase", "name": name, "time": time.time()})


def read_trace(path: str | os.PathLike[str]) -> Trace:
    """Read a trace, also one that is still being written or that a kill cut short.

    Raises:
        FileNotFoundError: There is no such file.
    """
    rollouts: dict[str, Rollout] = {}
    broken, phase = 0, ""
    with open(path, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if not line.strip():
                continue
            event = _parse(line)
            if event is None:
                broken += 1
                event = _glued(line)
            if event is None:
                continue
            try:
                kind = event["event"]
                if kind == "phase":
                    phase = str(event["name"])
                elif kind == "start":
                    rollout = _start(event, phase)
                    rollouts[rollout.id] = rollout
                elif kind == "turn":
                    rollouts[str(event["rollout"])].turns.append(_turn(event))
                elif kind == "end":
                    _close(rollouts[str(event["rollout"])], event)
                else:
                    broken += 1
            except (ValueError, KeyError, TypeError, RecursionError):
                broken += 1
    return Trace(list(rollouts.values()), broken)


def _parse(line: str) -> dict[str, Any] | None:
    """The event of a line, or None where it is none."""
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) else None


def _glued(line: str) -> dict[str, Any] | None:
    """The event behind one that was cut short, which has no line break of its own; None where there is none."""
    for start in re.finditer(_EVENT_START, line[1:]):  # what looks like an event can also be an argument of one
        try:
            event, end = _DECODER.raw_decode(line, start.start() + 1)
        except (ValueError, RecursionError):
            continue
        if line[end : end + 1] in ("", "\n"):
            return event  # type: ignore[no-any-return]
    return None


def _start(event: Mapping[str, Any], phase: str) -> Rollout:
    started = _number(event["time"])
    if started is None:
        raise ValueError(f"got the time {event['time']!r}; expected seconds since the epoch")
    return Rollout(str(event["rollout"]), str(event["env"]), str(event["row"]), phase, started)


def _turn(event: Mapping[str, Any]) -> Turn:
    arguments = event.get("arguments")
    return Turn(
        turn=_count(event.get("turn")),
        tool=_text(event.get("tool")) or "",
        arguments=arguments if isinstance(arguments, dict) else {},
        repairs={kind: int(count) for kind, count in _numbers(event.get("repairs")).items()},
        result_chars=_count(event.get("result_chars")),
        wall_s=_number(event.get("wall_s")),
        error=_text(event.get("error")),
    )


def _close(rollout: Rollout, event: Mapping[str, Any]) -> None:
    stop, reward = _text(event["stop"]), _number(event["reward"])
    if stop is None:
        raise ValueError("got an end without its reason; expected the name of a StopReason")
    rollout.stop, rollout.reward = stop, reward
    rollout.reward_parts = _numbers(event.get("reward_parts"))
    rollout.tokens = {kind: int(count) for kind, count in _numbers(event.get("tokens")).items()}
    rollout.wall_s = _number(event.get("wall_s"))
    rollout.error = _text(event.get("error")) or ""


def _number(value: Any) -> float | None:
    """A finite number, or None for all else that a file may hold in its place."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _count(value: Any) -> int | None:
    number = _number(value)
    return None if number is None else int(number)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _numbers(value: Any) -> dict[str, float]:
    """The numbers of an object; an empty one for all else."""
    items = value.items() if isinstance(value, dict) else ()
    return {name: number for name, entry in items if (number := _number(entry)) is not None}
