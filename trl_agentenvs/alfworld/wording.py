"""The sentences of an ALFWorld game, exactly as the official text grammar renders them.

What is covered: every feedback text of the ALFRED grammar, and both published dialects of it (`put X in/on Y` of the
older data, `move X to Y` of the newer), read from the game file itself. What is not covered: grammars with other
sentences. Only the parts named in `Dialect` are read from a file; everything else is fixed here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

__all__ = [
    "NOTHING_HAPPENS",
    "Dialect",
    "container_text",
    "facing_text",
    "intro_text",
    "join_names",
    "listing",
    "object_text",
    "room_text",
    "task_of_grammar",
]

NOTHING_HAPPENS = "Nothing happens."
"""The answer to every command that is not possible now."""

_TASK = "Your task is to: "
_HELP_ACTION = "action help {"
_HELP = re.compile(r'(?:feedback :: "|"rhs": ")(?=\\n|\n)(.*?)"', re.DOTALL)  # the first behind that action


@dataclass(frozen=True, slots=True)
class Dialect:
    """What differs between published game files.

    Attributes:
        put_verb: First word of the command that puts an object down: "move" or "put".
        put_between: What stands between object and receptacle in that command: " to " or " in/on ".
        put_feedback: Answer to that command, with {} for the object and {} for the receptacle.
        arrives_at_place: True if `go to` names the place ("loc 12") where it arrives, not the receptacle.
        help: Answer to `help`; None if the game has no such command.
    """

    put_verb: str = "move"
    put_between: str = " to "
    put_feedback: str = "You move the {} to the {}."
    arrives_at_place: bool = False
    help: str | None = None

    @classmethod
    def from_grammar(cls, grammar: str) -> Dialect:
        """Read the dialect of a game file from its grammar text."""
        found = _HELP.search(grammar.partition(_HELP_ACTION)[2])
        old = "put {o} in/on {r}" in grammar
        old_feedback = "You put the {o.name} in/on the {r.name}." in grammar
        return cls(
            put_verb="put" if old else "move",
            put_between=" in/on " if old else " to ",
            put_feedback="You put the {} in/on the {}." if old_feedback else "You move the {} to the {}.",
            arrives_at_place="You arrive at {lend.name}." in grammar,
            help=found.group(1).replace("\\n", "\n").lstrip("\n") if found else None,
        )

    def put_command(self, thing: str, receptacle: str) -> str:
        """The command that puts `thing` into or onto `receptacle`."""
        return f"{self.put_verb} {thing}{self.put_between}{receptacle}"


def task_of_grammar(grammar: str) -> str | None:
    """The task sentence in a grammar text, without "Your task is to: " and the final dot; None if there is none."""
    sentence, quote, _ = grammar.partition(_TASK)[2].partition('"')
    return sentence.removesuffix(".") if quote and "\n" not in sentence else None


def join_names(names: list[str]) -> str:
    """Join with commas and a final ", and "; "nothing" if empty."""
    if not names:
        return "nothing"
    if len(names) == 1:
        return names[0]
    return ", ".join(names[:-1]) + ", and " + names[-1]


def listing(names: Iterable[str]) -> str:
    """Join with an article before each name: "a mug 2, and a mug 1"."""
    return join_names(["a " + name for name in names])


def container_text(name: str, names_inside: Iterable[str], *, openable: bool, opened: bool) -> str:
    """What a look at a receptacle shows."""
    if not openable:
        return f"On the {name}, you see {listing(names_inside)}."
    if not opened:
        return f"The {name} is closed."
    return f"The {name} is open. In it, you see {listing(names_inside)}."


def room_text(names: Iterable[str]) -> str:
    """What a look from the middle of the room shows."""
    return f"You are in the middle of a room. Looking quickly around you, you see {listing(names)}."


def facing_text(receptacles: list[str], names_beside: Iterable[str]) -> str:
    """What a look shows in front of receptacles."""
    return f"You are facing the {join_names(receptacles)}. Next to it, you see {listing(names_beside)}."


def intro_text(view: str, task: str) -> str:
    """The first observation of a game."""
    return f"-= Welcome to TextWorld, ALFRED! =-\n\n{view}\n\nYour task is to: {task}."


def object_text(name: str, *, clean: bool, hot: bool, cool: bool, sliced: bool, lit: bool) -> str:
    """What a look at a held object shows, if nothing can lie inside it.

    Args:
        name: The object's name.
        clean: It was cleaned.
        hot: It is hot.
        cool: It is cool.
        sliced: It was sliced.
        lit: It can be switched and was switched at least once.
    """
    if clean and hot:
        quality = "hot and clean "
    elif clean and cool:
        quality = "cool and clean "
    elif sliced:
        quality = "clean " if clean else "hot " if hot else "cool " if cool else ""
    else:
        quality = "hot " if hot else "clean " if clean else "cold " if cool else ""
    if quality:
        return f"This is a {quality}{'sliced ' if sliced else ''}{name}."
    if lit:
        return f"This {name} is on."
    if sliced:
        return f"This is a sliced {name}."
    return f"There's nothing special about {name}."
