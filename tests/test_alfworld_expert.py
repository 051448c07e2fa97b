from __future__ import annotations

import random
import re
from functools import cache
from pathlib import Path

import pytest

from tests.official_archives import archived_games
from tests.parity.game_files import in_old_wording
from trl_agentenvs.alfworld import data
from trl_agentenvs.alfworld.engine import Engine
from trl_agentenvs.alfworld.expert import Expert, ExpertError
from trl_agentenvs.alfworld.game import Game
from trl_agentenvs.alfworld.generate import TASK_TYPES, game_file
from trl_agentenvs.alfworld.wording import NOTHING_HAPPENS

MAX_STEPS = 50
INTRO = ("You are in the middle of a room. Looking quickly around you, you see a desk 1, a drawer 2, a drawer 1, and a "
         "fridge 1.\n\nYour task is to: put some mug on desk.")  # fmt: skip


def _play(
    game: Game, rng: random.Random | None = None, max_steps: int = MAX_STEPS
) -> tuple[bool, list[str], list[str]]:
    """Whether the expert wins, its commands and the answers."""
    engine = Engine(game)
    observation = engine.reset()
    expert = Expert(observation, rng)
    commands: list[str] = []
    answers: list[str] = []
    while len(commands) < max_steps and not engine.won:
        commands.append(expert.act(observation))
        observation = engine.step(commands[-1])
        answers.append(observation)
    return engine.won, commands, answers


@cache
def _played(game: str) -> tuple[bool, list[str], list[str]]:
    """`_play` of a bundled game, once for all tests."""
    return _play(data.load(game))


@pytest.mark.parametrize("task_type", TASK_TYPES)
def test_nearly_every_bundled_game_is_won_within_the_limit(task_type: str) -> None:
    games = [game for split in data.SPLITS for game in data.game_ids(split, task_types=[task_type])]
    won = [_played(game)[0] for game in games]
    assert sum(won) / len(won) >= 0.99  # what is missing are searches in rooms of 40 receptacles


def test_nearly_every_game_of_endless_rooms_is_won_within_the_limit() -> None:
    games = [game for split in data.SPLITS for game in data.game_ids(split, "endless", n=40)]
    won = [_play(data.load(game))[0] for game in games]
    assert sum(won) / len(won) >= 0.99


def test_every_game_in_a_small_room_is_won_in_few_steps() -> None:
    for game in data.game_ids("train", max_receptacles=8) + data.game_ids("valid_unseen", max_receptacles=8):
        won, commands, _ = _played(game)
        assert won, game
        assert len(commands) <= 25, game


def test_the_real_official_games_are_won(official_games: Path) -> None:
    paths = sorted(official_games.glob("json_2.1.1/*/*/*/game.tw-pddl"))
    assert [path for path in paths if not _play(Game.from_file(path))[0]] == []


@pytest.mark.parametrize("split", ["valid_seen", "valid_unseen"])
def test_nearly_every_official_validation_game_is_won(official_games: Path, split: str) -> None:
    games = list(archived_games(official_games, split))
    steps = [len(commands) for won, commands, _ in map(_play, games) if won]
    assert len(steps) / len(games) >= 0.99
    assert sum(steps) / len(steps) < 8.0


@pytest.mark.parametrize("task_type", TASK_TYPES)
def test_the_old_wording_is_played_too(task_type: str) -> None:
    won, commands, _ = _play(Game.from_dict(in_old_wording(game_file(task_type, 6))))
    assert won
    assert any(" in/on " in command for command in commands) == (task_type != "look_at_obj_in_light")


def test_without_a_random_source_the_play_is_always_the_same() -> None:
    game = data.load("generated:pick_two_obj_and_place:8")
    assert _play(game)[1] == _play(game)[1]


def test_a_random_source_varies_the_play_reproducibly_and_still_wins() -> None:
    game = data.load("generated:pick_cool_then_place_in_recep:3")
    plays = [_play(game, random.Random(f"{seed}")) for seed in range(20)]
    assert all(won for won, _, _ in plays)
    assert len({tuple(commands) for _, commands, _ in plays}) > 1
    assert _play(game, random.Random("3"))[1] == plays[3][1]


