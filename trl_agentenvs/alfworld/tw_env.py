"""`AlfredTWEnv` of the alfworld package on this engine: a loop written for alfworld runs with one import changed.

    from trl_agentenvs.alfworld.tw_env import AlfredTWEnv  # was: alfworld.agents.environment.alfred_tw_env

What is covered: the text environment of alfworld 0.4 with the same config (a dict; reading it from YAML is yours), the
same games in the same order for the same seed, and the same tuples, texts, scores and infos from `reset` and `step`,
the frozen state of a finished game included. Games need no `traj_data.json`: the folder above a trial names its task
type, and games whose folder names none are left out, as alfworld leaves out those without that file. As in alfworld the
order starts from the one in which the operating system lists the folders, so it is the same on one disk only.
What differs: `extra.gamefile` is there after each step, not at the reset alone, no processes are started, and nothing
is printed. What is not covered, and raises when asked for: alfworld's handcoded expert (alfworld 0.4.2 uses it even
where the config says "planner"; here that is a planner), shuffled object names (`domain_randomization`) and other goal
texts (`goal_desc_human_anns_prob`, which alfworld ignores with a warning).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

from trl_agentenvs.alfworld.data import TASK_TYPES, load, task_type_of
from trl_agentenvs.alfworld.engine import Engine
from trl_agentenvs.alfworld.gamefile import parse_game_file, read_game_file
from trl_agentenvs.alfworld.official import GAME_FILE, UNSUPPORTED_IN_PATH
from trl_agentenvs.alfworld.planner import PlanError, plan
from trl_agentenvs.alfworld.rounds import shuffled_rounds

__all__ = ["TASK_TYPE_NUMBERS", "AlfredTWEnv", "TextBatchEnv"]

TASK_TYPE_NUMBERS: Mapping[int, str] = dict(enumerate(TASK_TYPES, start=1))
"""The numbers that `env.task_types` of a config uses."""

_PATH_SETTINGS = {
    "train": "data_path",
    "eval_in_distribution": "eval_id_data_path",
    "eval_out_of_distribution": "eval_ood_data_path",
}
_STEPS_SECTIONS = {"dqn": "rl", "dagger": "dagger"}
_FIRST_SEED = 1234  # a new environment of alfworld starts with it

_Infos = dict[str, Any]


class AlfredTWEnv:
    """The games of a split, as alfworld's class of this name lists them.

    Args:
        config: Read are `dataset` (`data_path`, `eval_id_data_path`, `eval_ood_data_path`, `num_train_games`,
            `num_eval_games`), `env` (`task_types`, `domain_randomization`, `goal_desc_human_anns_prob`, `expert_type`),
            `general.training_method` and the `training.max_nb_steps_per_episode` of `rl` (for "dqn") or `dagger`.
        train_eval: "train", "eval_in_distribution" (valid_seen) or "eval_out_of_distribution" (valid_unseen).

    Attributes:
        game_files: Paths of the games; assign another list to play others.
        num_games: How many there are.

    Raises:
        ValueError: A setting is missing, unknown, or asks for what is not covered.
        FileNotFoundError: There are no such games where the config points.
        GameFileError: A game file is no JSON text.
    """

    def __init__(self, config: Mapping[str, Any], train_eval: str = "train") -> None:
        if train_eval not in _PATH_SETTINGS:
            raise ValueError(f"got train_eval={train_eval!r}; expected one of {', '.join(_PATH_SETTINGS)}")
        if not isinstance(config, Mapping):
            raise ValueError(f"got the config type {type(config).__name__}; expected a dict; read the YAML file first")
        self.config = config
        self.train_eval = train_eval
        if _setting(config, "env.goal_desc_human_anns_prob", Real) > 0:
            raise ValueError(
                "a goal text cannot change, it is in the game's file; set env.goal_desc_human_anns_prob to 0"
            )
        folder = os.path.expanduser(os.path.expandvars(_setting(config, f"dataset.{_PATH_SETTINGS[train_eval]}", str)))
        found = _solvable_games(folder, _task_types(_setting(config, "env.task_types", Sequence)))
        if not found:
            raise FileNotFoundError(
                f"found no TASK/TRIAL/{GAME_FILE} of these task types in {folder!r}; set ALFWORLD_DATA, or "
                f"dataset.{_PATH_SETTINGS[train_eval]} of the config, to where the games are"
            )
        limit = _setting(config, f"dataset.num_{'train' if train_eval == 'train' else 'eval'}_games", int)
        self.game_files = found[:limit] if limit > 0 else found
        self.num_games = len(self.game_files)

    def init_env(self, batch_size: int) -> TextBatchEnv:
        """Make an environment that plays `batch_size` of the games at once.

        With `general.training_method` "dagger" and `train_eval` "train", infos hold `extra.expert_plan`.

        Raises:
            ValueError: A setting is missing, unknown, or asks for what is not covered.
        """
        training = self.train_eval == "train"
        if training and _setting(self.config, "env.domain_randomization", bool):
            raise ValueError("objects keep the names that their game gives them; set env.domain_randomization to False")
        method = _setting(self.config, "general.training_method", str)
        if method not in _STEPS_SECTIONS:
            raise ValueError(f"got general.training_method={method!r}; expected one of {', '.join(_STEPS_SECTIONS)}")
        expert = method == "dagger" and training
        if expert and _setting(self.config, "env.expert_type", str) != "planner":
            raise ValueError("only the planner can tell what to do after any command; set env.expert_type to 'planner'")
        max_steps = _setting(self.config, f"{_STEPS_SECTIONS[method]}.training.max_nb_steps_per_episode", int)
        return TextBatchEnv(self.game_files, batch_size=batch_size, max_steps=max_steps, expert_plan=expert)


class TextBatchEnv:
    """Plays several games at once, as TextWorld's batch environment does for alfworld.

    Infos are a dict of lists, one item for each game: `won`, `admissible_commands` (sorted), `extra.gamefile`, and
    `extra.expert_plan` if asked for: the commands that win from here, none if the game is won or can no longer be won.
    A game that is done answers every further command with its last observation, score and infos.

    Args:
        game_files: The games to draw from, in rounds of an order that `seed` decides.
        batch_size: How many play at once.
        max_steps: Commands after which a game is done.
        expert_plan: Plan after each command, with full knowledge of the game.

    Raises:
        ValueError: There are no games, or a number is below 1.
    """

    def __init__(
        self, game_files: Sequence[str], *, batch_size: int, max_steps: int, expert_plan: bool = False
    ) -> None:
        for name, number in (("batch_size", batch_size), ("max_steps", max_steps)):
            if number < 1:
                raise ValueError(f"got {name}={number}; expected at least 1")
        self.gamefiles = list(game_files)
        self.batch_size = batch_size
        self._max_steps = max_steps
        self._expert_plan = expert_plan
        self._playing: list[_Playing] = []
        self.seed(_FIRST_SEED)

    def seed(self, seed: int) -> list[int]:
        """Start the rounds over, in the order that alfworld plays the games in after the same call.

        Raises:
            ValueError: The seed is not from 0 to `rounds.MAX_SEED`.
        """
        self._upcoming = shuffled_rounds(self.gamefiles, seed)
        return [seed]

    def skip(self, nb_games: int = 1) -> None:
        """Leave out the next games."""
        for _ in range(nb_games):
            next(self._upcoming)

    def reset(self) -> tuple[tuple[str, ...], _Infos]:
        """Start the next games.

        Returns:
            The first observations, and the infos.

        Raises:
            FileNotFoundError: A game file is gone.
            GameFileError: A file is no playable ALFWorld game.
        """
        files = [next(self._upcoming) for _ in range(self.batch_size)]
        self._playing = [_Playing(file, self._max_steps, self._expert_plan) for file in files]
        return tuple(game.observation for game in self._playing), self._infos()

    def step(self, commands: Sequence[str]) -> tuple[tuple[str, ...], tuple[int, ...], tuple[bool, ...], _Infos]:
        """Carry out one command in each game.

        Args:
            commands: One for each game, in their order.

        Returns:
            Observations, scores (1 if won, else 0), whether each game is done, and infos.

        Raises:
            RuntimeError: No game was started.
            TypeError: The commands are no list or tuple of strings.
            ValueError: They are more or fewer than the games.
        """
        if not self._playing:
            raise RuntimeError("no game was started; call reset() before step()")
        if not isinstance(commands, (list, tuple)) or not all(isinstance(command, str) for command in commands):
            raise TypeError(f"got {commands!r}; expected a list of commands, one string for each game")
        if len(commands) != len(self._playing):
            raise ValueError(f"got {len(commands)} commands for {len(self._playing)} games; expected one for each")
        for game, command in zip(self._playing, commands, strict=True):
            game.step(command)
        playing = self._playing
        return (
            tuple(game.observation for game in playing),
            tuple(game.score for game in playing),
            tuple(game.done for game in playing),
            self._infos(),
        )

    def close(self) -> None:
        """Let go of the games; there is nothing else to free."""
        self._playing = []

    def _infos(self) -> _Infos:
        return {key: [game.info[key] for game in self._playing] for key in self._playing[0].info}


class _Playing:
    """One game of a batch."""

    def __init__(self, file: str, max_steps: int, expert_plan: bool) -> None:
        self._file = file
        self._steps_left = max_steps
        self._expert_plan = expert_plan
        self._engine = Engine(load(file))
        self.score = 0
        self.done = False
        self._observe(self._engine.reset())

    def step(self, command: str) -> None:
        if self.done:
            return
        self._observe(self._engine.step(command))
        self._steps_left -= 1
        self.score = int(self._engine.won)
        self.done = self._engine.won or self._steps_left == 0

    def _observe(self, observation: str) -> None:
        self.observation = observation
        self.info: _Infos = {
            "won": self._engine.won,
            "admissible_commands": self._engine.admissible(),
            "extra.gamefile": self._file,
        }
        if self._expert_plan:
            try:
                self.info["extra.expert_plan"] = plan(self._engine)
            except PlanError:  # lost: the hand holds what fits nowhere
                self.info["extra.expert_plan"] = []


# Reading the config and finding the games.


def _setting(config: Mapping[str, Any], name: str, kind: type) -> Any:
    value: Any = config
    sections = name.split(".")
    for depth, key in enumerate(sections, start=1):
        if not isinstance(value, Mapping) or key not in value:
            raise ValueError(f"the config has no {'.'.join(sections[:depth])}; expected a value for {name}")
        value = value[key]
    if not isinstance(value, kind):
        raise ValueError(f"got {name}={value!r}; expected a value of type {kind.__name__}")
    return value


def _task_types(numbers: Sequence[int]) -> set[str]:
    unknown = [number for number in numbers if number not in TASK_TYPE_NUMBERS]
    if unknown or not numbers:
        raise ValueError(f"got env.task_types={numbers!r}; expected some of {', '.join(map(str, TASK_TYPE_NUMBERS))}")
    return {TASK_TYPE_NUMBERS[number] for number in numbers}


def _solvable_games(folder: str, task_types: set[str]) -> list[str]:
    """The games below a folder that alfworld would play, in the order in which it would find them."""
    found = []
    for root, _, files in os.walk(folder, topdown=False):
        path = os.path.join(root, GAME_FILE)
        fits = GAME_FILE in files and task_type_of(path) in task_types
        if fits and not any(word in root for word in UNSUPPORTED_IN_PATH) and _is_solvable(path):
            found.append(path)
    return found


def _is_solvable(path: str) -> bool:
    content = parse_game_file(read_game_file(path), path)
    return isinstance(content, dict) and bool(content.get("solvable"))
