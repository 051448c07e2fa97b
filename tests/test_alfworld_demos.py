"""Demonstrations: conversations of won episodes, the shortest of several, that can be played again."""

from __future__ import annotations

import dataclasses
import itertools
import json
import random
from functools import partial
from pathlib import Path

import pytest

from trl_agentenvs.alfworld import data, demos
from trl_agentenvs.alfworld.demos import Demo, NoDemoError, check_replay, record_demo, shortest_demo
from trl_agentenvs.alfworld.env import ALFWorldEnv
from trl_agentenvs.alfworld.expert import Expert, ExpertError

GAME = "generated:pick_two_obj_and_place:8"


def recorded(game: str = GAME, rng: random.Random | None = None, **options) -> Demo:
    return record_demo(ALFWorldEnv(**options), game, partial(Expert, rng=rng))


class Scripted:
    """Gives commands from a list."""

    def __init__(self, commands: list[str]) -> None:
        self.commands = iter(commands)

    def act(self, observation: str) -> str:
        return next(self.commands)


# The conversation


def test_a_demo_is_a_conversation_of_calls_and_results() -> None:
    demo = recorded()
    system, user, *turns = demo.messages
    assert (system["role"], user["role"]) == ("system", "user")
    assert [turn["role"] for turn in turns] == ["assistant", "tool"] * len(demo.commands)
    assert [turn["content"] for turn in turns[::2]] == [""] * len(demo.commands)
    assert {turn["name"] for turn in turns[1::2]} == {"act"}
    calls = [turn["tool_calls"] for turn in turns[::2]]
    assert calls == [
        [{"type": "function", "function": {"name": "act", "arguments": {"command": command}}}]
        for command in demo.commands
    ]


def test_the_texts_are_those_of_the_environment() -> None:
    demo = recorded()
    env = ALFWorldEnv()
    assert demo.messages[0]["content"] == env.system_prompt
    assert demo.messages[1]["content"] == env.user_prompt + env.reset(game=GAME)
    assert [turn["content"] for turn in demo.messages[3::2]] == [env.act(command) for command in demo.commands]
    assert demo.messages[-1]["content"].endswith("The episode is over: solved.")


@pytest.mark.parametrize("game", data.game_ids("train", n=12, seed=4))
def test_options_that_change_what_a_model_reads_change_the_demo_and_not_the_commands(game: str) -> None:
    plain, listed = recorded(game), recorded(game, show_admissible=True)
    assert listed.commands == plain.commands
    for told, more in zip(plain.messages[1:-1], listed.messages[1:-1], strict=True):
        assert more["content"].startswith(told["content"])
        assert ("Admissible commands: " in more["content"]) == (told["role"] != "assistant")


def test_a_row_holds_what_a_trainer_takes_and_survives_json() -> None:
    demo = recorded()
    row = demo.row([{"type": "function"}])
    assert list(row) == ["messages", "tools", "game", "task_type", "steps"]
    assert (row["game"], row["task_type"], row["steps"]) == (GAME, "pick_two_obj_and_place", len(demo.commands))
    assert json.loads(json.dumps(row)) == row


def test_an_episode_that_is_not_won_gives_none() -> None:
    with pytest.raises(NoDemoError, match="not won in 2 commands: no turns are left"):
        recorded(max_steps=2)


def test_an_episode_without_a_reward_gives_none(monkeypatch) -> None:
    monkeypatch.setattr(ALFWorldEnv, "get_reward", lambda self: None)
    with pytest.raises(NoDemoError, match="won without a reward"):
        recorded()


# Replaying


@pytest.mark.parametrize("game", data.game_ids("valid_unseen", n=12, seed=1))
def test_what_was_recorded_can_be_replayed(game: str) -> None:
    check_replay(recorded(game, random.Random("x")), ALFWorldEnv())


def test_a_demo_of_other_options_does_not_replay() -> None:
    with pytest.raises(NoDemoError, match="message 1 of"):
        check_replay(recorded(), ALFWorldEnv(show_admissible=True))


@pytest.mark.parametrize("number", [0, 1, 3, -1])
def test_a_changed_answer_does_not_replay(number: int) -> None:
    demo = recorded()
    messages = [dict(message) for message in demo.messages]
    messages[number]["content"] += " "
    with pytest.raises(NoDemoError, match=f"message {number % len(messages)} of {len(messages)} differs"):
        check_replay(dataclasses.replace(demo, messages=messages), ALFWorldEnv())


def test_calls_that_are_not_the_commands_do_not_replay() -> None:
    demo = recorded()
    commands = ["look", *demo.commands]
    with pytest.raises(NoDemoError, match="message 2 of"):
        check_replay(dataclasses.replace(demo, commands=commands), ALFWorldEnv())


def test_commands_that_do_not_win_do_not_replay() -> None:
    demo = recorded()
    with pytest.raises(NoDemoError, match="do not win"):
        check_replay(dataclasses.replace(demo, commands=demo.commands[:-1]), ALFWorldEnv())


def test_a_conversation_that_goes_on_behind_the_win_does_not_replay() -> None:
    demo = recorded()
    longer = [*demo.messages, *demo.messages[-2:]]
    with pytest.raises(NoDemoError, match=f"message {len(demo.messages)} of {len(longer)} differs"):
        check_replay(dataclasses.replace(demo, messages=longer), ALFWorldEnv())


