"""New, solvable games of all six ALFWorld task types, made from a seed.

What is covered: `generate(task_type, seed)` is the same game in every process and on every supported Python; each game
carries a walkthrough that the engine has played to a win. The seed also says which rooms are used: seeds 2000 to 2999
play in scenes that are held out (valid_unseen), seeds from 10000 on each in a room of its own, all other seeds in the
scenes of train. What is not covered: the official floor plans and decoration, and slicing (no official task asks for
it).

`game_file` gives a game in the official file format. With the path of an official game to take the rules and grammar
text from, the result loads in TextWorld too.
"""

from __future__ import annotations

import dataclasses
import json
import random
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from trl_agentenvs.alfworld import rooms
from trl_agentenvs.alfworld.blueprint import (
    TREATMENTS,
    Blueprint,
    Placed,
    declared_names,
    first_facts,
    goal_text,
    walkthrough,
)
from trl_agentenvs.alfworld.domain import ACTIONS
from trl_agentenvs.alfworld.engine import Engine
from trl_agentenvs.alfworld.game import Game, Problem
from trl_agentenvs.alfworld.goal import DYNAMIC_ARITY, STATIC_ARITY
from trl_agentenvs.alfworld.pddl import parse
from trl_agentenvs.alfworld.wording import Dialect

__all__ = ["FIRST_FREE_SEED", "TASK_TYPES", "UNSEEN_FREE_SEEDS", "game_file", "generate", "scene_of"]

TASK_TYPES = (
    "pick_and_place_simple",
    "look_at_obj_in_light",
    "pick_clean_then_place_in_recep",
    "pick_heat_then_place_in_recep",
    "pick_cool_then_place_in_recep",
    "pick_two_obj_and_place",
)
"""The six task types, in the official order."""

_UNSEEN_THOUSAND = 2  # seeds 2000 to 2999 play in held-out scenes

FIRST_FREE_SEED = 10_000
"""From this seed on each game has a room of its own."""

UNSEEN_FREE_SEEDS = range(70_000, 100_000)
"""Of those, the seeds whose rooms are held out."""

_ROOMS_OF: Mapping[str, tuple[str, ...]] = {
    "pick_and_place_simple": rooms.ROOMS,
    "look_at_obj_in_light": ("bedroom", "livingroom"),
    "pick_clean_then_place_in_recep": ("kitchen", "bathroom"),
    "pick_heat_then_place_in_recep": ("kitchen",),
    "pick_cool_then_place_in_recep": ("kitchen",),
    "pick_two_obj_and_place": rooms.ROOMS,
}
_SENTENCES: Mapping[str, tuple[str, str]] = {
    "pick_and_place_simple": ("put a {o} in {r}", "put some {o} on {r}"),
    "look_at_obj_in_light": ("look at {o} under the {r}", "examine the {o} with the {r}"),
    "pick_clean_then_place_in_recep": ("put a clean {o} in {r}", "clean some {o} and put it in {r}"),
    "pick_heat_then_place_in_recep": ("put a hot {o} in {r}", "heat some {o} and put it in {r}"),
    "pick_cool_then_place_in_recep": ("put a cool {o} in {r}", "cool some {o} and put it in {r}"),
    "pick_two_obj_and_place": ("put two {o} in {r}", "find two {o} and put them in {r}"),
}

_MOST_OF_A_KIND = 3  # distractors; of the target there can be as many
_FEWEST_PER_TEN, _MOST_PER_TEN = 7, 11  # objects for each ten receptacles
_FEWEST_OBJECTS, _FEWEST_AT_MOST = 4, 6  # the same range in the smallest rooms
_DIALECT = Dialect(
    help="Commands (write the names as they are shown, with their numbers):\n"
    "  go to PLACE; examine PLACE; open PLACE; close PLACE\n"
    "  take THING from PLACE; move THING to PLACE\n"
    "  clean THING with SINKBASIN; heat THING with MICROWAVE; cool THING with FRIDGE\n"
    "  use LAMP; slice THING with KNIFE; examine THING (in your hand)\n"
    "  look; inventory; help\n"
)


