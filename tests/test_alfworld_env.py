"""ALFWorldEnv: what the model reads, what it earns, and how an episode ends."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from trl_agentenvs import ALFWorldEnv, StopReason
from trl_agentenvs.alfworld import data
from trl_agentenvs.toolcall import TRACED_ARGUMENT_CHARS

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
        assert sorted([*listed, "help"]) == env._engine.admissible()
        assert command in listed
        assert len(listed) == len(set(listed)) > 3
        text = env.act(command=command)


@pytest.mark.parametrize("alias", ["command", "action", "cmd", "Command"])
def test_act_takes_the_command_under_its_usual_names(alias):
    env = ALFWorldEnv()
    env.reset(game=GAME)
    assert env._call_tool("act", {alias: "inventory"}) == "You are not carrying anything."


@pytest.mark.parametrize("name", ["act", "command", "action", "Action", " act ", "functions.command"])
@pytest.mark.parametrize("argument", ["command", "action"])
def test_model_that_names_the_tool_after_its_argument_means_act(name, argument):
    env = ALFWorldEnv()
    env.reset(game=GAME)
    assert env._call_tool(name, {argument: "inventory"}) == "You are not carrying anything."
    assert env._metrics().get("repairs/renamed_tool", 0) == (name != "act")


def test_other_tools_are_unknown():
    env = ALFWorldEnv()
    env.reset(game=GAME)
    assert env._call_tool("look", {}) == "There is no tool 'look'; the tools are act."


JUNK = [
    "",
    " ",
    "dance",
    "LOOK AROUND",
    "go to bed 1\nlook",
    "look\nlook",
    "look, inventory",
    "look; inventory",
    "look and then inventory",
    '["look", "inventory"]',
    "x" * 10**6,
    "go to " * 10**5,
    "move " + "a" * 10**6 + " to b",
    "\x00\ud800🙂",
    "ɡo to fridge 1",
    "look\u200b",
    "\u202elook",
    "go to fridge \u0661",
]


@pytest.mark.parametrize("tolerant", [False, True])
@pytest.mark.parametrize("call", [ALFWorldEnv.act, lambda env, command: env._call_tool("act", {"command": command})])
@pytest.mark.parametrize("command", JUNK, ids=lambda command: ascii(command[:20]))
def test_command_the_game_does_not_know_does_nothing(command, call, tolerant):
    env = ALFWorldEnv(tolerant=tolerant, strict=True)
    env.reset(game=GAME)
    assert call(env, command=command) == "Nothing happens."
    assert env._metrics()["tool_errors"] == 1


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        (5, "Nothing happens."),
        (1.5, "Nothing happens."),
        (True, "Nothing happens."),
        (None, "act needs command; you gave command as null; it accepts command."),
        (["look", "inventory"], "Nothing happens."),
        ({"a": 1}, "Nothing happens."),
        ([["look"]], "Nothing happens."),
        (["x" * 10**6], "Nothing happens."),
    ],
    ids=lambda value: ascii(value)[:30],
)
@pytest.mark.parametrize("call", [ALFWorldEnv.act, lambda env, command: env._call_tool("act", {"command": command})])
def test_command_of_another_type_is_answered_in_a_short_sentence(command, answer, call):
    env = ALFWorldEnv(strict=True)
    env.reset(game=GAME)
    text = call(env, command=command)
    assert text.startswith(answer)
    assert len(text) < 200
    assert "\n" not in text


def test_giant_command_is_not_traced_whole(tmp_path: Path):
    trace = tmp_path / "trace.jsonl"
    env = ALFWorldEnv(trace_path=str(trace), tolerant=True, repeat_cost=0.1, show_admissible=True)
    env.reset(game=GAME, hint_state_chance=1.0)
    for _ in range(3):
        env.act(command="x" * 10**6)
    assert trace.stat().st_size < 4 * (TRACED_ARGUMENT_CHARS + 1000)


def test_every_observation_stays_within_what_the_model_gets_to_read():
    env = ALFWorldEnv(show_admissible=True, show_remaining=True)
    assert len(env.reset(game=GAME, hint_state_chance=1.0)) < env.max_output_chars


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


@pytest.mark.parametrize("value", [0, -5, 12.0, 12.5, "12", True, None, float("nan")])
def test_limit_that_is_no_positive_integer_is_refused(value):
    with pytest.raises(ValueError, match=r"got max_steps=.*; expected an integer of at least 1"):
        ALFWorldEnv(max_steps=value)


@pytest.mark.parametrize("name", ["show_admissible", "show_remaining", "tolerant"])
@pytest.mark.parametrize("value", ["false", "true", 0, 1, None])
def test_switch_that_is_neither_true_nor_false_is_refused(name, value):
    with pytest.raises(ValueError, match=f"got {name}=.*; expected true or false"):
        ALFWorldEnv(**{name: value})


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
