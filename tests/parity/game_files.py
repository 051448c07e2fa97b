"""Which games are compared with TextWorld, and how they come about.

What is covered: official games by split and task type, generated games in the official file format, and both of them in
the older wording (`put X in/on Y`), of which no official file is at hand: a file of today with the three sentences put
back that changed.
"""

from __future__ import annotations

import json
import random
import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from trl_agentenvs.alfworld.generate import TASK_TYPES, game_file

OLD_WORDING = (
    ("move {o} to {r}", "put {o} in/on {r}"),
    ("You move the {o.name} to the {r.name}.", "You put the {o.name} in/on the {r.name}."),
    ("You arrive at {r.name}.", "You arrive at {lend.name}."),
)
"""The sentences of the newer grammar, and what the older one says."""

_MOVE = re.compile(r"move (\w+ \d+) to (\w+ \d+)")


def read(path: Path) -> dict[str, Any]:
    """The JSON object of a game file."""
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


def in_old_wording(content: Mapping[str, Any]) -> dict[str, Any]:
    """A game file of the newer wording in the older one, walkthrough included.

    Sentences that its grammar lacks are added, since the engine knows the wording by them.
    """
    grammar = content["grammar"]
    for new_words, old_words in OLD_WORDING:
        grammar = grammar.replace(new_words, old_words) if new_words in grammar else f'{grammar}\n"{old_words}"'
    walkthrough = [_MOVE.sub(r"put \1 in/on \2", command) for command in content["walkthrough"]]
    return {**content, "grammar": grammar, "walkthrough": walkthrough}


def official_paths(folder: Path, split: str = "*", task_type: str = "") -> list[Path]:
    """The game files below a folder in the official layout, sorted."""
    return sorted(folder.glob(f"json_2.1.1/{split}/{task_type}*/*/game.tw-pddl"))


def drawn_paths(folder: Path, split: str, task_type: str, n: int, without: Sequence[str]) -> list[Path]:
    """`n` official games of a split and type, always the same, and none of the trials in `without`."""
    paths = [path for path in official_paths(folder, split, task_type) if path.parent.name not in without]
    return random.Random(f"parity:{split}:{task_type}").sample(paths, n)


def generated(task_type: str, seed: int, like: Mapping[str, Any]) -> dict[str, Any]:
    """A generated game in the official format, with the rules and grammar of the official game `like`."""
    assert task_type in TASK_TYPES
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary) / "game.tw-pddl"
        path.write_text(json.dumps(like), encoding="utf-8")
        return game_file(task_type, seed, like=path)
