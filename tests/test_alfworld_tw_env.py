"""AlfredTWEnv: a loop written for the alfworld package runs on this engine."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.alfworld_config import MAX_STEPS, config_of
from trl_agentenvs.alfworld.data import TASK_TYPES
from trl_agentenvs.alfworld.engine import Engine
from trl_agentenvs.alfworld.expert import Expert
from trl_agentenvs.alfworld.game import Game
from trl_agentenvs.alfworld.gamefile import GameFileError
from trl_agentenvs.alfworld.generate import game_file
from trl_agentenvs.alfworld.rounds import shuffled_rounds
from trl_agentenvs.alfworld.tw_env import TASK_TYPE_NUMBERS, AlfredTWEnv, TextBatchEnv

FOLDERS = {
    "train": "train",
    "eval_in_distribution": "valid_seen",
    "eval_out_of_distribution": "valid_unseen",
}
EVALUATION = "eval_in_distribution"


def write_game(folder: Path, task: str, seed: int = 1, **changed: Any) -> Path:
    """Write a generated game as trial `seed` of the task folder, which is named like an official one."""
    trial = folder / task / f"trial_{seed}"
    trial.mkdir(parents=True)
    content = {**game_file(task.partition("-")[0], seed), **changed}
    path = trial / "game.tw-pddl"
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


@pytest.fixture
def games(tmp_path: Path) -> Path:
    """The folder of the splits: train holds one game of each type, and the two others are links to it."""
    train = tmp_path / "json_2.1.1" / "train"
    for task_type in TASK_TYPES:
        write_game(train, f"{task_type}-Mug-None-Desk-308")
    for name in ("valid_seen", "valid_unseen"):
        train.with_name(name).symlink_to(train)
    return train.parent


def names(files: list[str]) -> set[str]:
    return {Path(file).parent.parent.name.partition("-")[0] for file in files}


# Which games.


@pytest.mark.parametrize("root", ["{tmp}", "~"])
@pytest.mark.parametrize(("split", "folder"), FOLDERS.items())
def test_split_is_read_from_where_alfworld_data_points(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, root: str, split: str, folder: str
) -> None:
    path = write_game(tmp_path / "json_2.1.1" / folder, "pick_and_place_simple-Mug-None-Desk-308")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("ALFWORLD_DATA", root.format(tmp=tmp_path))
    assert AlfredTWEnv(config_of("$ALFWORLD_DATA/json_2.1.1"), split).game_files == [str(path)]


def test_numbers_of_task_types_are_those_of_alfworld() -> None:
    assert dict(TASK_TYPE_NUMBERS) == {
        1: "pick_and_place_simple",
        2: "look_at_obj_in_light",
        3: "pick_clean_then_place_in_recep",
        4: "pick_heat_then_place_in_recep",
        5: "pick_cool_then_place_in_recep",
        6: "pick_two_obj_and_place",
    }


@pytest.mark.parametrize(("number", "task_type"), TASK_TYPE_NUMBERS.items())
def test_task_types_are_chosen_by_number(games: Path, number: int, task_type: str) -> None:
    assert names(AlfredTWEnv(config_of(games, env__task_types=[number])).game_files) == {task_type}


@pytest.mark.parametrize(("split", "key"), [("train", "num_train_games"), (EVALUATION, "num_eval_games")])
def test_first_games_are_taken(games: Path, split: str, key: str) -> None:
    everything = AlfredTWEnv(config_of(games), split)
    config = config_of(games)
    config["dataset"][key] = 2
    env = AlfredTWEnv(config, split)
    assert (env.num_games, env.game_files) == (2, everything.game_files[:2])


def test_more_games_than_there_are_is_all_games(games: Path) -> None:
    assert AlfredTWEnv(config_of(games, dataset__num_train_games=100)).num_games == 6


@pytest.mark.parametrize("changed", [{"solvable": False}, {"solvable": None}])
def test_game_that_is_not_known_to_be_solvable_is_left_out(games: Path, changed: dict[str, Any]) -> None:
    write_game(games / "train", "pick_and_place_simple-Bowl-None-Desk-308", **changed)
    assert AlfredTWEnv(config_of(games)).num_games == 6


def test_file_that_says_nothing_is_left_out(games: Path) -> None:
    write_game(games / "train", "pick_and_place_simple-Bowl-None-Desk-308").write_text("[]", encoding="utf-8")
    assert AlfredTWEnv(config_of(games)).num_games == 6


@pytest.mark.parametrize("task", ["look_at_obj_in_light-Mug-None-DeskLampSliced-1", "look_at_obj_in_light-movable-1"])
def test_trials_that_alfworld_does_not_support_are_left_out(games: Path, task: str) -> None:
    write_game(games / "train", task)
    assert AlfredTWEnv(config_of(games)).num_games == 6


def test_folder_that_names_no_task_type_is_left_out(games: Path) -> None:
    write_game(games / "train", "pick_and_place_simple-Bowl-None-Desk-308").parent.parent.rename(
        games / "train" / "notes"
    )
    assert AlfredTWEnv(config_of(games)).num_games == 6


@pytest.mark.parametrize("content", ['{"solvable": tr', "", "\u0000"])
def test_broken_game_file_is_named(games: Path, content: str) -> None:
    path = write_game(games / "train", "pick_and_place_simple-Bowl-None-Desk-308")
    path.write_text(content, encoding="utf-8")
    with pytest.raises(GameFileError, match=r"Bowl-None-Desk-308.*is not a game file"):
        AlfredTWEnv(config_of(games))


def test_no_games_are_reported_with_the_setting_to_change() -> None:
    config = config_of("$ALFWORLD_DATA/json_2.1.1")
    with pytest.raises(FileNotFoundError, match=r"\$ALFWORLD_DATA/json_2.1.1/valid_seen.*dataset.eval_id_data_path"):
        AlfredTWEnv(config, EVALUATION)


# Settings.


def test_unknown_split_is_refused(games: Path) -> None:
    with pytest.raises(ValueError, match="got train_eval='valid_seen'; expected one of train, eval_in_distribution"):
        AlfredTWEnv(config_of(games), "valid_seen")


@pytest.mark.parametrize("numbers", [[], [7], [0, 1], ["pick_and_place_simple"]])
def test_unknown_task_types_are_refused(games: Path, numbers: list[Any]) -> None:
    with pytest.raises(ValueError, match=r"env.task_types=.*expected some of 1, 2, 3, 4, 5, 6"):
        AlfredTWEnv(config_of(games, env__task_types=numbers))


def test_other_goal_texts_are_refused(games: Path) -> None:
    with pytest.raises(ValueError, match=r"set env.goal_desc_human_anns_prob to 0"):
        AlfredTWEnv(config_of(games, env__goal_desc_human_anns_prob=0.5))


def test_shuffled_names_are_refused_in_training_and_off_in_evaluation(games: Path) -> None:
    config = config_of(games, env__domain_randomization=True)
    with pytest.raises(ValueError, match=r"set env.domain_randomization to False"):
        AlfredTWEnv(config).init_env(1)
    AlfredTWEnv(config, EVALUATION).init_env(1).reset()


def test_unknown_training_method_is_refused(games: Path) -> None:
    with pytest.raises(ValueError, match=r"general.training_method='ppo'; expected one of dqn, dagger"):
        AlfredTWEnv(config_of(games, general__training_method="ppo")).init_env(1)


def test_handcoded_expert_is_refused_where_it_would_be_asked(games: Path) -> None:
    config = config_of(games, general__training_method="dagger")
    with pytest.raises(ValueError, match=r"set env.expert_type to 'planner'"):
        AlfredTWEnv(config).init_env(1)
    AlfredTWEnv(config, EVALUATION).init_env(1).reset()


@pytest.mark.parametrize(
    ("setting", "kind"),
    [
        ("dataset__data_path", "str"),
        ("dataset__num_train_games", "int"),
        ("env__goal_desc_human_anns_prob", "Real"),
        ("env__task_types", "Sequence"),
    ],
)
def test_setting_that_is_switched_off_is_named_with_what_it_must_be(games: Path, setting: str, kind: str) -> None:
    name = setting.replace("__", r"\.")
    with pytest.raises(ValueError, match=rf"got {name}=None; expected a value of type {kind}"):
        AlfredTWEnv(config_of(games, **{setting: None}))


@pytest.mark.parametrize("config", ["config.yaml", None, [1]])
def test_config_that_is_no_dict_is_refused(config: Any) -> None:
    with pytest.raises(ValueError, match=r"got the config type .*; expected a dict; read the YAML file first"):
        AlfredTWEnv(config)


def test_missing_setting_is_named(games: Path) -> None:
    config = config_of(games)
    del config["rl"]["training"]
    with pytest.raises(ValueError, match=r"no rl.training; expected a value for rl.training.max_nb_steps_per_episode"):
        AlfredTWEnv(config).init_env(1)


# Playing.


@pytest.fixture
def make(games: Path) -> Callable[..., TextBatchEnv]:
    def make(batch_size: int = 3, **changed: Any) -> TextBatchEnv:
        return AlfredTWEnv(config_of(games, **changed)).init_env(batch_size=batch_size)

    return make


def test_games_start_as_the_engine_starts_them(make: Callable[..., TextBatchEnv]) -> None:
    observations, infos = make().reset()
    engines = [Engine(Game.from_file(file)) for file in infos["extra.gamefile"]]
    assert isinstance(observations, tuple)
    assert observations == tuple(engine.reset() for engine in engines)
    assert observations[0].startswith("-= Welcome to TextWorld, ALFRED! =-\n\n")
    assert infos["won"] == [False] * 3
    assert infos["admissible_commands"] == [engine.admissible() for engine in engines]
    assert set(infos) == {"won", "admissible_commands", "extra.gamefile"}


def test_games_come_in_the_order_of_the_first_seed(games: Path, make: Callable[..., TextBatchEnv]) -> None:
    env, order = make(), shuffled_rounds(AlfredTWEnv(config_of(games)).game_files, 1234)
    for _ in range(5):
        assert env.reset()[1]["extra.gamefile"] == [next(order) for _ in range(3)]


def test_seed_starts_the_order_over(make: Callable[..., TextBatchEnv]) -> None:
    env = make()
    orders = []
    for _ in range(2):
        assert env.seed(20000) == [20000]
        orders.append([env.reset()[1]["extra.gamefile"] for _ in range(3)])
    assert orders[0] == orders[1]


def test_skipped_games_are_not_played(make: Callable[..., TextBatchEnv]) -> None:
    env, other = make(1), make(1)
    for _ in range(4):
        env.reset()
    other.skip(4)
    assert env.reset() == other.reset()


def test_batch_may_be_larger_than_the_games(make: Callable[..., TextBatchEnv]) -> None:
    assert len(make(13).reset()[0]) == 13


def test_each_command_goes_to_its_own_game(make: Callable[..., TextBatchEnv]) -> None:
    env = make()
    _, infos = env.reset()
    observations, scores, dones, _ = env.step([f"{infos['admissible_commands'][0][0]}", "inventory", "bogus"])
    assert observations[0].startswith("You arrive at ")
    assert observations[1:] == ("You are not carrying anything.", "Nothing happens.")
    assert (scores, dones) == ((0, 0, 0), (False, False, False))


def test_finished_game_stays_as_it_was_while_others_go_on(make: Callable[..., TextBatchEnv]) -> None:
    env = make(2)
    _, infos = env.reset()
    won = list(Game.from_file(infos["extra.gamefile"][0]).walkthrough)
    for command in won:
        observations, scores, dones, infos = env.step([command, "look"])
    last = observations[0], infos["admissible_commands"][0]
    assert (scores, dones, infos["won"]) == ((1, 0), (True, False), [True, False])
    observations, scores, dones, infos = env.step([f"take mug 1 from {won[-1]}", "inventory"])
    assert (observations[0], infos["admissible_commands"][0]) == last
    assert (scores, dones, infos["won"]) == ((1, 0), (True, False), [True, False])
    assert observations[1] == "You are not carrying anything."


@pytest.mark.parametrize(("method", "limit"), [("dqn", MAX_STEPS), ("dagger", 7)])
def test_games_are_done_at_the_step_limit_of_their_method(
    make: Callable[..., TextBatchEnv], method: str, limit: int
) -> None:
    env = make(
        1, general__training_method=method, env__expert_type="planner", dagger__training={"max_nb_steps_per_episode": 7}
    )
    env.reset()
    dones = [env.step(["look"])[2][0] for _ in range(limit + 2)]
    assert dones == [False] * (limit - 1) + [True] * 3


def test_reset_starts_anew_after_a_finished_game(make: Callable[..., TextBatchEnv]) -> None:
    env = make(1, rl__training={"max_nb_steps_per_episode": 1})
    env.reset()
    assert env.step(["look"])[2] == (True,)
    env.reset()
    assert env.step(["inventory"])[0] == ("You are not carrying anything.",)


@pytest.mark.parametrize("commands", ["look", [None], [b"look"], {"look"}, None])
def test_what_is_no_list_of_commands_is_refused(make: Callable[..., TextBatchEnv], commands: Any) -> None:
    env = make(1)
    env.reset()
    with pytest.raises(TypeError, match="expected a list of commands, one string for each game"):
        env.step(commands)


@pytest.mark.parametrize("n", [0, 1, 3])
def test_other_number_of_commands_than_games_changes_no_game(make: Callable[..., TextBatchEnv], n: int) -> None:
    env = make(2)
    _, infos = env.reset()
    with pytest.raises(ValueError, match=f"got {n} commands for 2 games"):
        env.step([infos["admissible_commands"][0][0]] * n)
    assert env.step(["look", "look"])[3]["admissible_commands"] == infos["admissible_commands"]


def test_step_without_a_game_says_what_to_call(make: Callable[..., TextBatchEnv]) -> None:
    env = make(1)
    with pytest.raises(RuntimeError, match=r"call reset\(\)"):
        env.step(["look"])
    env.reset()
    env.close()
    with pytest.raises(RuntimeError, match=r"call reset\(\)"):
        env.step(["look"])


@pytest.mark.parametrize("wrong", [{"batch_size": 0}, {"max_steps": 0}])
def test_numbers_below_one_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=f"got {next(iter(wrong))}=0; expected at least 1"):
        TextBatchEnv(["a"], **{"batch_size": 1, "max_steps": 1, **wrong})


def test_expert_plan_wins_from_where_the_player_went(make: Callable[..., TextBatchEnv]) -> None:
    env = make(6, general__training_method="dagger", env__expert_type="planner")
    _, infos = env.reset()
    dones: tuple[bool, ...] = (False,)
    env.step([commands[0] for commands in infos["admissible_commands"]])
    _, _, _, infos = env.step(["look"] * 6)
    while not all(dones):
        _, _, dones, infos = env.step([plan[0] if plan else "look" for plan in infos["extra.expert_plan"]])
    assert infos["won"] == [True] * 6
    assert infos["extra.expert_plan"] == [[]] * 6


def test_game_that_cannot_be_won_has_no_expert_plan_and_goes_on(games: Path) -> None:
    path = write_game(games / "train", "pick_and_place_simple-Bowl-None-Desk-308")
    content = json.loads(path.read_text(encoding="utf-8"))
    content["pddl_problem"] = re.sub(r"\(canContain [^)]*\)", "", content["pddl_problem"])
    path.write_text(json.dumps(content), encoding="utf-8")
    env = TextBatchEnv([str(path)], batch_size=1, max_steps=2, expert_plan=True)
    _, infos = env.reset()
    assert (infos["extra.expert_plan"], infos["won"]) == ([[]], [False])
    assert env.step(["inventory"])[0] == ("You are not carrying anything.",)


def test_agent_loop_written_for_alfworld_wins_with_the_expert(games: Path) -> None:
    env = AlfredTWEnv(config_of(games), train_eval="eval_out_of_distribution").init_env(batch_size=6)
    obs, infos = env.reset()
    experts = [Expert(observation) for observation in obs]
    dones: tuple[bool, ...] = (False,) * 6
    while not all(dones):
        commands = [
            "look" if done else expert.act(observation)
            for done, expert, observation in zip(dones, experts, obs, strict=True)
        ]
        obs, scores, dones, infos = env.step(commands)
    assert (scores, infos["won"]) == ((1,) * 6, [True] * 6)
