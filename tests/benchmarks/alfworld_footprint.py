"""What environments and 10,000 episodes of them leave behind, measured in a process of its own.

    python tests/benchmarks/alfworld_footprint.py GAME_FILE...

Prints one JSON object: `env_kb`, the memory of a live environment in mid-episode beside the game it shares with others;
and by how much 10,000 episodes, 1,000 of them with the game read anew from its file, raise the resident memory (MB),
the number of open file descriptors and the number of files in the temporary folder. null where this system does not
tell (the first two are read from /proc).
"""

from __future__ import annotations

import gc
import json
import os
import sys
import tempfile
import tracemalloc
from collections.abc import Sequence
from pathlib import Path

from trl_agentenvs.alfworld import data
from trl_agentenvs.alfworld.engine import Engine
from trl_agentenvs.alfworld.env import ALFWorldEnv
from trl_agentenvs.alfworld.game import Game

ENVS, STEPS_BEFORE_MEASURING = 200, 40
WARM_UP_EPISODES, EPISODES, FRESH_EVERY = 1000, 10_000, 10


def env_kb(path: str) -> float:
    """Memory of one live environment, in units of 1,024 bytes, over `ENVS` of them that play the same game."""
    walkthrough = data.load(path).walkthrough
    commands = [*walkthrough[:-1], *["look", "inventory"] * STEPS_BEFORE_MEASURING][:STEPS_BEFORE_MEASURING]
    _in_mid_episode(path, commands)  # whatever is made once
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    envs = [_in_mid_episode(path, commands) for _ in range(ENVS)]
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return (after - before) / len(envs) / 1024


def _in_mid_episode(path: str, commands: Sequence[str]) -> ALFWorldEnv:
    env = ALFWorldEnv()
    env.reset(game=path)
    for command in commands:
        env.act(command=command)
    return env


def play(env: ALFWorldEnv, paths: Sequence[str], episodes: int) -> None:
    """Play games to a win, one in `FRESH_EVERY` read anew from its file."""
    for episode in range(episodes):
        path = paths[episode % len(paths)]
        env.reset(game=path)
        for command in data.load(path).walkthrough:
            env.act(command=command)
        if (env.get_reward() or 0.0) <= 0.0:
            raise RuntimeError(f"the walkthrough of {path} did not win in the environment")
        if episode % FRESH_EVERY == 0:
            engine = Engine(Game.from_file(path))
            for command in engine.game.walkthrough:
                engine.step(command)
            if not engine.won:
                raise RuntimeError(f"the walkthrough of {path} did not win in the engine")


def footprint(temporary: Path) -> dict[str, float | None]:
    """Resident memory, open file descriptors and files in the temporary folder, now."""
    gc.collect()
    statm, descriptors = Path("/proc/self/statm"), Path("/proc/self/fd")
    rss_mb = int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20 if statm.exists() else None
    return {
        "rss_growth_mb": rss_mb,
        "file_descriptors_growth": float(len(os.listdir(descriptors))) if descriptors.exists() else None,
        "temp_files_growth": float(sum(1 for _ in temporary.rglob("*"))),
    }


def main() -> None:
    """Measure, and print the figures as JSON."""
    paths = sys.argv[1:]
    with tempfile.TemporaryDirectory() as temporary:
        tempfile.tempdir = temporary
        env = ALFWorldEnv()
        play(env, paths, WARM_UP_EPISODES)
        before = footprint(Path(temporary))
        play(env, paths, EPISODES)
        after = footprint(Path(temporary))
        tempfile.tempdir = None
    growth = {name: None if (old := before[name]) is None else after[name] - old for name in after}
    print(json.dumps({"env_kb": env_kb(paths[0]), **growth}))


if __name__ == "__main__":
    main()
