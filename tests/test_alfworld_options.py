"""Options of ALFWorldEnv and of its rows: each does what it says, none does anything by default."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from trl_agentenvs import ALFWorldEnv, StopReason, check, check_env
from trl_agentenvs.alfworld import data
from trl_agentenvs.alfworld.engine import Engine
from trl_agentenvs.alfworld.step_limit import LEAST_STEPS, expert_steps, step_limit_of
from trl_agentenvs.alfworld.wording import Dialect
from trl_agentenvs.trace import read_trace

GAME = "generated:pick_and_place_simple:3"


def walkthrough(game: str) -> list[str]:
    return list(data.load(game).walkthrough)


def play(env: ALFWorldEnv, game: str, commands: list[str]) -> list[str]:
    return [env.reset(game=game), *(env.act(command=command) for command in commands)]


def test_nothing_is_added_by_default():
    env, engine = ALFWorldEnv(), Engine(data.load(GAME))
    commands = ["look", "dance", *walkthrough(GAME)[:-1]]
    assert env.reset(game=GAME) == data.load(GAME).intro.partition("\n\n")[2]
    assert [env.act(command=command) for command in commands] == [engine.step(command) for command in commands]


def test_remaining_steps_count_down_to_none():
    texts = play(ALFWorldEnv(max_steps=3, show_remaining=True), GAME, ["look", "dance", "look"])
    assert texts[0].endswith("\n\nSteps left: 3.")
    assert texts[1].endswith("\n\nSteps left: 2.")
    assert texts[2] == "Nothing happens.\n\nSteps left: 1."
    assert texts[3].endswith("\n\nSteps left: 0.\n\nThe episode is over: no turns are left.")


def test_refused_arguments_take_a_step_too():
    env = ALFWorldEnv(show_remaining=True)
    env.reset(game=GAME)
    env.act(go="fridge 1")
    assert env.act(command="look").endswith("Steps left: 48.")


def test_paragraphs_come_in_one_order():
    row = {"game": GAME, "hint_action_turns": 9, "hint_action_chance": 1.0}
    text = ALFWorldEnv(show_admissible=True, show_remaining=True).reset(**row)
    heads = [paragraph.partition(":")[0] for paragraph in text.split("\n\n")[1:]]
    assert heads == ["Your task is to", "Steps left", "Admissible commands", "Hint"]


def test_limit_of_the_row_wins_over_the_constructors_for_that_episode():
    env = ALFWorldEnv(max_steps=3)
    for limit, expected in ((2, 2), (5, 5), (None, 3)):
        env.reset(game=GAME, max_steps=limit)
        while env._stop is None:
            env.act(command="look")
        assert env._turns == expected
    env.reset(game=GAME)
    assert env.max_turns == 3


@pytest.mark.parametrize("limit", [0, -1, "many"])
def test_impossible_limit_of_a_row_is_refused(limit):
    with pytest.raises(ValueError, match="max_steps"):
        ALFWorldEnv().reset(game=GAME, max_steps=limit)


def test_rows_carry_a_multiple_of_the_experts_length():
    rows = ALFWorldEnv._rows("valid_seen", 20, 0, source="generated", step_limit=2.5)
    for row in rows:
        steps = expert_steps(data.load(row["game"]))
        assert steps is not None
        assert row["max_steps"] == max(LEAST_STEPS, -(-5 * steps // 2))
    assert max(row["max_steps"] for row in rows) > LEAST_STEPS
    assert ALFWorldEnv._rows("valid_seen", 20, 0, source="generated", step_limit=2.5) == rows


def test_rows_without_options_are_as_they_were():
    (row,) = ALFWorldEnv._rows("train", 1, 0, source="generated")
    assert set(row) == {"game", "task_type"}


@pytest.mark.parametrize("multiple", [0, -1.0, float("nan"), float("inf")])
def test_impossible_multiple_is_refused(multiple):
    with pytest.raises(ValueError, match="got step_limit="):
        ALFWorldEnv._rows("valid_seen", 1, 0, source="generated", step_limit=multiple)


def test_game_that_the_expert_does_not_win_is_measured_by_its_walkthrough(monkeypatch: pytest.MonkeyPatch):
    from trl_agentenvs.alfworld import step_limit

    monkeypatch.setattr(step_limit, "_EXPERT_STEPS", 1)
    game = data.load("generated:pick_two_obj_and_place:3")
    assert step_limit_of("generated:pick_two_obj_and_place:3", 2.0) == 2 * len(game.walkthrough)
    monkeypatch.setattr(step_limit, "expert_steps", lambda game: None)
    monkeypatch.setattr(data, "load", lambda game: type("Unknown", (), {"walkthrough": ()}))
    assert step_limit_of("generated:pick_two_obj_and_place:3", 2.0) is None


def spoiled(command: str) -> list[str]:
    """The command in other words."""
    forms = [command.upper(), f"  {command}  ".replace(" ", "  "), f"{command}.", f"`{command}`", f'"{command}."']
    if command.startswith("move "):
        forms += [command.replace("move", "put").replace(" to ", " in/on ")]
    return forms


def test_tolerant_game_understands_other_wordings_and_counts_them():
    commands = walkthrough(GAME)
    for number in range(len(spoiled(commands[-1]))):
        env = ALFWorldEnv(tolerant=True)
        play(env, GAME, [spoiled(command)[min(number, len(spoiled(command)) - 1)] for command in commands])
        assert env._stop is StopReason.SOLVED
        assert env._metrics()["repairs/reworded_command"] == len(commands)
        assert env._metrics()["tool_errors"] == 0


def test_tolerant_game_of_the_older_wording_understands_the_newer(monkeypatch: pytest.MonkeyPatch):
    old = Dialect(put_verb="put", put_between=" in/on ")
    game = dataclasses.replace(data.load(GAME), dialect=old)
    monkeypatch.setattr(data, "load", lambda game_id: game)
    *way, move = game.walkthrough
    for last in (
        move,
        move.upper(),
        move.replace("move", "put"),
        move.replace("move", "Put").replace(" to ", " in/on "),
    ):
        env = ALFWorldEnv(tolerant=True)
        play(env, GAME, [*way, last])
        assert env._stop is StopReason.SOLVED


def test_tolerant_game_takes_right_commands_as_they_are():
    env = ALFWorldEnv(tolerant=True)
    play(env, GAME, ["look", " inventory ", "dance", *walkthrough(GAME)])
    assert "repairs/reworded_command" not in env._metrics()


def test_exact_wording_is_asked_for_by_default():
    for form in spoiled(walkthrough(GAME)[-1]):
        env = ALFWorldEnv()
        assert play(env, GAME, [*walkthrough(GAME)[:-1], form])[-1] == "Nothing happens."


HINTED = {"hint_action_turns": 3, "hint_action_chance": 0.5, "hint_state_chance": 0.5}


@pytest.mark.parametrize(
    ("options", "columns"),
    [
        ({}, {}),
        ({}, HINTED),
        ({}, {"max_steps": 7}),
        ({"show_remaining": True, "show_admissible": True}, {}),
        ({"tolerant": True}, {}),
        ({"subgoal_reward": 0.5, "efficiency_reward": 0.5}, {}),
        ({"repeat_cost": 0.1}, {}),
        (
            {"show_remaining": True, "tolerant": True, "subgoal_reward": 0.5, "repeat_cost": 0.1},
            {"max_steps": 9, **HINTED},
        ),
    ],
    ids=repr,
)
def test_contract_is_kept_with_each_option(options: dict[str, Any], columns: dict[str, Any], monkeypatch):
    monkeypatch.setattr(check, "check_other_process", lambda subject: ())  # takes longer than all other rules together
    rows = [{"game": game, **columns} for game in (GAME, "generated:look_at_obj_in_light:3")]
    commands = walkthrough(GAME)

    def policy(seen: list[str]) -> tuple[str, dict[str, Any]] | None:
        return ("act", {"command": commands[len(seen) - 1]}) if len(seen) <= len(commands) else None

    assert check_env(ALFWorldEnv.configured(**options), rows, policy=policy) == []


def test_reworded_command_shows_in_the_trace_at_its_turn(tmp_path):
    trace_path = tmp_path / "trace.jsonl"
    env = ALFWorldEnv(tolerant=True, trace_path=str(trace_path))
    env.reset(game=GAME)
    for command in ("look", "LOOK", "look"):
        env.act(command=command)
    env.get_reward()
    (rollout,) = read_trace(trace_path).rollouts
    assert [turn["repairs"] for turn in rollout.turns] == [{}, {"reworded_command": 1}, {}]


@pytest.mark.parametrize("multiple", [float("nan"), 1e300, "2", None, True])
def test_multiple_that_is_no_number_or_beyond_all_columns_is_refused(multiple):
    with pytest.raises(ValueError, match=r"got step_limit=.*; expected a number above 0 and up to 1000"):
        step_limit_of(GAME, multiple)
