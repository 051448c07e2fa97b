from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from trl_agentenvs.alfworld.engine import Engine
from trl_agentenvs.alfworld.game import Game, Problem
from trl_agentenvs.alfworld.generate import TASK_TYPES, generate
from trl_agentenvs.alfworld.pddl import parse
from trl_agentenvs.alfworld.wording import NOTHING_HAPPENS, Dialect

OLD = Dialect(put_verb="put", put_between=" in/on ", put_feedback="You put the {} in/on the {}.", arrives_at_place=True)

# A kitchen: a shelf and a fridge at one place, a closed microwave, a sink, a desk with a lamp, a floor-less start.
ROOM = """
(receptacleType shelf_bar_1 ShelfType) (receptacleAtLocation shelf_bar_1 loc_bar_a)
(receptacleType fridge_bar_1 FridgeType) (receptacleAtLocation fridge_bar_1 loc_bar_a) (openable fridge_bar_1)
(receptacleType microwave_bar_1 MicrowaveType) (receptacleAtLocation microwave_bar_1 loc_bar_b)
(openable microwave_bar_1)
(receptacleType sink_bar_1_bar_sinkbasin SinkBasinType) (receptacleAtLocation sink_bar_1_bar_sinkbasin loc_bar_c)
(receptacleType desk_bar_1 DeskType) (receptacleAtLocation desk_bar_1 loc_bar_d)
(objectType apple_bar_1 AppleType) (inReceptacle apple_bar_1 microwave_bar_1) (pickupable apple_bar_1)
(objectAtLocation apple_bar_1 loc_bar_b)
(heatable apple_bar_1) (coolable apple_bar_1) (cleanable apple_bar_1) (sliceable apple_bar_1)
(objectType mug_bar_1 MugType) (inReceptacle mug_bar_1 shelf_bar_1) (pickupable mug_bar_1)
(isReceptacleObject mug_bar_1) (inReceptacleObject spoon_bar_1 mug_bar_1) (objectAtLocation mug_bar_1 loc_bar_a)
(objectType spoon_bar_1 SpoonType) (inReceptacle spoon_bar_1 shelf_bar_1) (objectAtLocation spoon_bar_1 loc_bar_a)
(objectType knife_bar_1 KnifeType) (inReceptacle knife_bar_1 desk_bar_1) (pickupable knife_bar_1)
(objectAtLocation knife_bar_1 loc_bar_d)
(objectType desklamp_bar_1 DeskLampType) (inReceptacle desklamp_bar_1 desk_bar_1) (toggleable desklamp_bar_1)
(canContain ShelfType MugType) (canContain ShelfType AppleType) (canContain FridgeType AppleType)
(canContain MicrowaveType AppleType) (canContain DeskType KnifeType) (canContain MicrowaveType KnifeType)
(atLocation agent1 loc_bar_z)
"""
KINDS = {"agent1": "agent", **{f"loc_bar_{x}": "location" for x in "abcdz"},
         **{f"{x}type": "rtype" for x in ("shelf", "fridge", "microwave", "sinkbasin", "desk")},
         **{f"{x}type": "otype" for x in ("apple", "mug", "spoon", "knife", "desklamp")},
         **{f"{x}_bar_1": "receptacle" for x in ("shelf", "fridge", "microwave", "desk")},
         "sink_bar_1_bar_sinkbasin": "receptacle",
         **{f"{x}_bar_1": "object" for x in ("apple", "mug", "spoon", "knife", "desklamp")}}  # fmt: skip
ON_SHELF = "(exists (?o - object ?r - receptacle) (and (objectType ?o AppleType) (receptacleType ?r ShelfType) (inReceptacle ?o ?r)))"  # noqa: E501


def _game(dialect: Dialect | None = None, extra: str = "", goal: str = ON_SHELF) -> Game:
    facts = frozenset(tuple(str(name) for name in fact) for fact in parse(f"({ROOM}{extra})"))
    return Game.from_problem(Problem(KINDS, facts, parse(goal)), task="put an apple on shelf",
                             dialect=dialect or Dialect(help="Ask nobody.\n"))  # fmt: skip


