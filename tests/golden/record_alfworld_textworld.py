"""Record what TextWorld says in ALFWorld games, as the yardstick of the engine's tests.

    python tests/golden/record_alfworld_textworld.py FOLDER [--check]

FOLDER holds official games in the layout `json_2.1.1/SPLIT/TASK/TRIAL/game.tw-pddl`. Needs Python < 3.13 with
`textworld[pddl]` and `alfworld` installed, and takes some minutes; the tests that use the result need neither.
`--check` compares with the recorded file instead of writing it. Every difference between TextWorld and the engine is
printed.

Recorded for each game: the commands (walkthrough, errands, possible, formerly possible and wrong ones, mixed), and
after each one a digest of the text, of whether the game is won, and of the list of possible commands.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.parity.commands import Commands
from tests.parity.errands import errands
from tests.parity.game_files import generated, in_old_wording, official_paths, read
from tests.parity.textworld_play import TextWorld, memoised_parsing, play, versions
from trl_agentenvs.alfworld.game import Game
from trl_agentenvs.alfworld.generate import TASK_TYPES

RESULT = Path(__file__).with_name("alfworld_textworld.json")
OFFICIAL_COMMANDS, GENERATED_COMMANDS = 100, 110
GENERATED_SEEDS, OLD_SEEDS = (0, 2003), (1,)
SCRIPT_RATE = 0.75


def cases(folder: Path) -> Iterator[tuple[str, dict[str, Any], int]]:
    """Name, file content and number of commands of each game to record."""
    paths = official_paths(folder)
    for path in paths:
        yield path.relative_to(folder).as_posix(), read(path), OFFICIAL_COMMANDS
    like = read(paths[0])
    for task_type in TASK_TYPES:
        for seed in GENERATED_SEEDS:
            yield f"generated:{task_type}:{seed}", generated(task_type, seed, like), GENERATED_COMMANDS
        for seed in OLD_SEEDS:
            yield f"old:{task_type}:{seed}", in_old_wording(generated(task_type, seed, like)), GENERATED_COMMANDS


def digest(text: str, won: bool, possible: list[str]) -> str:
    """Short digest of one state, as the tests compute it."""
    return hashlib.sha256(json.dumps([text, won, possible]).encode()).hexdigest()[:8]


def record(world: TextWorld, name: str, content: dict[str, Any], commands: int) -> tuple[dict[str, Any], int]:
    """Play one game in TextWorld and in the engine; the record, and the number of states that differ."""
    of_its_own = frozenset({"help"}) if ":" in name else frozenset()  # generated games have a help text of their own
    rng = random.Random(f"golden:{name}")
    script = [*content["walkthrough"], *errands(Game.from_dict(content), rng)]
    player = Commands(rng, script, script_rate=SCRIPT_RATE, extra=("\U0001f642",), unsaid=of_its_own)
    turns = list(play(world, content, player, commands))
    different = [difference for turn in turns if (difference := turn.difference())]
    print(f"{name}: {len(different)} differences", *different, sep="\n  ", flush=True)
    digests = " ".join(digest(turn.theirs.text, turn.theirs.won, turn.theirs.possible) for turn in turns)
    return {"game": name, "commands": [turn.command for turn in turns[1:]], "digests": digests}, len(different)


def main() -> int:
    """Record or check; exit status 1 if anything differs."""
    parser = argparse.ArgumentParser(description="Record what TextWorld says in ALFWorld games.")
    parser.add_argument("folder", type=Path, help="folder that holds json_2.1.1")
    parser.add_argument("--check", action="store_true", help="compare with the recorded file instead of writing it")
    arguments = parser.parse_args()
    games, different, world = [], 0, TextWorld()
    for name, content, commands in cases(arguments.folder):
        with memoised_parsing():
            game, differences = record(world, name, content, commands)
        games.append(game)
        different += differences
    states = sum(1 + len(game["commands"]) for game in games)
    if arguments.check:
        different += games != json.loads(RESULT.read_text(encoding="utf-8"))["games"]
    else:
        lines = ",\n".join(json.dumps(game) for game in games)
        RESULT.write_text(f'{{"made_with": {json.dumps(versions())}, "games": [\n{lines}\n]}}\n', encoding="utf-8")
    print(f"{len(games)} games, {states} states, {different} differences")
    return 1 if different else 0


if __name__ == "__main__":
    raise SystemExit(main())
