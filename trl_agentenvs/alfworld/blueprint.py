"""A generated game as a plan: the room, what lies where, what is asked; and its translation into PDDL and commands.

What is covered: everything the official problem files say about a room's receptacles and objects, and the three forms
of goal. What is not covered: choosing what lies where, which is the generator's part.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from trl_agentenvs.alfworld import rooms
from trl_agentenvs.alfworld.goal import Fact
from trl_agentenvs.alfworld.wording import Dialect

__all__ = [
    "TREATMENTS",
    "Blueprint",
    "Placed",
    "Treatment",
    "declared_names",
    "first_facts",
    "goal_text",
    "walkthrough",
]


@dataclass(frozen=True, slots=True)
class Treatment:
    """A task type's middle step: what is done to the object, where, and what then is true of it."""

    verb: str
    tool: str
    able: str
    becomes: str
    kinds: frozenset[str]


TREATMENTS: Mapping[str, Treatment] = {
    "pick_clean_then_place_in_recep": Treatment("clean", "SinkBasin", "cleanable", "isClean", rooms.CLEANABLE),
    "pick_heat_then_place_in_recep": Treatment("heat", "Microwave", "heatable", "isHot", rooms.HEATABLE),
    "pick_cool_then_place_in_recep": Treatment("cool", "Fridge", "coolable", "isCool", rooms.COOLABLE),
}

_ABLE = (
    ("cleanable", rooms.CLEANABLE),
    ("heatable", rooms.HEATABLE),
    ("coolable", rooms.COOLABLE),
    ("sliceable", rooms.SLICEABLE),
    ("isReceptacleObject", rooms.HOLLOW),
)


@dataclass(frozen=True, slots=True)
class Placed:
    """An object and the receptacle it starts in."""

    name: str
    kind: str
    receptacle: rooms.Receptacle


@dataclass(frozen=True, slots=True)
class Blueprint:
    """A game before it is put into facts.

    Attributes:
        task_type: One of the six task types.
        layout: The room.
        start: Location where the agent starts.
        target: Object kind the task is about.
        parent: Receptacle kind it must end in, or the kind of lamp.
        things: The objects and where they start.
        sentence: The task sentence without its final dot.
    """

    task_type: str
    layout: rooms.Layout
    start: str
    target: str
    parent: str
    things: tuple[Placed, ...]
    sentence: str


def declared_names(blueprint: Blueprint) -> list[tuple[str, str]]:
    """Name and kind of everything the problem declares, the types that the domain text names included."""
    object_kinds = {thing.kind for thing in blueprint.things} | {"Knife", "ButterKnife"}
    receptacle_kinds = {r.kind for r in blueprint.layout.receptacles} | {"Microwave", "Fridge", "Sink", "SinkBasin"}
    places = dict.fromkeys([blueprint.start, *(receptacle.location for receptacle in blueprint.layout.receptacles)])
    return [
        ("agent1", "agent"),
        *((thing.name, "object") for thing in blueprint.things),
        *((receptacle.name, "receptacle") for receptacle in blueprint.layout.receptacles),
        *((place, "location") for place in places),
        *((f"{kind}Type", "otype") for kind in sorted(object_kinds)),
        *((f"{kind}Type", "rtype") for kind in sorted(receptacle_kinds)),
    ]


def first_facts(blueprint: Blueprint) -> list[Fact]:
    """What is true at the start, in the spelling of the official files."""
    facts: list[Fact] = [("atLocation", "agent1", blueprint.start)]
    object_kinds = sorted({thing.kind for thing in blueprint.things})
    for receptacle in blueprint.layout.receptacles:
        facts.append(("receptacleType", receptacle.name, f"{receptacle.kind}Type"))
        facts.append(("receptacleAtLocation", receptacle.name, receptacle.location))
        if receptacle.kind in rooms.OPENABLE:
            facts.append(("openable", receptacle.name))
    for spot in sorted({receptacle.kind for receptacle in blueprint.layout.receptacles}):
        facts += [("canContain", f"{spot}Type", f"{kind}Type") for kind in object_kinds if spot in rooms.found_in(kind)]
    for thing in blueprint.things:
        facts.append(("objectType", thing.name, f"{thing.kind}Type"))
        facts.append(("inReceptacle", thing.name, thing.receptacle.name))
        facts.append(("objectAtLocation", thing.name, thing.receptacle.location))
        facts.append(("toggleable" if thing.kind in rooms.LAMP_OF.values() else "pickupable", thing.name))
        facts += [(predicate, thing.name) for predicate, kinds in _ABLE if thing.kind in kinds]
    return facts


