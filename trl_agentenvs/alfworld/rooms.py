"""Rooms for generated games: which receptacles stand where, and which objects may lie in them.

Scenes are numbered as in ALFRED: kitchens 1 to 30, living rooms 201 to 230, bedrooms 301 to 330, bathrooms 401 to 430.
A number fixes the room's receptacles, their names and their places; games in the same scene differ in what lies where
and in the task. The last six scenes of each kind (25 to 30 and so on) are held out for valid_unseen. Scene numbers from
10000 on are free: as many further rooms as there are numbers (`free_scene`), odd ones held out. No held-out room holds
the same receptacles as a room of train. Rooms have 5 to 44 receptacles; about a quarter of the scenes have at most
8, so that small models find games they can play.

What is covered: receptacle kinds, sizes and shared places like those of the official games. What is not covered: the
official floor plans (the numbers are the same, the rooms are not), and decoration that cannot be picked up.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from zlib import crc32

__all__ = [
    "CLEANABLE",
    "COOLABLE",
    "HEATABLE",
    "HOLLOW",
    "LAMP_OF",
    "LAMP_STANDS",
    "OPENABLE",
    "ROOMS",
    "SLICEABLE",
    "Layout",
    "Receptacle",
    "found_in",
    "free_scene",
    "layout",
    "new_location",
    "new_name",
    "objects_of",
    "room_of",
    "scenes",
    "size_of",
]

ROOMS = ("kitchen", "livingroom", "bedroom", "bathroom")
"""The kinds of room."""

_FIRST_SCENE = {"kitchen": 1, "livingroom": 201, "bedroom": 301, "bathroom": 401}
_SCENES_PER_ROOM = 30
_FIRST_FREE_SCENE = 10_000
_HELD_OUT_SHARE = 5  # one in five of the looks a room can have is for held-out rooms alone
_HELD_OUT_SALT = 3  # with it, each kind of room has held-out looks at each size
_SCATTER, _SCATTER_BITS = 2_654_435_761, 16  # Knuth's multiplicative hash: neighbours get unrelated sizes
_HELD_OUT_PER_ROOM = 6
_SMALL_SIZES = (5, 5, 6, 6, 7, 7, 8, 8)
_MEDIUM_SIZE = 10
_LARGEST = {"kitchen": 44, "livingroom": 36, "bedroom": 36, "bathroom": 26}
_HELD_OUT_RANKS = (1, 6, 11, 16, 21, 26)  # spread over the sizes, two small rooms among them
_SHARED_PLACE = 0.09  # how often a receptacle stands where another one does, as in official games

# What every room of a kind has, and what else it may have: kind -> (how often it is chosen, most in one room).
_ALWAYS: Mapping[str, tuple[str, ...]] = {
    "kitchen": ("Fridge", "Microwave", "SinkBasin", "CounterTop", "GarbageCan"),
    "livingroom": ("Sofa", "CoffeeTable", "SideTable", "GarbageCan"),
    "bedroom": ("Bed", "Desk", "GarbageCan", "Drawer"),
    "bathroom": ("Toilet", "SinkBasin", "CounterTop", "GarbageCan"),
}
_OFTEN: Mapping[str, Mapping[str, tuple[int, int]]] = {
    "kitchen": {"Cabinet": (10, 20), "Drawer": (6, 12), "StoveBurner": (5, 4), "CoffeeMachine": (3, 1),
                "Toaster": (2, 1), "DiningTable": (2, 1), "CounterTop": (2, 3), "Shelf": (1, 3), "SideTable": (1, 1)},
    "livingroom": {"Drawer": (6, 12), "Shelf": (4, 8), "Cabinet": (2, 6), "ArmChair": (3, 3), "SideTable": (2, 3),
                   "Sofa": (1, 2), "DiningTable": (2, 1), "TVStand": (2, 1), "Dresser": (2, 1), "Ottoman": (1, 1),
                   "Safe": (1, 1)},
    "bedroom": {"Drawer": (6, 14), "Shelf": (4, 9), "SideTable": (3, 2), "Dresser": (2, 1), "Desk": (1, 2),
                "Cabinet": (1, 4), "ArmChair": (1, 2), "LaundryHamper": (2, 1), "Safe": (2, 1), "Bed": (1, 2)},
    "bathroom": {"Drawer": (5, 8), "Cabinet": (4, 7), "HandTowelHolder": (3, 2), "TowelHolder": (3, 1), "Shelf": (1, 3),
                 "ToiletPaperHanger": (3, 1), "BathtubBasin": (2, 1), "SinkBasin": (1, 2), "CounterTop": (1, 2),
                 "Cart": (1, 1)},
}  # fmt: skip

OPENABLE = frozenset({"Cabinet", "Drawer", "Fridge", "Microwave", "Safe"})
"""Receptacle kinds that start closed and can be opened."""

LAMP_OF: Mapping[str, str] = {"bedroom": "DeskLamp", "livingroom": "FloorLamp"}
"""The lamp that a kind of room has."""

LAMP_STANDS = frozenset({"Desk", "SideTable", "Dresser", "CoffeeTable"})
"""Receptacle kinds that a lamp may stand on."""

# Object kind -> (rooms, receptacle kinds from the likeliest to the least likely).
_OBJECTS: Mapping[str, tuple[str, str]] = {
    "Apple": ("kitchen", "Fridge CounterTop GarbageCan DiningTable Microwave SinkBasin SideTable"),
    "Bread": ("kitchen", "CounterTop DiningTable Fridge SideTable Microwave GarbageCan"),
    "Egg": ("kitchen", "Fridge CounterTop Microwave GarbageCan SinkBasin DiningTable SideTable"),
    "Lettuce": ("kitchen", "CounterTop Fridge DiningTable SinkBasin SideTable GarbageCan"),
    "Potato": ("kitchen", "CounterTop Fridge DiningTable SinkBasin Microwave GarbageCan SideTable"),
    "Tomato": ("kitchen", "Fridge CounterTop DiningTable GarbageCan SinkBasin SideTable Microwave"),
    "Bowl": ("kitchen bedroom", "Cabinet Fridge CounterTop DiningTable Desk Shelf SinkBasin Microwave Dresser "
             "SideTable"),
    "Cup": ("kitchen", "Cabinet CounterTop Fridge DiningTable SinkBasin Microwave Shelf SideTable"),
    "Mug": ("kitchen bedroom", "CounterTop CoffeeMachine Desk Cabinet Fridge DiningTable Microwave SinkBasin Shelf "
            "SideTable Dresser"),
    "Plate": ("kitchen", "Cabinet CounterTop DiningTable Fridge Shelf SinkBasin SideTable Microwave"),
    "Kettle": ("kitchen", "StoveBurner CounterTop Cabinet DiningTable SinkBasin Shelf"),
    "Pan": ("kitchen", "StoveBurner CounterTop Cabinet Fridge DiningTable SinkBasin"),
    "Pot": ("kitchen", "StoveBurner CounterTop Fridge Cabinet DiningTable SinkBasin Shelf"),
    "ButterKnife": ("kitchen", "CounterTop DiningTable Drawer SinkBasin SideTable"),
    "Fork": ("kitchen", "CounterTop DiningTable Drawer SinkBasin SideTable"),
    "Knife": ("kitchen", "CounterTop DiningTable Drawer SinkBasin SideTable"),
    "Ladle": ("kitchen", "CounterTop Cabinet Drawer DiningTable SinkBasin SideTable"),
    "Spatula": ("kitchen", "CounterTop DiningTable Drawer SinkBasin SideTable StoveBurner"),
    "Spoon": ("kitchen", "CounterTop Drawer DiningTable SinkBasin SideTable"),
    "DishSponge": ("kitchen", "CounterTop Cabinet Drawer DiningTable SinkBasin GarbageCan Shelf SideTable BathtubBasin "
                   "Toilet Cart"),
    "Glassbottle": ("kitchen", "Cabinet CounterTop DiningTable SinkBasin GarbageCan Fridge Shelf"),
    "PaperTowelRoll": ("kitchen bathroom", "CounterTop GarbageCan Shelf DiningTable Toilet SideTable"),
    "PepperShaker": ("kitchen", "CounterTop Cabinet DiningTable Drawer Shelf SideTable"),
    "SaltShaker": ("kitchen", "Cabinet CounterTop DiningTable Drawer Shelf SideTable"),
    "SoapBottle": ("kitchen bathroom", "CounterTop Cabinet DiningTable GarbageCan Toilet Shelf Drawer SideTable Cart "
                   "Dresser"),
    "WineBottle": ("kitchen", "CounterTop DiningTable Cabinet GarbageCan Shelf Fridge"),
    "Box": ("livingroom", "Sofa CoffeeTable DiningTable SideTable Cabinet Shelf Dresser Desk TVStand ArmChair"),
    "Book": ("bedroom livingroom", "Bed Desk CounterTop Drawer Dresser CoffeeTable Cabinet DiningTable ArmChair "
             "SideTable Sofa Shelf TVStand"),
    "CellPhone": ("bedroom livingroom", "Bed Desk CounterTop Drawer SideTable Dresser Shelf DiningTable ArmChair Safe "
                  "CoffeeTable Sofa Cabinet Ottoman"),
    "CreditCard": ("bedroom livingroom", "SideTable Drawer Shelf Desk Dresser Sofa CounterTop ArmChair CoffeeTable "
                   "DiningTable TVStand Ottoman"),
    "KeyChain": ("bedroom livingroom", "SideTable Drawer Shelf Desk Dresser CoffeeTable ArmChair DiningTable Sofa Safe "
                 "TVStand Ottoman"),
    "Laptop": ("bedroom livingroom", "Bed Desk Sofa CoffeeTable DiningTable Dresser SideTable ArmChair TVStand "
               "Ottoman"),
    "Pillow": ("bedroom livingroom", "Bed Sofa ArmChair"),
    "TissueBox": ("bedroom livingroom", "Shelf Drawer CoffeeTable DiningTable CounterTop SideTable Desk Cabinet "
                  "TVStand Cart Toilet Dresser"),
    "AlarmClock": ("bedroom", "Desk SideTable Shelf Dresser DiningTable CounterTop"),
    "CD": ("bedroom", "Desk Drawer SideTable Dresser Shelf GarbageCan DiningTable Cabinet Safe"),
    "Pen": ("bedroom", "Desk Drawer SideTable Shelf Dresser DiningTable CounterTop GarbageCan CoffeeTable"),
    "Pencil": ("bedroom", "Desk SideTable Drawer Shelf Dresser DiningTable GarbageCan CoffeeTable CounterTop"),
    "TeddyBear": ("bedroom", "Bed"),
    "Newspaper": ("livingroom", "Sofa CoffeeTable Shelf DiningTable SideTable ArmChair Dresser Ottoman Drawer TVStand "
                  "Cabinet"),
    "RemoteControl": ("livingroom", "CoffeeTable Sofa SideTable ArmChair DiningTable TVStand Dresser Drawer Desk Shelf "
                      "Ottoman"),
    "Statue": ("livingroom", "CoffeeTable SideTable Shelf CounterTop DiningTable Dresser TVStand Desk Safe"),
    "Vase": ("livingroom", "Shelf CounterTop CoffeeTable Cabinet DiningTable SideTable Dresser TVStand Desk Safe"),
    "Watch": ("livingroom", "CoffeeTable SideTable Drawer DiningTable TVStand Dresser Shelf Desk"),
    "WateringCan": ("livingroom", "CoffeeTable Shelf SideTable"),
    "Candle": ("bathroom", "Toilet CounterTop Drawer Cabinet Shelf SideTable DiningTable Cart CoffeeTable Dresser "
               "TVStand"),
    "Cloth": ("bathroom", "BathtubBasin CounterTop Cabinet Drawer SinkBasin Shelf Toilet Cart Dresser"),
    "HandTowel": ("bathroom", "HandTowelHolder CounterTop Cabinet GarbageCan"),
    "ScrubBrush": ("bathroom", "Toilet CounterTop Cabinet"),
    "SoapBar": ("bathroom", "CounterTop Toilet SinkBasin Drawer BathtubBasin Cabinet GarbageCan Shelf SideTable Cart"),
    "SprayBottle": ("bathroom", "CounterTop Toilet Cabinet GarbageCan Shelf DiningTable SideTable Cart Dresser"),
    "ToiletPaper": ("bathroom", "Toilet CounterTop ToiletPaperHanger GarbageCan Drawer Cabinet Shelf SideTable Dresser "
                    "Cart BathtubBasin"),
    "Towel": ("bathroom", "TowelHolder CounterTop BathtubBasin"),
}  # fmt: skip

HEATABLE = frozenset({"Apple", "Bread", "Cup", "Egg", "Mug", "Plate", "Potato", "Tomato"})
"""Object kinds that a microwave heats."""

COOLABLE = HEATABLE | frozenset({"Bowl", "Lettuce", "Pan", "Pot", "WineBottle"})
"""Object kinds that a fridge cools."""

CLEANABLE = frozenset({
    "Apple", "Bowl", "ButterKnife", "Cloth", "Cup", "DishSponge", "Egg", "Fork", "Kettle", "Knife", "Ladle", "Lettuce",
    "Mug", "Pan", "Plate", "Pot", "Potato", "SoapBar", "Spatula", "Spoon", "Tomato",
})  # fmt: skip
"""Object kinds that a sink cleans."""

SLICEABLE = frozenset({"Apple", "Bread", "Egg", "Lettuce", "Potato", "Tomato"})
"""Object kinds that a knife slices."""

HOLLOW = frozenset({"Bowl", "Box", "Cup", "Mug", "Pan", "Plate", "Pot"})
"""Object kinds that can have something inside."""


@dataclass(frozen=True, slots=True)
class Receptacle:
    """A receptacle of a scene.

    Attributes:
        name: PDDL name, in the form of the official games.
        kind: "Fridge", "SideTable" and the like.
        location: PDDL name of the place in front of it.
    """

    name: str
    kind: str
    location: str


@dataclass(frozen=True, slots=True)
class Layout:
    """A scene's room: what stands where.

    Attributes:
        scene: The scene number.
        room: One of `ROOMS`.
        receptacles: Everything that can hold objects.
    """

    scene: int
    room: str
    receptacles: tuple[Receptacle, ...]


def scenes(room: str, *, held_out: bool) -> tuple[int, ...]:
    """Scene numbers of a kind of room.

    Args:
        room: One of `ROOMS`.
        held_out: True for the scenes that only valid_unseen uses, False for the others.
    """
    first = _FIRST_SCENE[room]
    split = first + _SCENES_PER_ROOM - _HELD_OUT_PER_ROOM
    return tuple(range(split, first + _SCENES_PER_ROOM) if held_out else range(first, split))


def free_scene(room: str, number: int, *, held_out: bool = False) -> int:
    """The scene number of one of the endless further rooms of a kind.

    Args:
        room: One of `ROOMS`.
        number: Any non-negative integer; each gives another room.
        held_out: True for a room that looks like none of those with False.
    """
    return _FIRST_FREE_SCENE + 2 * (number * len(ROOMS) + ROOMS.index(room)) + held_out


def room_of(scene: int) -> str:
    """The kind of room a scene number stands for.

    Raises:
        ValueError: There is no such scene.
    """
    if scene >= _FIRST_FREE_SCENE:
        return ROOMS[(scene - _FIRST_FREE_SCENE) // 2 % len(ROOMS)]
    for room, first in _FIRST_SCENE.items():
        if first <= scene < first + _SCENES_PER_ROOM:
            return room
    raise ValueError(f"got scene {scene}; expected 1-30, 201-230, 301-330, 401-430 or 10000 and more")


def size_of(scene: int) -> int:
    """How many receptacles a scene has, without laying it out."""
    sizes = _sizes(room_of(scene))
    if scene >= _FIRST_FREE_SCENE:
        return tuple(sizes.values())[(scene * _SCATTER >> _SCATTER_BITS) % len(sizes)]
    return sizes[scene]


@lru_cache(maxsize=len(ROOMS))
def _sizes(room: str) -> Mapping[int, int]:
    """Receptacle count by scene: all sizes occur in both halves, in an order that follows no pattern."""
    fewest = len(_ALWAYS[room]) + 1
    larger = _SCENES_PER_ROOM - len(_SMALL_SIZES)
    span = _LARGEST[room] - _MEDIUM_SIZE
    sizes = [max(size, fewest) for size in _SMALL_SIZES]
    sizes += [_MEDIUM_SIZE + span * step // (larger - 1) for step in range(larger)]
    unseen = [sizes[rank] for rank in _HELD_OUT_RANKS]
    seen = [size for rank, size in enumerate(sizes) if rank not in _HELD_OUT_RANKS]
    random.Random(f"alfworld sizes:{room}").shuffle(seen)
    return dict(zip(scenes(room, held_out=False) + scenes(room, held_out=True), seen + unseen, strict=True))


@lru_cache(maxsize=len(ROOMS) * _SCENES_PER_ROOM)
def layout(scene: int) -> Layout:
    """The room of a scene; the same number gives the same room in every process and Python version.

    Raises:
        ValueError: There is no such scene.
    """
    room = room_of(scene)
    rng = _scene_rng(scene)
    kinds = _draw_kinds(scene, rng)
    while not _may_stand_in(kinds, scene):
        kinds = _draw_kinds(scene, rng)
    places: list[str] = []
    receptacles: list[Receptacle] = []
    used: set[str] = set()
    for kind in kinds:
        if places and rng.random() < _SHARED_PLACE:
            place = rng.choice(places)
        else:
            place = new_location(rng, places)
            places.append(place)
        receptacles.append(Receptacle(new_name(rng, kind, used), kind, place))
    return Layout(scene, room, tuple(receptacles))


def _draw_kinds(scene: int, rng: random.Random) -> tuple[str, ...]:
    """The receptacle kinds of a scene, sorted."""
    room = room_of(scene)
    kinds = list(_ALWAYS[room])
    while len(kinds) < size_of(scene):
        open_kinds = {kind: often for kind, (often, most) in _OFTEN[room].items() if kinds.count(kind) < most}
        kinds.append(rng.choices(list(open_kinds), list(open_kinds.values()))[0])
    return tuple(sorted(kinds))


def _may_stand_in(kinds: tuple[str, ...], scene: int) -> bool:
    """Whether a scene may hold these: a room of train must not look like a held-out one, nor the other way round."""
    room = room_of(scene)
    if scene in scenes(room, held_out=True):
        return True
    fixed_held_out = kinds in _fixed_kinds(room, held_out=True)
    if scene < _FIRST_FREE_SCENE:
        return not fixed_held_out
    free_held_out = crc32(f"{_HELD_OUT_SALT}:{room}:{','.join(kinds)}".encode()) % _HELD_OUT_SHARE == 0
    if (scene - _FIRST_FREE_SCENE) % 2:
        return free_held_out and kinds not in _fixed_kinds(room, held_out=False)
    return not free_held_out and not fixed_held_out


@lru_cache(maxsize=2 * len(ROOMS))
def _fixed_kinds(room: str, *, held_out: bool) -> frozenset[tuple[str, ...]]:
    """What stands in the numbered scenes of a kind of room."""
    if held_out:
        return frozenset(_draw_kinds(scene, _scene_rng(scene)) for scene in scenes(room, held_out=True))
    return frozenset(tuple(r.kind for r in layout(scene).receptacles) for scene in scenes(room, held_out=False))


def _scene_rng(scene: int) -> random.Random:
    return random.Random(f"alfworld scene:{scene}")


def new_location(rng: random.Random, taken: list[str]) -> str:
    """A PDDL location name in the official form (grid cell, rotation, tilt) that is not in `taken`."""
    while True:
        x, z, turn, tilt = rng.randint(-9, 9), rng.randint(-9, 9), rng.randint(0, 3), rng.choice((0, 15, 30, 45, 60))
        name = "_bar_".join(["loc", *(f"_minus_{-v}" if v < 0 else str(v) for v in (x, z)), str(turn), str(tilt)])
        if name not in taken:
            return name


def new_name(rng: random.Random, kind: str, used: set[str]) -> str:
    """A PDDL object or receptacle name in the official form (kind and coordinates); added to `used`."""
    head, tail = {"SinkBasin": ("Sink", "_bar_SinkBasin"), "BathtubBasin": ("Bathtub", "_bar_BathtubBasin")}.get(
        kind, (kind, "")
    )
    while True:
        centimetres = [rng.randint(-299, 299) for _ in range(3)]
        name = (
            head
            + "".join(
                f"_bar_{'_plus' if c >= 0 else '_minus'}_{abs(c) // 100:02d}_dot_{abs(c) % 100:02d}"
                for c in centimetres
            )
            + tail
        )
        if name not in used:
            used.add(name)
            return name


def objects_of(room: str) -> tuple[str, ...]:
    """Object kinds that occur in a kind of room, lamps aside."""
    return tuple(kind for kind, (where, _) in _OBJECTS.items() if room in where.split())


@lru_cache(maxsize=len(_OBJECTS) + 1)
def found_in(object_kind: str) -> Mapping[str, float]:
    """How likely an object kind lies in each receptacle kind, relatively; empty for an unknown kind.

    Args:
        object_kind: "Mug" and the like.

    Returns:
        Weight by receptacle kind, likeliest first.
    """
    if object_kind not in _OBJECTS:
        return {}
    return {kind: 1.0 / (rank + 1) for rank, kind in enumerate(_OBJECTS[object_kind][1].split())}
