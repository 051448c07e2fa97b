"""ALFWorld as an environment for a trainer: one tool, one household task, no server and no TextWorld."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from trl_agentenvs.alfworld import data
from trl_agentenvs.alfworld.engine import Engine
from trl_agentenvs.alfworld.hints import Hints, HintSchedule, schedule_for
from trl_agentenvs.alfworld.rewards import Repeats, Subgoals
from trl_agentenvs.alfworld.step_limit import step_limit_of
from trl_agentenvs.alfworld.wording import NOTHING_HAPPENS, Dialect
from trl_agentenvs.env import ToolEnv
from trl_agentenvs.errors import ToolError
from trl_agentenvs.stop import StopReason

__all__ = ["ALFWorldEnv"]

MAX_WEIGHT = 1e9
"""Largest weight of a part of the reward; with it no sum of parts overflows."""

_PUT = re.compile(r"(?:move|put) (\w+ \d+) (?:to|in/on) (\w+ \d+)")


class ALFWorldEnv(ToolEnv):
    """Household tasks in a text world, played by free-text commands.

    ## Task
    A room with receptacles (fridge 1, drawer 3) and objects in them; one of six task types: put an object somewhere,
    put two, clean, heat or cool one first, or look at one under a lamp. Objects must be searched for: what is in a
    closed receptacle shows only when it is opened.

    ## Tools
    `act(command)`. The commands of the game, exactly as it words them; anything else is "Nothing happens." The list of
    admissible commands is hidden unless `show_admissible`. A command that the game refuses counts as a tool error. With
    `tolerant`, upper case, quotes and the like are understood, too. A call of `command` or `action` means `act`.

    ## Reward
    `win_reward * won - step_cost * steps`, by default 1 for a win minus 0.01 a command; parts `win` and `steps`. Three
    more parts are off by default: `subgoals`, `efficiency` and `repeats` (see `get_reward`).

    ## Episode end
    SOLVED when the task is done (it stays so), TURN_BUDGET after `max_steps` commands.

    ## Row columns
    `game`: path of a `game.tw-pddl` file, or `generated:TYPE:SEED`. `dataset` adds `task_type`, for reports.
    With `dataset(step_limit=2.0)` also `max_steps`: the multiple of the expert's length, in the place of the
    constructor's `max_steps`. With `dataset(hint="both")` also `hint_action_turns`, `hint_action_chance` and
    `hint_state_chance`: which hints the episode shows (see `hints`).

    ## Determinism
    The row decides everything; there is no randomness inside an episode. Which turns show a hint is drawn from the
    row's name and the turn.

    ## Version history
    1: first.
    2: hints, step limits of rows, `show_remaining`, `tolerant`, three more parts of the reward, and names of the tool.
    Nothing changes where none of them is used.
    """

    system_prompt: ClassVar[str] = (
        "You are in a room and have a task. Call act with one command at a time until the task is done."
    )
    aliases: ClassVar[dict[str, tuple[str, ...]]] = {"command": ("action", "act", "input", "text")}
    tool_aliases: ClassVar[dict[str, tuple[str, ...]]] = {"act": ("command", "action")}

    def __init__(
        self,
        *,
        max_steps: int = 50,
        show_admissible: bool = False,
        show_remaining: bool = False,
        tolerant: bool = False,
        win_reward: float = 1.0,
        step_cost: float = 0.01,
        subgoal_reward: float = 0.0,
        efficiency_reward: float = 0.0,
        repeat_cost: float = 0.0,
        strict: bool = False,
        trace_path: str | None = None,
    ) -> None:
        """Make an instance; `reset` starts a game.

        Args:
            max_steps: Commands after which the episode ends, where the row has no limit of its own.
            show_admissible: Append the commands that are possible now to each observation, all but `help`.
            show_remaining: Append how many commands are left.
            tolerant: Where the game refuses a command, try it in lower case, without quotes, further spaces and a dot
                at its end, and with the game's own word for putting ("put O in/on R", "move O to R"). Counted as the
                repair `reworded_command`.
            win_reward: Reward of a win.
            step_cost: Taken off the reward for each command.
            subgoal_reward: Reward of reaching all sub-goals; a share of it for a share of them.
            efficiency_reward: Reward of a win without a single command; a share of it for the share of the step limit
                that is left at the win.
            repeat_cost: Taken off the reward for each command given before in the very same state of the game.
            strict: See `ToolEnv`.
            trace_path: See `ToolEnv`.

        Raises:
            ValueError: `max_steps` is no integer of at least 1, a switch is no bool, or a weight is negative, above
                `MAX_WEIGHT` or no number.
        """
        super().__init__(strict=strict, trace_path=trace_path)
        self.max_turns = self._max_steps = _checked_limit(max_steps)
        self._show_admissible = _checked_switch("show_admissible", show_admissible)
        self._show_remaining = _checked_switch("show_remaining", show_remaining)
        self._tolerant = _checked_switch("tolerant", tolerant)
        self._win_reward = _checked_weight("win_reward", win_reward)
        self._step_cost = _checked_weight("step_cost", step_cost)
        self._subgoal_reward = _checked_weight("subgoal_reward", subgoal_reward)
        self._efficiency_reward = _checked_weight("efficiency_reward", efficiency_reward)
        self._repeat_cost = _checked_weight("repeat_cost", repeat_cost)
        self._hints: Hints | None = None

    def reset(
        self,
        game: str,
        max_steps: int | None = None,
        hint_action_turns: int = 0,
        hint_action_chance: float = 0.0,
        hint_state_chance: float = 0.0,
    ) -> str:
        """Start a game.

        Args:
            game: Path of a `game.tw-pddl` file, or `generated:TYPE:SEED`.
            max_steps: Commands after which this episode ends. None: as the constructor says.
            hint_action_turns: Turns, from the first, that may show the next command of a player with full knowledge.
            hint_action_chance: Chance that one of them does.
            hint_state_chance: Chance that one of the other turns shows what was observed so far.

        Returns:
            What is in the room and what the task is.

        Raises:
            FileNotFoundError: There is no such file.
            ValueError: The id is malformed, the file is no ALFWorld game, or `max_steps` is below 1.
        """
        self.max_turns = self._max_steps if max_steps is None else _checked_limit(max_steps)
        self._engine = Engine(data.load(game))
        _banner, _, intro = self._engine.reset().partition("\n\n")
        self._hints = None
        if hint_action_chance > 0 or hint_state_chance > 0:
            self._hints = Hints(self._episode.row, hint_action_turns, hint_action_chance, hint_state_chance, intro)
        self._subgoals = Subgoals(self._engine) if self._subgoal_reward else None
        self._repeats = Repeats() if self._repeat_cost else None
        return self._observe(intro, turn=0)

    def act(self, command: str) -> str:
        """Do one thing in the room and see what happens.

        Args:
            command: look, inventory, go to R, open R, close R, take O from R, move O to R, examine R, use O,
                clean O with R, heat O with R, cool O with R or slice O with O, where O is an object and R a
                receptacle with its number, as in: take mug 1 from desk 2
        """
        feedback = self._step(command)
        if self._engine.won:
            self._end(StopReason.SOLVED)
            return feedback
        observation = self._observe(feedback, turn=self._turns + 1)
        if feedback == NOTHING_HAPPENS:  # the model reads the same; it counts as a tool error
            raise ToolError(observation)
        return observation

    def get_reward(self) -> float | None:
        """Score the episode: the sum of its parts, of which those with a weight of 0 are left out but the first two.

        | part | value |
        | --- | --- |
        | `win` | `win_reward * won` |
        | `steps` | `-step_cost * steps` |
        | `subgoals` | `subgoal_reward * share`, of the sub-goals reached together at best; 1 for a win, else below 1 |
        | `efficiency` | `efficiency_reward * won * (1 - steps / limit)` |
        | `repeats` | `-repeat_cost * repeats`, commands given before in the very same state of the game |

        Steps are calls, refused ones included. The best share counts once, so that nothing is earned by doing a thing
        again. A win beats each loss as long as `win_reward > (step_cost + repeat_cost) * limit`.
        """
        won = self._stop is StopReason.SOLVED
        parts = {"win": self._win_reward if won else 0.0, "steps": -self._step_cost * self._turns}
        if self._subgoals is not None:
            parts["subgoals"] = self._subgoal_reward * self._subgoals.best
        if self._efficiency_reward and self.max_turns:
            parts["efficiency"] = self._efficiency_reward * (1 - self._turns / self.max_turns) if won else 0.0
        if self._repeats is not None:
            parts["repeats"] = -self._repeat_cost * self._repeats.count
        self._reward_parts.update(parts)
        return sum(parts.values())

    def _metrics(self) -> dict[str, float]:
        """What every environment counts, and in episodes with hints how many were shown."""
        hints = {} if self._hints is None else {"hints": float(self._hints.shown)}
        return super()._metrics() | hints

    def _step(self, command: str) -> str:
        """What the game answers, to a better wording of the command where it refuses it as it is."""
        if self._repeats is not None:
            self._repeats.note(command, self._engine)
        feedback = self._engine.step(command)
        if feedback == NOTHING_HAPPENS and self._tolerant:
            feedback = self._engine.step(_reworded(command, self._engine.game.dialect))
            if feedback != NOTHING_HAPPENS:
                self._note_repair("reworded_command")
        if self._subgoals is not None:
            self._subgoals.note()
        if self._hints is not None:
            self._hints.notes.note(feedback)
        return feedback

    def _observe(self, text: str, turn: int) -> str:
        """What the model reads before a turn: a text of the game, and what the options add to it."""
        paragraphs = [text]
        left = (self.max_turns or 0) - turn
        if self._show_remaining:
            paragraphs.append(f"Steps left: {left}.")
        if self._show_admissible:
            shown = (command for command in self._engine.admissible() if command != "help")
            paragraphs.append(f"Admissible commands: {', '.join(shown)}")
        if self._hints is not None and left > 0:
            hint = self._hints.hint(turn, self._engine)
            paragraphs += [hint] if hint else []
        return "\n\n".join(paragraphs)

    @classmethod
    def _rows(
        cls,
        split: str,
        n: int | None,
        seed: int,
        source: str = "auto",
        task_types: Sequence[str] | None = None,
        max_receptacles: int | None = None,
        step_limit: float | None = None,
        hint: str | HintSchedule | None = None,
    ) -> list[dict[str, Any]]:
        """The rows of a split.

        Args:
            split: See `data.game_ids`, as the next five.
            n: How many.
            seed: Seed of the draw, and with `hint` of the order.
            source: Where games come from.
            task_types: Only games of these types.
            max_receptacles: Only games in rooms with at most so many receptacles.
            step_limit: Add `max_steps`, this multiple of the commands that the expert needs, at least
                `step_limit.LEAST_STEPS`; None where the expert does not win and the game has no walkthrough. Each game
                is loaded and played.
            hint: Add hints that fade over the rows: one of `hints.SCHEDULES`, or a schedule. Only for train.

        Raises:
            ValueError: As `data.game_ids` and `data.load`; `step_limit` is not above 0, there is no such schedule, or
                the split is not train.
            FileNotFoundError: As `data.game_ids`.
        """
        games = data.game_ids(
            split, source=source, n=n, seed=seed, task_types=task_types, max_receptacles=max_receptacles
        )
        schedule = schedule_for(split, hint)
        if schedule is not None:  # in their fixed order the last rows, without hints, would all be of one type
            random.Random(f"alfworld hint order:{split}:{seed}").shuffle(games)
        rows: list[dict[str, Any]] = [{"game": game, "task_type": data.task_type_of(game)} for game in games]
        for index, row in enumerate(rows):
            if step_limit is not None:
                row["max_steps"] = step_limit_of(row["game"], step_limit)
            if schedule is not None:
                row |= schedule.columns(index, len(rows))
        return rows

    @classmethod
    def _row_id(cls, row: Mapping[str, Any]) -> str:
        """The game: its generated id, or the two folders above its file (task and trial)."""
        game = str(row.get("game"))
        return game if game.startswith("generated:") else "/".join(Path(game).parts[-3:-1]) or game


def _checked_limit(max_steps: object) -> int:
    if isinstance(max_steps, bool) or not isinstance(max_steps, int) or max_steps < 1:
        raise ValueError(f"got max_steps={max_steps!r}; expected an integer of at least 1")
    return max_steps


def _checked_switch(name: str, value: object) -> bool:
    """A switch; "false", as a string, is none, and would switch on what it is to switch off."""
    if not isinstance(value, bool):
        raise ValueError(f"got {name}={value!r}; expected true or false")
    return value


def _checked_weight(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MAX_WEIGHT:
        raise ValueError(f"got {name}={value!r}; expected a number from 0 to {MAX_WEIGHT:g}")
    return float(value)


def _reworded(command: str, dialect: Dialect) -> str:
    """A command as the game would word it: "`Put Mug 1 in/on desk 2.`" -> "move mug 1 to desk 2"."""
    plain = " ".join(command.lower().split()).strip("\"'`. ")
    put = _PUT.fullmatch(plain)
    return dialect.put_command(put[1], put[2]) if put else plain