def _play(engine: Engine, *commands: str) -> str:
    """Steps that must all be possible; the last answer."""
    answer = ""
    for command in commands:
        answer = engine.step(command)
        assert answer != NOTHING_HAPPENS, command
    return answer


HOLD_APPLE = ("go to microwave 1", "open microwave 1", "take apple 1 from microwave 1")
HOLD_KNIFE = ("go to desk 1", "take knife 1 from desk 1")


def test_the_intro_lists_the_room_and_the_task() -> None:
    assert Engine(_game()).reset() == (
        "-= Welcome to TextWorld, ALFRED! =-\n\nYou are in the middle of a room. Looking quickly around you, you see "
        "a desk 1, a fridge 1, a microwave 1, a shelf 1, and a sinkbasin 1.\n\nYour task is to: put an apple on shelf."
    )


@pytest.mark.parametrize(
    ("commands", "answer"),
    [
        (["look"], "You are in the middle of a room. Looking quickly around you, you see nothing."),
        (["inventory"], "You are not carrying anything."),
        (["help"], "Ask nobody.\n"),
        (["go to desk 1"], "You arrive at desk 1. On the desk 1, you see a desklamp 1, and a knife 1."),
        (["go to microwave 1"], "You arrive at microwave 1. The microwave 1 is closed."),
        (["go to microwave 1", "open microwave 1"],
         "You open the microwave 1. The microwave 1 is open. In it, you see a apple 1."),
        (["go to microwave 1", "open microwave 1", "close microwave 1"], "You close the microwave 1."),
        ([*HOLD_APPLE], "You pick up the apple 1 from the microwave 1."),
        ([*HOLD_APPLE, "inventory"], "You are carrying: a apple 1."),
        ([*HOLD_APPLE, "look"], "You are facing the microwave 1. Next to it, you see nothing."),
        ([*HOLD_APPLE, "heat apple 1 with microwave 1"], "You heat the apple 1 using the microwave 1."),
        ([*HOLD_APPLE, "go to shelf 1", "move apple 1 to shelf 1"], "You move the apple 1 to the shelf 1."),
        (["go to shelf 1", "look"], "You are facing the fridge 1, and shelf 1. Next to it, you see nothing."),
        (["go to shelf 1", "examine fridge 1"], "The fridge 1 is closed."),
        (["go to desk 1", "use desklamp 1"], "You turn on the desklamp 1."),
        (["go to desk 1", "use desklamp 1", "use desklamp 1"], "You turn on the desklamp 1."),
        (["go to shelf 1", "take mug 1 from shelf 1", "examine mug 1"],
         "This is a normal mug 1. In it, you see a spoon 1."),
        ([*HOLD_KNIFE, "examine knife 1"], "There's nothing special about knife 1."),
        ([*HOLD_APPLE, "examine apple 1"], "There's nothing special about apple 1."),
        ([*HOLD_APPLE, "heat apple 1 with microwave 1", "examine apple 1"], "This is a hot apple 1."),
        ([*HOLD_APPLE, "go to fridge 1", "cool apple 1 with fridge 1", "examine apple 1"], "This is a cold apple 1."),
        ([*HOLD_APPLE, "go to sinkbasin 1", "clean apple 1 with sinkbasin 1", "examine apple 1"],
         "This is a clean apple 1."),
        ([*HOLD_APPLE, "heat apple 1 with microwave 1", "go to sinkbasin 1", "clean apple 1 with sinkbasin 1",
          "examine apple 1"], "This is a hot and clean apple 1."),
        ([*HOLD_APPLE, "heat apple 1 with microwave 1", "go to fridge 1", "cool apple 1 with fridge 1",
          "examine apple 1"], "This is a cold apple 1."),
        ([*HOLD_KNIFE, "go to microwave 1", "slice apple 1 with knife 1"], "You sliced the apple 1 with the knife 1."),
        ([*HOLD_KNIFE, "go to microwave 1", "slice apple 1 with knife 1", "open microwave 1",
          "move knife 1 to microwave 1", "take apple 1 from microwave 1", "examine apple 1"],
         "This is a sliced apple 1."),
        ([*HOLD_KNIFE, "go to microwave 1", "slice apple 1 with knife 1", "open microwave 1",
          "move knife 1 to microwave 1", "take apple 1 from microwave 1", "heat apple 1 with microwave 1",
          "examine apple 1"], "This is a hot sliced apple 1."),
    ],
)  # fmt: skip
def test_each_command_answers_in_the_official_words(commands: list[str], answer: str) -> None:
    assert _play(Engine(_game()), *commands) == answer