def test_a_refused_command_is_not_tried_again_in_the_same_place() -> None:
    for game in data.game_ids("valid_unseen"):
        _, commands, answers = _played(game)
        refused = [command for command, answer in zip(commands, answers, strict=True) if answer == NOTHING_HAPPENS]
        assert len(refused) == len(set(refused)), game


def _without_target(task_type: str, seed: int) -> Game:
    """A game whose target objects lie nowhere."""
    written = game_file(task_type, seed)
    target = re.search(r"\(objectType \?o1? (\w+)Type\)", written["pddl_problem"])
    assert target is not None
    written["pddl_problem"] = re.sub(rf"\(inReceptacle {target[1]}_bar_\S+ \S+\)", "", written["pddl_problem"])
    return Game.from_dict(written)


@pytest.mark.parametrize("task_type", TASK_TYPES)
@pytest.mark.parametrize("seed", range(0, 40, 8))
def test_what_is_nowhere_is_searched_everywhere_once_and_then_given_up(task_type: str, seed: int) -> None:
    game = _without_target(task_type, seed)
    engine, seen = Engine(game), set[str]()
    observation = engine.reset()
    expert = Expert(observation)
    commands: list[str] = []

    def search() -> None:
        nonlocal observation
        while len(commands) < 500:
            commands.append(expert.act(observation))
            observation = engine.step(commands[-1])
            seen.update(re.findall(r"(?:On the|The) (\w+ \d+)(?: is open. In it)?, you see", observation))

    with pytest.raises(ExpertError, match=rf"found no \w+ in {len(game.location_of)} receptacles"):
        search()
    assert seen == set(game.receptacle_named)  # those that share a place with others among them
    assert len(commands) == len(set(commands))


def test_the_banner_of_the_game_is_not_needed() -> None:
    assert Expert(INTRO).act(INTRO) == Expert("-= Welcome =-\n\n" + INTRO).act(INTRO) != ""


@pytest.mark.parametrize(
    "after",
    [
        "\n\nAdmissible commands: {commands}",
        "\n\nSteps left: 12.",
        "\nSteps left: 12.",
        "\n\nHint: go to fridge 1.\n\nSteps left: 12.",
        "\n\nHint: The fridge 1 is closed. On the desk 1, you see a mug 1, and a plate 7.",
        "\n\nHint: Nothing happens.",
        " You have said that before.",
    ],
)
@pytest.mark.parametrize("task_type", TASK_TYPES)
def test_lines_after_the_texts_do_not_disturb(after: str, task_type: str) -> None:
    game = data.load(f"generated:{task_type}:3")
    engine = Engine(game)
    observation = engine.reset()
    expert = Expert(observation)
    commands: list[str] = []
    while not engine.won:
        commands.append(expert.act(observation))
        observation = engine.step(commands[-1]) + after.format(commands=", ".join(engine.admissible()))
        assert len(commands) <= MAX_STEPS
    assert commands == _play(game)[1]


def test_lines_before_the_texts_do_not_disturb() -> None:
    game = data.load("generated:pick_clean_then_place_in_recep:3")
    engine = Engine(game)
    observation = "Turn 0\n\n" + engine.reset()
    expert, commands = Expert(observation), list[str]()
    while not engine.won and len(commands) < MAX_STEPS:
        commands.append(expert.act(observation))
        observation = f"Turn {len(commands)}\n\n" + engine.step(commands[-1])
    assert commands == _play(game)[1]


@pytest.mark.parametrize("intro", ["", "Hello.", "You are in a room.\n\nYour task is to: put a mug in desk.",
                                   "Looking quickly around you, you see a desk 1."])  # fmt: skip
def test_an_intro_without_room_or_task_is_refused(intro: str) -> None:
    with pytest.raises(ExpertError, match=rf"cannot read the intro {re.escape(repr(intro)[:40])}.*expected the recept"):
        Expert(intro)


@pytest.mark.parametrize("task", ["win", "put", "put some mug", "slice an apple", "put three mug in desk", ""])
def test_a_task_that_is_none_of_the_six_is_refused(task: str) -> None:
    with pytest.raises(ExpertError, match="cannot read the"):
        Expert(INTRO.replace("put some mug on desk", task))


