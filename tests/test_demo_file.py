"""A file of demonstrations: it goes on after any interruption, mixes nothing, and replaces nothing unasked."""

from __future__ import annotations

import io
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.recording import COMMAND, complaint, lose, meta, rows, run, twelve
from trl_agentenvs import cli
from trl_agentenvs.alfworld import data, demos
from trl_agentenvs.alfworld.demos import shortest_demo
from trl_agentenvs.alfworld.subsets import stratified_order
from trl_agentenvs.training import demo_file, demos_command

pytest.importorskip("transformers.utils")


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "demos.jsonl"


# Going on


@pytest.mark.parametrize("share", [0.0, 0.001, 0.3, 0.6, 0.9999])
def test_a_recording_that_was_cut_anywhere_goes_on_to_the_same_bytes(out: Path, share: float) -> None:
    assert run(out, "--count", "12") == 0
    finished = meta(out)
    out.write_bytes(twelve()[: int(share * len(twelve()))])
    assert run(out, "--count", "12") == 0
    assert out.read_bytes() == twelve()
    assert meta(out) == finished


def test_a_recording_that_was_cut_between_two_rows_goes_on(out: Path) -> None:
    assert run(out, "--count", "12") == 0
    out.write_bytes(b"".join(twelve().splitlines(keepends=True)[:7]))
    assert run(out, "--count", "12") == 0
    assert out.read_bytes() == twelve()


def test_complete_rows_are_not_played_again(out: Path, monkeypatch) -> None:
    assert run(out, "--count", "12") == 0
    out.write_bytes(b"".join(twelve().splitlines(keepends=True)[:9]) + b'{"messages": [')
    played = []

    def attempt(make_env, game: str, **options) -> demos.Attempt:
        played.append(game)
        return shortest_demo(make_env, game, **options)

    monkeypatch.setattr(demos_command, "shortest_demo", attempt)
    assert run(out, "--count", "12") == 0
    assert played == stratified_order(data.game_ids("train"))[8:12]  # the last of the nine is compared


def test_lost_games_are_told_though_they_were_lost_before_the_interruption(out: Path, monkeypatch, capsys) -> None:
    order = stratified_order(data.game_ids("train"))
    lose(monkeypatch, {order[0], order[3], order[7]})
    assert run(out, "--count", "6") == 0
    first, finished, whole = capsys.readouterr().out, meta(out), out.read_bytes()
    out.write_bytes(b"".join(whole.splitlines(keepends=True)[:4]))
    assert run(out, "--count", "6") == 0
    assert (meta(out), out.read_bytes()) == (finished, whole)
    assert capsys.readouterr().out.splitlines()[:-1] == first.splitlines()[:-1]  # but for the seconds


def test_a_finished_recording_stays_as_it_is(out: Path) -> None:
    for _ in range(2):
        assert run(out, "--count", "12") == 0
        assert out.read_bytes() == twelve()


def test_kill_9_loses_no_complete_row_and_nothing_of_the_result(repo: Path, tmp_path: Path) -> None:
    killed, whole = tmp_path / "killed.jsonl", tmp_path / "whole.jsonl"
    command = [sys.executable, "-m", "trl_agentenvs.cli", *COMMAND, "--count", "60", "--out", str(killed)]
    environ = {**os.environ, "PYTHONHASHSEED": "7"}
    with subprocess.Popen(
        command, cwd=repo, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as child:
        deadline = time.monotonic() + 60
        while child.poll() is None and time.monotonic() < deadline:
            if killed.exists() and killed.read_bytes().count(b"\n") >= 5:
                break
            time.sleep(0.005)
        child.kill()
    before = killed.read_bytes()
    complete = before[: before.rindex(b"\n") + 1]
    assert 5 <= complete.count(b"\n") < 60
    assert run(whole, "--count", "60") == 0
    assert whole.read_bytes().startswith(complete)
    assert run(killed, "--count", "60") == 0
    assert killed.read_bytes() == whole.read_bytes()
    assert meta(killed) == meta(whole)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        name for path in (killed, whole) for name in (path.name, f"{path.name}.meta.json")
    )


