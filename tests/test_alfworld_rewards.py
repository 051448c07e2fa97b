"""What the reward counts beside the win, and that nobody can farm it."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from trl_agentenvs import ALFWorldEnv, StopReason
from trl_agentenvs.alfworld import data
from trl_agentenvs.alfworld.engine import Engine
from trl_agentenvs.alfworld.env import MAX_WEIGHT
from trl_agentenvs.alfworld.expert import Expert
from trl_agentenvs.alfworld.planner import plan
from trl_agentenvs.alfworld.rewards import COMPARED_CHARS, Repeats, Subgoals

SEEDS = (3, 4, 11)
GAMES = [f"generated:{task_type}:{seed}" for task_type in data.TASK_TYPES for seed in SEEDS]
ALL_PARTS = {"subgoal_reward": 0.5, "efficiency_reward": 0.2, "repeat_cost": 0.005}


def solution(game: str) -> list[str]:
    return plan(Engine(data.load(game)))


def played(game: str, commands: Sequence[str], **options: float) -> ALFWorldEnv:
    env = ALFWorldEnv(**options)  # type: ignore[arg-type]
    env.reset(game=game)
    for command in commands:
        env.act(command=command)
    env.get_reward()
    return env


def shares(game: str, commands: Sequence[str]) -> list[float]:
    """The best share at the start and after each command."""
    engine = Engine(data.load(game))
    subgoals = Subgoals(engine)
    best = [subgoals.best]
    for command in commands:
        engine.step(command)
        subgoals.note()
        best.append(subgoals.best)
    return best


# Sub-goals


@pytest.mark.parametrize("game", GAMES)
def test_share_grows_from_nothing_to_one_with_the_win_alone(game):
    best = shares(game, solution(game))
    assert best[0] == 0
    assert best == sorted(best)
    assert best[-1] == 1
    assert max(best[:-1]) < 1


@pytest.mark.parametrize(
    ("game", "steps"),
    [
        ("generated:pick_and_place_simple:3", [0, 1 / 2, 1]),
        ("generated:pick_heat_then_place_in_recep:3", [0, 1 / 3, 2 / 3, 1]),
        ("generated:pick_two_obj_and_place:3", [0, 1 / 4, 2 / 4, 3 / 4, 1]),
    ],
)
def test_share_counts_taking_treating_and_placing(game, steps):
    assert sorted(set(shares(game, solution(game)))) == pytest.approx(steps)


def test_taking_the_wrong_thing_or_treating_it_is_no_subgoal():
    game = "generated:pick_and_place_simple:3"
    engine = Engine(data.load(game))
    subgoals = Subgoals(engine)
    target = data.load(game).task.split()[2]
    for place in data.load(game).receptacle_named:
        for command in (f"go to {place}", f"open {place}"):
            engine.step(command)
        for command in engine.admissible():
            if command.startswith("take ") and f" {target} " not in command:
                engine.step(command)
                subgoals.note()
                engine.step(command.replace("take", "move").replace(" from ", " to "))
                subgoals.note()
    assert subgoals.best == 0


def test_taking_and_putting_back_pays_once():
    game = "generated:pick_and_place_simple:3"
    *way, take = solution(game)[: [c.startswith("take") for c in solution(game)].index(True) + 1]
    thing, _, place = take.removeprefix("take ").partition(" from ")
    once = played(game, [*way, take], subgoal_reward=0.5, step_cost=0.0)
    often = played(game, [*way, *[take, f"move {thing} to {place}"] * 15], subgoal_reward=0.5, step_cost=0.0)
    assert often._metrics()["tool_errors"] == 0
    assert often.get_reward() == once.get_reward() == 0.25


def test_treating_again_and_again_pays_once():
    game = "generated:pick_heat_then_place_in_recep:3"
    commands = solution(game)
    heated = [command.startswith("heat") for command in commands].index(True)
    once = played(game, commands[: heated + 1], subgoal_reward=0.6, step_cost=0.0)
    often = played(game, [*commands[: heated + 1], *[commands[heated]] * 30], subgoal_reward=0.6, step_cost=0.0)
    assert often.get_reward() == once.get_reward() == pytest.approx(0.4)


def test_subgoals_lost_again_stay_rewarded_as_nobody_should_fear_to_act():
    game = "generated:pick_heat_then_place_in_recep:3"
    commands = solution(game)
    heated = [command.startswith("heat") for command in commands].index(True)
    thing = commands[heated].split(" with ")[0].removeprefix("heat ")
    fridge = next(name for name in data.load(game).receptacle_named if name.startswith("fridge"))
    cooled = [*commands[: heated + 1], f"go to {fridge}", f"cool {thing} with {fridge}"]
    env = played(game, cooled, subgoal_reward=0.6, step_cost=0.0)
    assert env._metrics()["tool_errors"] == 0
    assert env.get_reward() == pytest.approx(0.4)


def test_a_win_cannot_be_undone_for_another():
    game = "generated:pick_and_place_simple:3"
    commands = solution(game)
    env = played(game, commands, **ALL_PARTS)
    thing, _, place = commands[-1].removeprefix("move ").partition(" to ")
    reward = env.get_reward()
    assert env.act(command=f"take {thing} from {place}") == "The episode is over: solved."
    assert env.get_reward() == reward
    assert env._engine.won


# A policy that maximises the reward wins


@pytest.mark.parametrize("game", GAMES)
def test_slowest_win_beats_the_best_loss(game):
    """A win in the last step, after repeating a refused command all the time, against every prefix of a solution."""
    options = {**ALL_PARTS, "step_cost": 0.01}
    commands = solution(game)
    slow = played(game, [*["dance"] * (50 - len(commands)), *commands], **options)
    assert slow._stop is StopReason.SOLVED
    losses = [played(game, commands[:stop], **options).get_reward() for stop in range(len(commands))]
    assert slow.get_reward() > max(losses)


@pytest.mark.parametrize("seed", range(20))
def test_random_player_that_does_not_win_gets_less_than_the_worst_win(seed):
    rng = random.Random(f"rewards:{seed}")
    game = rng.choice(GAMES)
    env = ALFWorldEnv(step_cost=0.0, **ALL_PARTS)
    env.reset(game=game)
    while env._stop is None:
        env.act(command=rng.choice(env._engine.admissible()))
    won = env._stop is StopReason.SOLVED
    worst_win = 1.0 + ALL_PARTS["subgoal_reward"] - ALL_PARTS["repeat_cost"] * 50
    assert (env.get_reward() >= worst_win) == won
    assert won or env._reward_parts["subgoals"] < ALL_PARTS["subgoal_reward"]


def test_shorter_win_gets_more_and_a_loss_nothing_for_being_short():
    game = "generated:pick_and_place_simple:3"
    commands = solution(game)
    options = {"efficiency_reward": 1.0, "step_cost": 0.0}
    assert played(game, commands, **options).get_reward() == pytest.approx(2 - len(commands) / 50)
    assert played(game, ["look", *commands], **options).get_reward() == pytest.approx(2 - (len(commands) + 1) / 50)
    assert played(game, ["look"], **options).get_reward() == 0


def test_efficiency_is_measured_by_the_limit_of_the_row():
    game = "generated:pick_and_place_simple:3"
    commands = solution(game)
    env = ALFWorldEnv(efficiency_reward=1.0, step_cost=0.0)
    env.reset(game=game, max_steps=2 * len(commands))
    for command in commands:
        env.act(command=command)
    assert env.get_reward() == pytest.approx(1.5)


# Repeats


def repeats(game: str, commands: Sequence[str]) -> float:
    env = played(game, commands, repeat_cost=1.0, step_cost=0.0, max_steps=100)
    return -env._reward_parts["repeats"]


@pytest.mark.parametrize("split", data.SPLITS)
def test_expert_repeats_nothing(split):
    for game in data.game_ids(split, source="generated", n=40):
        engine, counter = Engine(data.load(game)), Repeats()
        observation, expert = engine.game.intro, Expert(engine.game.intro)
        while not engine.won:
            command = expert.act(observation)
            counter.note(command, engine)
            observation = engine.step(command)
        assert counter.count == 0, game


GAME = "generated:pick_and_place_simple:3"


@pytest.mark.parametrize("command", ["look", "inventory", "dance", "", "x" * 10**6])
def test_same_command_in_the_same_state_counts_from_the_second_time(command):
    assert repeats(GAME, [command]) == 0
    assert repeats(GAME, [command, command, f" {command}\n"]) == 2


def test_walking_in_circles_counts_from_the_second_round():
    one, two = list(data.load(GAME).receptacle_named)[:2]
    assert repeats(GAME, [f"go to {one}", f"go to {two}", f"go to {one}"]) == 0
    assert repeats(GAME, [f"go to {one}", f"go to {two}"] * 3) == 3


def test_looking_again_where_something_has_changed_is_no_repeat():
    commands = solution(GAME)
    take = [command.startswith("take") for command in commands].index(True)
    assert repeats(GAME, [*commands[:take], "inventory", commands[take], "inventory"]) == 0


def test_opening_and_closing_or_taking_and_putting_back_counts_from_the_second_time():
    commands = solution(GAME)
    take = [command.startswith("take") for command in commands].index(True)
    thing, _, place = commands[take].removeprefix("take ").partition(" from ")
    back = f"move {thing} to {place}"
    assert repeats(GAME, [*commands[:take], commands[take], back]) == 0
    assert repeats(GAME, [*commands[:take], *[commands[take], back] * 4]) == 6


def test_long_commands_are_not_kept_whole():
    counter, engine = Repeats(), Engine(data.load(GAME))
    counter.note("x" * 10**6, engine)
    ((command, changed),) = counter._given
    assert len(command) == COMPARED_CHARS
    assert not changed


# Options


def test_parts_that_are_off_are_not_there():
    assert set(played(GAME, ["look"])._reward_parts) == {"win", "steps"}
    assert set(played(GAME, ["look"], **ALL_PARTS)._reward_parts) == {
        "win",
        "steps",
        "subgoals",
        "efficiency",
        "repeats",
    }


def test_reward_is_the_sum_of_its_parts():
    env = played(GAME, [*["look"] * 3, *solution(GAME)], **ALL_PARTS)
    assert env.get_reward() == pytest.approx(sum(env._reward_parts.values()))


@pytest.mark.parametrize("name", ["win_reward", "step_cost", *ALL_PARTS])
@pytest.mark.parametrize("value", [-0.1, float("nan"), float("inf"), 1e308, 10**400, "0.1", True, None])
def test_weight_that_would_turn_or_lose_the_reward_is_refused(name, value):
    with pytest.raises(ValueError, match=f"got {name}=.*; expected a number from 0 to "):
        ALFWorldEnv(**{name: value})


def test_largest_weights_give_a_reward_all_the_same():
    weights = dict.fromkeys(["win_reward", "step_cost", *ALL_PARTS], MAX_WEIGHT)
    assert played(GAME, ["look", "look", *solution(GAME)], **weights).get_reward() is not None
