"""Rollouts on disk: `rollouts.jsonl`, one event a line, written as it happens.

Promise: each event is one `write` in append mode, so a `kill -9` loses nothing that was logged before it, and several
environments, threads and processes may share one file. Events of a rollout share its `rollout` id:

    {"event": "start", "rollout": ..., "env": ..., "row": ..., "time": ...}
    {"event": "turn",  "rollout": ..., "turn": 1, "tool": ..., "arguments": {...}, "repairs": {...},
                       "result_chars": ..., "wall_s": ..., "error": null}
    {"event": "end",   "rollout": ..., "stop": ..., "reward": ..., "reward_parts": {...}, "turns": ...,
                       "tokens": {"completion": ...}, "wall_s": ...}
    {"event": "phase", "name": ..., "time": ...}          from here on, rollouts belong to this phase of the run

Limits: results are logged by length, not in full, and long arguments by their head; `tokens` is absent where no trainer
reported them. A pipe that nobody reads takes no event. A rollout without an `end` event was cut by the end of the
process. A line that a crash cut short is skipped and counted.
"""

from __future__ import annotations

import errno
import json
import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["Rollout", "Trace", "append_event", "mark_phase", "read_trace"]

_EVENT_START = '{"event": '
_DECODER = json.JSONDecoder()


@dataclass
class Rollout:
    """One episode as read back from a trace.

    Attributes:
        id: Unique name of the rollout.
        env: Class name of the environment.
        row: Row id: the same for all members of a group.
        phase: Name given by the last `mark_phase` before the start, or "".
        started: Seconds since the epoch.
        turns: The `turn` events in order.
        stop: Name of the `StopReason`, or None when the process ended first.
        reward: The reward, or None when missing or unscorable.
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
    turns: list[dict[str, Any]] = field(default_factory=list)
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
                    rollout = Rollout(str(event["rollout"]), str(event["env"]), str(event["row"]), phase)
                    rollout.started = float(event["time"])
                    rollouts[rollout.id] = rollout
                elif kind == "turn":
                    rollouts[event["rollout"]].turns.append(event)
                elif kind == "end":
                    _close(rollouts[event["rollout"]], event)
                else:
                    broken += 1
            except (ValueError, KeyError, TypeError, OverflowError):
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


def _close(rollout: Rollout, event: dict[str, Any]) -> None:
    rollout.stop = event["stop"]
    rollout.reward = event["reward"]
    rollout.reward_parts = event.get("reward_parts") or {}
    rollout.tokens = event.get("tokens") or {}
    rollout.wall_s = event.get("wall_s")
    rollout.error = event.get("error") or ""
