"""Hints in the observations of a training episode, fading over the rows of the run.

What is covered: two kinds of hint, the next command of a player with full knowledge, and a summary of what this player
has observed so far; and a schedule that turns the place of a row among the rows of a run into columns of that row. What
a turn shows follows from the row alone: all rollouts of a group get a hint of the same kind at the same turn, in any
process and after a resume. What it says follows from what they did. What is not covered: a call that never reaches the
game, whose answer shows nothing but what is wrong with it; and the order in which a trainer draws the rows. It must be
theirs, and each must be drawn once, or nothing fades.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trl_agentenvs.alfworld.engine import Engine
from trl_agentenvs.alfworld.planner import PlanError, plan
from trl_agentenvs.alfworld.reading import read_closed, read_contents, read_intro

__all__ = ["SCHEDULES", "HintSchedule", "Hints", "Notes", "schedule_for"]

_TOOK = re.compile(r"You pick up the (\w+ \d+) from the (\w+ \d+)\.")
_PUT = re.compile(r"You (?:move|put) the (\w+ \d+) (?:to|in/on) the (\w+ \d+)\.")


@dataclass(frozen=True, slots=True)
class HintSchedule:
    """How hints fade over the rows of a run. Let x be the share of the rows that come before a row, from 0 to below 1.

    Turns before `action_turns * (1 - x)` show the next command with chance `action_chance * (1 - x / action_until)`,
    later turns a summary with chance `state_chance * (1 - x / until)`. So commands give way to summaries, from the end
    of the episode on, and both to nothing: rows from `until` on have no hint at all.

    Attributes:
        action_turns: Turns at the beginning of an episode that may show a command, in the first row.
        action_chance: Chance that one of them does, in the first row.
        action_until: Share of the rows after which none does.
        state_chance: Chance that one of the other turns shows a summary, in the first row.
        until: Share of the rows after which there are no hints.

    Raises:
        ValueError: A number is out of its range.
    """

    action_turns: int = 20
    action_chance: float = 0.5
    action_until: float = 0.5
    state_chance: float = 0.5
    until: float = 0.8

    def __post_init__(self) -> None:
        """Refuse numbers that describe no schedule."""
        if not 0 <= self.action_turns < math.inf:
            raise ValueError(f"got action_turns={self.action_turns}; expected 0 or more")
        for name in ("action_chance", "state_chance"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"got {name}={getattr(self, name)}; expected a number from 0 to 1")
        if not 0 < self.action_until <= self.until <= 1:
            raise ValueError(
                f"got action_until={self.action_until} and until={self.until}; expected both above 0 and up to 1, and "
                "the first no later than the second"
            )

    def columns(self, index: int, n: int) -> dict[str, Any]:
        """The columns of one row.

        Args:
            index: Place of the row, from 0.
            n: How many rows there are.

        Returns:
            The keyword arguments of `Hints` that come from the row, as `hint_...`.
        """
        x = index / n
        return {
            "hint_action_turns": math.ceil(self.action_turns * (1 - x)),
            "hint_action_chance": self.action_chance * max(0.0, 1 - x / self.action_until),
            "hint_state_chance": self.state_chance * max(0.0, 1 - x / self.until),
        }


SCHEDULES: Mapping[str, HintSchedule] = {
    "both": HintSchedule(),
    "action": HintSchedule(state_chance=0.0),
    "state": HintSchedule(action_turns=0),
}
"""Schedules by name: commands first and summaries later, or one of the two alone."""


def schedule_for(split: str, hint: str | HintSchedule | None) -> HintSchedule | None:
    """The schedule that the rows of a split get.

    Args:
        split: Name of the split.
        hint: One of `SCHEDULES`, a schedule, or None for no hints.

    Raises:
        ValueError: There is no such schedule, or the split is not train: nothing is ever evaluated with hints.
    """
    if hint is None:
        return None
    schedule = SCHEDULES.get(hint) if isinstance(hint, str) else hint
    if not isinstance(schedule, HintSchedule):
        raise ValueError(f"got hint={hint!r}; expected one of {', '.join(SCHEDULES)}, or a HintSchedule")
    if split != "train":
        raise ValueError(f"got hint={hint!r} for {split}; hints are for training alone, so expected the split train")
    return schedule


class Hints:
    """The hints of one episode.

    Args:
        row: Name of the row; with the turn it decides what is shown.
        action_turns: Turns, from the first, that may show the next command.
        action_chance: Chance that one of them does.
        state_chance: Chance that one of the other turns shows a summary.
        intro: The first observation.
    """

    def __init__(self, row: str, action_turns: int, action_chance: float, state_chance: float, intro: str) -> None:
        self._row = row
        self._action_turns = action_turns
        self._action_chance = action_chance
        self._state_chance = state_chance
        self.notes = Notes(intro)
        self.shown = 0
        """How many hints were shown so far."""

    def hint(self, turn: int, engine: Engine) -> str:
        """The hint to show before a turn; "" for none.

        Args:
            turn: How many calls came before, 0 for the first observation.
            engine: The game as it stands; it is not changed.
        """
        acts = turn < self._action_turns
        chance = self._action_chance if acts else self._state_chance
        if chance <= 0 or random.Random(f"alfworld hint:{self._row}:{turn}").random() >= chance:
            return ""
        text = _next_command(engine) if acts else f"Hint: {self.notes.summary()}"
        self.shown += bool(text)
        return text


def _next_command(engine: Engine) -> str:
    """The next command of a player with full knowledge, as a hint; "" in a game that cannot be won any more."""
    try:
        commands = plan(engine)
    except PlanError:
        return ""
    return f"Hint: {commands[0]}" if commands else ""  # without a dot, which the game would refuse


class Notes:
    """What a player has observed so far, and nothing else.

    Args:
        intro: The first observation.
    """

    def __init__(self, intro: str) -> None:
        read = read_intro(intro)
        self._seen: dict[str, list[str] | None] = dict.fromkeys(read[0] if read else ())
        self._closed: set[str] = set()
        self._at = ""
        self._held = ""

    def note(self, feedback: str) -> None:
        """Take in what the game answered."""
        contents, closed = read_contents(feedback), read_closed(feedback)
        if feedback.startswith("You arrive at "):
            self._at = next(iter((*contents, *closed)), self._at)
        self._seen |= contents
        self._closed.difference_update(contents)
        self._closed.update(closed)
        took, put = _TOOK.match(feedback), _PUT.match(feedback)
        if took:
            self._held = took[1]
            inside = self._seen.get(took[2])
            self._seen[took[2]] = inside and [thing for thing in inside if thing != took[1]]
        elif put:
            self._held = ""
            inside = self._seen.get(put[2])
            self._seen[put[2]] = None if inside is None else [*inside, put[1]]

    def summary(self) -> str:
        """Where the player is, what it holds, what it saw where, and where it has not looked yet; one paragraph."""
        seen = [
            f"{place}: {', '.join(inside) or 'nothing'}" for place, inside in self._seen.items() if inside is not None
        ]
        unseen = [
            f"{place} (closed)" if place in self._closed else place
            for place, inside in self._seen.items()
            if inside is None
        ]
        return (
            f"you are {f'at {self._at}' if self._at else 'in the middle of the room'} and hold "
            f"{self._held or 'nothing'}. Seen so far: {'; '.join(seen) or 'nothing'}. "
            f"Not yet searched: {', '.join(unseen) or 'nothing'}."
        )