def scene_of(task_type: str, seed: int) -> int:
    """The scene that `generate(task_type, seed)` plays in, found without making the game.

    Args:
        task_type: One of `TASK_TYPES`.
        seed: Any non-negative integer.

    Raises:
        ValueError: An unknown task type or a negative seed.
    """
    if task_type not in TASK_TYPES:
        raise ValueError(f"got the task type {task_type!r}; expected one of {', '.join(TASK_TYPES)}")
    if seed < 0:
        raise ValueError(f"got the seed {seed!r}; expected a non-negative integer")
    if seed >= FIRST_FREE_SEED:
        kinds = _ROOMS_OF[task_type]
        return rooms.free_scene(kinds[seed % len(kinds)], seed, held_out=seed in UNSEEN_FREE_SEEDS)
    choices = _scene_order(task_type, seed // 1000 == _UNSEEN_THOUSAND)
    return choices[seed % len(choices)]


@lru_cache(maxsize=2 * len(TASK_TYPES))
def _scene_order(task_type: str, held_out: bool) -> Sequence[int]:
    order = [scene for room in _ROOMS_OF[task_type] for scene in rooms.scenes(room, held_out=held_out)]
    random.Random(f"alfworld scenes:{task_type}:{held_out}").shuffle(order)
    return order


def generate(task_type: str, seed: int) -> Game:
    """Make a game.

    Args:
        task_type: One of `TASK_TYPES`.
        seed: Any non-negative integer. Seeds 2000 to 2999 play in held-out scenes, those from 10000 on each in a room
            of its own (70000 to 99999 in held-out ones), all others in the scenes of train.

    Returns:
        The game, with a walkthrough that wins it.

    Raises:
        ValueError: An unknown task type or a negative seed.
    """
    blueprint = _blueprint(task_type, seed)
    facts = frozenset(tuple(name.lower() for name in fact) for fact in first_facts(blueprint))
    objects = {name.lower(): kind for name, kind in declared_names(blueprint)}
    problem = Problem(objects, facts, parse(goal_text(blueprint)))
    game = Game.from_problem(problem, task=blueprint.sentence, dialect=_DIALECT)
    game = dataclasses.replace(game, walkthrough=walkthrough(blueprint, game.name_of, _DIALECT))
    engine = Engine(game)
    won_before = engine.won
    for command in game.walkthrough:
        engine.step(command)
    if won_before or not engine.won:
        raise RuntimeError(f"the walkthrough of generated:{task_type}:{seed} does not win it: a fault of the generator")
    return game


def game_file(task_type: str, seed: int, like: str | Path | None = None) -> dict[str, Any]:
    """Make a game in the official file format: write the result as JSON to a `game.tw-pddl`.

    Args:
        task_type: One of `TASK_TYPES`.
        seed: As for `generate`.
        like: Path of an official game file whose domain and grammar text are taken over, so that TextWorld can load the
            result. None writes short texts that only this package reads.

    Returns:
        The JSON object: pddl_domain, grammar, pddl_problem, solvable, walkthrough, task_type.

    Raises:
        ValueError: An unknown task type or a negative seed.
        FileNotFoundError: There is no file at `like`.
        GameFileError: The file at `like` is no ALFWorld game.
    """
    game, blueprint = generate(task_type, seed), _blueprint(task_type, seed)
    domain, grammar = _own_texts(blueprint) if like is None else _texts_like(like, blueprint.sentence)
    dialect = Dialect.from_grammar(grammar)
    declared = "\n".join(f"{name} - {kind}" for name, kind in declared_names(blueprint))
    facts = "\n".join(f"({' '.join(fact)})" for fact in first_facts(blueprint))
    problem = (
        f"(define (problem plan_{task_type}_{seed})\n(:domain alfred)\n(:objects\n{declared}\n)\n"
        f"(:init\n{facts}\n)\n(:goal {goal_text(blueprint)})\n)\n"
    )
    return {
        "pddl_domain": domain,
        "grammar": grammar,
        "pddl_problem": problem,
        "solvable": True,
        "walkthrough": list(walkthrough(blueprint, game.name_of, dialect)),
        "task_type": task_type,
    }


def _blueprint(task_type: str, seed: int) -> Blueprint:
    layout = rooms.layout(scene_of(task_type, seed))
    rng = random.Random(f"alfworld game:{task_type}:{seed}")
    receptacles: dict[str, list[rooms.Receptacle]] = {}
    for receptacle in layout.receptacles:
        receptacles.setdefault(receptacle.kind, []).append(receptacle)
    start = rooms.new_location(rng, [receptacle.location for receptacle in layout.receptacles])
    targets = _targets(task_type, layout.room, receptacles)
    target = rng.choice(list(targets))
    parent = rng.choice(targets[target])
    size = len(layout.receptacles)
    fewest, most = size * _FEWEST_PER_TEN // 10, size * _MOST_PER_TEN // 10
    total = rng.randint(max(_FEWEST_OBJECTS, fewest), max(_FEWEST_AT_MOST, most))
    used = {receptacle.name for receptacle in layout.receptacles}
    placed: list[Placed] = []

    def place(kind: str, spots: Mapping[str, float]) -> None:
        spot = rng.choices(list(spots), list(spots.values()))[0]
        placed.append(Placed(rooms.new_name(rng, kind, used), kind, rng.choice(receptacles[spot])))

    done_at_start = (parent,) if task_type in ("pick_and_place_simple", "pick_two_obj_and_place") else ()
    for _ in range(rng.choice((2, 2, 3)) if task_type == "pick_two_obj_and_place" else rng.choice((1, 1, 2))):
        place(target, _spots(target, receptacles, done_at_start))
    lamp = rooms.LAMP_OF.get(layout.room)
    if lamp is not None:
        place(lamp, {kind: 1.0 for kind in receptacles if kind in rooms.LAMP_STANDS})
    others = [kind for kind in rooms.objects_of(layout.room) if kind != target and _spots(kind, receptacles)]
    others *= _MOST_OF_A_KIND
    rng.shuffle(others)
    for kind in others[: max(0, total - len(placed))]:
        place(kind, _spots(kind, receptacles))
    sentence = rng.choice(_SENTENCES[task_type]).format(o=target.lower(), r=parent.lower())
    return Blueprint(task_type, layout, start, target, parent, tuple(placed), sentence)


def _spots(kind: str, receptacles: Mapping[str, object], without: tuple[str, ...] = ()) -> dict[str, float]:
    """The receptacle kinds of the room that an object kind may lie in, with how likely it is."""
    weights = rooms.found_in(kind)
    return {spot: weight for spot, weight in weights.items() if spot in receptacles and spot not in without}


def _targets(task_type: str, room: str, receptacles: Mapping[str, object]) -> dict[str, list[str]]:
    """Object kinds that the task can be about in this room, with the receptacle kinds (or lamp) it can end at."""
    treatment = TREATMENTS.get(task_type)
    targets: dict[str, list[str]] = {}
    for kind in rooms.objects_of(room):
        spots = list(_spots(kind, receptacles))
        if task_type == "look_at_obj_in_light":
            ends = [rooms.LAMP_OF[room]] if spots else []
        elif treatment is not None:
            ends = [spot for spot in spots if spot != treatment.tool] if kind in treatment.kinds else []
        else:
            ends = spots if len(spots) > 1 else []  # it must be able to start elsewhere
        if ends:
            targets[kind] = ends
    return targets


def _texts_like(path: str | Path, sentence: str) -> tuple[str, str]:
    """Domain and grammar text of an official game, with another task sentence."""
    Game.from_file(path)  # says in one sentence what is wrong with the file, if anything is
    data = json.loads(Path(path).read_text(encoding="utf-8"))
    task = f'Your task is to: {sentence}."'
    return data["pddl_domain"], re.sub(r"Your task is to: .*?\"", lambda _: task, data["grammar"], count=1)


def _own_texts(blueprint: Blueprint) -> tuple[str, str]:
    """The least domain and grammar text that `Game.from_dict` accepts: the names it checks, and the wording."""
    predicates = " ".join(f"({name})" for name in sorted(STATIC_ARITY) + sorted(DYNAMIC_ARITY))
    actions = "\n".join(f"(:action {name})" for name in sorted((ACTIONS | {"help"}) - {"cleanobject"}))
    clean = "(:action CleanObject :precondition (or (receptacleType ?r SinkType) (receptacleType ?r SinkBasinType)))"
    domain = f"(define (domain alfred)\n(:predicates {predicates})\n{actions}\n{clean}\n)\n"
    grammar = (
        f'task :: "Your task is to: {blueprint.sentence}."\nput :: "move {{o}} to {{r}}"\n'
        f'action help {{\n    feedback :: "\n{_DIALECT.help}";\n}}\n'
    )
    return domain, grammar