@pytest.mark.parametrize(
    ("before", "command"),
    [
        (["go to shelf 1"], "go to fridge 1"),  # shares the place
        (["go to shelf 1"], "go to shelf 1"),
        ([], "open microwave 1"),  # not there
        (["go to microwave 1"], "close microwave 1"),
        (["go to microwave 1", "open microwave 1"], "open microwave 1"),
        (["go to desk 1"], "open desk 1"),
        (["go to desk 1"], "close desk 1"),
        (["go to microwave 1"], "take apple 1 from microwave 1"),  # closed
        (["go to shelf 1"], "take spoon 1 from shelf 1"),  # cannot be picked up
        (["go to shelf 1"], "take mug 1 from fridge 1"),
        (["go to shelf 1"], "take mug 1"),
        ([*HOLD_KNIFE, "go to shelf 1"], "take mug 1 from shelf 1"),  # hands full
        ([*HOLD_KNIFE, "go to shelf 1"], "move knife 1 to shelf 1"),  # does not belong there
        ([*HOLD_KNIFE, "go to microwave 1"], "move knife 1 to microwave 1"),  # closed
        ([*HOLD_KNIFE], "put knife 1 in/on desk 1"),  # the other wording
        ([*HOLD_KNIFE], "move mug 1 to desk 1"),  # not in the hand
        ([*HOLD_APPLE], "cool apple 1 with microwave 1"),
        ([*HOLD_KNIFE, "go to microwave 1"], "heat knife 1 with microwave 1"),
        (["go to microwave 1", "open microwave 1"], "heat apple 1 with microwave 1"),  # not in the hand
        ([], "use desklamp 1"),
        (["go to desk 1"], "use knife 1"),
        (["go to desk 1"], "slice apple 1 with knife 1"),
        ([*HOLD_KNIFE], "slice apple 1 with knife 1"),  # the apple is elsewhere
        ([*HOLD_KNIFE, "go to shelf 1"], "slice mug 1 with knife 1"),
        (["go to desk 1"], "examine knife 1"),  # only what is held can be examined
        ([], "examine desk 1"),
        ([], "go to agent1"),
        ([], "go to loc 1"),
    ],
)  # fmt: skip
def test_what_is_not_possible_does_nothing(before: list[str], command: str) -> None:
    engine = Engine(_game())
    if before:
        _play(engine, *before)
    possible = engine.admissible()
    assert engine.step(command) == NOTHING_HAPPENS
    assert engine.admissible() == possible


HOSTILE = [
    "", " ", "\n", "\0", "go", "go to", "go to ", "take", "take from", "take  from ", "move to", "put in/on", "examine",
    "examine ", "use", "slice with", "heat with", "Look", "LOOK", "look.", "look\nlook", "look\x00", "look look",
    "inventory 1", "help me", "go  to desk 1", "go to  desk 1", "go to\tdesk 1", "go to\ndesk 1", "go to desk 1.",
    "go to desk\u00a01", "go to desk \u0661", "göto desk 1", "去 desk 1", "🙂" * 1000, "\ud800", "{r.name}",
    "#look.feedback#", "%s %s", "take {0} from {0}", "__class__", "reset", "admissible", "step look",
    "go to agent1 ", "examine agent1",
    "\x1b[2J", "take a from b from c", "move a to b to c", "x" * 1_000_000, "go to " + "a" * 1_000_000,
    "take " + "a " * 500_000, "take " + "from " * 200_000, " from " * 160_000,
]  # fmt: skip


@pytest.mark.parametrize("command", HOSTILE, ids=lambda command: f"{command[:12]!r}x{len(command)}")
def test_no_command_raises_or_changes_anything_or_takes_long(command: str) -> None:
    engine = Engine(_game())
    _play(engine, *HOLD_APPLE)
    possible = engine.admissible()
    started = time.process_time()
    assert engine.step(command) == NOTHING_HAPPENS
    assert time.process_time() - started < 0.5
    assert engine.admissible() == possible


