"""ALFWorldEnv: what the model reads, what it earns, and how an episode ends."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from trl_agentenvs import ALFWorldEnv, StopReason
from trl_agentenvs.alfworld import data

GAME = "generated:pick_and_place_simple:3"


def walkthrough(game: str) -> list[str]:
    return list(data.load(game).walkthrough)


def play(env: ALFWorldEnv, game: str, commands: list[str]) -> list[str]:
    return [env.reset(game=game), *(env.act(command=command) for command in commands)]


def test_tool_is_described_to_the_model_in_these_words():
    transformers = pytest.importorskip("transformers.utils.chat_template_utils")
    assert transformers.get_json_schema(ALFWorldEnv().act) == {
        "type": "function",
        "function": {
            "name": "act",
            "description": "Do one thing in the room and see what happens.",
            "parameters": {
                "type": "object",
                "properties": {
                    "command": {
                        "type": "string",
                        "description": "look, inventory, go to R, open R, close R, take O from R, move O to R, "
                        "examine R, use O, clean O with R, heat O with R, cool O with R or slice O with O, where O is "
                        "an object and R a receptacle with its number, as in: take mug 1 from desk 2",
                    }
                },
                "required": ["command"],
            },
            "return": {"type": "string"},
        },
    }


def test_the_only_tool_is_act():
    assert list(ALFWorldEnv()._tools()) == ["act"]


def test_first_observation_is_room_and_task_without_the_banner():
    text = ALFWorldEnv().reset(game=GAME)
    assert text.startswith("You are in the middle of a room. Looking quickly around you, you see a ")
    assert "\n\nYour task is to: put " in text
    assert "Welcome" not in text


@pytest.mark.parametrize("task_type", data.TASK_TYPES)
def test_walkthrough_wins_and_the_win_stays(task_type):
    game = f"generated:{task_type}:7"
    env, commands = ALFWorldEnv(), walkthrough(f"generated:{task_type}:7")
    texts = play(env, game, commands)
    assert texts[-1].endswith("\n\nThe episode is over: solved.")
    assert env.act(command="look") == "The episode is over: solved."
    assert env._stop is StopReason.SOLVED
    assert env.get_reward() == pytest.approx(1 - 0.01 * len(commands))


def test_reward_parts_add_up_and_are_configurable():
    env = ALFWorldEnv(win_reward=2.0, step_cost=0.5)
    commands = walkthrough(GAME)
    play(env, GAME, commands)
    assert env.get_reward() == 2.0 - 0.5 * len(commands)
    assert env._reward_parts == {"win": 2.0, "steps": -0.5 * len(commands)}


def test_step_limit_ends_the_episode_without_a_win():
    env = ALFWorldEnv(max_steps=3)
    texts = play(env, GAME, ["look"] * 3)
    assert texts[-1].endswith("The episode is over: no turns are left.")
    assert env.get_reward() == pytest.approx(-0.03)


def test_reward_without_a_single_command_is_zero():
    env = ALFWorldEnv()
    env.reset(game=GAME)
    assert env.get_reward() == 0.0


def test_default_limit_is_fifty():
    assert ALFWorldEnv().max_turns == 50


def test_admissible_commands_are_hidden_by_default_and_right_when_shown():
    assert "Admissible" not in ALFWorldEnv().reset(game=GAME)
    env = ALFWorldEnv(show_admissible=True)
    text = env.reset(game=GAME)
    for command in walkthrough(GAME):
        listed = text.split("\n\nAdmissible commands: ")[1].split(", ")
        assert command in listed
        assert len(listed) == len(set(listed)) > 3
        text = env.act(command=command)


@pytest.mark.parametrize("alias", ["command", "action", "cmd", "Command"])
def test_act_takes_the_command_under_its_usual_names(alias):
    env = ALFWorldEnv()
    env.reset(game=GAME)
    assert env._call_tool("act", {alias: "inventory"}) == "You are not carrying anything."


@pytest.mark.parametrize(
    "command", ["", " ", "dance", "GO TO FRIDGE 1", "go to fridge 1\nlook", "x" * 10**6, "\x00\ud800🙂"]
)
def test_command_the_game_does_not_know_does_nothing(command):
    env = ALFWorldEnv()
    env.reset(game=GAME)
    assert env.act(command=command) == "Nothing happens."
    assert env._metrics()["tool_errors"] == 1


def test_act_without_a_command_is_instructive():
    env = ALFWorldEnv()
    env.reset(game=GAME)
    assert env.act(go="fridge 1") == "act needs command; you gave go; it accepts command."


def test_instances_share_a_game_but_not_its_state():
    one, other = ALFWorldEnv(), ALFWorldEnv()
    commands = walkthrough(GAME)
    one.reset(game=GAME)
    other.reset(game=GAME)
    expected = [one.act(command=command) for command in commands]
    assert [other.act(command=command) for command in commands] == expected


def test_row_that_cannot_start_does_not_leave_the_last_game_behind():
    env = ALFWorldEnv()
    env.reset(game=GAME)
    with pytest.raises(FileNotFoundError):
        env.reset(game="no/such/game.tw-pddl")
    assert env.act(command="look") == "The episode is over: the environment failed."
    assert env.get_reward() is None


@pytest.mark.parametrize("options", [{"max_steps": 0}, {"max_steps": -5}])
def test_impossible_option_is_refused(options):
    with pytest.raises(ValueError, match="expected at least 1"):
        ALFWorldEnv(**options)


def test_official_game_plays_by_its_path(official_games: Path):
    path = next(official_games.glob("json_2.1.1/valid_unseen/*/*/game.tw-pddl"))
    env = ALFWorldEnv()
    play(env, str(path), json.loads(path.read_text())["walkthrough"])
    assert env._stop is StopReason.SOLVED


def test_dataset_of_official_games_needs_only_the_variable(official_games: Path, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("datasets")
    monkeypatch.setenv("ALFWORLD_DATA", str(official_games))
    rows = ALFWorldEnv.dataset("valid_unseen")
    assert len(rows) == 12
    assert set(rows.column_names) == {"prompt", "game", "task_type"}
    assert all(ALFWorldEnv().reset(**row) for row in rows)


def test_row_id_of_an_official_game_is_its_task_and_trial():
    assert ALFWorldEnv._row_id({"game": "/data/json_2.1.1/train/look-Bowl/trial_7/game.tw-pddl"}) == "look-Bowl/trial_7"
    assert ALFWorldEnv._row_id({"game": GAME}) == GAME


def test_playing_needs_nothing_but_the_standard_library(repo: Path):
    program = (
        "import sys; from trl_agentenvs import ALFWorldEnv; env = ALFWorldEnv();"
        f"env.reset(game={GAME!r}); env.act(command='look'); env.get_reward();"
        "print(sorted({m.partition('.')[0] for m in sys.modules} - sys.stdlib_module_names - {'trl_agentenvs'}))"
    )
    run = subprocess.run([sys.executable, "-S", "-c", program], capture_output=True, text=True, cwd=repo, check=True)
    assert run.stdout.strip() in ("[]", "['__main__']")