def goal_text(blueprint: Blueprint) -> str:
    """The goal in PDDL."""
    target, parent = f"{blueprint.target}Type", f"{blueprint.parent}Type"
    if blueprint.task_type == "look_at_obj_in_light":
        return (
            "(and (exists (?lamp - object ?r - receptacle ?a - agent ?l - location) "
            f"(and (objectType ?lamp {parent}) (toggleable ?lamp) (isToggled ?lamp) (receptacleAtLocation ?r ?l) "
            "(atLocation ?a ?l) (inReceptacle ?lamp ?r))) "
            f"(exists (?o - object ?a - agent) (and (objectType ?o {target}) (holds ?a ?o))))"
        )
    if blueprint.task_type == "pick_two_obj_and_place":
        return (
            f"(and (exists (?r - receptacle) (exists (?o1 - object) (and (receptacleType ?r {parent}) "
            f"(objectType ?o1 {target}) (inReceptacle ?o1 ?r) (exists (?o2 - object) (and (not (= ?o1 ?o2)) "
            f"(objectType ?o2 {target}) (inReceptacle ?o2 ?r)))))))"
        )
    treatment = TREATMENTS.get(blueprint.task_type)
    state = f"({treatment.able} ?o) ({treatment.becomes} ?o) " if treatment else ""
    return (
        f"(and (exists (?r - receptacle) (exists (?o - object) (and {state}(objectType ?o {target}) "
        f"(receptacleType ?r {parent}) (inReceptacle ?o ?r)))))"
    )


def walkthrough(blueprint: Blueprint, name_of: Mapping[str, str], dialect: Dialect) -> tuple[str, ...]:
    """Commands that win, planned with full knowledge of what lies where.

    Args:
        blueprint: The game.
        name_of: Readable name by lower-case PDDL name.
        dialect: The wording of the put command.
    """
    commands: list[str] = []
    opened: set[str] = set()
    place = blueprint.start

    def reach(receptacle: rooms.Receptacle, *, inside: bool = True) -> str:
        nonlocal place
        name = name_of[receptacle.name.lower()]
        if receptacle.location != place:
            commands.append(f"go to {name}")
            place = receptacle.location
        if inside and receptacle.kind in rooms.OPENABLE and name not in opened:
            commands.append(f"open {name}")
            opened.add(name)
        return name

    def first(kind: str) -> rooms.Receptacle:
        return next(receptacle for receptacle in blueprint.layout.receptacles if receptacle.kind == kind)

    treatment = TREATMENTS.get(blueprint.task_type)
    wanted = [thing for thing in blueprint.things if thing.kind == blueprint.target]
    for thing in wanted[: 2 if blueprint.task_type == "pick_two_obj_and_place" else 1]:
        name = name_of[thing.name.lower()]
        source = reach(thing.receptacle)
        commands.append(f"take {name} from {source}")
        if blueprint.task_type == "look_at_obj_in_light":
            lamp = next(other for other in blueprint.things if other.kind == blueprint.parent)
            reach(lamp.receptacle, inside=False)
            commands.append(f"use {name_of[lamp.name.lower()]}")
            continue
        if treatment is not None:
            commands.append(f"{treatment.verb} {name} with {reach(first(treatment.tool), inside=False)}")
        commands.append(dialect.put_command(name, reach(first(blueprint.parent))))
    return tuple(commands)