def test_white_space_around_a_command_is_ignored() -> None:
    assert Engine(_game()).step(" \n look\t\r\n") != NOTHING_HAPPENS


def test_a_game_without_help_does_not_answer_help() -> None:
    engine = Engine(_game(OLD))
    assert engine.step("help") == NOTHING_HAPPENS
    assert "help" not in engine.admissible()


def test_the_old_wording_is_spoken_by_old_games() -> None:
    engine = Engine(_game(OLD))
    assert engine.step("go to microwave 1").startswith("You arrive at loc 4. The microwave 1")
    _play(engine, "open microwave 1", "take apple 1 from microwave 1")
    assert "put apple 1 in/on microwave 1" in engine.admissible()
    assert engine.step("move apple 1 to microwave 1") == NOTHING_HAPPENS
    assert engine.step("put apple 1 in/on microwave 1") == "You put the apple 1 in/on the microwave 1."


def test_won_says_what_the_game_says_now() -> None:
    engine = Engine(_game())
    _play(engine, *HOLD_APPLE, "go to shelf 1")
    assert not engine.won
    _play(engine, "move apple 1 to shelf 1")
    assert engine.won
    _play(engine, "go to desk 1")
    assert engine.won
    _play(engine, "go to shelf 1", "take apple 1 from shelf 1")
    assert not engine.won


def test_a_refused_command_leaves_the_win_alone() -> None:
    engine = Engine(_game())
    _play(engine, *HOLD_APPLE, "go to shelf 1", "move apple 1 to shelf 1")
    engine.step("take apple 9 from shelf 1")
    assert engine.won


def test_a_goal_about_the_agent_follows_it() -> None:
    goal = "(exists (?a - agent ?l - location ?r - receptacle) (and (receptacleType ?r DeskType) (receptacleAtLocation ?r ?l) (atLocation ?a ?l)))"  # noqa: E501
    engine = Engine(_game(goal=goal))
    _play(engine, "go to desk 1")
    assert engine.won
    _play(engine, "go to shelf 1")
    assert not engine.won


def test_an_object_that_starts_in_two_receptacles_stays_in_the_other() -> None:
    engine = Engine(_game(extra="(inReceptacle mug_bar_1 desk_bar_1)"))
    _play(engine, "go to shelf 1", "take mug 1 from shelf 1")
    assert engine.step("go to desk 1").endswith("a desklamp 1, a knife 1, and a mug 1.")


def test_an_object_in_hand_at_the_start_is_held() -> None:
    engine = Engine(_game(extra="(holds agent1 mug_bar_1) (holdsAny agent1)"))
    assert engine.step("inventory") == "You are carrying: a mug 1."


def test_starting_in_front_of_a_receptacle_shows_it() -> None:
    facts = frozenset(
        tuple(str(name) for name in fact) for fact in parse(f"({ROOM.replace('loc_bar_z', 'loc_bar_d')})")
    )
    game = Game.from_problem(Problem(KINDS, facts, parse(ON_SHELF)), task="x", dialect=Dialect())
    assert "You are facing the desk 1. Next to it, you see nothing." in Engine(game).reset()


def test_what_was_taken_and_put_elsewhere_shows_beside_its_first_place() -> None:
    engine = Engine(_game(extra="(canContain FridgeType MugType)"))
    _play(engine, "go to shelf 1", "open fridge 1", "take mug 1 from shelf 1", "move mug 1 to fridge 1")
    assert engine.step("look") == "You are facing the fridge 1, and shelf 1. Next to it, you see a mug 1."


def test_what_lies_beside_is_listed_in_the_order_of_the_names() -> None:
    for things in (("mug", "apple"), ("apple", "mug")):
        engine = Engine(_game(extra="(canContain FridgeType MugType) (inReceptacle apple_bar_1 shelf_bar_1)"))
        _play(engine, "go to shelf 1", "open fridge 1")
        for thing in things:
            _play(engine, f"take {thing} 1 from shelf 1", f"move {thing} 1 to fridge 1")
        assert engine.step("look").endswith("you see a apple 1, and a mug 1.")


