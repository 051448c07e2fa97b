from __future__ import annotations

import copy
import random
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.official_archives import archived_games
from tests.parity.game_files import in_old_wording
from trl_agentenvs.alfworld import data, planner
from trl_agentenvs.alfworld.engine import Engine
from trl_agentenvs.alfworld.game import Game
from trl_agentenvs.alfworld.generate import TASK_TYPES, game_file, generate
from trl_agentenvs.alfworld.goal import Fact
from trl_agentenvs.alfworld.planner import PlanError, plan
from trl_agentenvs.alfworld.wording import NOTHING_HAPPENS

LONGEST_WALK = 60
LIMIT_S = 0.001


def _wins(engine: Engine, commands: list[str]) -> bool:
    """Whether the commands win, each of them accepted."""
    return all(engine.step(command) != NOTHING_HAPPENS for command in commands) and engine.won


def _after(game: Game, *commands: str) -> Engine:
    engine = Engine(game)
    for command in commands:
        assert engine.step(command) != NOTHING_HAPPENS, command
    return engine


def _walked(game: Game, walk: str) -> Engine:
    """The game after a random walk of admissible commands."""
    rng = random.Random(walk)
    engine = Engine(game)
    for _ in range(rng.randint(0, LONGEST_WALK)):
        engine.step(rng.choice(engine.admissible()))
    return engine


@pytest.mark.parametrize("task_type", TASK_TYPES)
def test_a_plan_wins_from_wherever_a_walk_has_led(task_type: str) -> None:
    for game_id in data.game_ids("train", "generated", n=30, task_types=[task_type]):
        for walk in range(4):
            engine = _walked(data.load(game_id), f"{game_id}:{walk}")
            commands = plan(engine)
            assert (commands == []) == engine.won
            assert commands == [] or commands[0] in engine.admissible()
            assert _wins(engine, commands), (game_id, walk, commands)


@pytest.mark.parametrize("task_type", TASK_TYPES)
def test_following_a_new_plan_at_each_step_takes_as_long_as_the_first_plan_said(task_type: str) -> None:
    for game_id in data.game_ids("valid_unseen", "generated", n=10, task_types=[task_type]):
        engine = _walked(data.load(game_id), game_id)
        left = len(plan(engine))
        while left:
            engine.step(plan(engine)[0])
            assert len(plan(engine)) < left, game_id
            left -= 1
        assert engine.won


def test_no_plan_is_longer_than_the_walkthrough_of_a_generated_game() -> None:
    for split in data.SPLITS:
        for game_id in data.game_ids(split, "generated", n=60):
            game = data.load(game_id)
            assert len(plan(Engine(game))) <= len(game.walkthrough), game_id


def test_making_a_plan_changes_nothing() -> None:
    for task_type in TASK_TYPES:
        engine = _walked(generate(task_type, 5), task_type)
        before = {name: copy.deepcopy(value) for name, value in vars(engine).items() if name != "game"}
        plan(engine)
        assert {name: value for name, value in vars(engine).items() if name != "game"} == before


def test_the_same_state_gives_the_same_plan() -> None:
    for task_type in TASK_TYPES:
        assert plan(_walked(generate(task_type, 7), "a")) == plan(_walked(generate(task_type, 7), "a"))


def test_official_validation_games_are_won(official_games: Path) -> None:
    for split in ("valid_seen", "valid_unseen"):
        for game in archived_games(official_games, split):
            engine = Engine(game)
            commands = plan(engine)
            assert len(commands) <= len(game.walkthrough)
            assert _wins(engine, commands), game.path


@pytest.mark.parametrize("task_type", TASK_TYPES)
def test_a_plan_never_comes_back_to_a_state(task_type: str) -> None:
    for game_id in data.game_ids("valid_seen", "generated", task_types=[task_type]):
        engine = _walked(data.load(game_id), game_id)
        commands = plan(engine)
        states = [(engine.location, engine.held, set(engine.facts))]
        for command in commands:
            engine.step(command)
            states.append((engine.location, engine.held, set(engine.facts)))
        assert all(state not in states[:number] for number, state in enumerate(states)), (game_id, commands)