def test_ctrl_c_ends_quietly_and_says_how_to_go_on(out: Path, monkeypatch, capsys) -> None:
    with monkeypatch.context() as patch:
        order = stratified_order(data.game_ids("train"))

        def attempt(make_env, game: str, **options) -> demos.Attempt:
            if game == order[5]:
                raise KeyboardInterrupt
            return shortest_demo(make_env, game, **options)

        patch.setattr(demos_command, "shortest_demo", attempt)
        assert run(out, "--count", "12") == cli.INTERRUPTED
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == f"\ninterrupted; {out} keeps what was recorded, the same command goes on\n"
    assert len(rows(out)) == 5
    assert run(out, "--count", "12") == 0
    assert out.read_bytes() == twelve()


# Nothing is mixed, nothing is lost


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--count", "5"], "got count=5; expected count=4, with which"),
        (["--seed", "1"], "got seed=1; expected seed=0, with which"),
        (["--plays", "2"], "got plays=2; expected plays=3, with which"),
        (["--split", "valid_seen"], 'got split="valid_seen"; expected split="train", with which'),
        (["--max-steps", "9"], 'got env_options={"max_steps": 9}; expected env_options={"max_steps": 50}, with which'),
        (["--seed", "2", "--plays", "1"], "got seed=2, plays=1; expected seed=0, plays=3, with which"),
    ],
)
def test_a_file_of_other_settings_is_refused_and_kept(out: Path, capsys, arguments: list[str], words: str) -> None:
    assert run(out, "--count", "4") == 0
    capsys.readouterr()
    before = out.read_bytes(), meta(out)
    said = complaint(capsys, out, *([] if "--count" in arguments else ["--count", "4"]), *arguments)
    assert words in said
    assert said.endswith(f"{out} was made; add --overwrite to replace it, or choose another --out")
    assert (out.read_bytes(), meta(out)) == before


def test_overwrite_replaces_a_file_of_other_settings(out: Path) -> None:
    assert run(out, "--count", "4", "--seed", "3") == 0
    assert run(out, "--count", "12", "--overwrite") == 0
    assert out.read_bytes() == twelve()


@pytest.mark.parametrize("content", [b"my notes", b'{"messages": []}\n', b"\x00\xff\n"])
def test_a_file_of_somebody_else_is_refused_and_kept(out: Path, capsys, content: bytes) -> None:
    out.write_bytes(content)
    assert "demos.jsonl, which exists without demos.jsonl.meta.json; add --overwrite" in complaint(capsys, out)
    assert [path.name for path in out.parent.iterdir()] == [out.name]
    assert out.read_bytes() == content


def test_an_empty_file_is_nobodys(out: Path) -> None:
    out.touch()
    assert run(out, "--count", "12") == 0
    assert out.read_bytes() == twelve()


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"settings": 3}', b"\xff", b"[" * 99999])
def test_a_broken_file_beside_is_refused(out: Path, capsys, content: bytes) -> None:
    assert run(out, "--count", "2") == 0
    capsys.readouterr()
    out.with_name(out.name + ".meta.json").write_bytes(content)
    before = out.read_bytes()
    said = complaint(capsys, out, "--count", "2")
    assert "demos.jsonl.meta.json, which does not say how demos.jsonl was made; add --overwrite" in said
    assert out.read_bytes() == before


@pytest.mark.parametrize(
    "broken", [b"{", b"[]", b"\x00" * 30, b'{"game": "x"}', b'{"game": "x", "steps": Infinity}', b"[" * 99999]
)
def test_a_broken_line_is_told_by_its_number_and_kept(out: Path, capsys, broken: bytes) -> None:
    assert run(out, "--count", "4") == 0
    capsys.readouterr()
    lines = out.read_bytes().splitlines(keepends=True)
    lines[1] = broken + b"\n"
    out.write_bytes(b"".join(lines))
    assert "line 2 is no demonstration; add --overwrite" in complaint(capsys, out, "--count", "4")
    assert out.read_bytes() == b"".join(lines)


@pytest.mark.parametrize("edit", ["other text", "other order", "more rows", "other game"])
def test_rows_that_this_version_would_not_write_are_refused_and_kept(out: Path, capsys, edit: str) -> None:
    assert run(out, "--count", "4") == 0
    capsys.readouterr()
    lines = out.read_bytes().splitlines(keepends=True)
    if edit == "other text":
        lines[-1] = lines[-1].replace(b"You are in a room", b"You are in a house")
    elif edit == "other order":
        lines[1], lines[2] = lines[2], lines[1]
    elif edit == "more rows":
        lines.append(lines[-1])
    else:
        lines[2] = lines[2].replace(b'"generated:', b'"degenerated:')
    out.write_bytes(b"".join(lines))
    said = complaint(capsys, out, "--count", "4")
    assert f"{out} holds other rows than this command makes: " in said
    assert said.endswith("add --overwrite to replace it, or choose another --out")
    assert out.read_bytes() == b"".join(lines)


