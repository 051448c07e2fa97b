"""A game: what one `game.tw-pddl` file says, parsed once and shared by all episodes of it.

What is covered: official ALFWorld text games (`json_2.1.1` layout, both wordings of the put command), and games built
in memory from a `Problem`. What is not covered: other PDDL domains; a file of another domain is refused, since the
engine knows ALFRED's actions by heart and does not interpret the domain text.

Every fault of a file is one sentence: `FileNotFoundError` if there is none, `GameFileError` for all else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trl_agentenvs.alfworld import wording
from trl_agentenvs.alfworld.domain import sink_types_of
from trl_agentenvs.alfworld.gamefile import GameFileError, parse_game_file, read_game_file
from trl_agentenvs.alfworld.goal import DYNAMIC_ARITY, STATIC_ARITY, Fact, Goal, GoalError, compile_goal
from trl_agentenvs.alfworld.pddl import Expression, PddlSyntaxError, parse, typed_names

__all__ = ["Game", "GameFileError", "Problem"]

_KEYS = ("pddl_domain", "grammar", "pddl_problem")
_UNTRACKED = frozenset({"=", "increase"})  # action costs, which no text shows


@dataclass(frozen=True, slots=True)
class Problem:
    """The start of a game and its goal, in lower case as PDDL reads.

    Attributes:
        objects: Kind by name: "agent", "location", "receptacle", "object", "rtype" or "otype".
        facts: What is true at the start.
        goal: The parsed goal.
    """

    objects: Mapping[str, str]
    facts: frozenset[Fact]
    goal: Expression

    @classmethod
    def from_pddl(cls, text: str) -> Problem:
        """Parse a problem file.

        Raises:
            PddlSyntaxError: The text is not a PDDL problem with :objects, :init and :goal.
        """
        sections: dict[str, list[Expression]] = {}
        for part in parse(text)[1:]:
            if isinstance(part, list) and part and isinstance(part[0], str):
                sections[part[0]] = part[1:]
        missing = [name for name in (":objects", ":init", ":goal") if name not in sections]
        if missing:
            raise PddlSyntaxError(f"the problem has no {' and no '.join(missing)}")
        if len(sections[":goal"]) != 1:
            raise PddlSyntaxError(f"the problem's :goal holds {len(sections[':goal'])} expressions, not one")
        facts: set[Fact] = set()
        for expression in sections[":init"]:
            names = [name for name in expression if isinstance(name, str)] if isinstance(expression, list) else []
            if not names:
                raise PddlSyntaxError("the problem's :init holds something that is not a fact")
            if names[0] not in _UNTRACKED:
                facts.add(tuple(names))
        return cls(typed_names(sections[":objects"]), frozenset(facts), sections[":goal"][0])


@dataclass(frozen=True, slots=True, eq=False)
class Game:
    """One game, immutable: nothing in it changes while it is played. Treat the mappings as read-only.

    Receptacles, objects and locations are identified by their PDDL names; `name_of` gives what the player reads.

    Attributes:
        path: The file it came from; None for a game built in memory.
        task: The task sentence without its dot, such as "put a clean mug in shelf".
        walkthrough: Commands that win, if the file has some.
        dialect: Which of the published wordings the game speaks.
        intro: The first observation.
        goal: When the game is won.
        agent: PDDL name of the agent.
        start: Location where the agent starts.
        first_held: Object in hand at the start, if any.
        first_contents: Objects by receptacle at the start.
        first_facts: Dynamic facts that are true at the start.
        name_of: The readable name ("mug 1") by PDDL name.
        receptacle_named: The receptacle by readable name.
        object_named: The object by readable name.
        location_of: Location by receptacle.
        receptacles_at: Receptacles by location, sorted.
        receptacle_type: "fridgetype" and the like, by receptacle.
        object_type: "mugtype" and the like, by object.
        can_contain: (receptacle type, object type) pairs that a put command allows.
        inside_object: What lies inside an object, by object.
        sink_types: Receptacle types at which objects can be cleaned.
        able: Names by static one-argument predicate, such as "openable" or "cleanable".
    """

    path: str | None
    task: str
    walkthrough: tuple[str, ...]
    dialect: wording.Dialect
    intro: str
    goal: Goal
    agent: str
    start: str
    first_held: str | None
    first_contents: Mapping[str, frozenset[str]]
    first_facts: frozenset[Fact]
    name_of: Mapping[str, str]
    receptacle_named: Mapping[str, str]
    object_named: Mapping[str, str]
    location_of: Mapping[str, str]
    receptacles_at: Mapping[str, tuple[str, ...]]
    receptacle_type: Mapping[str, str]
    object_type: Mapping[str, str]
    can_contain: frozenset[tuple[str, str]]
    inside_object: Mapping[str, tuple[str, ...]]
    sink_types: frozenset[str]
    able: Mapping[str, frozenset[str]]

    @classmethod
    def from_file(cls, path: str | Path) -> Game:
        """Read a `game.tw-pddl` file.

        Raises:
            FileNotFoundError: There is no file at `path`.
            GameFileError: The file is no playable ALFWorld game.
        """
        return cls.from_dict(parse_game_file(read_game_file(path), path), path=str(path))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], path: str | None = None) -> Game:
        """Build a game from the parsed JSON of a game file.

        Args:
            data: The JSON object: pddl_domain, grammar, pddl_problem; optional walkthrough and solvable.
            path: Where it came from, for messages and `Game.path`.

        Raises:
            GameFileError: The data is no playable ALFWorld game.
        """
        source = path or "the game data"
        if not isinstance(data, Mapping):
            raise GameFileError(f"{source} is not a game: got a JSON {type(data).__name__}; expected an object")
        for key in _KEYS:
            if not isinstance(data.get(key), str):
                found = "no such key" if key not in data else f"a {type(data[key]).__name__}"
                raise GameFileError(f"{source} is not a game: expected text under {key!r}, got {found}")
        if data.get("solvable", True) is not True:
            raise GameFileError(f"{source} is marked as not solvable; choose another game")
        walkthrough = data.get("walkthrough") or ()
        if not isinstance(walkthrough, (list, tuple)) or not all(isinstance(c, str) for c in walkthrough):
            raise GameFileError(f"{source} is not a game: expected a list of commands under 'walkthrough'")
        task = wording.task_of_grammar(data["grammar"])
        if task is None:
            raise GameFileError(f"{source} is not a game: its grammar has no sentence 'Your task is to: ...'")
        try:
            sink_types = sink_types_of(data["pddl_domain"])
            problem = Problem.from_pddl(data["pddl_problem"])
        except PddlSyntaxError as error:
            raise GameFileError(f"{source} is not a playable game: {error}") from None
        return cls.from_problem(
            problem,
            task=task,
            dialect=wording.Dialect.from_grammar(data["grammar"]),
            walkthrough=tuple(walkthrough),
            sink_types=sink_types,
            path=path,
        )

    @classmethod
    def from_problem(
        cls,
        problem: Problem,
        *,
        task: str,
        dialect: wording.Dialect,
        walkthrough: tuple[str, ...] = (),
        sink_types: frozenset[str] = frozenset({"sinktype", "sinkbasintype"}),
        path: str | None = None,
    ) -> Game:
        """Build a game from its start and goal.

        Args:
            problem: Start and goal.
            task: The task sentence, without its final dot.
            dialect: The wording.
            walkthrough: Commands that win.
            sink_types: Receptacle types at which objects can be cleaned.
            path: Where it came from, for messages and `Game.path`.

        Raises:
            GameFileError: The start is not that of an ALFRED room, or the goal cannot be decided.
        """
        try:
            return cls(
                path=path,
                task=task,
                walkthrough=walkthrough,
                dialect=dialect,
                sink_types=sink_types,
                **_indexed(problem, task),
            )
        except (GoalError, PddlSyntaxError) as error:
            raise GameFileError(f"{path or 'the game'} is not a playable game: {error}") from None


def _indexed(problem: Problem, task: str) -> dict[str, Any]:
    """The fields of a `Game` that follow from its problem."""
    objects = problem.objects
    of: dict[str, list[Fact]] = {name: [] for name in (*STATIC_ARITY, *DYNAMIC_ARITY)}
    for fact in sorted(problem.facts):
        arity = STATIC_ARITY.get(fact[0], DYNAMIC_ARITY.get(fact[0]))
        if arity is not None:
            if arity != len(fact) - 1:
                raise GoalError(f"the fact ({' '.join(fact)}) should have {arity} arguments")
            of[fact[0]].append(fact[1:])
    if len(of["atlocation"]) != 1:
        raise GoalError(f"the agent starts at {len(of['atlocation'])} places; expected one (atLocation agent place)")
    if len(of["holds"]) > 1:
        raise GoalError("the agent holds more than one object")
    agent, start = of["atlocation"][0]
    location_of = _by_first(of["receptacleatlocation"])
    if not location_of:
        raise GoalError("the room has no receptacles")
    receptacles_at: dict[str, list[str]] = {}
    for receptacle, location in of["receptacleatlocation"]:
        receptacles_at.setdefault(location, []).append(receptacle)
    contents: dict[str, set[str]] = {receptacle: set() for receptacle in location_of}
    for thing, receptacle in of["inreceptacle"]:
        contents.setdefault(receptacle, set()).add(thing)
    inside: dict[str, list[str]] = {}
    for thing, outer in of["inreceptacleobject"]:
        inside.setdefault(outer, []).append(thing)
    name_of = _readable_names(problem, agent)
    _check_names(problem, of)
    here = receptacles_at.get(start)
    view = (
        wording.facing_text([name_of[r] for r in here], ())
        if here
        else wording.room_text(name_of[r] for r, _ in of["receptacleatlocation"])
    )
    static = [fact for fact in problem.facts if fact[0] in STATIC_ARITY]
    return {
        "intro": wording.intro_text(view, task),
        "goal": compile_goal(problem.goal, objects, static),
        "agent": agent,
        "start": start,
        "first_held": of["holds"][0][1] if of["holds"] else None,
        "first_contents": {receptacle: frozenset(things) for receptacle, things in contents.items()},
        "first_facts": frozenset(fact for fact in problem.facts if fact[0] in DYNAMIC_ARITY),
        "name_of": name_of,
        "receptacle_named": {name_of[receptacle]: receptacle for receptacle in location_of},
        "object_named": {name_of[x]: x for x, kind in objects.items() if kind == "object" and x in name_of},
        "location_of": location_of,
        "receptacles_at": {location: tuple(names) for location, names in receptacles_at.items()},
        "receptacle_type": _by_first(of["receptacletype"]),
        "object_type": _by_first(of["objecttype"]),
        "can_contain": frozenset((pair[0], pair[1]) for pair in of["cancontain"]),
        "inside_object": {outer: tuple(things) for outer, things in inside.items()},
        "able": {name: frozenset(fact[0] for fact in of[name]) for name, arity in STATIC_ARITY.items() if arity == 1},
    }


def _check_names(problem: Problem, of: Mapping[str, list[Fact]]) -> None:
    """Refuse a room in which something has a name that commands could list but not give."""
    things = {fact[0] for fact in (*of["inreceptacle"], *of["objectatlocation"])} | {held for _, held in of["holds"]}
    for thing in sorted(things):
        if problem.objects[thing] != "object":
            raise GoalError(f"{thing}, which lies about or is held, is no object: {problem.objects[thing]!r}")
    for name in sorted(things.union(receptacle for receptacle, _ in of["receptacleatlocation"])):
        if "_bar_" not in name:
            raise GoalError(f"{name}, which is in the room, has no coordinates in its name")


def _by_first(pairs: list[Fact]) -> dict[str, str]:
    return {pair[0]: pair[1] for pair in pairs}


def _readable_names(problem: Problem, agent: str) -> dict[str, str]:
    """What the player reads: "mug 1" for "mug_bar_...". Numbers fall along the sorted PDDL names of a kind."""
    mentioned = {agent}.union(*(fact[1:] for fact in problem.facts))
    heads: dict[str, str] = {}
    total: Counter[str] = Counter()
    names: dict[str, str] = {}
    for name in sorted(mentioned & problem.objects.keys()):
        head, bar, _ = name.partition("_bar_")
        if bar:
            heads[name] = head + ("basin" if "basin" in name else "")
            total[heads[name]] += 1
        else:
            names[name] = name + " "  # TextWorld's own form for a name without coordinates
    for name, head in heads.items():
        names[name] = f"{head} {total[head]}"
        total[head] -= 1
    undeclared = {name for fact in problem.facts for name in fact[1:]} - problem.objects.keys()
    if undeclared:
        raise GoalError(f"the facts name {min(undeclared)}, which :objects does not declare")
    return names
