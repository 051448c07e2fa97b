"""`trl-agentenvs demos`: the rows that were asked for, whatever interrupts it, and nothing of anybody else's lost."""

from __future__ import annotations

import io
import json
import os
import random
import resource
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from trl_agentenvs import cli
from trl_agentenvs.alfworld import data, demos
from trl_agentenvs.alfworld.demos import Demo, check_replay, shortest_demo
from trl_agentenvs.alfworld.env import ALFWorldEnv
from trl_agentenvs.alfworld.expert import Expert
from trl_agentenvs.alfworld.generate import game_file
from trl_agentenvs.alfworld.subsets import stratified_order
from trl_agentenvs.training import demo_file, demos_command, demos_report

get_json_schema = pytest.importorskip("transformers.utils").get_json_schema

COMMAND = cli.Command("trl_agentenvs.training.demos_command:main", "record")
IN_A_CHILD = (
    f"import sys; from trl_agentenvs import cli; cli.COMMANDS['record'] = cli.Command({COMMAND.function!r}, '');"
    "sys.exit(cli.main(['record', *sys.argv[1:]]))"
)


@pytest.fixture(autouse=True)
def _command(monkeypatch) -> None:
    monkeypatch.setitem(cli.COMMANDS, "record", COMMAND)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "demos.jsonl"


@pytest.fixture(scope="module")
def twelve(tmp_path_factory) -> bytes:
    """What `--count 12` writes if nothing interrupts it."""
    path = tmp_path_factory.mktemp("twelve") / "demos.jsonl"
    assert demos_command.main(["--count", "12", "--out", str(path)], "record") == 0
    return path.read_bytes()


def run(out: Path, *arguments: str) -> int:
    return cli.main(["record", "--out", str(out), *arguments])


def rows(out: Path) -> list[dict]:
    return [json.loads(line) for line in out.read_bytes().splitlines()]


def games(out: Path) -> list[str]:
    return [row["game"] for row in rows(out)]


def meta(out: Path) -> dict:
    return json.loads(out.with_name(out.name + ".meta.json").read_text(encoding="utf-8"))


