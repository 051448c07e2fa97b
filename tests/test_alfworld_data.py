from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from trl_agentenvs.alfworld import data
from trl_agentenvs.alfworld.game import GameFileError
from trl_agentenvs.alfworld.generate import game_file, generate, scene_of
from trl_agentenvs.alfworld.rooms import size_of

FOLDERS = {
    "train": {"pick_and_place_simple-Mug-None-Desk-3": 3, "look_at_obj_in_light-CD-None-DeskLamp-301": 2},
    "valid_seen": {"pick_two_obj_and_place-Pen-None-Drawer-3": 1},
    "valid_unseen": {"pick_clean_then_place_in_recep-Cup-None-Shelf-29": 1},
}
SMALL_FOLDERS = {"pick_two_obj_and_place-Pen-None-Drawer-3"}


@pytest.fixture
def official(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in the official layout; its games are generated ones."""
    for split, folders in FOLDERS.items():
        for folder, trials in folders.items():
            task_type = data.task_type_of(f"{folder}/trial/game.tw-pddl") or ""
            seed = next(s for s in range(100) if (size_of(scene_of(task_type, s)) <= 8) == (folder in SMALL_FOLDERS))
            text = json.dumps(game_file(task_type, seed))
            for trial in range(trials):
                target = tmp_path / "json_2.1.1" / split / folder / f"trial_{trial}" / "game.tw-pddl"
                target.parent.mkdir(parents=True)
                target.write_text(text, encoding="utf-8")
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path))
    return tmp_path


def test_the_bundled_sets_have_600_120_and_120_games() -> None:
    assert [len(data.game_ids(split)) for split in data.SPLITS] == [600, 120, 120]
    for split in data.SPLITS:
        kinds = [data.task_type_of(game) for game in data.game_ids(split)]
        assert {kinds.count(kind) for kind in data.TASK_TYPES} == {len(kinds) // 6}


def test_no_game_is_in_two_splits_bundled_or_endless() -> None:
    sets = [set(data.game_ids(split)) for split in data.SPLITS]
    sets += [set(data.game_ids(split, "endless", n=3000)) for split in data.SPLITS]
    assert sum(map(len, sets)) == len(set().union(*sets))


def test_unseen_rooms_are_not_among_the_seen_ones() -> None:
    seen, unseen = (
        {frozenset(data.load(game).location_of) for split in splits for game in data.game_ids(split, n=40)}
        for splits in (("train", "valid_seen"), ("valid_unseen",))
    )
    assert not seen & unseen


@pytest.mark.parametrize("split", ["test", "", "Train", "eval_in_distribution", "valid"])
def test_an_unknown_split_is_refused_with_the_known_ones(split: str) -> None:
    for function in (lambda: data.game_ids(split), lambda: data.game_ids(split, "endless", n=1)):
        with pytest.raises(
            ValueError, match=f"got the split '{split}'; expected one of train, valid_seen, valid_unseen"
        ):
            function()


def test_an_unknown_source_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="got the source 'hub'; expected one of auto, official, generated"):
        data.game_ids("train", source="hub")


@pytest.mark.parametrize("kinds", [["pick"], ["pick_and_place_simple", "fly"], "pick_and_place"])
def test_an_unknown_task_type_is_refused_with_the_known_ones(kinds: list[str]) -> None:
    with pytest.raises(ValueError, match="expected one of pick_and_place_simple, look_at_obj_in_light"):
        data.game_ids("train", task_types=kinds)


def test_no_task_type_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        data.game_ids("train", task_types=[])


def test_a_draw_is_the_same_for_the_same_seed_and_another_for_another() -> None:
    first = data.game_ids("train", n=50, seed=1)
    assert first == data.game_ids("train", n=50, seed=1)
    assert first != data.game_ids("train", n=50, seed=2)
    assert len(set(first)) == 50


def test_a_smaller_draw_of_everything_is_a_permutation() -> None:
    assert sorted(data.game_ids("valid_seen", n=120)) == sorted(data.game_ids("valid_seen"))


def test_asking_for_too_many_says_how_many_there_are() -> None:
    with pytest.raises(ValueError, match=r"got n=601; only 600 generated train games fit; .*endless"):
        data.game_ids("train", n=601)
    with pytest.raises(ValueError, match="only 100 generated train games fit"):
        data.game_ids("train", n=101, task_types=["look_at_obj_in_light"])
    with pytest.raises(ValueError, match="only 0 generated train games fit"):
        data.game_ids("train", n=1, max_receptacles=1)
    with pytest.raises(ValueError, match="endless valid_unseen games fit"):
        data.game_ids("valid_unseen", "endless", n=10**6)


def test_endless_games_need_a_number() -> None:
    with pytest.raises(ValueError, match="got the source 'endless' without n"):
        data.game_ids("train", "endless")


@pytest.mark.parametrize("n", [-1, -600])
def test_a_negative_count_is_refused(n: int) -> None:
    with pytest.raises(ValueError, match=f"got n={n}; expected 0 or more"):
        data.game_ids("train", n=n)


def test_none_of_the_games_is_none() -> None:
    assert data.game_ids("train", n=0) == []


@pytest.mark.parametrize("split", data.SPLITS)
def test_the_room_filter_keeps_exactly_the_small_rooms(split: str) -> None:
    small = set(data.game_ids(split, max_receptacles=8))
    for game in data.game_ids(split)[::7]:
        assert (len(data.load(game).location_of) <= 8) == (game in small)


def test_every_split_has_small_rooms_of_every_type() -> None:
    for split in data.SPLITS:
        for kind in data.TASK_TYPES:
            assert len(data.game_ids(split, task_types=[kind], max_receptacles=8)) >= 4


def test_filtering_thousands_of_endless_games_makes_none_of_them() -> None:
    started = time.process_time()
    assert len(data.game_ids("train", "endless", n=10_000, max_receptacles=8)) == 10_000
    assert time.process_time() - started < 2


def test_ids_and_types_name_each_other() -> None:
    game = data.game_ids("train", task_types=["pick_heat_then_place_in_recep"], n=1)[0]
    assert data.task_type_of(game) == "pick_heat_then_place_in_recep"
    assert data.load(game).task == generate("pick_heat_then_place_in_recep", int(game.rsplit(":", 1)[1])).task


@pytest.mark.parametrize(
    "game",
    ["generated:", "generated:pick:1", "generated:pick_and_place_simple", "generated:pick_and_place_simple:",
     "generated:pick_and_place_simple:-1", "generated:pick_and_place_simple:1.0", "generated:pick_and_place_simple:1:2",
     "generated:pick_and_place_simple: 1", "generated:pick_and_place_simple:\u0663",
     "generated:pick_and_place_simple:0x1"],
)  # fmt: skip
def test_a_faulty_generated_id_is_refused_with_the_form(game: str) -> None:
    for function in (data.load, data.task_type_of):
        with pytest.raises(ValueError, match="expected generated:TYPE:SEED with TYPE one of"):
            function(game)


@pytest.mark.parametrize("game", ["", None, 7, ["x"], b"x", b"generated:pick_and_place_simple:1", Path])
def test_what_is_no_id_at_all_is_refused(game: object) -> None:
    for function in (data.load, data.task_type_of):
        with pytest.raises(ValueError, match="expected 'generated:TYPE:SEED' or the path of a game file"):
            function(game)  # type: ignore[arg-type]


def test_a_missing_file_and_a_folder_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"none\.tw-pddl"):
        data.load(str(tmp_path / "none.tw-pddl"))
    with pytest.raises(GameFileError, match="got the folder"):
        data.load(str(tmp_path))
    with pytest.raises(GameFileError, match=r"cannot be read: .*null"):
        data.load("a\0b")


def test_a_game_is_parsed_once() -> None:
    assert data.load("generated:pick_and_place_simple:77") is data.load("generated:pick_and_place_simple:77")


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "game.tw-pddl"
    path.write_text(json.dumps(game_file("pick_and_place_simple", 0)), encoding="utf-8")
    first = data.load(str(path))
    assert data.load(path) is first
    path.write_text(json.dumps(game_file("pick_and_place_simple", 1)), encoding="utf-8")
    os.utime(path, ns=(1, 1))
    assert data.load(str(path)).intro != first.intro


def test_official_games_are_listed_by_split_in_a_fixed_order(official: Path) -> None:
    for split, folders in FOLDERS.items():
        games = data.game_ids(split)
        assert len(games) == sum(folders.values())
        assert games == sorted(games)
        assert all(data.load(game).path == game for game in games)


def test_the_variable_may_point_at_the_inner_folder(official: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outer = data.game_ids("train")
    monkeypatch.setenv("ALFWORLD_DATA", str(official / "json_2.1.1"))
    assert data.game_ids("train") == outer


def test_a_relative_folder_gives_ids_that_survive_a_change_of_folder(
    official: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.chdir(official)
    monkeypatch.setenv("ALFWORLD_DATA", ".")
    games = data.game_ids("train")
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    assert data.load(games[0]).task


def test_official_games_can_be_chosen_by_type(official: Path) -> None:
    games = data.game_ids("train", task_types=["look_at_obj_in_light"])
    assert [data.task_type_of(game) for game in games] == ["look_at_obj_in_light"] * 2


def test_official_games_can_be_chosen_by_size(official: Path) -> None:
    assert data.game_ids("train", max_receptacles=8) == []
    assert len(data.game_ids("valid_seen", max_receptacles=8)) == 1


def test_the_source_can_be_forced(official: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(data.game_ids("train", source="generated")) == 600
    assert len(data.game_ids("train", source="official")) == 5
    monkeypatch.delenv("ALFWORLD_DATA")
    assert data.game_ids("train", source="auto")[0].startswith("generated:")


def test_official_without_the_variable_says_what_to_set() -> None:
    with pytest.raises(FileNotFoundError, match=r"needs ALFWORLD_DATA .* not set; source='generated' needs no data"):
        data.game_ids("train", source="official")


@pytest.mark.parametrize("inside", ["", "json_2.1.1", "json_2.1.1/train", "json_2.1.1/train/a/b"])
def test_an_empty_official_folder_says_what_was_looked_for(
    inside: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / inside).mkdir(parents=True, exist_ok=True)
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path))
    with pytest.raises(
        FileNotFoundError, match=r"holds no TASK/TRIAL/game\.tw-pddl; .*source='generated' needs no data"
    ):
        data.game_ids("train")


def test_a_folder_that_does_not_exist_says_so_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(FileNotFoundError, match="nowhere"):
        data.game_ids("valid_seen")


def test_a_broken_file_is_listed_but_refused_when_loaded(official: Path) -> None:
    path = Path(data.game_ids("valid_seen")[0])
    path.write_text("{", encoding="utf-8")
    assert data.game_ids("valid_seen") == [str(path)]
    with pytest.raises(GameFileError, match="not JSON"):
        data.load(str(path))


@pytest.mark.parametrize("path", ["game.tw-pddl", "/a/b/game.tw-pddl", "/pick_and_place_simple/t/game.tw-pddl"])
def test_a_path_without_an_official_folder_has_no_type(path: str) -> None:
    assert data.task_type_of(path) is None


def test_the_nearest_official_folder_names_the_type() -> None:
    path = "/pick_two_obj_and_place-A-None-B-1/look_at_obj_in_light-CD-None-DeskLamp-301/t/game.tw-pddl"
    assert data.task_type_of(path) == "look_at_obj_in_light"


def test_the_real_official_games_are_found(official_games: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALFWORLD_DATA", str(official_games))
    for split in data.SPLITS:
        games = data.game_ids(split)
        assert len(games) >= 6
        assert {data.task_type_of(game) for game in games} == set(data.TASK_TYPES)


@pytest.mark.parametrize("split", data.SPLITS)
def test_every_game_lists_the_split_and_for_endless_all_further_games(split: str) -> None:
    assert data.every_game(split) == data.game_ids(split)
    endless = data.every_game(split, "endless")
    assert set(data.game_ids(split, "endless", n=50)) <= set(endless)
    with pytest.raises(ValueError, match=f"only {len(endless)} endless"):
        data.game_ids(split, "endless", n=len(endless) + 1)


@pytest.mark.parametrize(("split", "source"), [("trian", "endless"), ("trian", "auto"), ("train", "engless")])
def test_an_unknown_split_or_source_is_refused(split: str, source: str) -> None:
    with pytest.raises(ValueError, match=r"got the (split 'trian'|source 'engless'); expected one of"):
        data.every_game(split, source)


def test_a_file_changed_under_its_old_size_and_date_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "game.tw-pddl"
    games = [json.dumps(game_file("pick_and_place_simple", seed)) for seed in (0, 1)]
    size = max(map(len, games))
    intros = []
    for game in games:
        path.write_text(game.ljust(size), encoding="utf-8")
        os.utime(path, ns=(1, 1))
        intros.append(data.load(path).intro)
    assert intros[0] != intros[1]


@pytest.mark.parametrize("name", ["n", "max_receptacles"])
@pytest.mark.parametrize("value", ["3", 3.0, float("nan"), True, [3]])
def test_a_number_that_is_no_integer_is_refused(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"got {name}=.*; expected an integer"):
        data.game_ids("train", **{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("kinds", [5, True, [["pick_and_place_simple"]], {"x": 1}])
def test_task_types_of_another_form_are_refused(kinds: object) -> None:
    with pytest.raises(ValueError, match=r"got the task type .*; expected one of"):
        data.game_ids("train", task_types=kinds)  # type: ignore[arg-type]
