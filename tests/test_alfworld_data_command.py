from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from trl_agentenvs.alfworld import data_command, official
from trl_agentenvs.alfworld.data_command import main
from trl_agentenvs.alfworld.generate import TASK_TYPES, game_file
from trl_agentenvs.alfworld.official import SPLITS

TASKS = {
    "pick_and_place_simple": "pick_and_place_simple-Pen-None-Drawer-301",
    "look_at_obj_in_light": "look_at_obj_in_light-CD-None-DeskLamp-301",
}


@pytest.fixture(autouse=True)
def _own_folders(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRL_AGENTENVS_CACHE", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.setenv("HOME", str(tmp_path_factory.mktemp("home")))


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if one game of two types had been published in each split."""
    counts = {split: {kind: int(kind in TASKS) for kind in TASK_TYPES} for split in SPLITS}
    monkeypatch.setattr(data_command, "PUBLISHED", counts)


@pytest.fixture
def root(tmp_path: Path, published: None, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Exactly the games of `published`; ALFWORLD_DATA names the folder."""
    for split in SPLITS:
        for kind in TASKS:
            add(tmp_path, split, kind)
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path))
    return tmp_path


def add(root: Path, split: str, kind: str, trial: str = "trial_1", **changes: Any) -> Path:
    path = root / "json_2.1.1" / split / TASKS[kind] / trial / "game.tw-pddl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**game_file(kind, 1), **changes}), encoding="utf-8")
    return path


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = main(arguments, "trl-agentenvs data alfworld")
    captured = capsys.readouterr()
    assert captured.err == ""
    return code, captured.out