def complaint(capsys, out: Path, *arguments: str) -> str:
    """The one sentence on stderr with which wrong input is refused."""
    assert run(out, *arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    return line.removeprefix("trl-agentenvs: ")


def lose(monkeypatch, lost: set[str], reason: str = "cannot be won") -> None:
    """Let some games give no demonstration."""

    def attempt(make_env, game: str, **options) -> demos.Attempt:
        return demos.Attempt(None, [reason]) if game in lost else shortest_demo(make_env, game, **options)

    monkeypatch.setattr(demos_command, "shortest_demo", attempt)


# Rows


def test_count_takes_the_first_games_of_the_order(out: Path, twelve: bytes) -> None:
    out.write_bytes(twelve)
    assert games(out) == stratified_order(data.game_ids("train"))[:12]
    assert Counter(row["task_type"] for row in rows(out)) == dict.fromkeys(data.TASK_TYPES, 2)


def test_rows_are_conversations_with_the_schema_that_trl_makes_and_can_be_replayed(out: Path, twelve: bytes) -> None:
    out.write_bytes(twelve)
    for row in rows(out):
        assert list(row) == ["messages", "tools", "game", "task_type", "steps"]
        assert row["tools"] == [get_json_schema(ALFWorldEnv().act)]
        calls = [message["tool_calls"][0] for message in row["messages"] if "tool_calls" in message]
        commands = [call["function"]["arguments"]["command"] for call in calls]
        assert row["steps"] == len(commands)
        check_replay(Demo(row["game"], row["task_type"], row["messages"], commands), ALFWorldEnv())


def test_smaller_recordings_are_the_beginning_of_larger_ones(out: Path, twelve: bytes) -> None:
    assert run(out, "--count", "5") == 0
    assert twelve.startswith(out.read_bytes())
    assert len(rows(out)) == 5


def test_fraction_takes_that_share_of_each_type(out: Path, twelve: bytes) -> None:
    assert run(out, "--fraction", "0.02") == 0  # 2 of 100 games of each of six types
    assert out.read_bytes() == twelve


def test_without_a_number_every_game_is_recorded(out: Path, capsys) -> None:
    assert run(out, "--split", "valid_unseen") == 0
    assert set(games(out)) == set(data.game_ids("valid_unseen"))
    assert "Demonstrations: 120 in " in capsys.readouterr().out


def test_a_seed_changes_the_games(out: Path, twelve: bytes) -> None:
    assert run(out, "--count", "12", "--seed", "1") == 0
    assert not set(games(out)) <= {json.loads(line)["game"] for line in twelve.splitlines()}


def test_options_of_the_environment_show_in_the_rows(out: Path) -> None:
    assert run(out, "--count", "2", "--env-options", '{"show_admissible": true, "max_steps": 40}') == 0
    assert all("Admissible commands: " in row["messages"][1]["content"] for row in rows(out))
    assert meta(out)["settings"]["env_options"] == {"show_admissible": True, "max_steps": 40}


def test_endless_games_can_be_recorded(out: Path) -> None:
    assert run(out, "--count", "3", "--source", "endless") == 0
    assert not set(games(out)) & set(data.game_ids("train"))


def test_official_games_are_named_by_their_place_in_the_official_layout(
    out: Path, official_games: Path, monkeypatch, capsys
) -> None:
    monkeypatch.setenv("ALFWORLD_DATA", str(official_games))
    assert run(out) == 0
    listed = data.game_ids("train")
    assert sorted(str(official_games / game) for game in games(out)) == listed
    assert str(official_games) not in out.read_text(encoding="utf-8")
    assert run(out.with_name("valid.jsonl"), "--split", "valid_seen") == 0
    assert f"Demonstrations: {len(listed)} in " in capsys.readouterr().out


# Losses


def test_a_lost_game_is_told_and_the_next_takes_its_place(out: Path, monkeypatch, capsys) -> None:
    order = stratified_order(data.game_ids("train"))
    lose(monkeypatch, {order[0], order[4]})
    assert run(out, "--count", "6") == 0
    assert games(out) == [order[1], order[2], order[3], *order[5:8]]
    shown = capsys.readouterr().out
    assert f"Games that gave no demonstration: 2\n  {order[0]}: cannot be won\n  {order[4]}: cannot be won\n" in shown
    assert meta(out)["finished"] == {"demos": 6, "lost": dict.fromkeys((order[0], order[4]), "cannot be won")}


def test_the_table_counts_games_demos_and_losses_of_each_type(out: Path, monkeypatch, capsys) -> None:
    lose(monkeypatch, {f"generated:pick_and_place_simple:{seed}" for seed in range(2000, 2020)})
    assert run(out, "--split", "valid_unseen", "--fraction", "0.5") == 0
    lines = {line.split()[0]: line.split()[1:] for line in capsys.readouterr().out.splitlines() if line}
    per_type = Counter(row["task_type"] for row in rows(out))
    for kind, count in per_type.items():
        assert lines[kind][:3] == [str(count), str(count), "0"]
    assert lines["pick_and_place_simple"][1:] == ["0", lines["pick_and_place_simple"][0], "-"]
    mean = sum(row["steps"] for row in rows(out)) / 60
    assert lines["all"][1:] == ["60", lines["pick_and_place_simple"][0], f"{mean:.1f}"]


def test_many_lost_games_are_counted_and_all_are_in_the_file_beside(out: Path, monkeypatch, capsys) -> None:
    lost = set(data.game_ids("valid_unseen")[:60])
    lose(monkeypatch, lost, "an \x1b[31m odd\nreason")
    assert run(out, "--split", "valid_unseen") == 0
    shown = capsys.readouterr().out
    assert "Games that gave no demonstration: 60\n" in shown
    assert "and 50 more" in shown
    assert shown.count(r": an \x1b[31m odd\nreason") == 10
    assert set(meta(out)["finished"]["lost"]) == lost


def test_fewer_demos_than_asked_for_exit_with_1(out: Path, monkeypatch, capsys) -> None:
    lose(monkeypatch, {data.game_ids("valid_unseen")[3]})
    assert run(out, "--split", "valid_unseen", "--count", "120") == 1
    assert "Demonstrations: 119 of 120 asked for in " in capsys.readouterr().out
    assert len(rows(out)) == 119


def test_no_demo_at_all_exits_with_1(out: Path, capsys) -> None:
    assert run(out, "--split", "valid_unseen", "--max-steps", "1") == 1
    assert "not won in 1 commands: no turns are left" in capsys.readouterr().out
    assert out.read_bytes() == b""


def test_an_exception_of_the_expert_is_listed_though_another_play_won(out: Path, monkeypatch, capsys) -> None:
    class Buggy(Expert):
        def __init__(self, intro: str, rng: random.Random | None) -> None:
            super().__init__(intro, rng)
            self.varied = rng is not None

        def act(self, observation: str) -> str:
            if self.varied:
                raise KeyError("drawer 9")
            return super().act(observation)

    monkeypatch.setattr(demos, "Expert", Buggy)
    assert run(out, "--count", "2") == 0
    shown = capsys.readouterr().out
    assert "Games that raised an exception in a play that was not kept: 2\n  generated:" in shown
    assert "KeyError: 'drawer 9'" in shown


# Going on


@pytest.mark.parametrize("share", [0.0, 0.001, 0.3, 0.6, 0.9999])
def test_a_recording_that_was_cut_anywhere_goes_on_to_the_same_bytes(out: Path, twelve: bytes, share: float) -> None:
    assert run(out, "--count", "12") == 0
    finished = meta(out)
    out.write_bytes(twelve[: int(share * len(twelve))])
    assert run(out, "--count", "12") == 0
    assert out.read_bytes() == twelve
    assert meta(out) == finished


def test_a_recording_that_was_cut_between_two_rows_goes_on(out: Path, twelve: bytes) -> None:
    assert run(out, "--count", "12") == 0
    out.write_bytes(b"".join(twelve.splitlines(keepends=True)[:7]))
    assert run(out, "--count", "12") == 0
    assert out.read_bytes() == twelve


def test_complete_rows_are_not_played_again(out: Path, twelve: bytes, monkeypatch) -> None:
    assert run(out, "--count", "12") == 0
    out.write_bytes(b"".join(twelve.splitlines(keepends=True)[:9]) + b'{"messages": [')
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


def test_a_finished_recording_stays_as_it_is(out: Path, twelve: bytes) -> None:
    for _ in range(2):
        assert run(out, "--count", "12") == 0
        assert out.read_bytes() == twelve


def test_kill_9_loses_no_complete_row_and_nothing_of_the_result(repo: Path, tmp_path: Path) -> None:
    killed, whole = tmp_path / "killed.jsonl", tmp_path / "whole.jsonl"
    command = [sys.executable, "-c", IN_A_CHILD, "--count", "150", "--out", str(killed)]
    with subprocess.Popen(command, cwd=repo, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
        deadline = time.monotonic() + 60
        while child.poll() is None and time.monotonic() < deadline:
            if killed.exists() and killed.read_bytes().count(b"\n") >= 20:
                break
            time.sleep(0.005)
        child.kill()
    before = killed.read_bytes()
    complete = before[: before.rindex(b"\n") + 1]
    assert 20 <= complete.count(b"\n") < 150
    assert run(whole, "--count", "150") == 0
    assert whole.read_bytes().startswith(complete)
    assert run(killed, "--count", "150") == 0
    assert killed.read_bytes() == whole.read_bytes()
    assert meta(killed) == meta(whole)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        name for path in (killed, whole) for name in (path.name, f"{path.name}.meta.json")
    )


def test_another_process_writes_the_same_bytes(repo: Path, out: Path, twelve: bytes) -> None:
    environ = {**os.environ, "PYTHONHASHSEED": "7"}
    command = [sys.executable, "-c", IN_A_CHILD, "--count", "12", "--out", str(out)]
    done = subprocess.run(command, cwd=repo, env=environ, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert out.read_bytes() == twelve


def test_a_broken_official_game_is_told_and_the_others_are_recorded(out: Path, tmp_path: Path, monkeypatch, capsys):
    folder = tmp_path / "json_2.1.1" / "train"
    good = folder / "pick_and_place_simple-Mug-None-Desk-3" / "trial_1" / "game.tw-pddl"
    broken = folder / "pick_and_place_simple-Mug-None-Desk-3" / "trial_2" / "game.tw-pddl"
    for path in (good, broken):
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(game_file("pick_and_place_simple", 3)), encoding="utf-8")
    text = json.loads(broken.read_text(encoding="utf-8"))
    broken.write_text(json.dumps(text | {"pddl_problem": "(define"}), encoding="utf-8")
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path))
    assert run(out) == 0
    assert games(out) == [good.relative_to(tmp_path).as_posix()]
    shown = capsys.readouterr().out
    assert "Games that gave no demonstration: 1\n  pick_and_place_simple-Mug-None-Desk-3/trial_2: GameFile" in shown
    assert "raised an exception" not in shown


