from __future__ import annotations

import dataclasses
import json
import os
import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from trl_agentenvs.alfworld import cache_file as cache_file_module
from trl_agentenvs.alfworld import game_cache
from trl_agentenvs.alfworld.cache_file import CacheFile
from trl_agentenvs.alfworld.engine import Engine
from trl_agentenvs.alfworld.game import Game
from trl_agentenvs.alfworld.gamefile import GameFileError
from trl_agentenvs.alfworld.generate import game_file

FILE_NAME = "alfworld-games.sqlite"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache's folder, which does not exist yet."""
    folder = tmp_path / "a cache?#%" / "below"
    monkeypatch.setenv("TRL_AGENTENVS_CACHE", str(folder))
    return folder


@pytest.fixture
def game_path(tmp_path: Path) -> Path:
    path = tmp_path / "game.tw-pddl"
    path.write_text(json.dumps(game_file("pick_heat_then_place_in_recep", 5)), encoding="utf-8")
    return path


@pytest.fixture
def parses(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Paths of the files that were parsed, not found in the cache."""
    parsed: list[str] = []
    parse = game_cache.parse_game_file
    monkeypatch.setattr(
        game_cache, "parse_game_file", lambda content, path: parsed.append(str(path)) or parse(content, path)
    )
    return parsed


def _fields(game: Game) -> dict[str, Any]:
    """Every field, and the order of every mapping."""
    fields = {field.name: getattr(game, field.name) for field in dataclasses.fields(game)}
    orders = {name: list(value) for name, value in fields.items() if isinstance(value, dict)}
    return {**fields, "orders": orders}


def _statements(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def test_a_game_is_parsed_once_for_all_processes(folder: Path, game_path: Path, parses: list[str]) -> None:
    first = game_cache.load_game(game_path)
    second = game_cache.load_game(game_path)
    assert parses == [str(game_path)]
    assert first is not second
    assert _fields(first) == _fields(second)
    assert [path.name for path in folder.iterdir()] == [FILE_NAME]


def test_a_game_from_the_cache_plays_like_the_parsed_one(folder: Path, game_path: Path) -> None:
    game_cache.load_game(game_path)
    cached, parsed = Engine(game_cache.load_game(game_path)), Engine(Game.from_file(game_path))
    assert cached.reset() == parsed.reset()
    for command in ["look", "inventory", *parsed.game.walkthrough, "help", "look"]:
        assert cached.step(command) == parsed.step(command)
        assert cached.admissible() == parsed.admissible()
    assert cached.won
    assert parsed.won


def test_a_changed_file_is_another_game(folder: Path, game_path: Path) -> None:
    first = game_cache.load_game(game_path)
    status = game_path.stat()
    text = game_path.read_text(encoding="utf-8")
    game_path.write_text(text.replace("Your task is to: h", "Your task is to: H"), encoding="utf-8")
    os.utime(game_path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert game_path.stat().st_size == status.st_size
    assert game_cache.load_game(game_path).task != first.task


def test_a_copy_of_a_file_is_the_same_game_at_its_own_path(
    folder: Path, game_path: Path, tmp_path: Path, parses: list[str]
) -> None:
    game_cache.load_game(game_path)
    copy = tmp_path / "copy.tw-pddl"
    copy.write_bytes(game_path.read_bytes())
    assert game_cache.load_game(copy).path == str(copy)
    assert len(parses) == 1


def test_a_broken_file_is_refused_every_time_and_not_stored(folder: Path, game_path: Path) -> None:
    game_path.write_text(json.dumps({**game_file("pick_and_place_simple", 1), "solvable": False}), encoding="utf-8")
    for _ in range(2):
        with pytest.raises(GameFileError, match="not solvable"):
            game_cache.load_game(game_path)
    assert not folder.exists()


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-3000])


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    for place in range(len(content) // 2, len(content), 97):
        content[place] ^= 0xFF
    path.write_bytes(content)


FAULTS = {
    "not a database": lambda path: path.write_bytes(b"{}" * 5000),
    "pickled": lambda path: path.write_bytes(b"\x80\x04cos\nsystem\n"),
    "empty": lambda path: path.write_bytes(b""),
    "cut off": _cut,
    "bits flipped": _flip,
    "deleted": Path.unlink,
    "no table": lambda path: _statements(path, "DROP TABLE entries"),
    "other columns": lambda path: _statements(path, "DROP TABLE entries", "CREATE TABLE entries (key, value)"),
    "a view": lambda path: _statements(path, "DROP TABLE entries", "CREATE VIEW entries AS SELECT 1"),
    "text for the packed bytes": lambda path: _statements(path, "UPDATE entries SET packed = 'x'"),
    "a number for the packed bytes": lambda path: _statements(path, "UPDATE entries SET packed = 7"),
    "nothing for the checksum": lambda path: _statements(path, "UPDATE entries SET checksum = NULL"),
    "bytes no text has": lambda path: _statements(path, "UPDATE entries SET packed = CAST(x'ff' AS TEXT)"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_damaged_cache_is_not_believed_and_mended(
    folder: Path, game_path: Path, parses: list[str], fault: str
) -> None:
    right = _fields(game_cache.load_game(game_path))
    FAULTS[fault](folder / FILE_NAME)
    assert _fields(game_cache.load_game(game_path)) == right
    assert len(parses) == 2
    assert _fields(game_cache.load_game(game_path)) == right
    assert len(parses) == 2


def test_an_entry_under_the_key_of_another_game_is_not_believed(folder: Path, game_path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.tw-pddl"
    other.write_text(json.dumps(game_file("pick_and_place_simple", 8)), encoding="utf-8")
    right = _fields(game_cache.load_game(game_path))
    game_cache.load_game(other)
    with closing(sqlite3.connect(folder / FILE_NAME)) as connection:
        (first, _), (second, _) = connection.execute("SELECT key, packed FROM entries").fetchall()
        for old, new in ((first, "x"), (second, first), ("x", second)):
            connection.execute("UPDATE entries SET key = ? WHERE key = ?", (new, old))
        connection.commit()
    assert _fields(game_cache.load_game(game_path)) == right


def test_a_record_with_a_right_checksum_that_is_no_game_is_parsed_again(
    folder: Path, game_path: Path, parses: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(game_cache, "to_record", lambda game: '{"names": [], "fields": {"task": 0}}')
    game_cache.load_game(game_path)
    assert game_cache.load_game(game_path).task
    assert len(parses) == 2


def test_a_locked_cache_is_done_without(folder: Path, game_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_file_module, "_LOCK_S", 0.01)
    game_cache.load_game(game_path)
    with closing(sqlite3.connect(folder / FILE_NAME, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        assert game_cache.load_game(game_path).task
    cache = game_cache.cache_file()
    assert cache is not None
    assert cache._faults > 0


@pytest.mark.parametrize("base", ["/proc/none", "/dev/null"])
def test_a_folder_that_cannot_be_made_is_done_without(
    base: str, game_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRL_AGENTENVS_CACHE", f"{base}/cache")
    for _ in range(5):
        assert game_cache.load_game(game_path).task


def test_a_full_disk_is_done_without(folder: Path, game_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: CacheFile, key: str, packed: bytes) -> None:
        error = sqlite3.OperationalError("database or disk is full")
        error.sqlite_errorcode = sqlite3.SQLITE_FULL
        raise error

    monkeypatch.setattr(CacheFile, "_write", full)
    assert game_cache.load_game(game_path).task


@pytest.mark.parametrize("off", ["off", "OFF"])
def test_off_reads_and_writes_nothing(
    game_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, off: str
) -> None:
    monkeypatch.setenv("TRL_AGENTENVS_CACHE", off)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    assert game_cache.cache_file() is None
    assert game_cache.load_game(game_path).task
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize("base", ["", "relative/folder"])
def test_the_cache_lies_in_the_home_where_nothing_else_is_said(
    base: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRL_AGENTENVS_CACHE", "")
    monkeypatch.setenv("XDG_CACHE_HOME", base)
    monkeypatch.setenv("HOME", str(tmp_path))
    cache = game_cache.cache_file()
    assert cache is not None
    assert cache.path == tmp_path / ".cache" / "trl_agentenvs" / FILE_NAME


def test_the_cache_lies_where_xdg_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRL_AGENTENVS_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    cache = game_cache.cache_file()
    assert cache is not None
    assert cache.path == tmp_path / "trl_agentenvs" / FILE_NAME


def test_threads_share_the_cache(folder: Path, tmp_path: Path) -> None:
    paths = []
    for seed in range(8):
        paths.append(tmp_path / f"{seed}.tw-pddl")
        paths[-1].write_text(json.dumps(game_file("look_at_obj_in_light", seed)), encoding="utf-8")
    right = [_fields(Game.from_file(path)) for path in paths]
    wrong: list[Path] = []

    def play() -> None:
        for path, fields in zip(paths * 3, right * 3, strict=True):
            if _fields(game_cache.load_game(path)) != fields:
                wrong.append(path)

    threads = [threading.Thread(target=play) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_no_connection_is_left_open(folder: Path, game_path: Path) -> None:
    game_cache.load_game(game_path)
    open_files = Path("/proc/self/fd")
    if not open_files.is_dir():
        pytest.skip("counts open files below /proc")
    before = len(list(open_files.iterdir()))
    for _ in range(30):
        game_cache.load_game(game_path)
    assert len(list(open_files.iterdir())) == before
