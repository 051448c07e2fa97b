"""A small environment with a tool for every way in which a tool can behave."""

from __future__ import annotations

import asyncio
from typing import Any

from trl_agentenvs import EnvError, StopReason, ToolEnv, ToolError

__all__ = ["Counter"]


class Counter(ToolEnv):
    """Reach `target` with `add`."""

    max_turns = 5
    system_prompt = "Count."

    def reset(self, target: int, options: dict[str, Any] | None = None) -> str:
        self.value, self.target, self.options = 0, target, options
        return f"Reach {target}."

    def add(self, step: int) -> str:
        """Add a number to the counter.

        Args:
            step: Number to add.
        """
        self.value += step
        if self.value == self.target:
            self._end(StopReason.SOLVED)
        return f"value={self.value}"

    def fail(self, how: str) -> str:
        """Fail.

        Args:
            how: In which way.
        """
        raise {"tool": ToolError("Add less."), "env": EnvError("disk full"), "exit": SystemExit(1)}.get(
            how
        ) or KeyError(how)

    def show(self, text: str) -> str:
        """Show a text.

        Args:
            text: What to show.
        """
        return text

    def twice(self, step: int) -> str:
        """Add a number two times.

        Args:
            step: Number to add.
        """
        self.add(step)
        return self.add(step)

    async def wait(self, seconds: float) -> str:
        """Wait.

        Args:
            seconds: How long.
        """
        await asyncio.sleep(seconds)
        return "waited"

    def get_reward(self) -> float | None:
        self._reward_parts["reached"] = float(self.value == self.target)
        return self._reward_parts["reached"]

    @classmethod
    def _rows(cls, split: str, n: int | None, seed: int, **options: Any) -> list[dict[str, Any]]:
        return [{"target": i} for i in range(n or 3)]