def test_ctrl_c_ends_quietly_and_says_how_to_go_on(out: Path, twelve: bytes, monkeypatch, capsys) -> None:
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
    assert captured.err == f"\ninterrupted; {out} keeps what was recorded, the same command goes on from there\n"
    assert len(rows(out)) == 5
    assert run(out, "--count", "12") == 0
    assert out.read_bytes() == twelve


# Nothing is mixed, nothing is lost


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--count", "5"], "got count=5; expected count=4, with which"),
        (["--seed", "1"], "got seed=1; expected seed=0, with which"),
        (["--plays", "2"], "got plays=2; expected plays=3, with which"),
        (["--split", "valid_seen"], 'got split="valid_seen"; expected split="train", with which'),
        (["--source", "endless"], 'got source="endless"; expected source="generated", with which'),
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


def test_overwrite_replaces_a_file_of_other_settings(out: Path, twelve: bytes) -> None:
    assert run(out, "--count", "4", "--seed", "3") == 0
    assert run(out, "--count", "12", "--overwrite") == 0
    assert out.read_bytes() == twelve


@pytest.mark.parametrize("content", [b"my notes", b'{"messages": []}\n', b"\x00\xff\n"])
def test_a_file_of_somebody_else_is_refused_and_kept(out: Path, capsys, content: bytes) -> None:
    out.write_bytes(content)
    assert "demos.jsonl, which exists without demos.jsonl.meta.json; add --overwrite" in complaint(capsys, out)
    assert [path.name for path in out.parent.iterdir()] == [out.name]
    assert out.read_bytes() == content


