from __future__ import annotations

import json
from pathlib import Path

import pytest

from trl_agentenvs.alfworld import whereabouts
from trl_agentenvs.alfworld.game import Game
from trl_agentenvs.alfworld.generate import TASK_TYPES, game_file, generate
from trl_agentenvs.alfworld.reading import kind_of
from trl_agentenvs.alfworld.whereabouts import Whereabouts, count, counted, text_of

TRAIN_GAMES = 3553


def test_the_shipped_counts_hold_what_some_games_of_the_train_split_add_to_them(official_games: Path) -> None:
    some = count(Game.from_file(path) for path in official_games.glob("json_2.1.1/train/*/*/game.tw-pddl"))
    assert some.games > 0
    for thing, counts in some.holding.items():
        for receptacle, (holding, standing) in counts.items():
            held, stood = counted().holding[thing][receptacle]
            assert holding <= held, (thing, receptacle)
            assert standing - holding <= stood - held, (thing, receptacle)


def test_the_shipped_file_names_its_source_and_number_of_games() -> None:
    read = json.loads(whereabouts.FILE.read_text(encoding="utf-8"))
    assert "train split" in read["source"]
    assert "MIT" in read["source"]
    assert read["games"] == counted().games == TRAIN_GAMES


def test_writing_and_reading_gives_the_same_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = count(generate(task_type, 3) for task_type in TASK_TYPES)
    monkeypatch.setattr(whereabouts, "FILE", tmp_path / "counts.json")
    whereabouts.FILE.write_text(text_of(found), encoding="utf-8")
    counted.cache_clear()
    try:
        assert counted() == found
    finally:
        counted.cache_clear()


def test_counts_are_per_single_receptacle_of_a_kind() -> None:
    game = generate("pick_heat_then_place_in_recep", 3)
    found = count([game])
    names = [kind_of(game.name_of[receptacle]) for receptacle in game.location_of]
    for thing, counts in found.holding.items():
        for receptacle, (holding, standing) in counts.items():
            assert standing == names.count(receptacle)
            assert holding == sum(
                any(kind_of(game.name_of[inside]) == thing for inside in game.first_contents[name])
                for name in game.location_of
                if kind_of(game.name_of[name]) == receptacle
            )


def test_the_counts_of_several_games_add_up() -> None:
    games = [generate("pick_two_obj_and_place", seed) for seed in range(4)]
    together, apart = count(games), [count([game]) for game in games]
    assert together.games == 4
    for kind, pair in together.openable.items():
        assert pair == tuple(sum(one.openable.get(kind, (0, 0))[part] for one in apart) for part in (0, 1))


def test_decoration_is_not_counted() -> None:
    written = game_file("pick_and_place_simple", 0)
    game = Game.from_dict(written)
    thing = next(iter(game.able["pickupable"]))
    kind = kind_of(game.name_of[thing])
    lines = written["pddl_problem"].splitlines()
    fixed = [line for line in lines if not (line.lower().startswith("(pickupable ") and f"{kind}_bar" in line.lower())]
    assert len(fixed) < len(lines)
    assert kind not in count([Game.from_dict({**written, "pddl_problem": "\n".join(fixed)})]).holding


@pytest.mark.parametrize("thing", ["mug", "desklamp", "moon", ""])
@pytest.mark.parametrize("receptacle", ["drawer", "fridge", "spaceship", ""])
def test_every_chance_is_a_probability_above_zero(thing: str, receptacle: str) -> None:
    assert 0.0 < counted().chance(thing, receptacle) < 1.0


def test_chances_follow_the_counts() -> None:
    chance = counted().chance
    assert chance("teddybear", "bed") > chance("teddybear", "drawer")
    assert chance("mug", "coffeemachine") > chance("mug", "cabinet")
    assert chance("handtowel", "handtowelholder") > chance("handtowel", "cabinet")


def test_an_unknown_object_is_expected_where_things_usually_are() -> None:
    chance = counted().chance
    assert chance("moon", "countertop") > chance("moon", "drawer") > chance("moon", "spaceship")


def test_a_pair_seen_rarely_leans_towards_what_holds_for_all_objects() -> None:
    few = Whereabouts(1, {}, {"mug": {"desk": (1, 1)}, "pen": {"desk": (10, 100)}})
    assert few.chance("pen", "desk") < few.chance("mug", "desk") < 0.5


def test_looking_into_what_is_always_closed_takes_two_commands() -> None:
    commands = counted().commands_to_see
    assert commands("fridge") == 2.0
    assert commands("countertop") == commands("spaceship") == 1.0
    assert 1.0 < commands("cabinet") < 2.0
