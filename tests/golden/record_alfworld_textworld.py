"""Record what TextWorld says in ALFWorld games, as the yardstick of the engine's tests.

    python tests/golden/record_alfworld_textworld.py FOLDER [--check]

FOLDER holds official games in the layout `json_2.1.1/SPLIT/TASK/TRIAL/game.tw-pddl`. Needs Python < 3.13 with
`textworld[pddl]` and `alfworld` installed, and takes some minutes; the tests that use the result need neither.
`--check` compares with the recorded file instead of writing it, and prints every difference between TextWorld and the
engine.

Recorded for each game: the commands (walkthrough, possible, formerly possible and senseless ones, mixed), and after
each one a digest of the text, of whether the game is won, and of the list of possible commands.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from trl_agentenvs.alfworld.engine import Engine
from trl_agentenvs.alfworld.game import Game
from trl_agentenvs.alfworld.generate import TASK_TYPES, game_file

RESULT = Path(__file__).with_name("alfworld_textworld.json")
OFFICIAL_STEPS, GENERATED_STEPS = 30, 40
GENERATED_SEEDS = (0, 2003)
OLD_WORDING = (
    ("move {o} to {r}", "put {o} in/on {r}"),
    ("You move the {o.name} to the {r.name}.", "You put the {o.name} in/on the {r.name}."),
    ("You arrive at {r.name}.", "You arrive at {lend.name}."),
)
SENSELESS = (
    "fly", "", "put apple 1 in/on fridge 1", "Look", "go to", "take", "open", "examine", "use", "take a from b",
    "look around", "go to fridge 9", "examine agent1", "heat egg 1 with fridge 1", "slice apple 1 with knife 1",
    "inventory ", " look",
    "go to  fridge 1", "use desklamp 1", "take desklamp 1 from desk 1", "\u00e9\u4e2d", "move a to b", "{r.name}",
)  # fmt: skip


def cases(folder: Path) -> Iterator[tuple[str, dict[str, Any], int]]:
    """Name, file content and step count of each game to record."""
    paths = sorted(folder.glob("json_2.1.1/*/*/*/game.tw-pddl"))
    for path in paths:
        yield path.relative_to(folder).as_posix(), json.loads(path.read_text(encoding="utf-8")), OFFICIAL_STEPS
    for task_type in TASK_TYPES:
        for seed in GENERATED_SEEDS:
            yield f"generated:{task_type}:{seed}", game_file(task_type, seed, like=paths[0]), GENERATED_STEPS
    with tempfile.TemporaryDirectory() as temporary:
        old = json.loads(paths[0].read_text(encoding="utf-8"))
        for new_words, old_words in OLD_WORDING:
            old["grammar"] = old["grammar"].replace(new_words, old_words)
        like = Path(temporary) / "game.tw-pddl"
        like.write_text(json.dumps(old), encoding="utf-8")
        for task_type in TASK_TYPES[2:]:
            yield f"old:{task_type}:1", game_file(task_type, 1, like=like), GENERATED_STEPS


def digest(text: str, won: bool, possible: list[str]) -> str:
    """Short digest of one state, as the tests compute it."""
    return hashlib.sha256(json.dumps([text, won, possible]).encode()).hexdigest()[:12]


def play(name: str, content: dict[str, Any], steps: int) -> tuple[dict[str, Any], int]:
    """Play one game in TextWorld and in the engine; the record, and the number of states that differ."""
    import textworld
    from alfworld.agents.environment.alfred_tw_env import AlfredDemangler

    rng = random.Random(f"golden:{name}")
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary) / "game.tw-pddl"
        path.write_text(json.dumps(content), encoding="utf-8")
        env = textworld.start(
            str(path), textworld.EnvInfos(won=True, admissible_commands=True), wrappers=[AlfredDemangler()]
        )
        state = env.reset()
    engine = Engine(Game.from_dict(content))
    text = engine.reset()
    script, seen = list(content["walkthrough"]), set(state["admissible_commands"])
    commands: list[str] = []
    digests: list[str] = []
    different = 0
    for step in range(steps + 1):
        possible = state["admissible_commands"]
        ours, theirs = (text, engine.won, engine.admissible()), (state.feedback, bool(state["won"]), possible)
        digests.append(digest(*theirs))
        if ours != theirs:
            different += 1
            print("DIFFERENT", name, commands[-1:], *zip(ours, theirs, strict=True), sep="\n  ")
        if step == steps:
            break
        seen.update(possible)
        near = [command for command in possible if not command.startswith("go to")]
        kind = rng.random()
        if script and kind < 0.35:
            command = script.pop(0)
        elif kind < 0.8:
            command = rng.choice(possible if rng.random() < 0.5 else near)
        else:
            command = rng.choice(sorted(seen) if kind < 0.92 else SENSELESS)
        if command == "help" and ":" in name:
            command = "look"  # generated games have a help text of their own
        commands.append(command)
        state, _, _ = env.step(command)
        text = engine.step(command)
    env.close()
    return {"game": name, "commands": commands, "digests": digests}, different


def main() -> int:
    """Record or check; exit status 1 if anything differs."""
    parser = argparse.ArgumentParser(description="Record what TextWorld says in ALFWorld games.")
    parser.add_argument("folder", type=Path, help="folder that holds json_2.1.1")
    parser.add_argument("--check", action="store_true", help="compare with the recorded file instead of writing it")
    arguments = parser.parse_args()
    games, different = [], 0
    for name, content, steps in cases(arguments.folder):
        record, differences = play(name, content, steps)
        games.append(record)
        different += differences
        print(f"{name}: {differences} differences", flush=True)
    result = {"made_with": {package: version(package) for package in ("textworld", "alfworld")}, "games": games}
    if arguments.check:
        different += result["games"] != json.loads(RESULT.read_text(encoding="utf-8"))["games"]
    else:
        lines = ",\n".join(json.dumps(game) for game in games)
        RESULT.write_text(
            f'{{"made_with": {json.dumps(result["made_with"])}, "games": [\n{lines}\n]}}\n', encoding="utf-8"
        )
    print(f"{len(games)} games, {sum(len(game['digests']) for game in games)} states, {different} differences")
    return 1 if different else 0


if __name__ == "__main__":
    raise SystemExit(main())
