"""One episode of a game: commands in, feedback out.

What is covered: the 14 actions of the ALFRED domain and `help`, with the text, the win condition and the list of
possible commands that TextWorld gives for the same file, faults of the original included (`go to` a receptacle at the
place where the agent stands does nothing; an object can be examined only in the hand; `use` always says "turn on").
What is not covered: any tolerance. A command must be written exactly, else the answer is "Nothing happens."; no
command raises. `won` is what the game says now: it can turn false again when a placed object is taken back.

An engine belongs to one episode in one thread; the `Game` can be shared.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass

from trl_agentenvs.alfworld import wording
from trl_agentenvs.alfworld.game import Game
from trl_agentenvs.alfworld.goal import Fact
from trl_agentenvs.alfworld.wording import NOTHING_HAPPENS

__all__ = ["Engine"]

_KNIVES = frozenset({"knifetype", "butterknifetype"})


@dataclass(frozen=True, slots=True)
class _Treatment:
    """What heating, cooling or cleaning takes and does.

    Attributes:
        able: Static predicate that the object must satisfy.
        tools: Receptacle types that do it; None for the sinks that the game names.
        becomes: Fact that is then true of the object.
        ends: Fact that is then no longer true of it.
    """

    able: str
    tools: frozenset[str] | None
    becomes: str
    ends: str | None


_TREATMENTS = {
    "heat": _Treatment("heatable", frozenset({"microwavetype"}), "ishot", "iscool"),
    "cool": _Treatment("coolable", frozenset({"fridgetype"}), "iscool", "ishot"),
    "clean": _Treatment("cleanable", None, "isclean", None),
}


class Engine:
    """Plays one game.

    Args:
        game: The game to play.
    """

    def __init__(self, game: Game) -> None:
        self.game = game
        self.won = False
        self._location = game.start
        self._held: str | None = None
        self._contents: dict[str, set[str]] = {}
        self._facts: set[Fact] = set()
        self._taken_from: set[tuple[str, str]] = set()
        self._goal_touched = False
        self.reset()

    @property
    def task(self) -> str:
        """The task sentence, without its final dot."""
        return self.game.task

    @property
    def location(self) -> str:
        """Where the agent stands now."""
        return self._location

    @property
    def held(self) -> str | None:
        """The object in the agent's hand now, if any."""
        return self._held

    @property
    def facts(self) -> Set[Fact]:
        """The dynamic facts that are true now; a view that changes with the game, not to be written to."""
        return self._facts

    def treats(self, verb: str, receptacle: str, thing: str) -> bool:
        """Whether `verb` ("heat", "cool" or "clean") can be done to an object with a receptacle."""
        return self._treats(_TREATMENTS[verb], receptacle, thing)

    def reset(self) -> str:
        """Start again from the beginning.

        Returns:
            The intro: what is in the room and what the task is.
        """
        game = self.game
        self._location = game.start
        self._held = game.first_held
        self._contents = {receptacle: set(things) for receptacle, things in game.first_contents.items()}
        self._facts = set(game.first_facts)
        self._taken_from = set()
        self.won = game.goal.holds(self._facts)
        return game.intro

    def step(self, command: str) -> str:
        """Carry out one command.

        Args:
            command: The command, exactly as the game words it. White space around it is ignored.

        Returns:
            The feedback; "Nothing happens." if the command is not possible now.
        """
        verb, _, rest = command.strip().partition(" ")
        action = _ACTIONS.get(verb)
        if action is None:
            return NOTHING_HAPPENS
        feedback = action(self, rest)
        if self._goal_touched:
            self._goal_touched = False
            self.won = self.game.goal.holds(self._facts)
        return NOTHING_HAPPENS if feedback is None else feedback

    def admissible(self) -> list[str]:
        """All commands that are possible now, sorted."""
        game, names, held = self.game, self.game.name_of, self._held
        commands = {"look", "inventory"}
        if game.dialect.help is not None:
            commands.add("help")
        commands.update("go to " + names[r] for r, place in game.location_of.items() if place != self._location)
        if held is not None:
            commands.add("examine " + names[held])
            if game.object_type.get(held) in _KNIVES:
                commands.update(
                    f"slice {names[o]} with {names[held]}"
                    for o in game.able["sliceable"]
                    if ("objectatlocation", o, self._location) in self._facts
                )
        for receptacle in game.receptacles_at.get(self._location, ()):
            commands.update(self._commands_at(receptacle))
        return sorted(commands)

    def _commands_at(self, receptacle: str) -> list[str]:
        game, names, held = self.game, self.game.name_of, self._held
        name = names[receptacle]
        reachable = self._reachable(receptacle)
        commands = ["examine " + name]
        if receptacle in game.able["openable"]:
            commands.append(("close " if reachable else "open ") + name)
        for thing in self._contents[receptacle]:
            if thing in game.able["toggleable"]:
                commands.append("use " + names[thing])
            if reachable and held is None and thing in game.able["pickupable"]:
                commands.append(f"take {names[thing]} from {name}")
        if held is not None:
            kind = game.receptacle_type.get(receptacle)
            if reachable and (kind, game.object_type.get(held)) in game.can_contain:
                commands.append(game.dialect.put_command(names[held], name))
            commands += [
                f"{verb} {names[held]} with {name}"
                for verb, treatment in _TREATMENTS.items()
                if self._treats(treatment, receptacle, held)
            ]
        return commands

    # What is within reach.

    def _receptacle_here(self, name: str) -> str | None:
        receptacle = self.game.receptacle_named.get(name)
        if receptacle is None or self.game.location_of[receptacle] != self._location:
            return None
        return receptacle

    def _held_object(self, name: str) -> str | None:
        thing = self.game.object_named.get(name)
        return thing if thing == self._held else None

    def _reachable(self, receptacle: str) -> bool:
        return receptacle not in self.game.able["openable"] or ("opened", receptacle) in self._facts

    def _treats(self, treatment: _Treatment, receptacle: str, thing: str) -> bool:
        tools = self.game.sink_types if treatment.tools is None else treatment.tools
        return thing in self.game.able[treatment.able] and self.game.receptacle_type.get(receptacle) in tools

    def _set(self, *facts: Fact) -> None:
        self._facts.update(facts)
        self._note(facts)

    def _unset(self, *facts: Fact) -> None:
        self._facts.difference_update(facts)
        self._note(facts)

    def _note(self, facts: tuple[Fact, ...]) -> None:
        predicates = self.game.goal.predicates
        for fact in facts:
            if fact[0] in predicates:
                self._goal_touched = True

    # The actions: each answers the words after its verb, or None if it is not possible now.

    def _look(self, rest: str) -> str | None:
        if rest:
            return None
        names = self.game.name_of
        here = self.game.receptacles_at.get(self._location)
        if here is None:
            return wording.room_text(())  # the original names the receptacles in the intro only
        beside = [
            thing
            for thing, receptacle in sorted(self._taken_from)
            if receptacle in here and ("objectatlocation", thing, self._location) in self._facts
        ]
        return wording.facing_text([names[receptacle] for receptacle in here], (names[thing] for thing in beside))

    def _inventory(self, rest: str) -> str | None:
        if rest:
            return None
        if self._held is None:
            return "You are not carrying anything."
        return f"You are carrying: a {self.game.name_of[self._held]}."

    def _help(self, rest: str) -> str | None:
        return None if rest else self.game.dialect.help

    def _go(self, rest: str) -> str | None:
        game = self.game
        receptacle = game.receptacle_named.get(rest[3:]) if rest.startswith("to ") else None
        if receptacle is None:
            return None
        place = game.location_of[receptacle]
        if place == self._location:
            return None
        self._unset(("atlocation", game.agent, self._location))
        self._location = place
        self._set(("atlocation", game.agent, place))
        arrived = game.name_of[place if game.dialect.arrives_at_place else receptacle]
        return f"You arrive at {arrived}. {self._view(receptacle)}"

    def _open(self, rest: str) -> str | None:
        receptacle = self._receptacle_here(rest)
        if receptacle is None or self._reachable(receptacle):
            return None
        self._set(("opened", receptacle))
        return f"You open the {rest}. {self._view(receptacle)}"

    def _close(self, rest: str) -> str | None:
        receptacle = self._receptacle_here(rest)
        if receptacle is None or ("opened", receptacle) not in self._facts:
            return None
        self._unset(("opened", receptacle))
        return f"You close the {rest}."

    def _take(self, rest: str) -> str | None:
        game = self.game
        name, _, source = rest.partition(" from ")
        thing, receptacle = game.object_named.get(name), self._receptacle_here(source)
        if (
            thing is None
            or receptacle is None
            or self._held is not None
            or thing not in game.able["pickupable"]
            or thing not in self._contents[receptacle]
            or not self._reachable(receptacle)
        ):
            return None
        self._contents[receptacle].discard(thing)
        self._taken_from.add((thing, receptacle))
        self._held = thing
        self._unset(("inreceptacle", thing, receptacle), ("objectatlocation", thing, self._location))
        self._set(("holds", game.agent, thing), ("holdsany", game.agent))
        return f"You pick up the {name} from the {source}."

    def _put(self, verb: str, rest: str) -> str | None:
        game = self.game
        if verb != game.dialect.put_verb:
            return None
        name, _, target = rest.partition(game.dialect.put_between)
        thing, receptacle = self._held_object(name), self._receptacle_here(target)
        if (
            thing is None
            or receptacle is None
            or not self._reachable(receptacle)
            or (game.receptacle_type.get(receptacle), game.object_type.get(thing)) not in game.can_contain
        ):
            return None
        self._contents[receptacle].add(thing)
        self._taken_from.discard((thing, receptacle))
        self._held = None
        self._unset(("holds", game.agent, thing), ("holdsany", game.agent))
        self._set(("inreceptacle", thing, receptacle), ("objectatlocation", thing, self._location))
        return game.dialect.put_feedback.format(name, target)

    def _treat(self, verb: str, rest: str) -> str | None:
        name, _, tool = rest.partition(" with ")
        thing, receptacle = self._held_object(name), self._receptacle_here(tool)
        treatment = _TREATMENTS[verb]
        if thing is None or receptacle is None or not self._treats(treatment, receptacle, thing):
            return None
        if treatment.ends is not None:
            self._unset((treatment.ends, thing))
        self._set((treatment.becomes, thing))
        return f"You {verb} the {name} using the {tool}."

    def _use(self, rest: str) -> str | None:
        game = self.game
        thing = game.object_named.get(rest)
        if thing is None or thing not in game.able["toggleable"]:
            return None
        if not any(thing in self._contents[receptacle] for receptacle in game.receptacles_at.get(self._location, ())):
            return None
        if ("ison", thing) in self._facts:
            self._unset(("ison", thing))
        else:
            self._set(("ison", thing))
        self._set(("istoggled", thing))
        return f"You turn on the {rest}."

    def _slice(self, rest: str) -> str | None:
        game = self.game
        name, _, tool = rest.partition(" with ")
        thing, knife = game.object_named.get(name), self._held_object(tool)
        if (
            thing is None
            or knife is None
            or thing not in game.able["sliceable"]
            or game.object_type.get(knife) not in _KNIVES
            or ("objectatlocation", thing, self._location) not in self._facts
        ):
            return None
        self._set(("issliced", thing))
        return f"You sliced the {name} with the {tool}."

    def _examine(self, rest: str) -> str | None:
        if rest in self.game.receptacle_named:
            receptacle = self._receptacle_here(rest)
            return None if receptacle is None else self._view(receptacle)
        # The domain lets an object be examined near its receptacle too, but a comma in that quantifier's variable list
        # makes the branch dead: only what is held can be examined.
        thing = self._held_object(rest)
        if thing is None:
            return None
        game, facts = self.game, self._facts
        if thing in game.able["isreceptacleobject"]:
            inside = wording.listing(game.name_of[inner] for inner in game.inside_object.get(thing, ()))
            return f"This is a normal {rest}. In it, you see {inside}."
        return wording.object_text(
            rest,
            clean=("isclean", thing) in facts,
            hot=("ishot", thing) in facts,
            cool=("iscool", thing) in facts,
            sliced=("issliced", thing) in facts,
            lit=thing in game.able["toggleable"] and ("istoggled", thing) in facts,
        )

    def _view(self, receptacle: str) -> str:
        names = self.game.name_of
        openable = receptacle in self.game.able["openable"]
        return wording.container_text(
            names[receptacle],
            [names[thing] for thing in sorted(self._contents[receptacle])],
            openable=openable,
            opened=openable and ("opened", receptacle) in self._facts,
        )


_ACTIONS: dict[str, Callable[[Engine, str], str | None]] = {
    "look": Engine._look,
    "inventory": Engine._inventory,
    "help": Engine._help,
    "go": Engine._go,
    "open": Engine._open,
    "close": Engine._close,
    "take": Engine._take,
    "move": lambda engine, rest: engine._put("move", rest),
    "put": lambda engine, rest: engine._put("put", rest),
    "examine": Engine._examine,
    "use": Engine._use,
    "heat": lambda engine, rest: engine._treat("heat", rest),
    "cool": lambda engine, rest: engine._treat("cool", rest),
    "clean": lambda engine, rest: engine._treat("clean", rest),
    "slice": Engine._slice,
}
