"""`trl-agentenvs demos`: the rows that were asked for, every loss told, wrong input refused in one sentence."""

from __future__ import annotations

import io
import json
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tests.recording import complaint, games, lose, meta, rows, run, twelve
from trl_agentenvs.alfworld import data, demos
from trl_agentenvs.alfworld.demos import Demo, check_replay, shortest_demo
from trl_agentenvs.alfworld.env import ALFWorldEnv
from trl_agentenvs.alfworld.generate import game_file
from trl_agentenvs.alfworld.subsets import stratified_order
from trl_agentenvs.training import demos_command, demos_report

get_json_schema = pytest.importorskip("transformers.utils").get_json_schema


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "demos.jsonl"


# Rows


def test_count_takes_the_first_games_of_the_order(out: Path) -> None:
    out.write_bytes(twelve())
    assert games(out) == stratified_order(data.game_ids("train"))[:12]
    assert Counter(row["task_type"] for row in rows(out)) == dict.fromkeys(data.TASK_TYPES, 2)


def test_rows_are_conversations_with_the_schema_that_trl_makes_and_can_be_replayed(out: Path) -> None:
    out.write_bytes(twelve())
    for row in rows(out):
        assert list(row) == ["messages", "tools", "game", "task_type", "steps"]
        assert row["tools"] == [get_json_schema(ALFWorldEnv().act)]
        calls = [message["tool_calls"][0] for message in row["messages"] if "tool_calls" in message]
        commands = [call["function"]["arguments"]["command"] for call in calls]
        assert row["steps"] == len(commands)
        check_replay(Demo(row["game"], row["task_type"], row["messages"], commands), ALFWorldEnv())


def test_smaller_recordings_are_the_beginning_of_larger_ones(out: Path) -> None:
    assert run(out, "--count", "5") == 0
    assert twelve().startswith(out.read_bytes())
    assert len(rows(out)) == 5


def test_fraction_takes_that_share_of_each_type(out: Path) -> None:
    assert run(out, "--fraction", "0.02") == 0  # 2 of 100 games of each of six types
    assert out.read_bytes() == twelve()


def test_without_a_number_every_game_is_recorded(out: Path, capsys) -> None:
    assert run(out, "--split", "valid_unseen") == 0
    assert set(games(out)) == set(data.game_ids("valid_unseen"))
    assert "Demonstrations: 120 in " in capsys.readouterr().out


def test_a_seed_changes_the_games(out: Path) -> None:
    assert run(out, "--count", "12", "--seed", "1") == 0
    assert not set(games(out)) <= {json.loads(line)["game"] for line in twelve().splitlines()}


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
    def attempt(make_env, game: str, **options) -> demos.Attempt:
        return replace(shortest_demo(make_env, game, **options), crashes=["KeyError: 'drawer 9'"])

    monkeypatch.setattr(demos_command, "shortest_demo", attempt)
    assert run(out, "--count", "2") == 0
    shown = capsys.readouterr().out
    assert "Games that raised an exception in a play that was not kept: 2\n  generated:" in shown
    assert "KeyError: 'drawer 9'" in shown


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


# Wrong input


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--split", "trian"], "got the split 'trian'; expected one of train, valid_seen, valid_unseen"),
        (["--source", "x"], "got the source 'x'; expected one of auto, official"),
        (["--source", "official"], "ALFWORLD_DATA"),
        (["--source", "endless"], "got --source endless without a number; add --count N"),
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


def test_out_is_required() -> None:
    with pytest.raises(ValueError, match="required: --out; see record --help"):
        demos_command.main([], "record")


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