@pytest.mark.parametrize("task_type", TASK_TYPES)
def test_a_game_that_has_no_plan_cannot_be_won_with_what_is_in_the_hand(task_type: str) -> None:
    lost = 0
    for seed in range(10):
        for engine in _with_what_fits_nowhere(game_file(task_type, seed)):
            try:
                plan(engine)
            except PlanError:
                lost += 1
                assert not engine.game.goal.holds(_all_that_can_become_true(engine))
            else:
                assert _wins(engine, plan(engine))
    assert lost > 0


def _with_what_fits_nowhere(written: dict[str, Any]) -> Iterator[Engine]:
    """A game in which nothing can be put down, once for each kind of object, which is in the hand."""
    nothing_fits = re.sub(r"\(canContain [^)]*\)", "", written["pddl_problem"])
    game = Game.from_dict({**written, "pddl_problem": nothing_fits})
    for receptacle, things in game.first_contents.items():
        for thing in sorted(things & game.able["pickupable"]):
            engine = Engine(game)
            name = game.name_of[receptacle]
            for command in (f"go to {name}", f"open {name}", f"take {game.name_of[thing]} from {name}"):
                engine.step(command)
            yield engine


def _all_that_can_become_true(engine: Engine) -> set[Fact]:
    """The facts that are true now, and all that become true by any commands while the hand keeps what it holds."""
    game, held = engine.game, engine.held
    assert held is not None
    facts = engine.facts | {("atlocation", game.agent, place) for place in game.location_of.values()}
    facts |= {("istoggled", thing) for thing in game.able["toggleable"]}
    for verb, state in (("heat", "ishot"), ("cool", "iscool"), ("clean", "isclean")):
        if any(engine.treats(verb, receptacle, held) for receptacle in game.location_of):
            facts |= {(state, held)}
    return set(facts)


# Single states. The room is the one of `_ROOM`; every receptacle has a place of its own but for the shelf at the desk.

_ROOM = {
    "fridge 1": ("fridge", "l1"),
    "microwave 1": ("microwave", "l2"),
    "sink 1": ("sink", "l3"),
    "desk 1": ("desk", "l4"),
    "shelf 1": ("shelf", "l4"),
    "drawer 1": ("drawer", "l5"),
}
_IN = {"mug": "drawer", "plate": "desk", "pen": "shelf", "lamp": "desk"}


def _game(goal: str, where: dict[str, str] | None = None, takes: str = "desk shelf drawer fridge microwave") -> Game:
    """A game in that room. Objects are called by kind and number ("mug_bar_1")."""
    spots = _IN if where is None else where
    things = {f"{kind}_bar_1": (kind.rstrip("2"), f"{spot}_bar_1") for kind, spot in spots.items()}
    facts = ["(atLocation agent1 l0)"]
    for kind, place in _ROOM.values():
        facts += [f"(receptacleType {kind}_bar_1 {kind}Type)", f"(receptacleAtLocation {kind}_bar_1 {place})"]
        facts += [f"(openable {kind}_bar_1)"] if kind in ("fridge", "microwave", "drawer") else []
    for thing, (kind, spot) in things.items():
        place = _ROOM[spot.replace("_bar_", " ")][1]
        facts += [
            f"(objectType {thing} {kind}Type)",
            f"(inReceptacle {thing} {spot})",
            f"(objectAtLocation {thing} {place})",
        ]
        facts += [f"(toggleable {thing})"] if kind == "lamp" else [f"({able} {thing})" for able in
                  ("pickupable", "cleanable", "heatable", "coolable")]  # fmt: skip
    kinds = sorted({kind for kind, _ in things.values()})
    facts += [f"(canContain {spot}Type {kind}Type)" for spot in takes.split() for kind in kinds if kind != "lamp"]
    names = [f"{thing} - object" for thing in things] + [f"{kind}_bar_1 - receptacle" for kind, _ in _ROOM.values()]
    names += [f"l{number} - location" for number in range(6)] + ["agent1 - agent"]
    names += [f"{kind}Type - otype" for kind in kinds] + [f"{kind}Type - rtype" for kind, _ in _ROOM.values()]
    written = game_file("pick_and_place_simple", 0)
    written["pddl_problem"] = (
        f"(define (problem p) (:domain alfred) (:objects {' '.join(names)}) (:init {' '.join(facts)}) (:goal {goal}))"
    )
    written["walkthrough"] = []
    return Game.from_dict(written)


