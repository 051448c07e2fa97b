"""Demonstrations for a warm start: the expert's won ALFWorld episodes, as conversations with tool calls.

A conversation is what TRL's tool loop would have made of the same episode: the messages of the row, with the first
observation appended to the last one; for each command a call of `act` and its result, up to the one that won. Games are
those of the train split beyond the bundled set, each in a room of its own.

The expert slips now and then: it gives a command that the game refuses, and goes on. Whoever learns from that knows
what to do after a command of its own was refused, and has a habit that reinforcement learning can break.

What is not covered: other environments, and official games.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trl_agentenvs.alfworld import data
from trl_agentenvs.alfworld.engine import Engine
from trl_agentenvs.alfworld.env import ALFWorldEnv
from trl_agentenvs.alfworld.expert import Expert, ExpertError
from trl_agentenvs.alfworld.reading import read_contents, read_intro, read_task
from trl_agentenvs.stop import StopReason

__all__ = ["DATA_OPTIONS", "ENV_OPTIONS", "SLIP_RATE", "Demo", "expert_demos", "record_demo"]

ENV_OPTIONS: Mapping[str, Any] = {"max_steps": 12, "step_cost": 0.0}
"""Constructor options of `ALFWorldEnv` for a tiny model. The expert needs 5 commands on average in rooms this small. No
step cost: a policy this weak would learn first of all that an episode which fails early costs less."""

DATA_OPTIONS: Mapping[str, Any] = {
    "source": "endless",
    "max_receptacles": 6,
    "task_types": ["pick_and_place_simple"],
}
"""Row options of `ALFWorldEnv.dataset` for a tiny model: the simplest task, in rooms of 5 or 6 receptacles."""

SLIP_RATE = 0.15
"""How likely the expert slips before each of its commands."""

_FORMS = ("go to {place}", "open {place}", "examine {place}", "take {thing} from {place}", "move {thing} to {place}")
_FEWEST_SPARE, _SPARE_SHARE = 10, 10  # games drawn beyond n, for those that the expert does not win


@dataclass(frozen=True)
class Demo:
    """A won episode.

    Attributes:
        game: Id of the game.
        messages: The conversation, system message first.
        commands: The commands in it.
    """

    game: str
    messages: list[dict[str, Any]]
    commands: list[str]

    @property
    def texts(self) -> list[str]:
        """What the game and the expert said, without chat markup."""
        said = [str(message["content"]) for message in self.messages if message["role"] in ("user", "tool")]
        return [*said, *self.commands]


def record_demo(env: ALFWorldEnv, game: str, rng: random.Random, slip_rate: float = 0.0) -> Demo | None:
    """Let the expert play one game.

    Args:
        env: The environment to play in.
        game: Id of the game.
        rng: Varies the expert's search and draws the slips.
        slip_rate: How likely, before each command of the expert, a command is given that the game refuses.

    Returns:
        The episode, or None if the expert did not win it.

    Raises:
        FileNotFoundError: There is no such game.
        ValueError: The id is malformed.
    """
    observation = env.reset(game=game)
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": env.system_prompt},
        {"role": "user", "content": f"{env.user_prompt}{observation}"},
    ]
    engine = Engine(data.load(game))  # plays along, to know what would be refused
    commands: list[str] = []

    def give(command: str) -> str:
        commands.append(command)
        engine.step(command)
        answer = env.act(command)
        call = {"type": "function", "function": {"name": "act", "arguments": {"command": command}}}
        messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
        messages.append({"role": "tool", "name": "act", "content": answer})
        return answer

    try:
        expert = Expert(observation, rng)
        names = _Names(observation)
        while env._stop is None:
            names.note(observation)
            command = expert.act(observation)
            while rng.random() < slip_rate and env._stop is None:
                slip = names.some_command(rng)
                if slip not in engine.admissible():
                    give(slip)
            if env._stop is None:
                observation = give(command)
    except ExpertError:
        return None
    if env._stop is not StopReason.SOLVED:
        return None
    return Demo(game, messages, commands)


class _Names:
    """Names met in an episode, to make commands of."""

    def __init__(self, intro: str) -> None:
        room, sentence = read_intro(intro) or ([], "")
        task = read_task(sentence)
        self.receptacles = room
        self.objects = [f"{task.target} {number}" for number in (1, 1, 2)] if task else []

    def note(self, observation: str) -> None:
        """Take the objects that an observation shows."""
        for objects in read_contents(observation).values():
            self.objects += objects

    def some_command(self, rng: random.Random) -> str:
        """A command in the right words, about names that were met."""
        thing, place = rng.choice(self.objects), rng.choice(self.receptacles)
        return rng.choice(_FORMS).format(thing=thing, place=place)


def expert_demos(
    n: int,
    seed: int = 0,
    *,
    slip_rate: float = SLIP_RATE,
    env_options: Mapping[str, Any] = ENV_OPTIONS,
    data_options: Mapping[str, Any] = DATA_OPTIONS,
) -> list[Demo]:
    """Record won episodes of different games; games that the expert does not win are passed over.

    Args:
        n: How many.
        seed: Seed of the draw of games, of the expert's search and of its slips.
        slip_rate: See `record_demo`.
        env_options: Constructor options of the environment.
        data_options: Which games: `source`, `task_types` and `max_receptacles` as in `data.game_ids`.

    Raises:
        ValueError: There are fewer such games, or fewer that the expert wins.
    """
    games = data.game_ids("train", n=n + max(_FEWEST_SPARE, n // _SPARE_SHARE), seed=seed, **data_options)
    env = ALFWorldEnv(strict=True, **env_options)
    demos: list[Demo] = []
    for game in games:
        if len(demos) == n:
            break
        demo = record_demo(env, game, random.Random(f"alfworld demo:{seed}:{game}"), slip_rate)
        if demo is not None:
            demos.append(demo)
    if len(demos) < n:
        raise ValueError(f"got n={n}; the expert won {len(demos)} of {len(games)} games; lower n or raise max_steps")
    return demos
