from __future__ import annotations

import copy
import dataclasses
import json
import os
import pickle
import re
import time
from pathlib import Path
from typing import Any

import pytest

from trl_agentenvs.alfworld.engine import Engine
from trl_agentenvs.alfworld.game import Game, GameFileError
from trl_agentenvs.alfworld.generate import game_file
from trl_agentenvs.alfworld.goal import GoalError, compile_goal
from trl_agentenvs.alfworld.pddl import parse
from trl_agentenvs.alfworld.wording import Dialect

GOOD = game_file("pick_two_obj_and_place", 3)


def _with(**changes: Any) -> dict[str, Any]:
    return {**GOOD, **changes}


def _problem(old: str, new: str) -> dict[str, Any]:
    assert old in GOOD["pddl_problem"]
    return _with(pddl_problem=GOOD["pddl_problem"].replace(old, new))


def _goal(text: str) -> dict[str, Any]:
    start = GOOD["pddl_problem"].index("(:goal")
    return _with(pddl_problem=GOOD["pddl_problem"][:start] + f"(:goal {text}))")


def _domain(old: str, new: str) -> dict[str, Any]:
    assert old in GOOD["pddl_domain"]
    return _with(pddl_domain=GOOD["pddl_domain"].replace(old, new))


BAD: dict[str, tuple[Any, str]] = {
    "a list": ([], "got a JSON list"),
    "null": (None, "got a JSON NoneType"),
    "a string": ("(define)", "got a JSON str"),
    "no keys": ({}, "expected text under 'pddl_domain', got no such key"),
    "no grammar": ({k: v for k, v in GOOD.items() if k != "grammar"}, "'grammar', got no such key"),
    "problem of a wrong type": (_with(pddl_problem=["(define)"]), "'pddl_problem', got a list"),
    "domain is null": (_with(pddl_domain=None), "'pddl_domain', got a NoneType"),
    "walkthrough is text": (_with(walkthrough="look"), "list of commands under 'walkthrough'"),
    "walkthrough holds numbers": (_with(walkthrough=[1]), "list of commands under 'walkthrough'"),
    "not solvable": (_with(solvable=False), "not solvable"),
    "no task": (_with(grammar="grammar :: nothing"), "no sentence 'Your task is to: ...'"),
    "cut off": (_with(pddl_problem=GOOD["pddl_problem"][:2000]), "never closed"),
    "cut off to nothing": (_with(pddl_problem=""), "found 0 items"),
    "one parenthesis too many": (_with(pddl_problem=GOOD["pddl_problem"] + ")"), "has no opening one"),
    "domain cut off": (_with(pddl_domain=GOOD["pddl_domain"][:200]), "never closed"),
    "foreign domain": (_with(pddl_domain="(define (domain blocks) (:predicates (on ?x)) (:action stack))"), "'blocks'"),
    "an action is missing": (_domain("(:action gotolocation)", ""), "gotolocation is missing"),
    "an action is unknown": (_domain("(:action look)", "(:action look)(:action fly)"), "fly is unknown"),
    "a predicate is missing": (_domain("(istoggled)", ""), "istoggled is missing"),
    "no goal": (_problem("(:goal", "(:gaol"), "no :goal"),
    "no objects": (_problem("(:objects", "(:things"), "no :objects"),
    "empty goal": (_goal("()"), "cannot read"),
    "goal is a word": (_goal("win"), "cannot read 'win'"),
    "goal with a foreign predicate": (_goal("(and (exists (?o - object) (isPainted ?o)))"), "ispainted"),
    "goal with a wrong count": (_goal("(exists (?o - object) (isClean ?o ?o))"), "isclean ...) with 2 arguments"),
    "goal with forall": (_goal("(forall (?o - object) (isClean ?o))"), "forall"),
    "goal with not": (_goal("(exists (?o - object) (not (isClean ?o)))"), "'not' of something that can change"),
    "goal with a free variable": (_goal("(isClean ?o)"), "no 'exists' introduces"),
    "goal too large": (_goal("(exists (?a ?b ?c ?d - object) (and (isClean ?a) (isHot ?b) (isCool ?c) (isOn ?d)))"),
                       "more than 20000 ways"),
    "nested without end": (_goal("(and " * 5000 + ")" * 5000), "nest deeper"),
    "agent nowhere": (_problem("(atLocation agent1", "(wasAt agent1"), "starts at 0 places"),
    "fact with a wrong count": (_problem("(atLocation agent1", "(isClean agent1"), "should have 1 arguments"),
    "fact about nothing": (_problem("(atLocation agent1", "(isClean ghost)\n(atLocation agent1"), "name ghost"),
    "init holds a word": (_problem("(:init", "(:init word"), "not a fact"),
    "no receptacles": (_problem("(receptacleAtLocation", "(was"), "no receptacles"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_game_data_is_refused_in_one_sentence(case: str) -> None:
    data, reason = BAD[case]
    with pytest.raises(GameFileError) as caught:
        Game.from_dict(data, path="folder/game.tw-pddl")
    message = str(caught.value)
    assert reason in message
    assert message.startswith("folder/game.tw-pddl")
    assert "\n" not in message
    assert len(message) < 300


def test_the_good_data_is_accepted() -> None:
    assert Game.from_dict(copy.deepcopy(GOOD)).walkthrough == tuple(GOOD["walkthrough"])


def test_a_missing_file_names_the_path(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        Game.from_file(tmp_path / "nowhere" / "game.tw-pddl")


def test_a_folder_instead_of_a_file_says_so(tmp_path: Path) -> None:
    with pytest.raises(GameFileError, match="got the folder"):
        Game.from_file(tmp_path)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"PK\x03\x04\xff\xfe", "not UTF-8"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "list"),
    ],
)
def test_a_file_that_is_no_game_says_why(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "game.tw-pddl"
    path.write_bytes(content)
    with pytest.raises(GameFileError, match=reason) as caught:
        Game.from_file(path)
    assert str(path) in str(caught.value)


def test_a_file_of_gigabytes_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "game.tw-pddl"
    with path.open("wb") as file:
        file.truncate(50 * 2**30)
    started = time.process_time()
    with pytest.raises(GameFileError, match="is larger than"):
        Game.from_file(path)
    assert time.process_time() - started < 1


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes with names")
def test_a_pipe_is_refused_unread(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "game.tw-pddl")
    with pytest.raises(GameFileError, match="a pipe or a device"):
        Game.from_file(tmp_path / "game.tw-pddl")


def test_a_link_to_itself_is_refused(tmp_path: Path) -> None:
    (tmp_path / "game.tw-pddl").symlink_to("game.tw-pddl")
    with pytest.raises(GameFileError, match="cannot be read"):
        Game.from_file(tmp_path / "game.tw-pddl")


@pytest.mark.parametrize("path", ["a\0b", "x" * 5000, "\udcff/game.tw-pddl"])
def test_an_impossible_path_is_one_of_the_two_errors(path: str) -> None:
    with pytest.raises((GameFileError, FileNotFoundError)):
        Game.from_file(path)


def test_a_file_gives_the_game_of_its_data(tmp_path: Path) -> None:
    path = tmp_path / "game.tw-pddl"
    path.write_text(json.dumps(GOOD), encoding="utf-8")
    game = Game.from_file(path)
    assert game.path == str(path)
    assert game.intro == Game.from_dict(GOOD).intro


def test_a_game_cannot_be_changed_by_assignment() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Game.from_dict(GOOD).task = "put two mugs in the sea"  # type: ignore[misc]


def test_playing_leaves_the_game_as_it_was() -> None:
    game = Game.from_dict(GOOD)
    before = pickle.dumps([game.first_contents, sorted(game.first_facts), game.name_of, game.intro])
    engine = Engine(game)
    for command in game.walkthrough:
        engine.step(command)
    assert pickle.dumps([game.first_contents, sorted(game.first_facts), game.name_of, game.intro]) == before


def test_numbers_of_a_kind_fall_along_the_sorted_names() -> None:
    game = Game.from_dict(GOOD)
    for kind in ("drawer", "cabinet", "shelf", "sidetable"):
        ids = sorted(name for name in game.location_of if name.startswith(kind + "_bar_"))
        assert [game.name_of[name] for name in ids] == [f"{kind} {n}" for n in range(len(ids), 0, -1)]


def test_basins_are_named_for_the_basin() -> None:
    game = Game.from_dict(game_file("pick_clean_then_place_in_recep", 0))
    assert game.receptacle_type[game.receptacle_named["sinkbasin 1"]] == "sinkbasintype"


OBJECTS = {"agent1": "agent", "here": "location", "there": "location", "shelf": "receptacle", "desk": "receptacle",
           "cup": "object", "mug": "object"}  # fmt: skip
STATIC = [("objecttype", "cup", "cuptype"), ("objecttype", "mug", "cuptype"), ("receptacletype", "shelf", "shelftype"),
          ("receptacleatlocation", "shelf", "here"), ("receptacleatlocation", "desk", "there")]  # fmt: skip


@pytest.mark.parametrize(
    ("goal", "facts", "reached"),
    [
        ("(and)", [], True),
        ("(or)", [], False),
        ("(isHot cup)", [("ishot", "cup")], True),
        ("(isHot cup)", [("ishot", "mug")], False),
        ("(or (isHot cup) (isHot mug))", [("ishot", "mug")], True),
        ("(and (isHot cup) (or (isCool mug) (isClean mug)))", [("ishot", "cup"), ("isclean", "mug")], True),
        ("(and (isHot cup) (or (isCool mug) (isClean mug)))", [("isclean", "mug")], False),
        ("(exists (?o - object) (and (objectType ?o CupType) (isHot ?o)))", [("ishot", "mug")], True),
        ("(exists (?o - object) (and (objectType ?o PanType) (isHot ?o)))", [("ishot", "mug")], False),
        ("(exists (?o - receptacle) (isHot ?o))", [("ishot", "mug")], False),
        ("(exists (?a ?b - object) (and (not (= ?a ?b)) (isHot ?a) (isHot ?b)))", [("ishot", "mug")], False),
        ("(exists (?a ?b - object) (and (not (= ?a ?b)) (isHot ?a) (isHot ?b)))",
         [("ishot", "mug"), ("ishot", "cup")], True),
        ("(exists (?r - receptacle ?l - location) (and (receptacleAtLocation ?r ?l) (atLocation agent1 ?l)))",
         [("atlocation", "agent1", "there")], True),
        ("(exists (?r - receptacle ?l - location) (and (receptacleType ?r ShelfType) (receptacleAtLocation ?r ?l) "
         "(atLocation agent1 ?l)))", [("atlocation", "agent1", "there")], False),
        ("(not (receptacleType desk ShelfType))", [], True),
    ],
)  # fmt: skip
def test_goals_mean_what_they_say(goal: str, facts: list[tuple[str, ...]], reached: bool) -> None:
    assert compile_goal(parse(goal), OBJECTS, STATIC).holds(set(facts)) is reached


def test_a_goal_knows_which_facts_can_change_it() -> None:
    goal = compile_goal(parse("(exists (?a - agent) (holdsAny ?a))"), OBJECTS, STATIC)
    assert goal.predicates == {"holdsany"}
    assert goal.holds({("holdsany", "agent1")})
    assert not goal.holds(set())


_SUBSETS = "(and " + "(or (and) (holdsAny x{}))" * 13 + ")"


@pytest.mark.parametrize(
    "goal",
    [
        "(exists (?a ?b ?c ?d ?e ?f ?g - object) (and (isHot ?a) (isHot ?b)))",
        "(exists (?o - object) " * 150 + "(isHot ?o)" + ")" * 150,
        f"(and {_SUBSETS.format(*range(13))} (and {_SUBSETS.format(*range(13))} (or (and) (holdsAny y))) (isHot cup))",
    ],
)
def test_goal_that_is_small_to_write_and_endless_to_resolve_is_refused(goal: str) -> None:
    objects = {f"object{number}": "object" for number in range(9)}
    with pytest.raises(GoalError, match=r"more than \d+ (steps|ways)"):
        compile_goal(parse(f"(or {goal})"), objects, STATIC)


def test_a_grammar_of_a_megabyte_is_read_in_linear_time() -> None:
    started = time.process_time()
    with pytest.raises(GameFileError, match="Your task is to"):
        Game.from_dict(_with(grammar="Your task is to: " * 60_000))
    assert time.process_time() - started < 3


def test_not_of_a_changing_fact_is_refused_even_inside() -> None:
    with pytest.raises(GoalError, match="can change"):
        compile_goal(parse("(and (isHot cup) (not (isHot mug)))"), OBJECTS, STATIC)


def test_something_in_the_room_without_coordinates_is_refused():
    receptacle = re.search(r"\(receptacleatlocation (\S+) ", GOOD["pddl_problem"], re.IGNORECASE)
    assert receptacle is not None
    with pytest.raises(GameFileError, match="box, which is in the room, has no coordinates in its name"):
        Game.from_dict(_problem(receptacle[1], "box"))


def test_something_that_lies_about_and_is_no_object_is_refused():
    game = game_file("pick_and_place_simple", 0)
    lying = re.search(r"\(inreceptacle (\S+) ", game["pddl_problem"], re.IGNORECASE)
    assert lying is not None
    problem = re.sub(rf"(\b{lying[1]}) - object\b", r"\1 - thing", game["pddl_problem"])
    assert problem != game["pddl_problem"]
    with pytest.raises(GameFileError, match="is no object: 'thing'"):
        Game.from_dict({**game, "pddl_problem": problem})


@pytest.mark.parametrize("piece", ["action help {", 'action help {feedback :: "', 'action help {"rhs": "x"'])
def test_a_grammar_of_endless_beginnings_is_read_in_no_time(piece):
    started = time.process_time()
    Dialect.from_grammar(piece * 100_000)
    assert time.process_time() - started < 1