def _put(kind: str, spot: str, state: str = "") -> str:
    return (
        f"(exists (?r - receptacle ?o - object) (and {state and f'({state} ?o)'} (objectType ?o {kind}Type) "
        f"(receptacleType ?r {spot}Type) (inReceptacle ?o ?r)))"
    )


_LOOK = (
    "(and (exists (?l - object ?r - receptacle ?a - agent ?p - location) (and (objectType ?l lampType) (isToggled ?l) "
    "(inReceptacle ?l ?r) (receptacleAtLocation ?r ?p) (atLocation ?a ?p))) "
    "(exists (?o - object ?a - agent) (and (objectType ?o mugType) (holds ?a ?o))))"
)
_TWO = (
    "(exists (?r - receptacle ?o - object ?q - object) (and (receptacleType ?r fridgeType) (objectType ?o mugType) "
    "(objectType ?q mugType) (not (= ?o ?q)) (inReceptacle ?o ?r) (inReceptacle ?q ?r)))"
)
_TO_MUG = ["go to drawer 1", "open drawer 1", "take mug 1 from drawer 1"]


def test_the_obvious_plan_from_the_start() -> None:
    commands = [*_TO_MUG, "go to microwave 1", "heat mug 1 with microwave 1", "go to desk 1", "move mug 1 to desk 1"]
    assert plan(_after(_game(_put("mug", "desk", "isHot")))) == commands


def test_what_is_already_open_is_not_opened_again() -> None:
    engine = _after(_game(_put("mug", "desk")), "go to drawer 1", "open drawer 1", "go to desk 1")
    assert plan(engine) == ["go to drawer 1", "take mug 1 from drawer 1", "go to desk 1", "move mug 1 to desk 1"]


def test_what_was_closed_again_is_opened() -> None:
    engine = _after(_game(_put("mug", "desk")), "go to drawer 1", "open drawer 1", "close drawer 1")
    assert plan(engine)[0] == "open drawer 1"


def test_another_object_in_the_hand_is_put_down_where_it_costs_least() -> None:
    engine = _after(_game(_put("mug", "desk")), "go to desk 1", "take plate 1 from desk 1")
    assert plan(engine) == ["move plate 1 to desk 1", *_TO_MUG, "go to desk 1", "move mug 1 to desk 1"]


def test_another_object_is_put_down_on_the_way_if_not_here() -> None:
    game = _game(_put("mug", "desk"), takes="desk drawer")
    engine = _after(game, "go to desk 1", "take plate 1 from desk 1", "go to sink 1")
    assert plan(engine)[:4] == [
        "go to drawer 1",
        "open drawer 1",
        "move plate 1 to drawer 1",
        "take mug 1 from drawer 1",
    ]


def test_at_a_shared_place_one_does_not_go() -> None:
    engine = _after(_game(_put("plate", "shelf")), "go to shelf 1")
    assert plan(engine) == ["take plate 1 from desk 1", "move plate 1 to shelf 1"]


def test_what_was_heated_and_cooled_again_is_heated_again() -> None:
    game = _game(_put("mug", "desk", "isHot"))
    warm = [*_TO_MUG, "go to microwave 1", "heat mug 1 with microwave 1"]
    assert plan(_after(game, *warm)) == ["go to desk 1", "move mug 1 to desk 1"]
    engine = _after(game, *warm, "go to fridge 1", "cool mug 1 with fridge 1")
    assert plan(engine)[:2] == ["go to microwave 1", "heat mug 1 with microwave 1"]
    assert _wins(engine, plan(engine))


def test_what_lies_in_place_untreated_is_fetched_treated_and_put_back() -> None:
    engine = _after(_game(_put("plate", "desk", "isClean")), "go to desk 1")
    assert plan(engine) == [
        "take plate 1 from desk 1", "go to sink 1", "clean plate 1 with sink 1", "go to desk 1",
        "move plate 1 to desk 1"]  # fmt: skip


