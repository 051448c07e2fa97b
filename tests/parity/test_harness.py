"""The comparison itself: it plays what it says, and finds a difference. Needs neither TextWorld nor official games."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping
from typing import Any

import pytest

from tests.parity.commands import LONG, Commands
from tests.parity.errands import errands
from tests.parity.textworld_play import State, play
from trl_agentenvs.alfworld.engine import Engine
from trl_agentenvs.alfworld.game import Game
from trl_agentenvs.alfworld.generate import game_file, generate
from trl_agentenvs.alfworld.wording import NOTHING_HAPPENS

CONTENT = game_file("pick_and_place_simple", 5)


class World:
    """Plays the part of TextWorld, with one answer changed."""

    def __init__(self, changed: State | None = None) -> None:
        self._changed = changed

    def start(self, game: Mapping[str, Any]) -> State:
        self._engine = Engine(Game.from_dict(game))
        return State(self._engine.reset(), self._engine.won, None, self._engine.admissible())

    def step(self, command: str) -> State:
        text = self._engine.step(command)
        said = State(text, self._engine.won, int(self._engine.won), self._engine.admissible())
        if self._changed is None or command != "inventory":
            return said
        return State(*(old if new is None else new for old, new in zip(said, self._changed, strict=True)))


def _played(seed: str, steps: int = 400, world: World | None = None) -> list[Any]:
    player = Commands(random.Random(seed), CONTENT["walkthrough"], extra=LONG)
    return list(play(world or World(), CONTENT, player, steps))


def test_equal_sides_do_not_differ() -> None:
    assert [turn.difference() for turn in _played("a") if turn.difference()] == []


@pytest.mark.parametrize(
    ("changed", "shown"),
    [
        (State("You carry air.", None, None, None), "text: TextWorld 'You carry air.', engine 'You are "),
        (State(None, 7, None, None), "won: TextWorld 7"),
        (State(None, None, 7, None), "score: TextWorld 7"),
        (State(None, None, None, ["fly"]), "possible: TextWorld ['fly'], engine ['"),
    ],
)  # fmt: skip
def test_a_difference_is_found_and_described(changed: Any, shown: str) -> None:
    found = {d for turn in _played("a", world=World(changed)) if (d := turn.difference())}
    assert found
    assert all(difference.startswith("after 'inventory':") and shown in difference for difference in found)


def test_the_walkthrough_comes_first_and_wins() -> None:
    turns = _played("a")
    script = CONTENT["walkthrough"]
    assert [turn.command for turn in turns[1 : len(script) + 1]] == script
    assert turns[len(script)].theirs.won


def test_the_same_seed_plays_the_same_commands() -> None:
    assert [turn.command for turn in _played("a")] == [turn.command for turn in _played("a")]
    assert [turn.command for turn in _played("a")] != [turn.command for turn in _played("b")]


def test_right_and_wrong_commands_are_mixed() -> None:
    answers = [turn.theirs.text for turn in _played("a")]
    assert 0.2 < answers.count(NOTHING_HAPPENS) / len(answers) < 0.7


def test_each_long_command_is_played_once_and_a_win_is_taken_back() -> None:
    turns = _played("a")
    assert sorted(turn.command for turn in turns if len(turn.command or "") > 900_000) == sorted(LONG)
    won = [turn.theirs.won for turn in turns]
    assert (True, False) in itertools.pairwise(won)


def test_commands_that_must_not_be_said_are_not() -> None:
    player = Commands(random.Random("a"), (), unsaid=frozenset({"help"}))
    said = [player.next("You see a mug 1.", False, ["help", "look"]) for _ in range(300)]
    assert "help" not in {command.strip() for command in said}


def test_errands_show_objects_in_every_state() -> None:
    answers: list[str] = []
    for seed in range(15):
        game = generate("pick_heat_then_place_in_recep", seed)
        engine = Engine(game)
        answers += [engine.step(command) for command in errands(game, random.Random(f"{seed}"))]
    shown = " ".join(answer for answer in answers if answer.startswith("This is a "))
    for state in ("hot", "cold", "clean", "hot and clean", "cool and clean", "sliced", "hot sliced", "cool sliced"):
        assert f"This is a {state} " in shown, state
    assert answers.count(NOTHING_HAPPENS) < len(answers) * 0.6
