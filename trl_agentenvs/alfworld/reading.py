"""Read the texts of a game the way a player does: what the room holds, what is asked, what a receptacle shows.

What is covered: the intro, the twelve official task sentences, and what `go to`, `open` and `examine` show. Text around
them (a banner before, a list of admissible commands after) is passed over. What is not covered: everything else; what
cannot be read gives None or nothing, never an exception.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["Task", "kind_of", "read_closed", "read_contents", "read_intro", "read_task"]

_ROOM = "Looking quickly around you, you see "
_ASKED = "Your task is to: "
_NAME = re.compile(r"\ba ([a-z]+ \d+)")
_CONTENTS = re.compile(r"(?:On the|The) ([a-z]+ \d+)(?: is open\. In it)?, you see (.*?)\.")
_CLOSED = re.compile(r"The ([a-z]+ \d+) is closed\.")
_TASKS = (
    re.compile(r"(?P<state>clean|heat|cool) some (?P<target>\w+) and put it (?:in|on) (?P<parent>\w+)"),
    re.compile(r"put an? (?P<state>clean|hot|cool) (?P<target>\w+) (?:in|on) (?P<parent>\w+)"),
    re.compile(r"find (?P<two>two) (?P<target>\w+) and put them (?:in|on) (?P<parent>\w+)"),
    re.compile(r"put (?P<two>two) (?P<target>\w+) (?:in|on) (?P<parent>\w+)"),
    re.compile(r"put (?:an?|some) (?P<target>\w+) (?:in|on) (?P<parent>\w+)"),
    re.compile(r"look at (?P<target>\w+) under the (?P<lamp>\w+)"),
    re.compile(r"examine the (?P<target>\w+) with the (?P<lamp>\w+)"),
)
_VERB_OF_STATE = {"clean": "clean", "heat": "heat", "hot": "heat", "cool": "cool"}


@dataclass(frozen=True, slots=True)
class Task:
    """What a task sentence asks for.

    Attributes:
        target: Kind of object, such as "mug".
        parent: Kind of receptacle it must end in; empty if it is to be looked at.
        lamp: Kind of lamp to look at it with; empty otherwise.
        verb: "clean", "heat" or "cool" if that must be done first; empty otherwise.
        count: How many objects.
    """

    target: str
    parent: str = ""
    lamp: str = ""
    verb: str = ""
    count: int = 1


def read_intro(text: str) -> tuple[list[str], str] | None:
    """The names of the receptacles and the task sentence of an intro; None if it shows none."""
    _, room, rest = text.partition(_ROOM)
    seen, asked, sentence = rest.partition(_ASKED)
    if not room or not asked:
        return None
    return _NAME.findall(seen), sentence.partition("\n")[0].strip().removesuffix(".")


def read_task(sentence: str) -> Task | None:
    """What a task sentence asks for; None if it is no official one."""
    for pattern in _TASKS:
        found = pattern.fullmatch(sentence)
        if found is not None:
            words = found.groupdict()
            return Task(
                target=words["target"],
                parent=words.get("parent", ""),
                lamp=words.get("lamp", ""),
                verb=_VERB_OF_STATE[words["state"]] if "state" in words else "",
                count=2 if "two" in words else 1,
            )
    return None


def read_contents(observation: str) -> dict[str, list[str]]:
    """The objects seen in receptacles, by receptacle."""
    return {name: _NAME.findall(inside) for name, inside in _CONTENTS.findall(observation)}


def read_closed(observation: str) -> list[str]:
    """The receptacles that are seen to be closed."""
    return _CLOSED.findall(observation)


def kind_of(name: str) -> str:
    """The kind in a readable name: "mug" of "mug 1"."""
    return name.partition(" ")[0]