def test_what_was_placed_and_taken_out_again_is_put_back() -> None:
    game = _game(_put("mug", "desk"))
    engine = _after(game, *_TO_MUG, "go to desk 1", "move mug 1 to desk 1", "take mug 1 from desk 1")
    assert plan(engine) == ["move mug 1 to desk 1"]


def test_a_lamp_that_was_used_is_not_used_again() -> None:
    game = _game(_LOOK)
    assert plan(Engine(game)) == [*_TO_MUG, "go to desk 1", "use lamp 1"]
    assert plan(_after(game, "go to desk 1", "use lamp 1", "use lamp 1")) == [*_TO_MUG, "go to desk 1"]


def test_of_two_objects_the_one_in_hand_goes_first_and_the_one_in_place_stays() -> None:
    game = _game(_TWO, {"mug": "drawer", "mug2": "desk"})
    names = sorted(game.object_named)
    assert names == ["mug 1", "mug2 1"]
    engine = _after(game, "go to desk 1", "take mug2 1 from desk 1")
    assert plan(engine) == ["go to fridge 1", "open fridge 1", "move mug2 1 to fridge 1", *_TO_MUG, "go to fridge 1",
                            "move mug 1 to fridge 1"]  # fmt: skip
    engine = _after(game, *_TO_MUG, "go to fridge 1", "open fridge 1", "move mug 1 to fridge 1")
    assert plan(engine) == ["go to desk 1", "take mug2 1 from desk 1", "go to fridge 1", "move mug2 1 to fridge 1"]


def test_the_old_wording_is_planned_in() -> None:
    engine = Engine(Game.from_dict(in_old_wording(game_file("pick_and_place_simple", 6))))
    assert plan(engine)[-1].startswith("put ")
    assert _wins(engine, plan(engine))


def test_what_is_in_hand_and_fits_nowhere_is_named() -> None:
    engine = _after(_game(_put("mug", "desk"), takes=""), "go to desk 1", "take plate 1 from desk 1")
    with pytest.raises(PlanError, match=r"^the game cannot be won from here: there is nowhere to put down plate 1$"):
        plan(engine)


@pytest.mark.parametrize("goal", [_put("moon", "desk"), _put("lamp", "drawer"), _put("pen", "sink")])
def test_a_goal_that_nothing_in_the_room_can_reach_is_an_error(goal: str) -> None:
    with pytest.raises(PlanError, match=r"^the game cannot be won from here: the room lacks what the goal asks for$"):
        plan(Engine(_game(goal.replace("moonType", "plateType)(objectType ?o mugType"))))


def test_a_goal_of_another_form_is_an_error() -> None:
    with pytest.raises(PlanError, match="the goal speaks of 'issliced'"):
        plan(Engine(_game(_put("pen", "desk", "isSliced"))))


def test_a_goal_that_wants_one_object_in_two_receptacles_is_an_error() -> None:
    both = "(inReceptacle ?o desk_bar_1) (inReceptacle ?o shelf_bar_1)"
    goal = f"(exists (?o - object) (and (objectType ?o mugType) {both}))"
    with pytest.raises(PlanError, match="the goal speaks of 'inreceptacle' in a way that none"):
        plan(Engine(_game(goal)))


def test_a_goal_in_a_receptacle_that_stands_nowhere_is_an_error() -> None:
    written = game_file("pick_heat_then_place_in_recep", 0)
    target = re.search(r"receptacleType \?r (\w+)Type", written["pddl_problem"])
    assert target is not None
    gone = re.sub(rf"\(receptacleAtLocation ({target[1]}_bar_\S+) \S+\)", "", written["pddl_problem"])
    with pytest.raises(PlanError, match="the game cannot be won from here"):
        plan(Engine(Game.from_dict({**written, "pddl_problem": gone})))


def test_a_goal_with_too_many_ways_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner, "MAX_WAYS", 0)
    with pytest.raises(PlanError, match="more than 0 ways"):
        plan(Engine(_game(_put("mug", "desk"))))


def test_planning_is_fast() -> None:
    took = []
    for game_id in data.game_ids("train", "generated")[::7]:
        engine = _walked(data.load(game_id), game_id)
        start = time.thread_time()
        plan(engine)
        took.append(time.thread_time() - start)
    assert sorted(took)[len(took) // 2] < LIMIT_S
