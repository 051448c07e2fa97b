"""Where things usually are: counted once over the official train split, so that a search can begin where it pays.

What is covered: how often each kind of object lies at the start in a receptacle of each kind, for each single
receptacle of that kind, and how many commands it takes to see what a receptacle holds. The counts come from the 3,553
train games of ALFWorld (MIT licence) and from nothing else: neither validation games nor generated ones are in them.
What is not covered: single rooms (no scene of train is recognised again), and what lies near what.

`python -m trl_agentenvs.alfworld.whereabouts` counts again, in the games under ALFWORLD_DATA, and rewrites the file.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

from trl_agentenvs.alfworld import data
from trl_agentenvs.alfworld.game import Game
from trl_agentenvs.alfworld.reading import kind_of

__all__ = ["FILE", "Whereabouts", "count", "counted", "text_of"]

FILE = Path(__file__).with_name("whereabouts.json")
"""The counts that the package ships."""

_SOURCE = "initial states of the official ALFWorld train split, json_2.1.1 (github.com/alfworld/alfworld, MIT licence)"
_PRIOR_RECEPTACLES = 5.0  # weight of what holds for all kinds of objects, as if that many receptacles had been seen
_LEAST_CHANCE = 1e-4

_Counts = Mapping[str, tuple[int, int]]


@dataclass(frozen=True)
class Whereabouts:
    """Counts by kind. Kinds are the words of readable names: "mug", "sinkbasin".

    Attributes:
        games: How many games were counted.
        openable: By receptacle kind: how many of them can be opened (all start closed), of how many.
        holding: By object kind, then receptacle kind: how many of them hold such an object at the start, of how many in
            the games that have such an object.
    """

    games: int
    openable: _Counts
    holding: Mapping[str, _Counts]

    def chance(self, thing: str, receptacle: str) -> float:
        """How likely one receptacle of a kind holds an object of a kind, in a game that has one; always above 0.

        Pairs that were seen rarely or never lean towards how often such a receptacle holds any kind of object.
        """
        held, seen = self.holding.get(thing, {}).get(receptacle, (0, 0))
        prior = self._any_kind.get(receptacle, _LEAST_CHANCE)
        return max(_LEAST_CHANCE, (held + prior * _PRIOR_RECEPTACLES) / (seen + _PRIOR_RECEPTACLES))

    def commands_to_see(self, receptacle: str) -> float:
        """How many commands it takes on average to go to a receptacle of a kind and see what it holds: 1 to 2."""
        closed, seen = self.openable.get(receptacle, (0, 1))
        return 1.0 + closed / seen

    @cached_property
    def _any_kind(self) -> Mapping[str, float]:
        """By receptacle kind: the chance that it holds an object of a kind, whatever kind that is."""
        held: Counter[str] = Counter()
        seen: Counter[str] = Counter()
        for counts in self.holding.values():
            for receptacle, (holding, standing) in counts.items():
                held[receptacle] += holding
                seen[receptacle] += standing
        return {receptacle: held[receptacle] / seen[receptacle] for receptacle in seen}


def count(games: Iterable[Game]) -> Whereabouts:
    """Count where the objects of some games are at the start.

    Only objects that can be taken or switched on are counted; the rest is decoration that no task is about.
    """
    counted_games = 0
    openable: dict[str, tuple[int, int]] = {}
    holding: dict[str, dict[str, tuple[int, int]]] = {}
    for game in games:
        counted_games += 1
        kind = {name: kind_of(readable) for name, readable in game.name_of.items()}
        usable = game.able["pickupable"] | game.able["toggleable"]
        standing = Counter(kind[receptacle] for receptacle in game.location_of)
        closed = Counter(kind[receptacle] for receptacle in game.location_of if receptacle in game.able["openable"])
        for receptacle, number in standing.items():
            _add(openable, receptacle, closed[receptacle], number)
        pairs = Counter(
            pair
            for receptacle in game.location_of
            for pair in {(kind[thing], kind[receptacle]) for thing in game.first_contents[receptacle] & usable}
        )
        for thing in sorted({thing for thing, _ in pairs}):
            for receptacle, number in standing.items():
                _add(holding.setdefault(thing, {}), receptacle, pairs[thing, receptacle], number)
    return Whereabouts(counted_games, openable, holding)


def _add(counts: dict[str, tuple[int, int]], kind: str, part: int, whole: int) -> None:
    before = counts.get(kind, (0, 0))
    counts[kind] = (before[0] + part, before[1] + whole)


@lru_cache(maxsize=1)
def counted() -> Whereabouts:
    """The counts that the package ships."""
    read = json.loads(FILE.read_text(encoding="utf-8"))

    def pairs(counts: Mapping[str, list[int]]) -> _Counts:
        return {kind: (part, whole) for kind, (part, whole) in counts.items()}

    holding = {thing: pairs(counts) for thing, counts in read["holding"].items()}
    return Whereabouts(read["games"], pairs(read["openable"]), holding)


def text_of(whereabouts: Whereabouts) -> str:
    """The text of `FILE`: JSON, one line for each kind of object."""
    lines = [
        f'  "source": {json.dumps(_SOURCE)},',
        f'  "games": {whereabouts.games},',
        f'  "openable": {json.dumps(whereabouts.openable, sort_keys=True)},',
        '  "holding": {',
        ",\n".join(
            f"    {json.dumps(thing)}: {json.dumps(counts, sort_keys=True)}"
            for thing, counts in sorted(whereabouts.holding.items())
        ),
        "  }",
    ]
    return "\n".join(["{", *lines, "}", ""])


if __name__ == "__main__":
    found = count(Game.from_file(path) for path in data.game_ids("train", "official"))
    FILE.write_text(text_of(found), encoding="utf-8")
    print(f"{FILE.name}: {len(found.holding)} kinds of objects in {found.games} games")
