"""Commands that bring about what random play hardly ever does: treated, sliced and lit objects, looked at in the hand.

What is covered: slicing with a knife and taking the slice; heating, cooling and cleaning one object several times in
every order, with a look at it after each; switching on what can be carried. The commands follow from where things are
at the start of a game; when the game has moved on, some are refused, on both sides alike.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from trl_agentenvs.alfworld.game import Game

_TOOLS = {"heat": ("microwavetype",), "cool": ("fridgetype",), "clean": ("sinkbasintype", "sinktype")}
_ABLE = {"heat": "heatable", "cool": "coolable", "clean": "cleanable"}
_TREATMENTS_EACH = 4
_KNIVES = ("butterknifetype", "knifetype")


def errands(game: Game, rng: random.Random) -> list[str]:
    """Commands for one game, in the order of play; some ten for each errand that its room allows."""
    commands: list[str] = []
    for held in sorted(game.object_named):  # a walkthrough may end with something in the hand
        if any(f" {held} " in command for command in game.walkthrough):
            commands += [game.dialect.put_command(held, place) for place in _places(game, game.walkthrough)]
    for ability in ("sliceable", "heatable", "coolable", "cleanable", "toggleable"):
        things = sorted(game.able[ability] & game.able["pickupable"] & _placed(game).keys())
        if things:
            commands += _errand(game, rng, rng.choice(things), ability)
    return commands


def _errand(game: Game, rng: random.Random, thing: str, ability: str) -> Iterator[str]:
    names, where = game.name_of, _placed(game)
    name, place = names[thing], where[thing]
    knives = sorted(x for x in where if game.object_type.get(x) in _KNIVES)
    if ability == "sliceable" and knives:
        knife = rng.choice(knives)
        yield from _fetch(game, knife)
        yield f"examine {names[knife]}"
        yield from (f"go to {names[place]}", f"open {names[place]}", f"slice {name} with {names[knife]}")
        yield game.dialect.put_command(names[knife], names[place])
        yield f"go to {names[where[knife]]}"
        yield game.dialect.put_command(names[knife], names[where[knife]])
    if ability == "toggleable":
        yield from (f"go to {names[place]}", f"open {names[place]}", f"use {name}")
    yield from _fetch(game, thing)
    yield f"examine {name}"
    verbs = [verb for verb in _TOOLS if thing in game.able[_ABLE[verb]] and _tool(game, verb)]
    for verb in rng.choices(verbs, k=_TREATMENTS_EACH) if verbs else ():
        tool = names[_tool(game, verb) or thing]
        yield from (f"go to {tool}", f"{verb} {name} with {tool}", f"examine {name}")
    yield f"go to {names[place]}"
    yield game.dialect.put_command(name, names[place])


def _fetch(game: Game, thing: str) -> Iterator[str]:
    place = game.name_of[_placed(game)[thing]]
    yield from (f"go to {place}", f"open {place}", f"take {game.name_of[thing]} from {place}")


def _placed(game: Game) -> dict[str, str]:
    """Receptacle by object, at the start."""
    return {thing: place for place in sorted(game.first_contents) for thing in game.first_contents[place]}


def _tool(game: Game, verb: str) -> str | None:
    """A receptacle that heats, cools or cleans."""
    return next((r for r in sorted(game.location_of) if game.receptacle_type.get(r) in _TOOLS[verb]), None)


def _places(game: Game, commands: tuple[str, ...]) -> list[str]:
    """The receptacles that commands go to."""
    names = (command.removeprefix("go to ") for command in commands if command.startswith("go to "))
    return sorted({name for name in names if name in game.receptacle_named})
