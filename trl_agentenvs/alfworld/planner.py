"""Commands that win a game from where it stands now, found with full knowledge of it: for hints and as ground truth.

What is covered: `plan(engine)` works in every state that can be reached, after whatever mistakes: another object in the
hand, an object heated and cooled again, one of two objects placed, receptacles closed or at the place where the agent
stands. It reads the engine and changes nothing. Of all ways of winning that the goal spells out it takes the one with
the fewest commands. Each way is played in the obvious order (put down, fetch, treat, put in place), so plans are short,
but it is not proved that there is none shorter. What fits into no receptacle of its room stays in the hand for ever
once it is taken (a paper towel roll in many official kitchens); where that loses the game, `PlanError` names it. What
is not covered: slicing, and other goals than the six task types have.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import permutations, product
from math import prod

from trl_agentenvs.alfworld.engine import Engine
from trl_agentenvs.alfworld.goal import Fact

__all__ = ["MAX_WAYS", "PlanError", "plan"]

MAX_WAYS = 20_000
"""Most ways of winning that are compared. Official games have at most a few hundred."""

_VERBS = {"ishot": "heat", "iscool": "cool", "isclean": "clean"}
_PERMUTED = 2  # with so many objects to see to, or fewer, every order is tried


class PlanError(ValueError):
    """The game cannot be won from its present state; the message is one sentence that says why."""


class _DeadEnd(Exception):  # noqa: N818 - no error: another way of winning may do
    """A way of winning is impossible, or no shorter than one already found. The message is empty or says why."""


def plan(engine: Engine) -> list[str]:
    """Find commands that win.

    Args:
        engine: A game in any state. It is not changed.

    Returns:
        The commands, each of which the game accepts when its turn comes; none if the game is won.

    Raises:
        PlanError: The game cannot be won from here, or its goal is of another form than those of the six task types.
    """
    if engine.won:
        return []
    parts = engine.game.goal.parts
    if prod(len(part) for part in parts) > MAX_WAYS:
        raise PlanError(f"the goal can be reached in more than {MAX_WAYS} ways, too many to compare")
    view = _View(engine)
    best: list[str] | None = None
    obstacle = "the room lacks what the goal asks for"
    for facts in product(*parts):
        way = _Way.of(frozenset[Fact]().union(*facts), engine.facts)
        for order in way.orders():
            draft = _Draft(view, limit=None if best is None else len(best) - 1)
            try:
                draft.play(way, order)
            except _DeadEnd as reason:
                obstacle = str(reason) or obstacle
            else:
                best = draft.commands
    if best is None:
        raise PlanError(f"the game cannot be won from here: {obstacle}")
    return best


@dataclass(frozen=True, slots=True)
class _Way:
    """One of the ways to win, as what is to be done.

    Attributes:
        targets: Receptacle that an object must end in, by object.
        treatments: What is still to be done to an object, by object: "heat", "cool", "clean".
        hold: Object to end with in the hand.
        lamp: Lamp still to be used.
        place: Place to end at.
    """

    targets: Mapping[str, str]
    treatments: Mapping[str, Sequence[str]]
    hold: str | None
    lamp: str | None
    place: str | None

    @classmethod
    def of(cls, wanted: Set[Fact], present: Set[Fact]) -> _Way:
        """Read the facts that must be true.

        Raises:
            PlanError: The facts are none that the goals of the six task types speak of.
        """
        targets: dict[str, str] = {}
        treatments: dict[str, list[str]] = {}
        last: dict[str, str | None] = dict.fromkeys(("holds", "istoggled", "atlocation"))
        for fact in sorted(wanted):
            predicate, thing = fact[0], fact[-1]
            if predicate == "inreceptacle" and fact[1] not in targets:
                targets[fact[1]] = fact[2]
            elif predicate in _VERBS:
                if fact not in present:
                    treatments.setdefault(thing, []).append(_VERBS[predicate])
            elif predicate not in last or last[predicate] is not None:
                raise PlanError(f"the goal speaks of {predicate!r} in a way that none of the six task types does")
            elif predicate != "istoggled" or fact not in present:
                last[predicate] = thing
        return cls(targets, treatments, last["holds"], last["istoggled"], last["atlocation"])

    def orders(self) -> Iterable[Sequence[str]]:
        """In which orders to see to the objects that must be treated or end in a receptacle."""
        things = tuple(dict.fromkeys([*self.targets, *self.treatments]))
        return permutations(things) if len(things) <= _PERMUTED else [things]


class _View:
    """A game's present state, with what all drafts of one plan ask of it looked up once.

    Args:
        engine: The game.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.game = engine.game
        self.facts = engine.facts
        self.place_of = engine.game.location_of
        self.names = engine.game.name_of
        self._sources: dict[str, list[str]] = {}
        self._takers: dict[str, list[str]] = {}
        self._tools: dict[tuple[str, str], list[str]] = {}

    def sources(self, thing: str) -> list[str]:
        """The receptacles that an object is in; some objects are in two at once."""
        if thing not in self._sources:
            self._sources[thing] = [r for r in self.place_of if ("inreceptacle", thing, r) in self.facts]
        return self._sources[thing]

    def takers(self, thing: str) -> list[str]:
        """The receptacles that an object can be put into."""
        if thing not in self._takers:
            kind_of, pairs, kind = self.game.receptacle_type, self.game.can_contain, self.game.object_type.get(thing)
            self._takers[thing] = [r for r in self.place_of if (kind_of.get(r), kind) in pairs]
        return self._takers[thing]

    def tools(self, verb: str, thing: str) -> list[str]:
        """The receptacles that heat, cool or clean an object."""
        if (verb, thing) not in self._tools:
            self._tools[verb, thing] = [r for r in self.place_of if self.engine.treats(verb, r, thing)]
        return self._tools[verb, thing]


