"""The engine against what TextWorld said: `golden/record_alfworld_textworld.py` made the record.

This is the share of the comparison that runs everywhere; `parity/` plays against TextWorld itself.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.parity.game_files import in_old_wording
from trl_agentenvs.alfworld.engine import Engine
from trl_agentenvs.alfworld.game import Game
from trl_agentenvs.alfworld.generate import game_file, generate
from trl_agentenvs.alfworld.wording import NOTHING_HAPPENS

RECORD_PATH = Path(__file__).parent / "golden" / "alfworld_textworld.json"
RECORD = json.loads(RECORD_PATH.read_text(encoding="utf-8"))
GENERATED = {game["game"]: game for game in RECORD["games"] if ":" in game["game"]}
OFFICIAL = {game["game"]: game for game in RECORD["games"] if ":" not in game["game"]}
MOST_BYTES = 200_000


def _recorded_game(name: str) -> Game:
    wording, task_type, seed = name.split(":")
    if wording == "generated":
        return generate(task_type, int(seed))
    return Game.from_dict(in_old_wording(game_file(task_type, int(seed))))


def _assert_equal_to_textworld(game: Game, record: dict[str, Any]) -> None:
    engine = Engine(game)
    text, said = engine.reset(), "(start)"
    digests = record["digests"].split()
    assert len(digests) == len(record["commands"]) + 1
    for command, digest in zip([*record["commands"], None], digests, strict=True):
        state = [text, engine.won, engine.admissible()]
        assert hashlib.sha256(json.dumps(state).encode()).hexdigest()[:8] == digest, (record["game"], said, state)
        if command is not None:
            text, said = engine.step(command), command


def test_the_record_covers_all_there_is_to_compare() -> None:
    assert (len(OFFICIAL), len(GENERATED)) == (30, 18)
    states = sum(len(game["digests"].split()) for game in RECORD["games"])
    assert states > 4500
    assert RECORD_PATH.stat().st_size <= MOST_BYTES


def test_the_record_holds_every_action_and_every_kind_of_refused_command() -> None:
    done, refused, looks, undone = set[str](), list[str](), set[str](), 0
    for name, record in GENERATED.items():
        engine = Engine(_recorded_game(name))
        for command in record["commands"]:
            won = engine.won
            answer = engine.step(command)
            if answer == NOTHING_HAPPENS:
                refused.append(command)
            else:
                done.add(command.split()[0])
            if answer.startswith("This is a "):
                looks.add(re.sub(r"\w+ \d+\..*", "", answer.removeprefix("This is a ")))
            undone += won and not engine.won
    assert done == {"look", "inventory", "go", "open", "close", "take", "move", "put", "examine", "use", "heat", "cool",
                    "clean", "slice"}  # fmt: skip
    assert looks >= {
        "hot ",
        "cold ",
        "clean ",
        "cool and clean ",
        "sliced ",
        "hot sliced ",
        "cool sliced ",
        "clean sliced ",
    }
    assert undone > 0  # a win taken back
    for sign in ("\n", ";", " and ", "\u00a0", "\t", "  ", "\0", "\U0001f642", "\u0301", "\uff54", "#", "{", "."):
        assert any(sign in command for command in refused), sign
    assert "" in refused
    assert any(command != command.lower() for command in refused)


@pytest.mark.parametrize("name", GENERATED)
def test_generated_games_say_what_textworld_says(name: str) -> None:
    _assert_equal_to_textworld(_recorded_game(name), GENERATED[name])


def test_official_games_say_what_textworld_says(official_games: Path) -> None:
    for name, record in OFFICIAL.items():
        _assert_equal_to_textworld(Game.from_file(official_games / name), record)
