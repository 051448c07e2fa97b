"""A parsed game as one JSON text, and back, field for field.

A record is read several times as fast as the file that it was made from: names are written once, in a table, and
everything else refers to them by number; the goal is resolved.

What is covered: every field of `Game` but its path. What is not covered: checking. A record is believed, so whoever
stores one must be able to tell that it is unchanged, and made by the same code (`reader_version`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from functools import lru_cache
from importlib import resources
from typing import Any

from trl_agentenvs.alfworld.game import Game
from trl_agentenvs.alfworld.goal import Fact, Goal
from trl_agentenvs.alfworld.wording import Dialect

__all__ = ["RecordError", "from_record", "reader_version", "to_record"]

_NAMES = ("task", "intro", "agent", "start")
_NAME_BY_NAME = ("name_of", "receptacle_named", "object_named", "location_of", "receptacle_type", "object_type")
_SET_BY_NAME = ("first_contents", "able")
_TUPLE_BY_NAME = ("receptacles_at", "inside_object")
_FACTS = ("first_facts", "can_contain")  # a pair of types has the form of a fact

# The code that decides what a game file means.
_READER = ("domain.py", "game.py", "game_record.py", "gamefile.py", "goal.py", "official.py", "pddl.py", "wording.py")


class RecordError(ValueError):
    """The text is no record of a game."""


@lru_cache(maxsize=1)
def reader_version() -> str:
    """A name for the code that reads game files: another whenever a character of it changes.

    Raises:
        OSError: The package was installed without its source.
    """
    package = resources.files("trl_agentenvs.alfworld")
    digest = hashlib.sha256()
    for name in _READER:
        digest.update(package.joinpath(name).read_bytes())
    return digest.hexdigest()


def to_record(game: Game) -> str:
    """Write a game.

    Args:
        game: The game.

    Returns:
        ASCII text.
    """
    numbers: dict[str, int] = {}

    def number(name: str) -> int:
        return numbers.setdefault(name, len(numbers))

    def several(names: Iterable[str]) -> list[int]:
        return [number(name) for name in names]

    def facts(found: Iterable[Fact]) -> list[list[int]]:
        return [several(fact) for fact in sorted(found)]

    fields: dict[str, Any] = {field: number(getattr(game, field)) for field in _NAMES}
    for field in _NAME_BY_NAME:
        fields[field] = [[number(key), number(name)] for key, name in getattr(game, field).items()]
    for field in _SET_BY_NAME:
        fields[field] = [[number(key), several(sorted(names))] for key, names in getattr(game, field).items()]
    for field in _TUPLE_BY_NAME:
        fields[field] = [[number(key), several(names)] for key, names in getattr(game, field).items()]
    for field in _FACTS:
        fields[field] = facts(getattr(game, field))
    fields["first_held"] = None if game.first_held is None else number(game.first_held)
    fields["walkthrough"] = several(game.walkthrough)
    fields["sink_types"] = several(sorted(game.sink_types))
    fields["goal"] = [[facts(term) for term in part] for part in game.goal.parts]
    fields["goal_predicates"] = several(sorted(game.goal.predicates))
    fields["dialect"] = asdict(game.dialect)
    return json.dumps({"names": list(numbers), "fields": fields}, separators=(",", ":"))


def from_record(record: str, path: str | None = None) -> Game:
    """Read what `to_record` wrote.

    Args:
        record: The text.
        path: The `Game.path` of the result.

    Raises:
        RecordError: It is something else.
    """
    try:
        whole = json.loads(record)
        return _game(whole["names"], whole["fields"], path)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise RecordError(f"the text is no record of a game ({type(error).__name__}: {error})") from None


def _game(names: list[str], fields: Mapping[str, Any], path: str | None) -> Game:
    name = names.__getitem__

    def facts(found: list[list[int]]) -> frozenset[Fact]:
        return frozenset([tuple(map(name, fact)) for fact in found])

    values: dict[str, Any] = {field: names[fields[field]] for field in _NAMES}
    for field in _NAME_BY_NAME:
        values[field] = {names[key]: names[value] for key, value in fields[field]}
    for field in _SET_BY_NAME:
        values[field] = {names[key]: frozenset(map(name, found)) for key, found in fields[field]}
    for field in _TUPLE_BY_NAME:
        values[field] = {names[key]: tuple(map(name, found)) for key, found in fields[field]}
    for field in _FACTS:
        values[field] = facts(fields[field])
    held = fields["first_held"]
    return Game(
        path=path,
        first_held=None if held is None else names[held],
        walkthrough=tuple(map(name, fields["walkthrough"])),
        sink_types=frozenset(map(name, fields["sink_types"])),
        goal=Goal(
            tuple(tuple(facts(term) for term in part) for part in fields["goal"]),
            frozenset(map(name, fields["goal_predicates"])),
        ),
        dialect=Dialect(**fields["dialect"]),
        **values,
    )