class _Draft:
    """A plan in the making: the commands so far, and where they lead.

    Args:
        view: The present state of the game.
        limit: The draft is given up when it has more commands. None: never.
    """

    def __init__(self, view: _View, limit: int | None) -> None:
        self.commands: list[str] = []
        self._view = view
        self._limit = limit
        self._place = view.engine.location
        self._held = view.engine.held
        self._opened: set[str] = set()
        self._taken: set[tuple[str, str]] = set()

    def play(self, way: _Way, order: Iterable[str]) -> None:
        """Add the commands of a way to win.

        Args:
            way: The way.
            order: In which order to see to its objects.

        Raises:
            _DeadEnd: There are none, or too many.
        """
        for thing in order:
            self._deliver(thing, way.targets.get(thing), way.treatments.get(thing, ()))
        if way.hold is not None:
            self._pick_up(way.hold)
        if way.lamp is not None:
            self._go(self._nearest(self._view.sources(way.lamp), inside=False))
            self._add(f"use {self._view.names[way.lamp]}")
        if way.place is not None and way.place != self._place:
            self._go(self._nearest(self._view.game.receptacles_at.get(way.place, ()), inside=False))

    # What a player can set out to do.

    def _deliver(self, thing: str, target: str | None, treatments: Sequence[str]) -> None:
        if not treatments and (target is None or self._is_in(thing, target)):
            return
        self._pick_up(thing, rather_not_from=target)
        name = self._view.names[thing]
        for verb in treatments:
            tool = self._nearest(self._view.tools(verb, thing), on_the_way_to=target, inside=False)
            self._go(tool)
            self._add(f"{verb} {name} with {self._view.names[tool]}")
        if target is not None and not self._is_in(thing, target):
            if target not in self._view.takers(thing):
                raise _DeadEnd
            self._put(thing, target)

    def _pick_up(self, thing: str, rather_not_from: str | None = None) -> None:
        if thing == self._held:
            return
        if thing not in self._view.game.able["pickupable"]:
            raise _DeadEnd
        sources = self._view.sources(thing)
        source = self._nearest([other for other in sources if other != rather_not_from] or sources)
        if self._held is not None:
            takers = self._view.takers(self._held)
            if not takers:
                raise _DeadEnd(f"there is nowhere to put down {self._view.names[self._held]}")
            self._put(self._held, self._nearest(takers, on_the_way_to=source))
        self._open_up(source)
        self._add(f"take {self._view.names[thing]} from {self._view.names[source]}")
        self._taken.add((thing, source))
        self._held = thing

    def _put(self, thing: str, receptacle: str) -> None:
        self._open_up(receptacle)
        self._add(self._view.game.dialect.put_command(self._view.names[thing], self._view.names[receptacle]))
        self._held = None

    # Single commands.

    def _go(self, receptacle: str) -> None:
        if self._view.place_of[receptacle] != self._place:
            self._add(f"go to {self._view.names[receptacle]}")
            self._place = self._view.place_of[receptacle]

    def _open_up(self, receptacle: str) -> None:
        self._go(receptacle)
        if self._is_closed(receptacle):
            self._add(f"open {self._view.names[receptacle]}")
            self._opened.add(receptacle)

    def _add(self, command: str) -> None:
        if self._limit is not None and len(self.commands) >= self._limit:
            raise _DeadEnd
        self.commands.append(command)

    # What is where.

    def _is_in(self, thing: str, receptacle: str) -> bool:
        return receptacle in self._view.sources(thing) and (thing, receptacle) not in self._taken

    def _is_closed(self, receptacle: str) -> bool:
        return (
            receptacle in self._view.game.able["openable"]
            and receptacle not in self._opened
            and ("opened", receptacle) not in self._view.facts
        )

    def _nearest(self, receptacles: Sequence[str], on_the_way_to: str | None = None, *, inside: bool = True) -> str:
        """The receptacle that takes the fewest commands to go to and, for its inside, to open.

        Args:
            receptacles: Which to choose from.
            on_the_way_to: Where one goes on to anyway: what stands there, or is opened there, costs nothing more.
            inside: Whether it must be open.
        """
        if not receptacles:
            raise _DeadEnd
        passed = {self._place, None if on_the_way_to is None else self._view.place_of.get(on_the_way_to)}

        def commands(receptacle: str) -> int:
            detour = self._view.place_of[receptacle] not in passed
            return detour + (inside and receptacle != on_the_way_to and self._is_closed(receptacle))

        return min(receptacles, key=commands)
