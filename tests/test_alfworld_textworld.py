"""The engine against what TextWorld said: `golden/record_alfworld_textworld.py` made the record."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from trl_agentenvs.alfworld.engine import Engine
from trl_agentenvs.alfworld.game import Game
from trl_agentenvs.alfworld.generate import game_file, generate

RECORD = json.loads((Path(__file__).parent / "golden" / "alfworld_textworld.json").read_text(encoding="utf-8"))
GENERATED = {game["game"]: game for game in RECORD["games"] if ":" in game["game"]}
OFFICIAL = {game["game"]: game for game in RECORD["games"] if ":" not in game["game"]}
OLD_GRAMMAR = '"You put the {o.name} in/on the {r.name}." "You arrive at {lend.name}."'


def _assert_equal_to_textworld(game: Game, record: dict[str, Any]) -> None:
    engine = Engine(game)
    text, said = engine.reset(), "(start)"
    assert len(record["digests"]) == len(record["commands"]) + 1
    for command, digest in zip([*record["commands"], None], record["digests"], strict=True):
        state = [text, engine.won, engine.admissible()]
        assert hashlib.sha256(json.dumps(state).encode()).hexdigest()[:12] == digest, (record["game"], said, state)
        if command is not None:
            text, said = engine.step(command), command


def test_the_record_covers_all_there_is_to_compare() -> None:
    assert (len(OFFICIAL), len(GENERATED)) == (30, 16)
    states = sum(len(game["digests"]) for game in RECORD["games"])
    assert states > 1500


@pytest.mark.parametrize("name", GENERATED)
def test_generated_games_say_what_textworld_says(name: str) -> None:
    wording, task_type, seed = name.split(":")
    if wording == "old":
        written = game_file(task_type, int(seed))
        written["grammar"] = written["grammar"].replace("move {o} to {r}", "put {o} in/on {r}") + OLD_GRAMMAR
        game = Game.from_dict(written)
    else:
        game = generate(task_type, int(seed))
    _assert_equal_to_textworld(game, GENERATED[name])


def test_official_games_say_what_textworld_says(official_games: Path) -> None:
    for name, record in OFFICIAL.items():
        _assert_equal_to_textworld(Game.from_file(official_games / name), record)