def test_a_goal_about_the_hand_follows_it() -> None:
    engine = Engine(_game(goal="(exists (?o - object ?a - agent) (and (objectType ?o KnifeType) (holds ?a ?o)))"))
    _play(engine, *HOLD_KNIFE)
    assert engine.won
    _play(engine, "move knife 1 to desk 1")
    assert not engine.won


def test_reset_starts_over() -> None:
    engine = Engine(_game())
    possible = engine.admissible()
    _play(engine, *HOLD_APPLE, "heat apple 1 with microwave 1", "go to shelf 1", "move apple 1 to shelf 1")
    assert engine.reset() == engine.game.intro
    assert not engine.won
    assert engine.admissible() == possible
    assert engine.step("inventory") == "You are not carrying anything."
    assert _play(engine, *HOLD_APPLE, "examine apple 1") == "There's nothing special about apple 1."


def test_reset_forgets_what_was_taken_from_where() -> None:
    engine = Engine(_game(extra="(canContain FridgeType MugType)"))
    _play(engine, "go to shelf 1", "take mug 1 from shelf 1")
    engine.reset()
    _play(engine, "go to shelf 1")
    assert engine.step("look").endswith("you see nothing.")


def test_two_episodes_of_one_game_do_not_touch_each_other() -> None:
    game = _game()
    one, other = Engine(game), Engine(game)
    _play(one, *HOLD_APPLE)
    assert other.step("inventory") == "You are not carrying anything."
    assert _play(other, "go to microwave 1").endswith("closed.")


@pytest.mark.parametrize("task_type", TASK_TYPES)
def test_admissible_is_exactly_what_does_something(task_type: str) -> None:
    game = generate(task_type, 5)
    names = [name.strip() for name in game.name_of.values()]
    spots, things = sorted(game.receptacle_named), sorted(game.object_named)
    candidates = ["look", "inventory", "help"]
    candidates += [f"{verb} {name}" for verb in ("go to", "open", "close", "examine", "use") for name in names]
    candidates += [f"take {thing} from {spot}" for thing in things for spot in spots]
    candidates += [f"move {thing} to {spot}" for thing in things for spot in spots]
    candidates += [
        f"{verb} {thing} with {spot}" for verb in ("heat", "cool", "clean") for thing in things for spot in spots
    ]
    candidates += [f"slice {thing} with {knife}" for thing in things for knife in things if "knife" in knife]
    rng, played = random.Random(f"{task_type}"), list[str]()
    for _ in range(8):
        engine = _replayed(game, played)
        possible = engine.admissible()
        assert set(possible) <= set(candidates)
        impossible = rng.sample(sorted(set(candidates) - set(possible)), 150)
        assert [c for c in impossible if engine.step(c) != NOTHING_HAPPENS] == []
        assert [c for c in possible if _replayed(game, played).step(c) == NOTHING_HAPPENS] == []
        played.append(rng.choice([c for c in possible if not c.startswith(("look", "inventory", "help"))]))


def _replayed(game: Game, commands: list[str]) -> Engine:
    engine = Engine(game)
    for command in commands:
        engine.step(command)
    return engine


def test_a_step_is_fast() -> None:
    game = generate("pick_two_obj_and_place", 7)
    engine, rng, spent_s, steps = Engine(game), random.Random("speed"), 0.0, 3000
    for _ in range(steps):
        command = rng.choice(engine.admissible())
        started = time.process_time()
        engine.step(command)
        spent_s += time.process_time() - started
    assert spent_s / steps < 0.0005  # about 3 microseconds on an idle core; the bound only catches a change of kind


def test_official_walkthroughs_win(official_games: Path) -> None:
    paths = sorted(official_games.glob("json_2.1.1/*/*/*/game.tw-pddl"))
    assert len(paths) >= 30
    for path in paths:
        game = Game.from_file(path)
        engine = Engine(game)
        assert not engine.won
        for command in game.walkthrough:
            assert engine.step(command) != NOTHING_HAPPENS
        assert engine.won, path