# The disk


def test_a_folder_is_no_file(tmp_path: Path, capsys) -> None:
    assert f"got --out {tmp_path}, which is no regular file" in complaint(capsys, tmp_path)


def test_a_device_is_no_file(capsys) -> None:
    assert "got --out /dev/null, which is no regular file" in complaint(capsys, Path("/dev/null"))


@pytest.mark.parametrize("parent", ["missing", "file"])
def test_a_folder_that_does_not_exist_is_told(tmp_path: Path, capsys, parent: str) -> None:
    (tmp_path / "file").touch()
    said = complaint(capsys, tmp_path / parent / "demos.jsonl")
    assert f"there is no folder {tmp_path / parent}; make it first" in said


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path, capsys) -> None:
    tmp_path.chmod(0o500)
    assert complaint(capsys, tmp_path / "demos.jsonl").endswith("demos.jsonl: Permission denied")


def test_a_name_that_is_too_long_is_told(tmp_path: Path, capsys) -> None:
    assert "File name too long" in complaint(capsys, tmp_path / ("x" * 255))


def test_a_full_disk_is_one_sentence_and_the_recording_goes_on_later(out: Path, capsys) -> None:
    whole = twelve()
    allowed, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(whole) // 2, most))
    try:
        assert complaint(capsys, out, "--count", "12") == f"cannot write {out}: File too large"
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (allowed, most))
    assert run(out, "--count", "12") == 0
    assert out.read_bytes() == whole


def test_a_short_write_is_continued(out: Path, monkeypatch) -> None:
    class Slow(io.FileIO):
        def write(self, data) -> int:
            return super().write(bytes(data)[:100])

    def opened(path, mode: str, **options):
        return Slow(path, mode.replace("b", "")) if "w" in mode else open(path, mode, **options)

    monkeypatch.setattr(demo_file, "open", opened, raising=False)
    assert run(out, "--count", "12") == 0
    assert out.read_bytes() == twelve()


# Others who write


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_second_recording_into_the_same_file_is_refused_and_changes_nothing(out: Path, capsys, overwrite) -> None:
    assert run(out, "--count", "4") == 0
    before = out.read_bytes(), meta(out)
    capsys.readouterr()
    with demo_file.DemoFile(out, meta(out)["settings"]):
        words = complaint(capsys, out, "--count", "4", *["--overwrite"] * overwrite)
    assert "which another process is writing; wait for its end, or choose another --out" in words
    assert (out.read_bytes(), meta(out)) == before
    assert run(out, "--count", "4", *["--overwrite"] * overwrite) == 0


def test_a_recording_that_fails_lets_the_next_one_in(out: Path, capsys) -> None:
    assert run(out, "--count", "4") == 0
    capsys.readouterr()
    assert "expected count=4" in complaint(capsys, out, "--count", "5")
    assert run(out, "--count", "4") == 0


def test_the_file_to_which_the_program_prints_is_refused(repo: Path, tmp_path: Path) -> None:
    printed = tmp_path / "printed.jsonl"
    command = [sys.executable, "-m", "trl_agentenvs.cli", *COMMAND, "--count", "1", "--out", "/dev/stdout"]
    with printed.open("wb") as stdout:
        done = subprocess.run(command, cwd=repo, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert "got --out /dev/stdout, where this program prints" in done.stderr
    assert printed.read_bytes() == b""


@pytest.mark.parametrize("edit", [b"\xef\xbb\xbf%b", b" %b", b"%b\r"])
def test_a_row_in_other_bytes_is_refused_wherever_it_stands(out: Path, capsys, edit: bytes) -> None:
    assert run(out, "--count", "4") == 0
    capsys.readouterr()
    lines = out.read_bytes().splitlines()
    lines[0] = edit % lines[0]
    out.write_bytes(b"\n".join([*lines, b""]))
    assert "line 1 is no demonstration" in complaint(capsys, out, "--count", "4")