def test_an_empty_file_is_nobodys(out: Path, twelve: bytes) -> None:
    out.touch()
    assert run(out, "--count", "12") == 0
    assert out.read_bytes() == twelve


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


# Wrong input


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--split", "trian"], "got the split 'trian'; expected one of train, valid_seen, valid_unseen"),
        (["--source", "x"], "got the source 'x'; expected one of auto, official"),
        (["--source", "official"], "ALFWORLD_DATA"),
        (["--source", "endless"], "got --source endless without a number; add --count or --fraction"),
        (["--count", "0"], "got '0'; expected an integer of at least 1"),
        (["--count", "601"], "got --count 601; there are 600 generated train games, lower it"),
        (["--plays", "0"], "got '0'; expected an integer of at least 1"),
        (["--count", "3", "--fraction", "0.1"], "not allowed with argument"),
        (["--fraction", "0.001"], "got --fraction 0.001, which is no game of 600 generated train ones; raise it"),
        *[
            (["--fraction", text], f"got {text!r}; expected a number above 0 and up to 1, such as 0.01")
            for text in ("0", "1.01", "", ".", "x", "nan", "1e-999999999", "1/2", "٠.٥", "0.0000000000001")
        ],
        (["--fraction=-1"], "expected a number above 0"),
        *[
            (["--env-options", text], "expected a JSON object such as '{\"show_admissible\": true}'")
            for text in ("", "{", "[]", "3", '{"step_cost": NaN}', "[" * 99999)
        ],
        (["--env-options", '{"show": true}'], "got the environment option 'show'; expected some of max_steps, "),
        (["--env-options", '{"trace_path": "x"}'], "got the environment option 'trace_path'; expected some of"),
        (["--env-options", '{"max_steps": 0}'], "got max_steps=0"),
        (["--env-options", '{"max_steps": "many"}'], "max_steps"),
        (["--env-options", '{"max_steps": 5}', "--max-steps", "5"], "in --env-options and --max-steps, too"),
    ],
)
def test_wrong_input_is_one_sentence_and_writes_nothing(out: Path, capsys, arguments: list[str], words: str) -> None:
    assert words in complaint(capsys, out, *arguments)
    assert list(out.parent.iterdir()) == []


