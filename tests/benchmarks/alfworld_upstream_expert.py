"""How well alfworld's own handcoded expert plays the official games, as it comes and with its known fault mended.

    python tests/benchmarks/alfworld_upstream_expert.py [--splits valid_seen valid_unseen] [--seeds 0 1 2] [--json FILE]

Needs the extra [textworld] and ALFWORLD_DATA. The expert is alfworld's, unmodified but for the fault: its tracker waits
for the command `put`, which the game calls `move`. The games are played by this package's engine, which gives the
expert the facts and the possible commands it asks for; the task, which alfworld reads from `traj_data.json`, is read
from the name of the folder. A play has 50 commands, the `look` with which alfworld begins among them; `random`, which
the expert draws from, is seeded for each play.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from trl_agentenvs.alfworld import data
from trl_agentenvs.alfworld.engine import Engine
from trl_agentenvs.alfworld.official import portable_id
from trl_agentenvs.terminal import table

MAX_STEPS = 50
PATIENCE_STEPS = 200  # after which the expert itself gives up


class Fact(NamedTuple):
    """A fact as TextWorld shows it to the expert."""

    name: str
    names: list[str]


def task_of(path: str) -> dict[str, Any]:
    """What alfworld reads from a game's `traj_data.json`, from its folder: TYPE-OBJECT-MOVABLE-PARENT-SCENE."""
    import alfworld.gen.constants as constants

    kind, thing, movable, parent, _ = Path(path).parts[-3].split("-")
    looks = kind.startswith("look")
    task = {
        "task_type": kind,
        "object_target": thing,
        "parent_target": "" if looks else parent,
        "toggle_target": parent if looks else "",
        "mrecep_target": "" if movable == "None" else movable,
        "object_sliced": False,
    }
    return {name: value.lower() if value in constants.OBJECTS else value for name, value in task.items()}


def steps_to_win(game_id: str, seed: int) -> tuple[int | None, str]:
    """How many commands the expert takes to win, None if it does not; and why not."""
    from alfworld.agents.expert import HandCodedTWAgent

    game = data.load(game_id)
    random.seed(f"{seed}:{portable_id(game_id)}")
    engine, task = Engine(game), task_of(game_id)
    agent = HandCodedTWAgent(max_steps=PATIENCE_STEPS)
    agent.task_params = task
    agent.policy = agent.get_task_policy(task)(task, max_steps=PATIENCE_STEPS)
    feedback = engine.reset()
    agent.observe(feedback)
    command = "look"
    for step in range(1, MAX_STEPS + 1):
        feedback = engine.step(command)
        if engine.won:
            return step, ""
        possible = engine.admissible()
        facts = [Fact(fact[0], [game.name_of.get(name, name) for name in fact[1:]]) for fact in sorted(engine.facts)]
        state = {"feedback": feedback, "admissible_commands": possible, "facts": facts}
        try:
            chosen = agent.act(state, 0, False, command)
        except Exception as error:  # it gives up by exceptions of several kinds
            return None, type(error).__name__
        command = chosen if chosen in possible else "look"
    return None, f"{MAX_STEPS} steps"


@contextmanager
def mended() -> Iterator[None]:
    """Let the expert's tracker understand `move` as the `put` it waits for."""
    from alfworld.agents.expert.handcoded_expert import BasePolicy

    as_it_comes = BasePolicy.update_state_tracking

    def update(policy: Any, state: Any, action: str) -> Any:
        return as_it_comes(policy, state, "put" + action[4:] if action.startswith("move ") else action)

    BasePolicy.update_state_tracking = update
    try:
        yield
    finally:
        BasePolicy.update_state_tracking = as_it_comes


def measured(games: list[str], seeds: list[int], title: str) -> dict[str, Any]:
    """Plays of all games with all seeds."""
    plays = []
    for number, game in enumerate(games):
        if sys.stderr.isatty():
            print(f"\r{title}: {number} of {len(games)} games", end="", file=sys.stderr, flush=True)
        plays += [(data.task_type_of(game), *steps_to_win(game, seed)) for seed in seeds]
    print(file=sys.stderr)
    rows = []
    for kind in (*data.TASK_TYPES, "all"):
        steps = [steps for type_, steps, _ in plays if kind in ("all", type_)]
        won = [count for count in steps if count is not None]
        mean = f"{statistics.mean(won):.2f}" if won else "-"
        rows.append([kind, str(len(steps)), f"{len(won) / max(1, len(steps)):.1%}", mean])
    lost = Counter(reason for _, steps, reason in plays if steps is None)
    print(f"\n{title}\n{table(['task type', 'plays', 'won', 'mean steps'], rows, 'lrrr')}\nnot won: {dict(lost)}")
    return {"rows": rows, "not_won": dict(lost)}


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Let alfworld's own expert play the official games.")
    parser.add_argument("--splits", nargs="+", choices=data.SPLITS, default=["valid_seen", "valid_unseen"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2], help="of the expert's draws")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to this file")
    arguments = parser.parse_args()
    sys.path.remove(str(Path(__file__).resolve().parent))  # else the file alfworld.py in it would be imported
    games = [game for split in arguments.splits for game in data.game_ids(split, source="official")]
    figures = {"as it comes": measured(games, arguments.seeds, "alfworld's expert as it comes")}
    with mended():
        figures["mended"] = measured(games, arguments.seeds, "alfworld's expert with its fault mended")
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
