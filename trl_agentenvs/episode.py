"""What is known about one episode while it runs: its end, its turns, its reward, and the trace of all that."""

from __future__ import annotations

import logging
import math
import numbers
import time
import traceback
import uuid
from collections import Counter
from typing import Any

from .results import cut
from .stop import StopReason
from .trace import append_event

__all__ = ["Episode"]

logger = logging.getLogger("trl_agentenvs")

FAILURE_CHARS = 20_000


class Episode:
    """One episode of one environment, from reset to reward.

    Attributes:
        id: Unique name, the `rollout` of its trace events; "" for the blank episode before the first reset.
        stop: Why it ended, or None while it runs.
        begun: Tool calls that began while it ran; ahead of `turns` while some overlap.
        turns: Tool calls answered while it ran, refused ones included.
        tool_errors: Those of them that were refused or raised `ToolError`.
        tool_s: Seconds spent in tools.
        repairs: Repaired arguments by kind.
        tokens: Token counts by kind, where a trainer reported them.
        reward_parts: What the reward is made of.
        reward: The reward once scored; None before, and when it is unscorable.
        scored: Whether `reward` is final.
    """

    def __init__(self, env: str, row: str, trace_path: str | None, blank: bool = False) -> None:
        self.env, self.row, self.trace_path = env, row, trace_path
        self.id = "" if blank else uuid.uuid4().hex[:16]
        self.started = time.monotonic()
        self.stop: StopReason | None = None
        self.begun = 0
        self.turns = 0
        self.tool_errors = 0
        self.tool_s = 0.0
        self.repairs: Counter[str] = Counter()
        self._traced_repairs: Counter[str] = Counter()
        self.tokens: dict[str, int] = {}
        self.reward_parts: dict[str, float] = {}
        self.reward: float | None = None
        self.scored = blank
        self.failure = ""
        if not blank:
            self.log("start", env=env, row=row, time=time.time())

    @property
    def running(self) -> bool:
        """Whether tools act: it began and has not ended."""
        return bool(self.id) and self.stop is None

    @property
    def elapsed_s(self) -> float:
        """Seconds since reset."""
        return time.monotonic() - self.started

    def admit(self, max_calls: int | None) -> bool:
        """Let a tool call begin, or say that it may not: calls that still run count towards the limit, too."""
        if not self.running or (max_calls is not None and self.begun >= max_calls):
            return False
        self.begun += 1
        return True

    def untraced_repairs(self) -> Counter[str]:
        """Repairs since this was last asked, for the event of a turn: those of its call, and those noted beside it."""
        untraced = self.repairs - self._traced_repairs
        self._traced_repairs = self.repairs.copy()
        return untraced

    def end(self, reason: StopReason) -> None:
        """End the episode. The first reason stays: an episode ends once."""
        if self.stop is None:
            self.stop = reason

    def fail(self, error: BaseException) -> None:
        """End it as unscorable because of `error`, which is logged and traced, not hidden."""
        self.end(StopReason.ENV_ERROR)
        self.failure = cut("".join(traceback.format_exception(error)), FAILURE_CHARS)
        logger.warning("%s, row %s: episode is unscorable: %r", self.env, self.row, error)

    def score(self, reward: float | None) -> None:
        """Settle the reward and write the `end` event."""
        self.scored, self.reward = True, reward
        parts = {str(part): _known(value) for part, value in self.reward_parts.items()}
        fields: dict[str, Any] = {"reward_parts": parts, "turns": self.turns}
        fields |= {"tokens": self.tokens} if self.tokens else {}
        fields |= {"error": self.failure} if self.failure else {}
        self.log("end", stop=str(self.stop), reward=reward, wall_s=round(self.elapsed_s, 6), **fields)

    def abandon(self) -> None:
        """Settle an episode that nobody will score any more."""
        if not self.scored:
            self.end(StopReason.TRUNCATED)
            self.score(None)

    def log(self, event: str, **fields: Any) -> None:
        """Append an event to the trace; a trace that cannot be written is reported and does not decide over rewards."""
        if self.trace_path is None:
            return
        try:
            append_event(self.trace_path, {"event": event, "rollout": self.id, **fields})
        except (OSError, ValueError, TypeError, RecursionError) as error:
            logger.warning("cannot write the trace %s: %s", self.trace_path, error)

    def metrics(self) -> dict[str, float]:
        """Figures by name for a trainer's log; what is not known is left out."""
        figures = {
            "turns": float(self.turns),
            "tool_errors": float(self.tool_errors),
            "repairs": float(sum(self.repairs.values())),
            "tool_s": self.tool_s,
        }
        figures |= {f"repairs/{kind}": float(count) for kind, count in self.repairs.items()}
        figures |= {f"tokens/{kind}": float(count) for kind, count in self.tokens.items()}
        parts = {part: _known(value) for part, value in self.reward_parts.items()}
        return figures | {f"reward/{part}": value for part, value in parts.items() if value is not None}


def _known(value: Any) -> float | None:
    """A finite number as a float; None for all else that an environment may give as a part of its reward."""
    return float(value) if isinstance(value, numbers.Real) and math.isfinite(value) else None
