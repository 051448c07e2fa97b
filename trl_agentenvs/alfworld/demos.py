"""Demonstrations: won ALFWorld episodes as conversations with tool calls, and the check that they can be played again.

A conversation is what TRL's tool loop would have made of the same episode: system and user message, with the first
observation appended to the latter; for each command a call of `act` and its result, up to the one that won. Its texts
are those of the environment it was recorded in, with all that the options of that environment add.

`shortest_demo` lets the expert play a game several times and keeps the shortest win that can be replayed. What is not
covered: writing to disk, and the schema of the tool, which a trainer's library makes.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from trl_agentenvs.alfworld import data
from trl_agentenvs.alfworld.env import ALFWorldEnv
from trl_agentenvs.alfworld.expert import Expert, ExpertError
from trl_agentenvs.alfworld.official import portable_id
from trl_agentenvs.stop import StopReason

__all__ = ["Attempt", "Demo", "NoDemoError", "Player", "check_replay", "record_demo", "shortest_demo"]


class NoDemoError(RuntimeError):
    """An episode gave no demonstration; the message says why."""


class Player(Protocol):
    """Whoever gives the commands of an episode."""

    def act(self, observation: str) -> str:
        """Return the next command.

        Args:
            observation: The answer to the last one; the first observation at first.
        """
        ...


@dataclass(frozen=True)
class Demo:
    """A won episode.

    Attributes:
        game: Id of the game, for `data.load`.
        task_type: One of `TASK_TYPES`; None if the id does not tell.
        messages: The conversation, system message first.
        commands: The commands in it.
    """

    game: str
    task_type: str | None
    messages: list[dict[str, Any]]
    commands: list[str]

    @property
    def texts(self) -> list[str]:
        """What the game and the player said, without chat markup."""
        said = [str(message["content"]) for message in self.messages if message["role"] in ("user", "tool")]
        return [*said, *self.commands]

    def row(self, tools: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Return the demonstration as a conversational tool-calling row, for JSON.

        Args:
            tools: The JSON schemas of the tools, as a trainer's library makes them.
        """
        return {
            "messages": self.messages,
            "tools": list(tools),
            "game": portable_id(self.game),
            "task_type": self.task_type,
            "steps": len(self.commands),
        }


@dataclass(frozen=True)
class Attempt:
    """What several plays of one game gave.

    Attributes:
        demo: The shortest win; None if there was none that can be replayed.
        failures: Why plays were not won or not replayed, in order of the plays.
        crashes: Exceptions of the plays that no player or game should raise.
    """

    demo: Demo | None
    failures: list[str] = field(default_factory=list)
    crashes: list[str] = field(default_factory=list)

    @property
    def reason(self) -> str:
        """Why there is no demo; a crash tells the most."""
        return (self.crashes or self.failures or [""])[0]


def record_demo(env: ALFWorldEnv, game: str, make_player: Callable[[str], Player]) -> Demo:
    """Let a player win a game.

    Args:
        env: The environment to play in; its options shape the conversation.
        game: Id of the game.
        make_player: Takes the first observation and returns the player.

    Raises:
        NoDemoError: The episode was not won, or has no reward.
        FileNotFoundError: There is no such game.
        ValueError: The id is malformed, or the file is no game.
        Exception: Whatever the player raises.
    """
    observation = env.reset(game=game)
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": env.system_prompt},
        {"role": "user", "content": f"{env.user_prompt}{observation}"},
    ]
    player = make_player(observation)
    commands: list[str] = []
    while env._stop is None:
        command = player.act(observation)
        observation = env.act(command)
        call = {"type": "function", "function": {"name": "act", "arguments": {"command": command}}}
        messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
        messages.append({"role": "tool", "name": "act", "content": observation})
        commands.append(command)
    if env._stop is not StopReason.SOLVED:
        raise NoDemoError(f"not won in {len(commands)} commands: {env._stop.sentence}")
    if env.get_reward() is None:
        raise NoDemoError("won without a reward")
    return Demo(game, data.task_type_of(game), messages, commands)


class _Script:
    """Gives the commands that were given before."""

    def __init__(self, commands: Sequence[str]) -> None:
        self._commands = iter(commands)

    def act(self, observation: str) -> str:
        command = next(self._commands, None)
        if command is None:
            raise NoDemoError("its commands do not win when they are replayed")
        return command


def check_replay(demo: Demo, env: ALFWorldEnv) -> None:
    """Give the commands of a demonstration again and compare all that is read.

    Args:
        demo: The demonstration.
        env: An environment with the same options, best a fresh one.

    Raises:
        NoDemoError: The episode is not won, is won earlier, or a message differs.
    """
    replayed = record_demo(env, demo.game, lambda intro: _Script(demo.commands))
    if replayed == demo:
        return
    pairs = zip(demo.messages, replayed.messages, strict=False)
    number = next((index for index, (told, again) in enumerate(pairs) if told != again), len(replayed.messages))
    raise NoDemoError(f"message {number} of {len(demo.messages)} differs when the commands are replayed")


def shortest_demo(make_env: Callable[[], ALFWorldEnv], game: str, *, plays: int = 3, seed: int = 0) -> Attempt:
    """Let the expert play a game several times and keep the shortest win, the first of several as short.

    The first play is the expert's own; the others vary its search. A play that cannot be replayed in an environment of
    its own counts as not won.

    Args:
        make_env: Returns an environment, of the same options each time.
        game: Id of the game.
        plays: How many times.
        seed: Seed of the variations.

    Returns:
        The demonstration, and what went wrong. Nothing that goes wrong in a play is raised.
    """
    best: Demo | None = None
    failures: list[str] = []
    crashes: list[str] = []
    for play in range(plays):
        rng = random.Random(f"alfworld demo:{seed}:{portable_id(game)}:{play}") if play else None
        try:
            demo = record_demo(make_env(), game, partial(Expert, rng=rng))
            if best is None or len(demo.commands) < len(best.commands):
                check_replay(demo, make_env())
                best = demo
        except (NoDemoError, ExpertError) as error:
            failures.append(str(error))
        except Exception as error:  # a fault in one game costs its demonstration, not the whole recording
            crashes.append(f"{type(error).__name__}: {error}")
    return Attempt(best, failures, crashes)
