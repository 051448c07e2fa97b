from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from trl_agentenvs.alfworld import data, official
from trl_agentenvs.alfworld.game import Game
from trl_agentenvs.alfworld.generate import TASK_TYPES, game_file
from trl_agentenvs.alfworld.official import (
    PUBLISHED,
    SPLITS,
    State,
    data_root_near,
    official_ids,
    portable_id,
    scan,
    split_folder,
)

TRIAL = "json_2.1.1/train/task/trial/game.tw-pddl"
PEN = "pick_and_place_simple-Pen-None-Drawer-301"
GOOD = game_file("pick_and_place_simple", 0)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRL_AGENTENVS_CACHE", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def train(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty train split; ALFWORLD_DATA names the folder above."""
    folder = tmp_path / "json_2.1.1" / "train"
    folder.mkdir(parents=True)
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path))
    return folder


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Paths of the files that a listing opened."""
    paths: list[str] = []
    read = official.read_game_file
    monkeypatch.setattr(official, "read_game_file", lambda path: paths.append(str(path)) or read(path))
    return paths


def add(split: Path, task: str = PEN, trial: str = "trial_1", data: Any = GOOD) -> Path:
    path = split / task / trial / "game.tw-pddl"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(data), encoding="utf-8")
    return path


def listed() -> list[str]:
    return official_ids("train", TASK_TYPES, None)


def test_the_published_counts_are_3553_140_and_134() -> None:
    assert {split: sum(PUBLISHED[split].values()) for split in SPLITS} == {
        "train": 3553, "valid_seen": 140, "valid_unseen": 134,
    }  # fmt: skip


@pytest.mark.parametrize("marks", [{"solvable": False}, {"solvable": None}, {"solvable": "yes"}, {"solvable": 1}])
def test_what_is_not_marked_as_solvable_is_left_out(train: Path, marks: dict[str, Any]) -> None:
    good = add(train)
    add(train, trial="trial_2", data={**GOOD, **marks})
    assert listed() == [str(good)]
    assert [game.state for game in scan(train)] == [State.PLAYABLE, State.UNSOLVABLE]


def test_a_game_without_the_mark_is_left_out(train: Path) -> None:
    add(train, data={key: value for key, value in GOOD.items() if key != "solvable"})
    assert listed() == []


@pytest.mark.parametrize(
    ("task", "trial"),
    [
        ("pick_and_place_simple-PotatoSliced-None-Fridge-1", "trial_1"),
        ("pick_and_place_with_movable_recep-Pen-Bowl-Desk-301", "trial_1"),
        (PEN, "trial_movable"),
    ],
)
def test_sliced_objects_and_movable_receptacles_are_left_out_unopened(
    train: Path, opened: list[str], task: str, trial: str
) -> None:
    add(train, task, trial)
    assert listed() == []
    assert [game.state for game in scan(train)] == [State.UNSUPPORTED]
    assert opened == []


def test_such_words_above_the_split_leave_nothing_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "movable Sliced"
    path = add(root / "json_2.1.1" / "train")
    monkeypatch.setenv("ALFWORLD_DATA", str(root))
    assert listed() == [str(path)]


def test_a_game_needs_neither_walkthrough_nor_traj_data(train: Path) -> None:
    bare = add(train, data={key: value for key, value in GOOD.items() if key != "walkthrough"})
    beside = add(train, trial="trial_2")
    beside.with_name("traj_data.json").write_text("{", encoding="utf-8")
    assert listed() == [str(bare), str(beside)]
    assert Game.from_file(bare).walkthrough == ()


def test_a_task_without_a_game_file_is_counted_not_listed(train: Path) -> None:
    path = add(train)
    other = train / PEN / "trial_0"
    other.mkdir()
    (other / "traj_data.json").write_text("{}", encoding="utf-8")
    assert listed() == [str(path)]
    assert [game.state for game in scan(train)] == [State.MISSING, State.PLAYABLE]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"7", b"\xff\xfe", b"[" * 100_000])
def test_a_broken_file_is_listed_so_that_loading_it_says_why(train: Path, content: bytes) -> None:
    path = add(train)
    path.write_bytes(content)
    assert listed() == [str(path)]
    assert [game.state for game in scan(train)] == [State.UNREADABLE]


def test_a_folder_named_like_a_game_is_listed_too(train: Path) -> None:
    folder = train / PEN / "trial_1" / "game.tw-pddl"
    folder.mkdir(parents=True)
    assert [game.state for game in scan(train)] == [State.UNREADABLE]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes with names")
def test_a_pipe_named_like_a_game_does_not_stop_a_listing(train: Path) -> None:
    path = train / PEN / "trial_1" / "game.tw-pddl"
    path.parent.mkdir(parents=True)
    os.mkfifo(path)
    assert [game.state for game in scan(train)] == [State.UNREADABLE]


def test_links_in_a_circle_and_to_nowhere_are_passed_over(train: Path) -> None:
    path = add(train)
    (train / "loop").symlink_to("loop")
    (train / "above").symlink_to(train)
    (train / PEN / "itself").symlink_to(train / PEN)
    (train / PEN / "nowhere").mkdir()
    (train / PEN / "nowhere" / "game.tw-pddl").symlink_to("missing")
    assert listed() == [str(path)]


def test_a_linked_split_is_read(train: Path, tmp_path: Path) -> None:
    add(train)
    (train.parent / "valid_seen").symlink_to(train, target_is_directory=True)
    assert len(official_ids("valid_seen", TASK_TYPES, None)) == 1


def test_a_folder_that_cannot_be_read_is_an_error_not_a_smaller_split(
    train: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = add(train)
    scandir = os.scandir

    def refusing(folder: Any) -> Any:
        if Path(folder) == path.parent.parent:
            raise PermissionError(13, "Permission denied", str(folder))
        return scandir(folder)

    monkeypatch.setattr(os, "scandir", refusing)
    with pytest.raises(PermissionError, match="Pen-None-Drawer"):
        listed()


def test_files_beside_the_folders_are_no_games(train: Path) -> None:
    path = add(train)
    for folder in (train, train / PEN):
        (folder / "game.tw-pddl").write_text("{}", encoding="utf-8")
    assert listed() == [str(path)]


def test_a_second_listing_opens_nothing(train: Path, opened: list[str]) -> None:
    paths = [str(add(train, trial=f"trial_{number}")) for number in range(3)]
    first = scan(train)
    assert opened == paths
    assert scan(train) == first
    assert opened == paths


def test_a_second_listing_opens_what_changed(train: Path, opened: list[str]) -> None:
    for number in range(3):
        add(train, trial=f"trial_{number}")
    scan(train)
    opened.clear()
    changed = train / PEN / "trial_1" / "game.tw-pddl"
    changed.write_text(json.dumps({**GOOD, "solvable": False}), encoding="utf-8")
    assert [game.state for game in scan(train)] == [State.PLAYABLE, State.UNSOLVABLE, State.PLAYABLE]
    assert opened == [str(changed)]


def test_a_file_changed_under_an_old_date_is_opened_again(train: Path) -> None:
    path = add(train)
    status = path.stat()
    scan(train)
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace('"solvable": true', '"solvable": null'), encoding="utf-8")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert [game.state for game in scan(train)] == [State.UNSOLVABLE]


def test_a_damaged_cache_changes_no_listing(train: Path, opened: list[str]) -> None:
    add(train)
    first = scan(train)
    Path(os.environ["TRL_AGENTENVS_CACHE"], "alfworld-games.sqlite").write_bytes(b"x" * 9000)
    assert scan(train) == first
    assert len(opened) == 2


def test_without_a_cache_every_listing_opens_the_files(
    train: Path, opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRL_AGENTENVS_CACHE", "off")
    add(train)
    assert scan(train) == scan(train)
    assert len(opened) == 2


def test_rooms_are_measured_game_by_game(official_games: Path) -> None:
    for split in SPLITS:
        for game in scan(split_folder(official_games, split))[:12]:
            assert game.receptacles == len(Game.from_file(game.path).location_of)


def test_rooms_of_one_scene_may_differ_in_size(train: Path) -> None:
    sizes = {}
    for seed in range(30):
        data = game_file("pick_and_place_simple", seed)
        sizes[len(Game.from_dict(data).location_of)] = data
    small, *_, large = sorted(sizes)
    path = add(train, trial="trial_1", data=sizes[small])
    add(train, trial="trial_2", data=sizes[large])
    assert official_ids("train", TASK_TYPES, small) == [str(path)]


@pytest.mark.parametrize(
    ("chosen", "right"),
    [
        ("data/json_2.1.1/train", "data"),
        (f"data/json_2.1.1/train/{PEN}", "data"),
        (".", "data"),
        ("data", None),
        ("data/json_2.1.1", "data"),
        ("elsewhere/deep/down/here/very/far", None),
        ("nowhere", None),
    ],
)
def test_a_folder_too_deep_or_too_high_leads_to_the_right_one(tmp_path: Path, chosen: str, right: str | None) -> None:
    add(tmp_path / "data" / "json_2.1.1" / "train")
    (tmp_path / "elsewhere" / "deep" / "down" / "here" / "very" / "far").mkdir(parents=True)
    (tmp_path / "data" / "logic").mkdir()
    found = data_root_near(tmp_path / chosen)
    assert found == (None if right is None else tmp_path / right)


def test_a_wrong_folder_is_answered_with_the_line_that_mends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(tmp_path / "it's here" / "json_2.1.1" / "train")
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError) as caught:
        listed()
    assert f"""use export ALFWORLD_DATA='{tmp_path}/it'"'"'s here'""" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("game", "name"),
    [
        ("generated:pick_and_place_simple:3", "generated:pick_and_place_simple:3"),
        (f"/somewhere/{TRIAL}", TRIAL),
        (f"/somewhere/json_2.1.1/{TRIAL}", TRIAL),
        (TRIAL, TRIAL),
        ("/elsewhere/train/task/trial/game.tw-pddl", "/elsewhere/train/task/trial/game.tw-pddl"),
        ("game.tw-pddl", "game.tw-pddl"),
    ],
)
def test_a_portable_id_names_official_games_without_a_folder_of_this_machine(game: str, name: str) -> None:
    assert portable_id(game) == name


@pytest.mark.parametrize("named", ["above", "itself"])
def test_a_portable_id_is_found_below_the_data_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    path = tmp_path / "json_2.1.1" / "train" / "pick_and_place_simple-Mug-None-Desk-301" / "trial_1" / "game.tw-pddl"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(game_file("pick_and_place_simple", 1)), encoding="utf-8")
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path if named == "above" else tmp_path / "json_2.1.1"))
    assert data.load(portable_id(str(path))).path == str(path)


def test_a_portable_id_without_a_data_folder_names_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ALFWORLD_DATA", raising=False)
    with pytest.raises(FileNotFoundError, match="below ALFWORLD_DATA, which is not set"):
        data.load("json_2.1.1/train/a/b/game.tw-pddl")


def test_a_portable_id_that_is_nowhere_is_told_with_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=f"{tmp_path}/json_2.1.1/train/a/b/game.tw-pddl"):
        data.load("json_2.1.1/train/a/b/game.tw-pddl")


def test_a_game_that_may_not_be_looked_at_is_listed_so_that_loading_it_says_why(
    train: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hidden = str(add(train))
    look = os.stat

    def refuse(path: Any, **options: Any) -> os.stat_result:
        if os.fspath(path) == hidden:
            raise PermissionError(errno.EACCES, "Permission denied", hidden)
        return look(path, **options)

    monkeypatch.setattr(official.os, "stat", refuse)
    assert [game.state for game in scan(train)] == [State.UNREADABLE]
    assert listed() == [hidden]
