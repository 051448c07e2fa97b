"""What a reward may count beside the win: sub-goals reached at best, and commands that could bring nothing.

What is covered: both are figures of the game's state, not of the model's words, and neither can be farmed: the best of
a state is never counted twice, and a command repeated in the same state counts whatever it is. What is not covered:
their weights, which are options of `ALFWorldEnv`.
"""

from __future__ import annotations

from collections.abc import Set

from trl_agentenvs.alfworld.engine import Engine
from trl_agentenvs.alfworld.goal import Fact

__all__ = ["COMPARED_CHARS", "Repeats", "Subgoals"]

COMPARED_CHARS = 200
"""Characters by which commands are compared; those of the game have at most 60 or so."""


class Subgoals:
    """How much of the goal was reached at best.

    A goal has parts, and each part one or more ways to fulfil it: a set of facts, such as that mug 1 is clean and that
    it lies in shelf 2. The sub-goals of that way are that mug 1 is in the hand (or the way is done), that it is clean,
    and that it lies in shelf 2 while it is clean.

    Args:
        engine: The game at its start.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._parts = [[_subgoals(way, engine.game.agent) for way in ways] for ways in engine.game.goal.parts]
        self._at_start = self._reached()
        self.best = 0.0
        """The largest share so far of what was not reached at the start; 1 only if the game was won."""

    def note(self) -> None:
        """Take in the state after a command."""
        if self._at_start < 1:
            self.best = max(self.best, (self._reached() - self._at_start) / (1 - self._at_start))

    def _reached(self) -> float:
        """The share of the sub-goals reached now: in each part that of the way which is furthest, and their mean."""
        facts = self._engine.facts
        furthest = [max((_share(way, facts) for way in ways), default=0.0) for ways in self._parts]
        return sum(furthest) / len(furthest) if furthest else 1.0


def _subgoals(way: frozenset[Fact], agent: str) -> list[tuple[frozenset[Fact], ...]]:
    """The sub-goals of one way. Each is reached where one of its sets of facts holds."""
    subgoals: list[tuple[frozenset[Fact], ...]] = []
    for fact in sorted(way):
        if fact[0] == "inreceptacle":
            thing = fact[1]
            done = frozenset(other for other in way if other[1] == thing)
            subgoals += [(frozenset({("holds", agent, thing)}), done), (done,)]
        else:
            subgoals.append((frozenset({fact}),))
    return subgoals


def _share(way: list[tuple[frozenset[Fact], ...]], facts: Set[Fact]) -> float:
    return sum(any(wanted <= facts for wanted in subgoal) for subgoal in way) / len(way) if way else 1.0


class Repeats:
    """How many commands were given before in the very same state of the game, where the answer can only be the same."""

    def __init__(self) -> None:
        self.count = 0
        self._given: set[tuple[str, frozenset[Fact]]] = set()

    def note(self, command: str, engine: Engine) -> None:
        """Take in a command before it is carried out."""
        given = (command.strip()[:COMPARED_CHARS], frozenset(engine.facts ^ engine.game.first_facts))
        self.count += given in self._given
        self._given.add(given)