def test_an_answer_that_fits_no_command_is_refused() -> None:
    expert = Expert(INTRO)
    expert.act(INTRO)
    with pytest.raises(ExpertError, match=r"cannot read the answer 'The episode is over: turn_budget.' to 'go to "):
        expert.act("The episode is over: turn_budget.")


def test_an_answer_about_something_else_is_not_taken_for_what_was_examined() -> None:
    expert = Expert(INTRO)
    name = expert.act(INTRO).removeprefix("go to ")
    beside = expert.act(f"You arrive at {name}. On the {name}, you see nothing.").removeprefix("go to ")
    assert expert.act(NOTHING_HAPPENS) == f"examine {beside}"
    with pytest.raises(ExpertError, match=f"cannot read the answer .* to 'examine {beside}'"):
        expert.act("The episode is over: turn_budget.")


def _answer(*answers: str, task: str = "put some mug on desk") -> list[str]:
    """The expert's commands when the game answers so."""
    intro = INTRO.replace("put some mug on desk", task)
    expert = Expert(intro)
    return [expert.act(answer) for answer in (intro, *answers)]


def test_a_game_that_refuses_everything_ends_in_an_error() -> None:
    with pytest.raises(ExpertError, match="found no mug in 4 receptacles"):
        _answer(*[NOTHING_HAPPENS] * 200)


def test_a_refused_take_is_not_repeated() -> None:
    commands = _answer("You arrive at desk 1. On the desk 1, you see a mug 2, and a mug 1.", NOTHING_HAPPENS,
                       task="put a clean mug in desk")  # fmt: skip
    assert commands[1] == "take mug 2 from desk 1"
    assert commands[2] == "take mug 1 from desk 1"


def test_a_missing_tool_is_named() -> None:
    with pytest.raises(ExpertError, match="no microwave that will heat mug 2"):
        _answer("You arrive at desk 1. On the desk 1, you see a mug 2.", "You pick up the mug 2 from the desk 1.",
                task="heat some mug and put it in fridge")  # fmt: skip


def test_a_missing_destination_is_named() -> None:
    with pytest.raises(ExpertError, match="no safe that takes mug 2"):
        _answer("You arrive at desk 1. On the desk 1, you see a mug 2.", "You pick up the mug 2 from the desk 1.",
                task="put a mug in safe")  # fmt: skip


def test_the_likeliest_place_per_command_is_searched_first() -> None:
    room = "a bed 1, a drawer 2, a drawer 1, a safe 1, and a garbagecan 1"
    intro = f"Looking quickly around you, you see {room}.\n\nYour task is to: put some pillow on safe."
    assert Expert(intro).act(intro) == "go to bed 1"


def test_what_has_only_to_be_put_there_is_searched_there_last() -> None:
    expert = Expert(INTRO)
    commands = [expert.act(INTRO)]
    for _ in range(3):
        name = commands[-1].removeprefix("go to ")
        commands.append(expert.act(f"You arrive at {name}. On the {name}, you see nothing."))
    assert commands[-1] == "go to desk 1"
    assert "go to desk 1" not in commands[:-1]
    assert _answer(task="put a clean mug in desk") == ["go to desk 1"]


def test_the_second_object_goes_where_the_first_one_is() -> None:
    for game in data.game_ids("train", task_types=["pick_two_obj_and_place"])[:40]:
        won, commands, answers = _played(game)
        put = [command.rpartition(" to ")[2] for command, answer in zip(commands, answers, strict=True)
               if command.startswith("move ") and answer != NOTHING_HAPPENS]  # fmt: skip
        assert not won or len(set(put)) == 1, game


@pytest.mark.parametrize("task_type", TASK_TYPES)
def test_nothing_but_going_somewhere_is_done_twice(task_type: str) -> None:
    for split in data.SPLITS:
        for game in data.game_ids(split, task_types=[task_type])[:40]:
            done = [command for command in _played(game)[1] if not command.startswith("go to ")]
            assert len(done) == len(set(done)), game