def test_out_is_required(capsys) -> None:
    assert cli.main(["record"]) == 2
    assert "required: --out; see trl-agentenvs record --help" in capsys.readouterr().err


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


def test_a_full_disk_is_one_sentence_and_the_recording_goes_on_later(repo: Path, out: Path, twelve: bytes) -> None:
    def fill() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(twelve) // 2, len(twelve) // 2))

    command = [sys.executable, "-c", IN_A_CHILD, "--count", "12", "--out", str(out)]
    done = subprocess.run(command, cwd=repo, preexec_fn=fill, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"trl-agentenvs: cannot write {out}: File too large\n"
    assert run(out, "--count", "12") == 0
    assert out.read_bytes() == twelve


def test_a_missing_library_is_told_with_what_to_install(out: Path, capsys, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers.utils", None)
    assert 'transformers is not installed; run: pip install "trl_agentenvs[train]"' in complaint(capsys, out)
    assert list(out.parent.iterdir()) == []


# Progress


def test_progress_is_a_line_now_and_then_where_there_is_no_terminal(out: Path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(demos_report, "SECONDS_A_LINE", 0.0)
    order = stratified_order(data.game_ids("train"))
    lose(monkeypatch, {order[1]})
    assert run(out, "--count", "3") == 0
    assert capsys.readouterr().err.splitlines() == [
        "demonstrations: 1 of 3, lost games: 0",
        "demonstrations: 1 of 3, lost games: 1",
        "demonstrations: 2 of 3, lost games: 1",
        "demonstrations: 3 of 3, lost games: 1",
    ]


def test_progress_is_a_bar_in_a_terminal(out: Path, monkeypatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    assert run(out, "--count", "3") == 0
    assert "demonstrations:" in terminal.getvalue()
    assert "3/3" in terminal.getvalue() or "0/3" in terminal.getvalue()
    assert "\n" not in terminal.getvalue()


def test_a_short_write_is_continued(out: Path, twelve: bytes, monkeypatch) -> None:
    class Slow(io.FileIO):
        def write(self, data) -> int:
            return super().write(bytes(data)[:100])

    def opened(path, mode: str, **options):
        return Slow(path, mode.replace("b", "")) if "w" in mode else open(path, mode, **options)

    monkeypatch.setattr(demo_file, "open", opened, raising=False)
    assert run(out, "--count", "12") == 0
    assert out.read_bytes() == twelve
