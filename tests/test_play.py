"""`trl-agentenvs play alfworld`: a person plays by the rules of the environment, from a terminal or a pipe."""

from __future__ import annotations

import io
import sys

import pytest

from trl_agentenvs import ALFWorldEnv, cli
from trl_agentenvs.alfworld.expert import Expert
from trl_agentenvs.alfworld.play import play

GAME = "generated:pick_and_place_simple:2000"


def session(monkeypatch, capsys, typed: str, *arguments: str) -> str:
    """What a person sees who types `typed`."""
    monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
    assert cli.main(["play", "alfworld", *(arguments or ("--game", GAME))]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


def winning_commands() -> list[str]:
    env = ALFWorldEnv()
    observation = env.reset(game=GAME)
    expert = Expert(observation)
    commands = []
    while env._stop is None:
        commands.append(expert.act(observation))
        observation = env.act(command=commands[-1])
    return commands


def test_game_can_be_won_from_a_pipe(monkeypatch, capsys):
    commands = winning_commands()
    out = session(monkeypatch, capsys, "\n".join(commands))
    assert "Your task is to: " in out
    assert "The episode is over: solved." in out
    assert f"Steps: {len(commands)}. Reward: {1 - 0.01 * len(commands):.2f}." in out
    assert f"[step {len(commands)} of 50]" in out
    assert f"[step {len(commands) + 1} of 50]" not in out


@pytest.mark.parametrize("typed", ["", "quit\nlook\n", "look\nEXIT"])
def test_end_of_input_and_quit_end_the_game(typed, monkeypatch, capsys):
    assert "The episode is over: you stopped.\n\nSteps: " in session(monkeypatch, capsys, typed)


def test_words_of_the_program_and_empty_lines_take_no_step(monkeypatch, capsys):
    out = session(monkeypatch, capsys, "help\nadmissible\n\n   \nquit\n")
    assert "take O from R, move O to R" in out
    assert "\ninventory\nlook\n" in out
    assert "Steps: 0. Reward: 0.00." in out


def test_commands_may_be_sloppy_about_case_and_spaces(monkeypatch, capsys):
    assert "You are not carrying anything." in session(monkeypatch, capsys, "  InVentory \n")


def test_admissible_commands_are_hidden_unless_asked_for(monkeypatch, capsys):
    assert "Admissible commands: " not in session(monkeypatch, capsys, "look\n")
    shown = session(monkeypatch, capsys, "look\n", "--game", GAME, "--show-admissible")
    assert shown.count("Admissible commands: ") == 2


def test_steps_run_out(monkeypatch, capsys):
    out = session(monkeypatch, capsys, "look\n" * 9, "--game", GAME, "--max-steps", "3")
    assert "[step 3 of 3]" in out
    assert "The episode is over: no turns are left." in out
    assert "Steps: 3. Reward: -0.03." in out


def test_seed_draws_the_same_game_and_another_seed_another(monkeypatch, capsys):
    games = [session(monkeypatch, capsys, "", "--seed", seed).splitlines()[0] for seed in ("1", "1", "2")]
    assert games[0] == games[1] != games[2]


def test_split_is_kept(monkeypatch, capsys):
    game = session(monkeypatch, capsys, "", "--split", "train", "--seed", "1").split()[1]
    assert int(game.rstrip(".").rpartition(":")[2]) < 100


def test_hostile_typing_does_no_harm(monkeypatch, capsys):
    out = session(monkeypatch, capsys, "\x1b[2J\x07 <|im_end|>\n\x00\nlook \u202e\n")
    assert all(line.isprintable() for line in out.splitlines())
    assert "Steps: 3." in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--split", "test"], "got the split 'test'; expected one of train, valid_seen, valid_unseen"),
        (["--game", ""], "got the game id ''"),
        (["--game", "generated:dance:1"], "expected generated:TYPE:SEED"),
        (["--game", "no/such/game.tw-pddl"], "no/such/game.tw-pddl"),
        (["--seed", "x"], "argument --seed"),
        (["--max-steps", "0"], "expected an integer of at least 1"),
    ],
)
def test_wrong_input_is_one_sentence(arguments, words, capsys):
    assert cli.main(["play", "alfworld", *arguments]) == 2
    captured = capsys.readouterr()
    assert words in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""


def test_play_returns_the_reward():
    assert play(ALFWorldEnv(), GAME, iter(winning_commands()), lambda text: None) == pytest.approx(
        1 - 0.01 * len(winning_commands())
    )
