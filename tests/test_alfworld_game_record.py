from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from trl_agentenvs.alfworld import game_record
from trl_agentenvs.alfworld.game import Game
from trl_agentenvs.alfworld.game_record import RecordError, from_record, to_record
from trl_agentenvs.alfworld.generate import TASK_TYPES, game_file


def _fields(game: Game) -> dict[str, Any]:
    """Every field, and the order of every mapping."""
    fields = {field.name: getattr(game, field.name) for field in dataclasses.fields(game)}
    orders = {name: list(value) for name, value in fields.items() if isinstance(value, dict)}
    return {**fields, "orders": orders}


@pytest.mark.parametrize("task_type", TASK_TYPES)
def test_a_generated_game_file_comes_back_field_for_field(task_type: str) -> None:
    for seed in range(12):
        game = Game.from_dict(game_file(task_type, seed), path="x")
        assert _fields(from_record(to_record(game), "x")) == _fields(game)


def test_every_real_game_comes_back_field_for_field(official_games: Path) -> None:
    paths = sorted((official_games / "json_2.1.1").glob("*/*/*/game.tw-pddl"))[:60]
    assert len(paths) >= 12
    for path in paths:
        game = Game.from_file(path)
        assert _fields(from_record(to_record(game), str(path))) == _fields(game)


def test_odd_fields_come_back_too() -> None:
    data = game_file("pick_two_obj_and_place", 1)
    data["grammar"] = data["grammar"].replace("Your task is to: ", "Your task is to: \ud800 \u00e9 ")
    data["grammar"] = data["grammar"].replace("move {o} to {r}", "put {o} in/on {r}")
    thing = data["pddl_problem"].partition("(pickupable ")[2].partition(")")[0]
    data["pddl_problem"] = data["pddl_problem"].replace("(:init", f"(:init (holds agent1 {thing})")
    del data["walkthrough"]
    game = Game.from_dict(data)
    assert game.first_held == thing.lower()
    assert game.dialect.put_verb == "put"
    assert _fields(from_record(to_record(game))) == _fields(game)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"names": [], "fields": {}}', "[" * 100_000])
def test_what_is_no_record_is_refused(text: str) -> None:
    with pytest.raises(RecordError, match="no record of a game"):
        from_record(text)


def test_the_version_changes_with_the_code_that_reads_games(monkeypatch: pytest.MonkeyPatch) -> None:
    version = game_record.reader_version.__wrapped__
    before = version()
    assert version() == before
    monkeypatch.setattr(game_record, "_READER", game_record._READER[:-1])
    assert version() != before


def test_every_module_that_a_game_is_made_with_is_part_of_the_version(repo: Path) -> None:
    code = "import sys, trl_agentenvs.alfworld.game_record; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], cwd=repo, capture_output=True, text=True, check=True)
    loaded = ran.stdout.split()
    made_with = {name.rpartition(".")[2] + ".py" for name in loaded if name.startswith("trl_agentenvs.alfworld.")}
    assert made_with <= set(game_record._READER)