# The shortest of several plays


def lengths(game: str, plays: int, seed: int) -> list[int]:
    """Commands of each play."""
    found = []
    for play in range(plays):
        rng = random.Random(f"alfworld demo:{seed}:{game}:{play}") if play else None
        found.append(len(recorded(game, rng).commands))
    return found


@pytest.mark.parametrize("game", data.game_ids("train", n=10, seed=9))
def test_the_shortest_of_the_plays_is_kept(game: str) -> None:
    attempt = shortest_demo(ALFWorldEnv, game, plays=4, seed=7)
    assert attempt.demo is not None
    assert len(attempt.demo.commands) == min(lengths(game, 4, 7))
    assert (attempt.failures, attempt.crashes) == ([], [])


def test_more_plays_give_shorter_demos() -> None:
    games = data.game_ids("train", n=20, seed=9)
    once, often = (sum(len(shortest_demo(ALFWorldEnv, game, plays=n).demo.commands) for game in games) for n in (1, 6))
    assert often < once


def test_of_plays_as_short_the_first_is_kept(monkeypatch) -> None:
    commands = recorded().commands
    receptacle = next(name for name in commands if name.startswith("go to "))
    played = iter([[*commands, "x"], ["look", *commands], [receptacle, *commands]])  # of 1, of 1 more, of 1 more
    monkeypatch.setattr(demos, "Expert", lambda intro, rng: Scripted(next(played)))
    attempt = shortest_demo(ALFWorldEnv, GAME, plays=3)
    assert attempt.demo.commands == commands
    played = iter([["look", *commands], [receptacle, *commands]])
    assert shortest_demo(ALFWorldEnv, GAME, plays=2).demo.commands == ["look", *commands]


def test_the_same_seed_gives_the_same_demo() -> None:
    assert shortest_demo(ALFWorldEnv, GAME, plays=3, seed=1) == shortest_demo(ALFWorldEnv, GAME, plays=3, seed=1)


def test_a_win_that_does_not_replay_is_dropped_and_told() -> None:
    environments = itertools.cycle([ALFWorldEnv, partial(ALFWorldEnv, show_admissible=True)])
    attempt = shortest_demo(lambda: next(environments)(), GAME, plays=2)
    assert attempt.demo is None
    assert [failure.partition(" of ")[0] for failure in attempt.failures] == ["message 1"] * 2


def test_a_longer_win_is_kept_where_the_shorter_does_not_replay(monkeypatch) -> None:
    commands = recorded().commands
    played = iter([["look", *commands], commands])
    monkeypatch.setattr(demos, "Expert", lambda intro, rng: Scripted(next(played)))

    def refuse(demo: Demo, env: ALFWorldEnv) -> None:
        if demo.commands == commands:
            raise NoDemoError("refused")

    monkeypatch.setattr(demos, "check_replay", refuse)
    attempt = shortest_demo(ALFWorldEnv, GAME, plays=2)
    assert (attempt.demo.commands, attempt.failures) == (["look", *commands], ["refused"])


def test_what_the_expert_says_when_it_gives_up_is_told(monkeypatch) -> None:
    class Lost:
        def __init__(self, intro: str, rng: random.Random | None) -> None:
            raise ExpertError("cannot read the task")

    monkeypatch.setattr(demos, "Expert", Lost)
    attempt = shortest_demo(ALFWorldEnv, GAME, plays=3)
    assert (attempt.demo, attempt.failures, attempt.crashes) == (None, ["cannot read the task"] * 3, [])
    assert attempt.reason == "cannot read the task"


def test_a_bug_of_the_expert_costs_its_play_and_is_told_with_its_type(monkeypatch) -> None:
    class Buggy(Expert):
        def __init__(self, intro: str, rng: random.Random | None) -> None:
            super().__init__(intro, rng)
            self.varied = rng is not None

        def act(self, observation: str) -> str:
            if self.varied:
                raise KeyError("drawer 9")
            return super().act(observation)

    monkeypatch.setattr(demos, "Expert", Buggy)
    attempt = shortest_demo(ALFWorldEnv, GAME, plays=3)
    assert attempt.demo == recorded()
    assert attempt.crashes == ["KeyError: 'drawer 9'"] * 2


def test_a_broken_game_file_gives_a_reason_and_no_exception(tmp_path) -> None:
    path = tmp_path / "game.tw-pddl"
    path.write_text("{", encoding="utf-8")
    attempt = shortest_demo(ALFWorldEnv, str(path))
    assert attempt.demo is None
    assert "GameFileError" in attempt.reason


def test_ctrl_c_is_not_taken_for_a_lost_play(monkeypatch) -> None:
    def interrupt(intro: str, rng: random.Random | None) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(demos, "Expert", interrupt)
    with pytest.raises(KeyboardInterrupt):
        shortest_demo(ALFWorldEnv, GAME)


# Names of games


def test_official_games_give_demos(official_games: Path) -> None:
    for path in sorted(official_games.glob("json_2.1.1/*/*/*/game.tw-pddl")):
        attempt = shortest_demo(ALFWorldEnv, str(path))
        assert attempt.demo is not None, (path, attempt.failures)
        assert attempt.demo.task_type == path.parent.parent.name.partition("-")[0]
        assert str(official_games) not in json.dumps(attempt.demo.row([]))
