"""Hints: what they say, when they show, and that they fade along the rows of a run."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest

from trl_agentenvs import ALFWorldEnv, StopReason
from trl_agentenvs.alfworld import data
from trl_agentenvs.alfworld.engine import Engine
from trl_agentenvs.alfworld.expert import Expert
from trl_agentenvs.alfworld.hints import SCHEDULES, HintSchedule, Notes, schedule_for

GAME = "generated:pick_heat_then_place_in_recep:3"
GAMES = [f"generated:{task_type}:{seed}" for task_type in data.TASK_TYPES for seed in (3, 4)]
ALWAYS_ACTION = {"hint_action_turns": 1000, "hint_action_chance": 1.0}
ALWAYS_STATE = {"hint_state_chance": 1.0}
SOMETIMES = {"hint_action_turns": 4, "hint_action_chance": 0.5, "hint_state_chance": 0.5}


def hint_in(observation: str) -> str:
    """The hint of an observation, which is its last paragraph; "" if it has none."""
    last = observation.rpartition("\n\n")[2]
    return last.removeprefix("Hint: ") if last.startswith("Hint: ") else ""


def observations(row: dict[str, Any], commands: list[str], **options: Any) -> list[str]:
    env = ALFWorldEnv(**options)
    return [env.reset(**row), *(env.act(command=command) for command in commands)]


def expert_commands(game: str) -> list[str]:
    engine = Engine(data.load(game))
    observation, commands, expert = engine.game.intro, [], Expert(engine.game.intro)
    while not engine.won:
        commands.append(expert.act(observation))
        observation = engine.step(commands[-1])
    return commands


# What they say


@pytest.mark.parametrize("game", GAMES)
def test_following_the_commands_wins(game):
    env = ALFWorldEnv()
    observation = env.reset(game=game, **ALWAYS_ACTION)
    while env._stop is None:
        observation = env.act(command=hint_in(observation))
    assert env._stop is StopReason.SOLVED
    assert env._metrics()["tool_errors"] == 0


def test_command_is_shown_after_a_refused_one_too():
    first, second = observations({"game": GAME, **ALWAYS_ACTION}, ["dance"])
    assert second.startswith("Nothing happens.\n\nHint: ")
    assert hint_in(second) == hint_in(first)


@pytest.mark.parametrize("game", GAMES)
@pytest.mark.parametrize("hints", [ALWAYS_ACTION, ALWAYS_STATE, SOMETIMES])
def test_expert_reads_the_game_through_hints_and_all_other_paragraphs(game, hints):
    env = ALFWorldEnv(show_admissible=True, show_remaining=True)
    observation = env.reset(game=game, **hints)
    expert, commands = Expert(observation), []
    while env._stop is None:
        commands.append(expert.act(observation))
        observation = env.act(command=commands[-1])
    assert commands == expert_commands(game)


def test_summary_of_a_fresh_start_knows_the_places_alone():
    (observation,) = observations({"game": GAME, **ALWAYS_STATE}, [])
    names = data.load(GAME).receptacle_named
    assert hint_in(observation).startswith("you are in the middle of the room and hold nothing. Seen so far: nothing. ")
    assert sorted(hint_in(observation).partition("Not yet searched: ")[2].removesuffix(".").split(", ")) == sorted(
        names
    )


def test_summary_tells_only_what_was_observed():
    """In each game, what the summary names was in the texts of the game before."""
    for game in GAMES:
        env = ALFWorldEnv()
        observation = env.reset(game=game, **ALWAYS_STATE)
        read = observation.partition("\n\nHint: ")[0]
        expert = Expert(observation)
        while env._stop is None:
            observation = env.act(command=expert.act(observation))
            read += observation.partition("\n\nHint: ")[0]
            things = re.findall(r"[a-z]+ \d+", hint_in(observation))
            assert [thing for thing in things if thing not in read] == []


def test_summary_follows_the_hand_and_what_lies_where():
    notes = Notes("Looking quickly around you, you see a desk 1, a drawer 1, and a shelf 1.\n\nYour task is to: x.")
    notes.note("You arrive at drawer 1. The drawer 1 is closed.")
    assert notes.summary() == (
        "you are at drawer 1 and hold nothing. Seen so far: nothing. "
        "Not yet searched: desk 1, drawer 1 (closed), shelf 1."
    )
    notes.note("You open the drawer 1. The drawer 1 is open. In it, you see a pen 2, and a pen 1.")
    notes.note("You pick up the pen 2 from the drawer 1.")
    notes.note("Nothing happens.")
    assert notes.summary() == (
        "you are at drawer 1 and hold pen 2. Seen so far: drawer 1: pen 1. Not yet searched: desk 1, shelf 1."
    )
    notes.note("You arrive at loc 12. On the desk 1, you see nothing.")
    notes.note("You put the pen 2 in/on the desk 1.")
    assert notes.summary() == (
        "you are at desk 1 and hold nothing. Seen so far: desk 1: pen 2; drawer 1: pen 1. Not yet searched: shelf 1."
    )


def test_placing_into_what_was_never_seen_does_not_make_it_searched():
    notes = Notes("Looking quickly around you, you see a desk 1, and a shelf 1.\n\nYour task is to: x.")
    notes.note("You move the pen 2 to the shelf 1.")
    assert "Not yet searched: desk 1, shelf 1." in notes.summary()


def test_summary_without_a_room_says_nothing_wrong():
    assert Notes("").summary().endswith("Seen so far: nothing. Not yet searched: nothing.")


# When they show


def test_every_member_of_a_group_reads_the_same_hints_at_the_same_turns():
    row = {"game": GAME, **SOMETIMES}
    commands = ["look", "dance", "inventory", "look"] * 5
    first = observations(row, commands)
    assert all(observations(row, commands) == first for _ in range(3))
    shown = [bool(hint_in(observation)) for observation in first[:-1]]
    assert True in shown
    assert False in shown


def test_hints_shown_are_counted():
    env = ALFWorldEnv()
    observed = [env.reset(game=GAME, **SOMETIMES), *(env.act(command="look") for _ in range(19))]
    assert env._metrics()["hints"] == sum(bool(hint_in(observation)) for observation in observed) > 0
    env.reset(game=GAME)
    assert "hints" not in env._metrics()


def test_what_was_done_before_does_not_decide_whether_a_hint_shows():
    row = {"game": GAME, **SOMETIMES}
    looks, junk = observations(row, ["look"] * 20), observations(row, ["dance"] * 20)
    assert [bool(hint_in(text)) for text in looks] == [bool(hint_in(text)) for text in junk]


def test_global_random_state_decides_nothing():
    row = {"game": GAME, **SOMETIMES}
    random.seed(1)
    first = observations(row, ["look"] * 20)
    random.seed(2)
    assert observations(row, ["look"] * 20) == first


def test_commands_come_in_early_turns_and_summaries_later():
    row = {"game": GAME, "hint_action_turns": 3, "hint_action_chance": 1.0, "hint_state_chance": 1.0}
    hints = [hint_in(observation) for observation in observations(row, ["look"] * 5)]
    assert [hint.startswith("you are ") for hint in hints] == [False, False, False, True, True, True]


def test_no_hint_shows_when_the_episode_is_over():
    row = {"game": GAME, "max_steps": 2, **ALWAYS_ACTION}
    assert "Hint" not in observations(row, ["look", "look"])[-1]
    won = observations({"game": GAME, **ALWAYS_STATE}, expert_commands(GAME))[-1]
    assert "Hint" not in won


def test_row_without_chances_or_with_nulls_shows_none():
    none = dict.fromkeys(SOMETIMES)
    for row in ({"game": GAME}, {"game": GAME, **none}, {"game": GAME, "hint_action_turns": 9}):
        assert "Hint" not in "".join(observations(row, ["look", "dance"]))


def test_hints_change_no_reward():
    rewards = []
    for hints in ({}, ALWAYS_ACTION, ALWAYS_STATE):
        env = ALFWorldEnv(subgoal_reward=0.5, efficiency_reward=0.2, repeat_cost=0.1)
        env.reset(game=GAME, **hints)
        for command in ["look", "look", *expert_commands(GAME)]:
            env.act(command=command)
        rewards.append((env.get_reward(), dict(env._reward_parts)))
    assert rewards[0] == rewards[1] == rewards[2]


def test_game_that_cannot_be_won_has_no_next_command(monkeypatch):
    from trl_agentenvs.alfworld import hints

    def plan(engine: Engine) -> list[str]:
        raise hints.PlanError("there is no way")

    monkeypatch.setattr(hints, "plan", plan)
    assert "Hint" not in "".join(observations({"game": GAME, **ALWAYS_ACTION}, ["look"]))


# How they fade


def test_schedule_at_its_ends():
    schedule = HintSchedule()
    assert schedule.columns(0, 100) == {
        "hint_action_turns": 20,
        "hint_action_chance": 0.5,
        "hint_state_chance": 0.5,
    }
    assert schedule.columns(25, 100) == {
        "hint_action_turns": 15,
        "hint_action_chance": 0.25,
        "hint_state_chance": pytest.approx(0.5 * (1 - 0.25 / 0.8)),
    }
    for index in range(80, 100):
        assert schedule.columns(index, 100)["hint_action_chance"] == 0
        assert schedule.columns(index, 100)["hint_state_chance"] == 0


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("n", [1, 3, 10, 640])
def test_hints_never_grow_along_the_rows(name, n):
    rows = [SCHEDULES[name].columns(index, n) for index in range(n)]
    for column in rows[0]:
        values = [row[column] for row in rows]
        assert values == sorted(values, reverse=True)
        assert len({type(value) for value in values}) == 1


def test_schedules_of_one_kind_show_that_kind_alone():
    assert all(SCHEDULES["action"].columns(i, 10)["hint_state_chance"] == 0 for i in range(10))
    assert all(SCHEDULES["state"].columns(i, 10)["hint_action_turns"] == 0 for i in range(10))


@pytest.mark.parametrize(
    "wrong",
    [
        {"action_turns": -1},
        {"action_chance": 1.5},
        {"state_chance": -0.1},
        {"state_chance": float("nan")},
        {"action_until": 0},
        {"action_until": 0.9, "until": 0.8},
        {"until": 1.1},
    ],
)
def test_schedule_that_is_none_is_refused(wrong):
    with pytest.raises(ValueError, match="expected"):
        HintSchedule(**wrong)


# The rows


def test_rows_carry_hints_that_fade_and_come_in_an_order_drawn_by_the_seed():
    rows = ALFWorldEnv._rows("train", None, 0, source="generated", hint="both")
    plain = ALFWorldEnv._rows("train", None, 0, source="generated")
    assert sorted(row["game"] for row in rows) == sorted(row["game"] for row in plain)
    assert rows == ALFWorldEnv._rows("train", None, 0, source="generated", hint="both")
    assert rows != ALFWorldEnv._rows("train", None, 1, source="generated", hint="both")
    assert rows[0]["hint_action_chance"] == 0.5
    assert {row["task_type"] for row in rows[-120:]} == set(data.TASK_TYPES)
    assert all(row["hint_state_chance"] == 0 for row in rows[-120:])


def test_rows_take_a_schedule_of_ones_own():
    rows = ALFWorldEnv._rows("train", 4, 0, source="generated", hint=HintSchedule(action_chance=1.0))
    assert rows[0]["hint_action_chance"] == 1.0


def test_rows_survive_a_dataset():
    pytest.importorskip("datasets")
    schedule = HintSchedule(action_chance=1.0)
    rows = ALFWorldEnv.dataset("train", 5, source="generated", hint=schedule, step_limit=2.0)
    assert all(ALFWorldEnv().reset(**row) for row in rows)
    assert "Hint: " in "".join(ALFWorldEnv().reset(**row) for row in rows)


@pytest.mark.parametrize("split", ["valid_seen", "valid_unseen"])
def test_nothing_is_evaluated_with_hints(split):
    with pytest.raises(ValueError, match="hints are for training alone"):
        ALFWorldEnv._rows(split, 2, 0, source="generated", hint="both")


@pytest.mark.parametrize("hint", ["none", "", 3, {"until": 1}])
def test_unknown_schedule_is_refused(hint):
    with pytest.raises(ValueError, match="expected one of both, action, state, or a HintSchedule"):
        schedule_for("train", hint)
