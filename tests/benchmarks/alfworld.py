"""How fast ALFWorld games are here and in stock TextWorld, measured in one run.

    python tests/benchmarks/alfworld.py [--json FILE]

Needs pytest-benchmark; the comparison also needs TextWorld, alfworld and official games (the folder that
ALFWORLD_GAMES or ALFWORLD_DATA names), since TextWorld loads no game without the official rules and grammar. Both sides
play the same games through the same possible commands; TextWorld is not patched, and plays them once.

Times are CPU times of single calls, as pytest-benchmark takes them, so that other work on the machine changes little;
medians and p95 are over calls. Prints one figure a line, a sentence for each target that is missed (exit status 1), and
as the last line `step_ratio=... reset_ratio=... step_us=... load_ms=...`. What cannot be measured is `n/a`, and no
miss.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from trl_agentenvs.alfworld import data
from trl_agentenvs.alfworld.engine import Engine
from trl_agentenvs.alfworld.env import ALFWorldEnv
from trl_agentenvs.alfworld.game import Game
from trl_agentenvs.alfworld.generate import TASK_TYPES, game_file

REPO = Path(__file__).resolve().parents[2]
COMMANDS_EACH, PASSES, LOAD_PASSES, TEXTWORLD_STARTS = 20, 30, 10, 6
LEAST = {"step_ratio": 3000.0, "step_ratio_admissible": 1000.0}
MOST = {"step_p95_us": 50.0, "load_ms": 5.0, "reset_us": 100.0, "env_kb": 50.0}
FLAT = {"rss_growth_mb": 2.0, "file_descriptors_growth": 0.0, "temp_files_growth": 0.0}
"""Targets: lowest and highest values that are good enough, and how much 10,000 episodes may add."""


def official_folder() -> Path | None:
    """The folder that holds official games, if there is one."""
    named = [os.environ[name] for name in ("ALFWORLD_GAMES", "ALFWORLD_DATA") if os.environ.get(name)]
    folders = [Path(name).expanduser() for name in named] or [REPO.parent / "shared" / "alfworld_games"]
    return next((folder for folder in folders if any(folder.glob("json_2.1.1/*/*/*/game.tw-pddl"))), None)


OFFICIAL = official_folder()  # found now: `import alfworld` sets ALFWORLD_DATA


@cache
def game_paths() -> tuple[Path, ...]:
    """One game of each split and task type: official ones where there are some, else generated ones."""
    if OFFICIAL is not None:
        found = (
            sorted(OFFICIAL.glob(f"json_2.1.1/{s}/{kind}*/*/game.tw-pddl")) for s in data.SPLITS for kind in TASK_TYPES
        )
        return tuple(paths[0] for paths in found if paths)
    root = Path(os.environ["BENCHMARK_GAMES"])
    for kind, seed in itertools.product(TASK_TYPES, (0, 1000, 2000)):
        path = root / f"{kind}-{seed}.tw-pddl"
        path.write_text(json.dumps(game_file(kind, seed)), encoding="utf-8")
    return tuple(sorted(root.iterdir()))


@cache
def commands_of(path: Path) -> tuple[str, ...]:
    """The commands that both sides play: the walkthrough, then any that are possible."""
    engine, rng = Engine(Game.from_file(path)), random.Random("benchmark")
    commands: list[str] = []
    for command in engine.game.walkthrough[:COMMANDS_EACH]:
        engine.step(command)
        commands.append(command)
    while len(commands) < COMMANDS_EACH:
        commands.append(rng.choice(engine.admissible()))
        engine.step(commands[-1])
    return tuple(commands)


def textworld_missing() -> str | None:
    """Why there is no comparison with TextWorld; None if there is one."""
    if sys.version_info >= (3, 13):
        return "TextWorld's PDDL games do not run on Python 3.13 and later"
    absent = [name for name in ("textworld", "alfworld") if importlib.util.find_spec(name) is None]
    if absent:
        return f"{' and '.join(absent)} not installed"
    return None if OFFICIAL else "there are no official games (ALFWORLD_GAMES), without which none loads in it"


def textworld_start(path: Path) -> Any:
    """Stock TextWorld with a game loaded and started, as alfworld starts it."""
    import textworld
    from alfworld.agents.environment.alfred_tw_env import AlfredDemangler

    wanted = textworld.EnvInfos(won=True, admissible_commands=True)
    env = textworld.start(str(path), wanted, wrappers=[AlfredDemangler()])
    env.reset()
    return env


@pytest.fixture(scope="session")
def textworld_env() -> Any:
    """One TextWorld environment; skips where there is no comparison."""
    missing = textworld_missing()
    if missing:
        pytest.skip(missing)
    return textworld_start(game_paths()[0])


def one_by_one(rounds: Iterator[tuple[Any, ...]]) -> Callable[[], tuple[tuple[Any, ...], dict[str, Any]]]:
    """The arguments of each round of a benchmark."""
    return lambda: (next(rounds), {})


def engine_turns() -> Iterator[tuple[Engine, str]]:
    for path in itertools.cycle(game_paths()):
        engine = Engine(data.load(path))
        yield from ((engine, command) for command in commands_of(path))


def step_and_list(engine: Engine, command: str) -> None:
    engine.step(command)
    engine.admissible()


def start_known(path: Path) -> str:
    return Engine(data.load(path)).reset()


def test_step(benchmark: Any) -> None:
    rounds = PASSES * len(game_paths()) * COMMANDS_EACH
    benchmark.pedantic(Engine.step, setup=one_by_one(engine_turns()), rounds=rounds, warmup_rounds=1000)


def test_step_admissible(benchmark: Any) -> None:
    rounds = PASSES * len(game_paths()) * COMMANDS_EACH
    benchmark.pedantic(step_and_list, setup=one_by_one(engine_turns()), rounds=rounds, warmup_rounds=1000)


def test_reset(benchmark: Any) -> None:
    paths = ((path,) for path in itertools.cycle(game_paths()))
    benchmark.pedantic(start_known, setup=one_by_one(paths), rounds=2000, warmup_rounds=100)


def test_env_reset(benchmark: Any) -> None:
    env = ALFWorldEnv()
    rows = ((str(path),) for path in itertools.cycle(game_paths()))
    benchmark.pedantic(env.reset, setup=one_by_one(rows), rounds=2000, warmup_rounds=100)


def test_load(benchmark: Any) -> None:
    paths = ((path,) for path in itertools.cycle(game_paths()))
    rounds = LOAD_PASSES * len(game_paths())
    benchmark.pedantic(Game.from_file, setup=one_by_one(paths), rounds=rounds, warmup_rounds=1)


def test_textworld_step(benchmark: Any, textworld_env: Any) -> None:
    def turns() -> Iterator[tuple[str]]:
        for path in game_paths():
            textworld_env.load(str(path))
            textworld_env.reset()
            yield from ((command,) for command in commands_of(path))

    rounds = len(game_paths()) * COMMANDS_EACH
    benchmark.pedantic(textworld_env.step, setup=one_by_one(turns()), rounds=rounds)


def test_textworld_reset(benchmark: Any, textworld_env: Any) -> None:
    def loads() -> Iterator[tuple[()]]:
        for path in game_paths():
            textworld_env.load(str(path))
            yield ()

    benchmark.pedantic(textworld_env.reset, setup=one_by_one(loads()), rounds=TEXTWORLD_STARTS)


def test_textworld_new_game(benchmark: Any, textworld_env: Any) -> None:
    paths = ((path,) for path in game_paths())
    benchmark.pedantic(textworld_start, setup=one_by_one(paths), rounds=TEXTWORLD_STARTS)


def measured(folder: Path) -> dict[str, float | None]:
    """Run everything; the figures by name, the unit last in the name."""
    report = folder / "benchmark.json"
    arguments = [__file__, "-q", "-p", "no:cacheprovider", f"--rootdir={REPO}", f"--benchmark-json={report}"]
    arguments.append("--benchmark-timer=time.process_time")
    if pytest.main(arguments) != pytest.ExitCode.OK:
        raise SystemExit("the benchmark itself failed; see the report above")
    runs = json.loads(report.read_text(encoding="utf-8"))["benchmarks"]
    seconds: dict[str, list[float]] = {run["name"].removeprefix("test_"): run["stats"]["data"] for run in runs}

    def median(name: str, per_s: float) -> float | None:
        return statistics.median(seconds[name]) * per_s if name in seconds else None

    def p95(name: str, per_s: float) -> float | None:
        return statistics.quantiles(seconds[name], n=20)[-1] * per_s if name in seconds else None

    def ratio(theirs: str, ours: str) -> float | None:
        return statistics.median(seconds[theirs]) / statistics.median(seconds[ours]) if theirs in seconds else None

    footprint = json.loads(
        subprocess.run(
            [sys.executable, str(Path(__file__).with_name("alfworld_footprint.py")), *map(str, game_paths())],
            check=True, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(REPO)},
        ).stdout
    )  # fmt: skip
    return {
        "step_us": median("step", 1e6),
        "step_p95_us": p95("step", 1e6),
        "step_admissible_us": median("step_admissible", 1e6),
        "step_admissible_p95_us": p95("step_admissible", 1e6),
        "reset_us": median("reset", 1e6),
        "reset_p95_us": p95("reset", 1e6),
        "env_reset_us": median("env_reset", 1e6),
        "env_reset_p95_us": p95("env_reset", 1e6),
        "load_ms": median("load", 1e3),
        "load_p95_ms": p95("load", 1e3),
        "textworld_step_ms": median("textworld_step", 1e3),
        "textworld_step_p95_ms": p95("textworld_step", 1e3),
        "textworld_reset_ms": median("textworld_reset", 1e3),
        "textworld_new_game_ms": median("textworld_new_game", 1e3),
        **footprint,
        "step_ratio": ratio("textworld_step", "step"),
        "step_ratio_admissible": ratio("textworld_step", "step_admissible"),
        "reset_ratio": ratio("textworld_reset", "reset"),
        "new_game_ratio": ratio("textworld_new_game", "load"),
    }


def missed(figures: dict[str, float | None]) -> list[str]:
    """A sentence for each target that is missed."""
    known = {name: value for name, value in figures.items() if value is not None}
    too_low = [
        f"{n} is {known[n]:.4g}; the target is {low:g} or more" for n, low in LEAST.items() if known.get(n, low) < low
    ]
    limits = MOST | FLAT
    too_high = [
        f"{n} is {known[n]:.4g}; the target is {top:g} or less" for n, top in limits.items() if known.get(n, top) > top
    ]
    return [f"Missed: {sentence}." for sentence in too_low + too_high]


def shown(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.4g}" if value < 1000 else f"{value:.0f}"


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(description="Measure ALFWorld games here and in stock TextWorld.")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to this file")
    arguments = parser.parse_args()
    if importlib.util.find_spec("pytest_benchmark") is None:
        parser.error("pytest-benchmark is not installed; run: pip install pytest-benchmark")
    sys.path.remove(str(Path(__file__).resolve().parent))  # else this file would be found as `import alfworld`
    with tempfile.TemporaryDirectory() as temporary:
        games = Path(temporary) / "games"
        games.mkdir()
        os.environ["BENCHMARK_GAMES"] = str(games)
        figures = measured(Path(temporary))
        kind = "official" if OFFICIAL else "generated"
        print(f"\n{len(game_paths())} {kind} games, {COMMANDS_EACH} commands each; Python {platform.python_version()}")
    absent = textworld_missing()
    textworld = f"not compared with TextWorld: {absent}" if absent else f"textworld {version('textworld')}, unpatched"
    print(textworld)
    for name, value in figures.items():
        print(f"{name} = {shown(value)}")
    sentences = missed(figures)
    print(*sentences, sep="\n", end="\n" if sentences else "")
    if arguments.json:
        written = {"figures": figures, "missed": sentences, "textworld": textworld, "python": platform.python_version()}
        arguments.json.write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")
    print(*(f"{name}={shown(figures[name])}" for name in ("step_ratio", "reset_ratio", "step_us", "load_ms")))
    return 1 if sentences else 0


if __name__ == "__main__":
    raise SystemExit(main())
