"""An environment of your own in 30 lines, checked and played.

Run it: `python examples/own_env.py`
"""

from __future__ import annotations

import random
from typing import Any

from trl_agentenvs import StopReason, ToolEnv, check_env


class NumberEnv(ToolEnv):
    """Find a hidden number between 1 and 100."""

    max_turns = 7
    system_prompt = "Find the hidden number between 1 and 100. Call guess until you are told that it is right."

    def reset(self, number: int) -> str:
        """Hide the number of the row."""
        self._number = number
        return "A number is hidden."

    def guess(self, number: int) -> str:
        """Guess the hidden number.

        Args:
            number: Your guess, from 1 to 100.
        """
        if number == self._number:
            self._end(StopReason.SOLVED)
            return f"Right, it is {number}."
        return f"It is {'higher' if number < self._number else 'lower'} than {number}."

    def get_reward(self) -> float | None:
        """Score 1 for the number."""
        return float(self._stop is StopReason.SOLVED)

    @classmethod
    def _rows(cls, split: str, n: int | None, seed: int) -> list[dict[str, Any]]:
        numbers = range(1, 101, 2) if split == "train" else range(2, 101, 2)
        chosen = numbers if n is None else random.Random(f"{split}:{seed}").sample(numbers, n)
        return [{"number": number} for number in chosen]


def main() -> None:
    """Run the contract against the environment, then play an episode by bisection."""
    rows = NumberEnv._rows("train", 4, seed=0)
    findings = check_env(NumberEnv, rows)
    print("\n".join(f"{finding.rule}: {finding.message}" for finding in findings) or "The contract holds.")

    env = NumberEnv()
    print(env.reset(**rows[-1]))
    low, high = 1, 100
    while env._stop is None:
        middle = (low + high) // 2
        result = env.guess(number=middle)
        print(f"guess({middle}) -> {result}")
        low, high = (middle + 1, high) if "higher" in result else (low, middle - 1)
    print(f"reward {env.get_reward()}, ended because: {env._stop}")


if __name__ == "__main__":
    main()
