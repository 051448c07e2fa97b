"""Demonstrations for a warm start of a tiny model: ALFWorld games won by an expert that slips.

Games are those of the train split beyond the bundled set, each in a room of its own. The expert slips now and then: it
gives a command that the game refuses, and goes on. Whoever learns from that knows what to do after a command of its own
was refused, and has a habit that reinforcement learning can break.

What is not covered: other environments, official games, and demonstrations for a model of full size, which
`trl-agentenvs demos` records without slips.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

from trl_agentenvs.alfworld import data
from trl_agentenvs.alfworld.demos import Demo, NoDemoError, record_demo
from trl_agentenvs.alfworld.env import ALFWorldEnv
from trl_agentenvs.alfworld.expert import Expert, ExpertError
from trl_agentenvs.alfworld.reading import read_contents, read_intro, read_task

__all__ = ["DATA_OPTIONS", "ENV_OPTIONS", "SLIP_RATE", "SlippingExpert", "expert_demos"]

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


class SlippingExpert:
    """The expert, with commands in between that the game refuses.

    Args:
        intro: The first observation of the episode.
        rng: Varies the expert's search and draws the slips.
        slip_rate: How likely there is a slip before each command of the expert.
        admissible: Returns the commands that the game would not refuse now.
    """

    def __init__(self, intro: str, rng: random.Random, slip_rate: float, admissible: Callable[[], list[str]]) -> None:
        self._expert = Expert(intro, rng)
        self._rng = rng
        self._slip_rate = slip_rate
        self._admissible = admissible
        self._meant: str | None = None
        room, sentence = read_intro(intro) or ([], "")
        task = read_task(sentence)
        self._receptacles = room
        self._objects = [f"{task.target} {number}" for number in (1, 1, 2)] if task else []

    def act(self, observation: str) -> str:
        """Return the next command; the expert never hears of a slip.

        Raises:
            ExpertError: The expert can do no more.
        """
        if self._meant is None:
            for objects in read_contents(observation).values():
                self._objects += objects
            self._meant = self._expert.act(observation)
        while self._rng.random() < self._slip_rate:
            slip = self._some_command()
            if slip not in self._admissible():
                return slip
        command, self._meant = self._meant, None
        return command

    def _some_command(self) -> str:
        """A command in the right words, about names that were met."""
        thing, place = self._rng.choice(self._objects), self._rng.choice(self._receptacles)
        return self._rng.choice(_FORMS).format(thing=thing, place=place)


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
        slip_rate: How likely, before each command of the expert, a command is given that the game refuses.
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
        rng = random.Random(f"alfworld demo:{seed}:{game}")

        def player(intro: str, rng: random.Random = rng) -> SlippingExpert:
            return SlippingExpert(intro, rng, slip_rate, env._engine.admissible)

        try:
            demos.append(record_demo(env, game, player))
        except (NoDemoError, ExpertError):
            continue  # counted below: it is one of the games that gave no demonstration
    if len(demos) < n:
        raise ValueError(f"got n={n}; the expert won {len(demos)} of {len(games)} games; lower n or raise max_steps")
    return demos
