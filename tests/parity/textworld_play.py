"""Play one game in TextWorld and in the engine at the same time, and hand out what each of them says.

What is covered: intro, feedback, `won`, score and the sorted list of possible commands, at the start and after each
command; games from a file or from the parsed JSON of one. One `TextWorld` plays any number of games one after another:
each new TextWorld environment would leave a library of 34 MB mapped until the process ends.

`memoised_parsing` makes TextWorld some four times as fast: it remembers the results of the two functions of TextWorld
that parse the same short texts over and over again and depend on nothing else. What is not covered: Python 3.13, where
TextWorld's PDDL games do not run.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from tests.parity.commands import Commands
from trl_agentenvs.alfworld.engine import Engine
from trl_agentenvs.alfworld.game import Game

SHOWN_CHARS = 300  # of a text in the description of a difference


class State(NamedTuple):
    """What a game says: its text, whether it is won, the score (None at the start), and what is possible, sorted."""

    text: str
    won: bool
    score: int | None
    possible: list[str]


class Turn(NamedTuple):
    """A command (None at the start), and what TextWorld and the engine then said."""

    command: str | None
    theirs: State
    ours: State

    def difference(self) -> str | None:
        """In what the two differ; None if they are equal."""
        if self.theirs == self.ours:
            return None
        said = [f"after {_shorten(self.command)}:"]
        for name, theirs, ours in zip(State._fields, self.theirs, self.ours, strict=True):
            if name == "possible":
                theirs, ours = sorted(set(theirs) - set(ours)), sorted(set(ours) - set(theirs))
            if theirs != ours:
                said.append(f"{name}: TextWorld {_shorten(theirs)}, engine {_shorten(ours)}")
        return "\n  ".join(said)


class TextWorld:
    """TextWorld's environment for ALFWorld games, with readable names; raises ImportError where it is not installed."""

    def __init__(self) -> None:
        import textworld
        from alfworld.agents.environment.alfred_tw_env import AlfredDemangler
        from textworld.envs.pddl import PddlEnv

        wanted = textworld.EnvInfos(won=True, admissible_commands=True)
        self._env = AlfredDemangler(PddlEnv(wanted))

    def start(self, game: Path | Mapping[str, Any]) -> State:
        """Load a game, from its file or its parsed JSON, and start it."""
        import mementos.core

        mementos.core._memento_cache.clear()  # it grows by every game and is never emptied
        self._env.load(str(game) if isinstance(game, Path) else game)
        state = self._env.reset()
        return State(state.feedback, bool(state["won"]), None, state["admissible_commands"])

    def step(self, command: str) -> State:
        """Carry out one command."""
        state, score, done = self._env.step(command)
        assert bool(done) == bool(state["won"])
        return State(state.feedback, bool(state["won"]), int(score), state["admissible_commands"])


def play(world: TextWorld, game: Path | Mapping[str, Any], commands: Commands, steps: int) -> Iterator[Turn]:
    """Play a game on both sides.

    Args:
        world: TextWorld.
        game: A game file, or its parsed JSON.
        commands: Where the commands come from; they see only what TextWorld says.
        steps: How many commands to play.

    Yields:
        The start, then one turn for each command.
    """
    engine = Engine(Game.from_file(game) if isinstance(game, Path) else Game.from_dict(game))
    theirs = world.start(game)
    yield Turn(None, theirs, State(engine.reset(), engine.won, None, engine.admissible()))
    for _ in range(steps):
        command = commands.next(theirs.text, theirs.won, theirs.possible)
        theirs = world.step(command)
        text = engine.step(command)
        yield Turn(command, theirs, State(text, engine.won, int(engine.won), engine.admissible()))


@contextmanager
def memoised_parsing() -> Iterator[None]:
    """Remember, inside the block, what TextWorld's two parsers of short texts return."""
    from textworld.envs.pddl import textgen
    from textworld.logic import Rule

    parse, query = textgen._parse_and_convert, Rule.parse_conjunctive_query
    symbols: dict[tuple[str, str], Any] = {}
    rules: dict[str, Any] = {}

    def remembered_symbols(text: str, rule_name: str, **settings: Any) -> Any:
        if (text, rule_name) not in symbols:
            symbols[text, rule_name] = parse(text, rule_name=rule_name, **settings)
        return copy.deepcopy(symbols[text, rule_name])  # TextWorld changes them

    def remembered_rule(expression: str) -> Any:
        if expression not in rules:
            rules[expression] = query(expression)
        return rules[expression]

    with (
        mock.patch.object(textgen, "_parse_and_convert", remembered_symbols),
        mock.patch.object(Rule, "parse_conjunctive_query", remembered_rule),
    ):
        yield


def versions() -> dict[str, str]:
    """The versions of what the engine is compared with."""
    return {package: version(package) for package in ("textworld", "alfworld")}


def _shorten(value: object) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}... ({len(text)} characters)"
