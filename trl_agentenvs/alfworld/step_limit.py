"""The step limit of a game as a multiple of what the expert needs, so that an easy game is not played for fifty steps.

What is covered: every game that loads. It is played once by the expert, in its one order; a game that the expert does
not win is measured by its walkthrough. What is not covered: the shortest way there is. The expert has to search, as
whoever plays under the limit does.
"""

from __future__ import annotations

import math

from trl_agentenvs.alfworld import data
from trl_agentenvs.alfworld.engine import Engine
from trl_agentenvs.alfworld.expert import Expert, ExpertError
from trl_agentenvs.alfworld.game import Game

__all__ = ["LEAST_STEPS", "MAX_MULTIPLE", "expert_steps", "step_limit_of"]

LEAST_STEPS = 10
"""The least limit. Where the expert is lucky it wins in four commands, and a multiple of that would punish who looks
elsewhere first; this leaves the six commands it takes to go to three wrong receptacles and open them."""

MAX_MULTIPLE = 1000
"""Largest multiple: far above it a limit would not fit into a column of integers."""

_EXPERT_STEPS = 200  # more than there is to do in any room


def expert_steps(game: Game) -> int | None:
    """How many commands the expert needs; None if it does not win."""
    engine = Engine(game)
    observation = game.intro
    try:
        expert = Expert(observation)
        for steps in range(1, _EXPERT_STEPS + 1):
            observation = engine.step(expert.act(observation))
            if engine.won:
                return steps
    except ExpertError:
        pass
    return None


def step_limit_of(game_id: str, multiple: float) -> int | None:
    """The step limit of a game.

    Args:
        game_id: Id of the game.
        multiple: How many times the commands of the expert, or of the walkthrough where the expert does not win; up to
            `MAX_MULTIPLE`.

    Returns:
        At least `LEAST_STEPS`; None if there is no walkthrough either.

    Raises:
        ValueError: `multiple` is out of its range, or the game cannot be loaded.
        FileNotFoundError: There is no such file.
    """
    _check_multiple(multiple)
    game = data.load(game_id)
    steps = expert_steps(game) or len(game.walkthrough)
    return max(LEAST_STEPS, math.ceil(multiple * steps)) if steps else None


def _check_multiple(multiple: object) -> None:
    if isinstance(multiple, bool) or not isinstance(multiple, int | float) or not 0 < multiple <= MAX_MULTIPLE:
        raise ValueError(f"got step_limit={multiple!r}; expected a number above 0 and up to {MAX_MULTIPLE}")
