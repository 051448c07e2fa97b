"""AlfredTWEnv against the class of that name in the alfworld package, on official games.

What is covered: which games are listed and in which order, which a seed draws over several rounds, and texts, scores,
dones and infos of every step: walkthroughs, admissible and junk commands, games that end by a win, games that end by
the step limit, and what a finished game says. What is not covered: expert plans, since alfworld 0.4.2 gives those of
its handcoded expert whatever `expert_type` says. Two differences are meant: `extra.gamefile` stays after the reset, and
there is no `facts` entry beside expert plans.
"""

from __future__ import annotations

import copy
import json
import random
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.alfworld_config import config_of
from trl_agentenvs.alfworld.data import load, task_type_of
from trl_agentenvs.alfworld.tw_env import AlfredTWEnv

pytestmark = pytest.mark.parity

SPLITS = {"train": "train", "valid_seen": "eval_in_distribution", "valid_unseen": "eval_out_of_distribution"}
JUNK = (
    "",
    "bogus",
    "Look",
    " look ",
    "go to",
    "take mug 99 from desk 99",
    "look\nlook",
    "{x}",
    "put mug 1 in/on desk 1",
)
MAX_STEPS = 11
BATCH_SIZE = 2


@pytest.fixture(scope="module")
def original() -> Any:
    """The class of the alfworld package."""
    environment = pytest.importorskip("alfworld.agents.environment.alfred_tw_env", reason="alfworld is not installed")
    return environment.AlfredTWEnv


@pytest.fixture(autouse=True)
def _keep_argv(monkeypatch: pytest.MonkeyPatch) -> None:
    """TextWorld writes over sys.argv whenever it loads a game."""
    monkeypatch.setattr(sys, "argv", list(sys.argv))


@pytest.fixture(scope="module")
def games(official_games: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copies of official games, each with the two facts of `traj_data.json` that alfworld reads."""
    folder = tmp_path_factory.mktemp("alfworld")
    for source in official_games.glob("json_2.1.1/*/*/*/game.tw-pddl"):
        trial = folder / source.parent.relative_to(official_games)
        trial.mkdir(parents=True)
        shutil.copy(source, trial)
        (trial / "traj_data.json").write_text(json.dumps(trajectory(source)), encoding="utf-8")
    return folder / "json_2.1.1"


def trajectory(game: Path) -> dict[str, Any]:
    task_type, target, _, parent, _ = game.parent.parent.name.split("-")
    assert task_type == task_type_of(str(game))
    return {"task_type": task_type, "pddl_params": {"object_target": target, "parent_target": parent}}


@pytest.mark.parametrize("split", SPLITS.values())
@pytest.mark.parametrize("task_types", [[1, 2, 3, 4, 5, 6], [5], [2, 6, 1]])
@pytest.mark.parametrize("limit", [-1, 3])
def test_the_same_games_are_listed(original: Any, games: Path, split: str, task_types: list[int], limit: int) -> None:
    config = config_of(games, MAX_STEPS, env__task_types=task_types)
    config["dataset"].update(num_train_games=limit, num_eval_games=limit)
    theirs, ours = original(copy.deepcopy(config), split), AlfredTWEnv(config, split)
    assert (ours.game_files, ours.num_games) == (theirs.game_files, theirs.num_games)
    assert ours.game_files


def test_the_same_steps_give_the_same(original: Any, games: Path) -> None:
    config, split = config_of(games, MAX_STEPS), SPLITS["valid_unseen"]
    theirs, ours = (made(config, split).init_env(BATCH_SIZE) for made in (original, AlfredTWEnv))
    rng = random.Random("tw_env parity")
    ended = set()
    for seed in (None, 20000):
        if seed is not None:
            assert ours.seed(seed) == theirs.seed(seed)
            ours.skip(nearly_all := len(ours.gamefiles) - 1)  # so that the next batch goes on into the second round
            theirs.skip(nearly_all)
        for batch in range(2):
            observations, infos = ours.reset()
            their_observations, their_infos = theirs.reset()
            assert (observations, infos) == (their_observations, their_infos)
            winning = [list(load(file).walkthrough) for file in infos["extra.gamefile"]]
            for step in range(MAX_STEPS + 1):
                commands = [
                    chosen(plan, infos["admissible_commands"][game], rng, to_win=(game + batch) % BATCH_SIZE == 0)
                    for game, plan in enumerate(winning)
                ]
                *outcome, infos = ours.step(commands)
                *their_outcome, their_infos = theirs.step(commands)
                del infos["extra.gamefile"], their_infos["extra.gamefile"]
                assert (outcome, infos) == (their_outcome, their_infos), (seed, batch, step, commands)
            ended.update(infos["won"])
            assert outcome[2] == (True,) * BATCH_SIZE
    theirs.close()
    assert ended == {False, True}


def chosen(plan: list[str], admissible: list[str], rng: random.Random, *, to_win: bool) -> str:
    """The next command of a game: along its walkthrough, or any."""
    if to_win and plan:
        return plan.pop(0)
    return rng.choice(admissible) if rng.random() < 0.8 else rng.choice(JUNK)
