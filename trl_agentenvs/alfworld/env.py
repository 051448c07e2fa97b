"""ALFWorld as an environment for a trainer: one tool, one household task, no server and no TextWorld."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from trl_agentenvs.alfworld import data
from trl_agentenvs.alfworld.engine import Engine
from trl_agentenvs.alfworld.wording import NOTHING_HAPPENS
from trl_agentenvs.env import ToolEnv
from trl_agentenvs.errors import ToolError
from trl_agentenvs.stop import StopReason

__all__ = ["ALFWorldEnv"]


class ALFWorldEnv(ToolEnv):
    """Household tasks in a text world, played by free-text commands.

    ## Task
    A room with receptacles (fridge 1, drawer 3) and objects in them; one of six task types: put an object somewhere,
    put two, clean, heat or cool one first, or look at one under a lamp. Objects must be searched for: what is in a
    closed receptacle shows only when it is opened.

    ## Tools
    `act(command)`. The commands of the game, exactly as it words them; anything else is "Nothing happens." The list of
    admissible commands is hidden unless `show_admissible`. A command that the game refuses counts as a tool error.

    ## Reward
    `win_reward * won - step_cost * steps`, by default 1 for a win minus 0.01 a command; parts `win` and `steps`.

    ## Episode end
    SOLVED when the task is done (it stays so), TURN_BUDGET after `max_steps` commands.

    ## Row columns
    `game`: path of a `game.tw-pddl` file, or `generated:TYPE:SEED`. `dataset` adds `task_type`, for reports.

    ## Determinism
    The row decides everything; there is no randomness inside an episode.

    ## Version history
    1: first.
    """

    system_prompt: ClassVar[str] = (
        "You are in a room and have a task. Call act with one command at a time until the task is done."
    )
    aliases: ClassVar[dict[str, tuple[str, ...]]] = {"command": ("action", "act", "input", "text")}

    def __init__(
        self,
        *,
        max_steps: int = 50,
        show_admissible: bool = False,
        win_reward: float = 1.0,
        step_cost: float = 0.01,
        strict: bool = False,
        trace_path: str | None = None,
    ) -> None:
        """Make an instance; `reset` starts a game.

        Args:
            max_steps: Commands after which the episode ends.
            show_admissible: Append the commands that are possible now to each observation.
            win_reward: Reward of a win.
            step_cost: Taken off the reward for each command.
            strict: See `ToolEnv`.
            trace_path: See `ToolEnv`.

        Raises:
            ValueError: `max_steps` is below 1.
        """
        if max_steps < 1:
            raise ValueError(f"got max_steps={max_steps}; expected at least 1")
        super().__init__(strict=strict, trace_path=trace_path)
        self.max_turns = max_steps
        self._show_admissible = show_admissible
        self._win_reward = win_reward
        self._step_cost = step_cost

    def reset(self, game: str) -> str:
        """Start a game.

        Args:
            game: Path of a `game.tw-pddl` file, or `generated:TYPE:SEED`.

        Returns:
            What is in the room and what the task is.

        Raises:
            FileNotFoundError: There is no such file.
            ValueError: The id is malformed or the file is no ALFWorld game.
        """
        self._engine = Engine(data.load(game))
        _banner, _, intro = self._engine.reset().partition("\n\n")
        return self._observe(intro)

    def act(self, command: str) -> str:
        """Do one thing in the room and see what happens.

        Args:
            command: look, inventory, go to R, open R, close R, take O from R, move O to R, examine R, use O,
                clean O with R, heat O with R, cool O with R or slice O with O, where O is an object and R a
                receptacle with its number, as in: take mug 1 from desk 2
        """
        feedback = self._engine.step(command)
        if self._engine.won:
            self._end(StopReason.SOLVED)
            return feedback
        if feedback == NOTHING_HAPPENS:  # the model reads the same; it counts as a tool error
            raise ToolError(self._observe(feedback))
        return self._observe(feedback)

    def get_reward(self) -> float | None:
        """Return `win_reward * won - step_cost * steps`."""
        win = self._win_reward if self._stop is StopReason.SOLVED else 0.0
        steps = -self._step_cost * self._turns
        self._reward_parts.update(win=win, steps=steps)
        return win + steps

    def _observe(self, text: str) -> str:
        if not self._show_admissible:
            return text
        return f"{text}\n\nAdmissible commands: {', '.join(self._engine.admissible())}"

    @classmethod
    def _rows(
        cls,
        split: str,
        n: int | None,
        seed: int,
        source: str = "auto",
        task_types: Sequence[str] | None = None,
        max_receptacles: int | None = None,
    ) -> list[dict[str, Any]]:
        games = data.game_ids(
            split, source=source, n=n, seed=seed, task_types=task_types, max_receptacles=max_receptacles
        )
        return [{"game": game, "task_type": data.task_type_of(game)} for game in games]

    @classmethod
    def _row_id(cls, row: Mapping[str, Any]) -> str:
        """The game: its generated id, or the two folders above its file (task and trial)."""
        game = str(row.get("game"))
        return game if game.startswith("generated:") else "/".join(Path(game).parts[-3:-1]) or game