def test_complete_data_is_counted_and_called_so(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = run(capsys)
    assert code == 0
    assert "Complete" in out
    assert re.search(r"^pick_and_place_simple +1 of 1 +1 of 1 +1 of 1$", out, re.MULTILINE)
    assert re.search(r"^all +2 of 2 +2 of 2 +2 of 2$", out, re.MULTILINE)
    assert "alfworld-download" not in out


def test_a_missing_split_and_a_missing_game_are_named_with_what_fetches_them(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (root / "json_2.1.1" / "valid_seen").rename(root / "away")
    (root / "json_2.1.1" / "train" / TASKS["look_at_obj_in_light"] / "trial_1" / "game.tw-pddl").unlink()
    code, out = run(capsys)
    assert code == 1
    assert "train: 1 missing of 2" in out
    assert "valid_seen: 2 missing of 2" in out
    assert "valid_unseen:" not in out
    assert f"\n  pip install alfworld\n  alfworld-download --data-dir {root}\n  export ALFWORLD_DATA={root}\n" in out
    assert "Generated games need no data" in out


def test_one_type_too_many_does_not_make_up_for_one_too_few(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    add(root, "train", "pick_and_place_simple", "trial_2")
    (root / "json_2.1.1" / "train" / TASKS["look_at_obj_in_light"] / "trial_1" / "game.tw-pddl").unlink()
    code, out = run(capsys)
    assert code == 1
    assert "train: 1 missing of 2" in out
    assert "train: 1 more than published" in out


def test_more_games_than_published_are_no_reason_to_fetch(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    add(root, "train", "pick_and_place_simple", "trial_2")
    code, out = run(capsys)
    assert code == 1
    assert "train: 1 more than published" in out
    assert "alfworld-download" not in out


def test_what_the_official_loader_leaves_out_is_counted(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    add(root, "train", "pick_and_place_simple", "trial_2", solvable=False)
    add(root, "train", "pick_and_place_simple", "trial_movable")
    for number in range(3):
        (root / "json_2.1.1" / "train" / "task" / f"trial_{number}").mkdir(parents=True)
    code, out = run(capsys)
    assert code == 0
    assert (
        "Left out, as by alfworld's own loader: 1 not marked as solvable, "
        "1 with sliced objects or movable receptacles, 3 without a game file." in out
    )


def test_a_broken_file_is_named_with_what_overwrites_it(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = add(root, "train", "pick_and_place_simple")
    path.write_text("{", encoding="utf-8")
    code, out = run(capsys)
    assert code == 1
    assert f"Broken games: 1\n  {path} is not a game file: it is not JSON" in out
    assert "alfworld-download -f --data-dir" in out


def test_a_check_wins_every_game(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = run(capsys, "--check")
    assert code == 0
    assert "Games opened and played: 6, 6 of them without a fault." in out


def test_a_check_names_games_that_cannot_be_opened_or_won(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lost = add(root, "train", "pick_and_place_simple", walkthrough=["look"])
    foreign = add(root, "valid_seen", "pick_and_place_simple", pddl_domain="(define (domain blocks))")
    cut = add(root, "valid_unseen", "look_at_obj_in_light", pddl_problem="(define (problem x) (:objects a")
    assert run(capsys)[0] == 0
    code, out = run(capsys, "--check")
    assert code == 1
    assert "Broken games: 3" in out
    assert f"  {lost} is not won by its walkthrough" in out
    assert f"  {foreign} is not a playable game: its domain 'blocks' is not ALFRED's" in out
    assert f"  {cut} is not a playable game" in out


def test_a_check_plans_where_there_is_no_walkthrough(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = add(root, "train", "pick_and_place_simple", walkthrough=None)
    assert run(capsys, "--check")[0] == 0
    content = json.loads(path.read_text(encoding="utf-8"))
    content["pddl_problem"] = re.sub(r"\(inReceptacle [^()?]+\)", "", content["pddl_problem"])
    path.write_text(json.dumps(content), encoding="utf-8")
    code, out = run(capsys, "--check")
    assert code == 1
    assert f"  {path} has no walkthrough and cannot be won: " in out


def test_of_many_broken_games_only_some_are_shown(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(30):
        add(root, "train", "pick_and_place_simple", f"trial_{number}").write_bytes(b"\x1b[2J")
    code, out = run(capsys)
    assert code == 1
    assert "Broken games: 30" in out
    assert out.count("is not JSON") == 20
    assert "  and 10 more" in out
    assert "\x1b" not in out


def test_progress_is_shown_in_a_terminal_and_wiped(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)

    def interrupted(path: str) -> str | None:
        raise KeyboardInterrupt

    monkeypatch.setattr(data_command, "_fault", interrupted)
    with pytest.raises(KeyboardInterrupt):
        main(["--check"], "program")
    err = capsys.readouterr().err
    assert "playing games: 0 of 6" in err
    assert err.endswith("\r\x1b[K")


def test_without_the_variable_it_says_how_to_fetch(capsys: pytest.CaptureFixture[str]) -> None:
    code, out = run(capsys)
    assert code == 1
    assert out.startswith("ALFWORLD_DATA is not set.\n")
    assert re.search(r"alfworld-download --data-dir \S+/\.cache/alfworld\n", out)


def test_without_the_variable_a_finished_download_is_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    add(tmp_path / ".cache" / "alfworld", "train", "pick_and_place_simple")
    code, out = run(capsys)
    assert code == 1
    assert f"  export ALFWORLD_DATA={tmp_path}/.cache/alfworld\n" in out
    assert "alfworld-download" not in out


@pytest.mark.parametrize(
    "inside", ["json_2.1.1/train", "json_2.1.1/valid_seen/pick_and_place_simple-Pen-None-Drawer-301"]
)
def test_a_folder_too_deep_is_answered_with_the_right_one(
    root: Path, inside: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALFWORLD_DATA", str(root / inside))
    code, out = run(capsys)
    assert code == 1
    assert f"  export ALFWORLD_DATA={root}\n" in out
    assert "alfworld-download" not in out


def test_a_folder_too_high_is_answered_with_the_right_one(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (root / "data").mkdir()
    (root / "json_2.1.1").rename(root / "data" / "json_2.1.1")
    code, out = run(capsys)
    assert code == 1
    assert f"  export ALFWORLD_DATA={root}/data\n" in out


@pytest.mark.parametrize("name", ["nowhere", "empty", "a file"])
def test_a_folder_without_games_is_answered_with_what_fetches_them(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "a file").touch()
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path / name))
    code, out = run(capsys)
    assert code == 1
    assert ("There are no official games in it." in out) == (name == "empty")
    assert "alfworld-download" in out


def test_the_inner_folder_is_good_enough(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALFWORLD_DATA", str(root / "json_2.1.1"))
    assert run(capsys)[0] == 0


def test_another_folder_can_be_named(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "--folder", str(root))[0] == 0
    with pytest.raises(FileNotFoundError, match="got --folder 'nowhere'; expected a folder"):
        main(["--folder", "nowhere"], "program")


@pytest.mark.parametrize("arguments", [["--chek"], ["train"], ["--folder"]])
def test_wrong_arguments_are_refused(arguments: list[str]) -> None:
    with pytest.raises(ValueError, match="see program --help"):
        main(arguments, "program")


def test_an_empty_folder_argument_is_refused() -> None:
    with pytest.raises(FileNotFoundError, match="got --folder ''"):
        main(["--folder", ""], "program")


def test_the_complete_official_data_has_the_published_counts(
    official_games: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if len(list((official_games / "json_2.1.1" / "train").glob("*/*/game.tw-pddl"))) < 3000:
        pytest.skip("only a part of the official games is here (ALFWORLD_GAMES may name the whole)")
    monkeypatch.setenv("ALFWORLD_DATA", str(official_games))
    code, out = run(capsys)
    assert code == 0
    assert "3553 of 3553  140 of 140    134 of 134" in out
    assert official.PUBLISHED is data_command.PUBLISHED
