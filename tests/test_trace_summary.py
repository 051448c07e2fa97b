"""Traces as tables: the figures are right, what is missing stays missing, and no trace can break the terminal."""

from __future__ import annotations

import json
import random

import pytest

from trl_agentenvs import StopReason, ToolEnv, cli
from trl_agentenvs.terminal import CELL_CHARS, printable, table
from trl_agentenvs.trace import mark_phase, read_trace
from trl_agentenvs.trace_summary import render_summary, summarize, summarize_groups


class Lamp(ToolEnv):
    """Switch the lamp on."""

    max_turns = 3

    def reset(self, lamp: str = "desk") -> str:
        return "It is dark."

    def switch(self, lamp: str, times: int = 1) -> str:
        """Switch a lamp.

        Args:
            lamp: Which.
            times: How often.
        """
        if times % 2:
            self._end(StopReason.SOLVED)
        return "click"

    def get_reward(self) -> float | None:
        if self._stop is StopReason.WALL:
            return None
        self._reward_parts["lit"] = float(self._stop is StopReason.SOLVED)
        return self._reward_parts["lit"]


def write(path, *events) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.writelines((event if isinstance(event, str) else json.dumps(event)) + "\n" for event in events)


@pytest.fixture
def path(tmp_path):
    """Two phases: a win and a timeout before; a loss, a win and a rollout that a kill cut short after."""
    path = tmp_path / "rollouts.jsonl"
    env = Lamp(trace_path=str(path))
    mark_phase(path, "before")
    env.reset()
    env.switch(lamp="desk", times="1", colour=None)
    env.switch(lamp="desk")  # comes too late
    env.get_reward()
    env.reset()
    env._end(StopReason.WALL)
    env.get_reward()
    mark_phase(path, "after")
    env.reset()
    for _ in range(3):
        env.switch()
    env.get_reward()
    env.reset()
    env.switch(lamp="desk", times=2)
    env.switch(lamp="\x1b[2J\x07\u202edesk")
    env.get_reward()
    env.reset()
    env.switch(lamp="desk", times=2)
    write(path, '{"event": "turn", "roll')
    return path


def show(capsys, *arguments: str) -> list[str]:
    assert cli.main(["trace", *arguments]) == 0
    return capsys.readouterr().out.splitlines()


def test_groups_are_phases_and_environments_in_order(path):
    assert [(*key, group.episodes) for key, group in summarize_groups(read_trace(path)).items()] == [
        ("before", "Lamp", 2),
        ("after", "Lamp", 3),
    ]


def test_figures_of_a_phase(path):
    before, after = summarize_groups(read_trace(path)).values()
    assert (before.solved, before.scored, before.spoiled, before.unfinished) == (1, 1, 1, 0)
    assert (after.solved, after.scored, after.spoiled, after.unfinished) == (1, 2, 0, 1)
    assert before.stops == {"solved": 1, "wall": 1}
    assert after.stops == {"solved": 1, "turn_budget": 1}
    assert before.repairs == {"coerced_argument": 1, "dropped_argument": 1}
    assert (before.rewards, after.rewards) == ([1.0], [0.0, 1.0])
    assert (before.solved_steps, before.late_calls, before.tool_error_rate) == ([1], 1, 0.0)
    assert (after.solved_steps, after.late_calls, after.tool_error_rate) == ([2], 0, 0.5)
    assert (after.calls, after.failed_calls, after.tools["switch"].calls) == (6, 3, 6)


def test_table_shows_the_figures(path, capsys):
    lines = show(capsys, str(path))
    assert lines[2].split() == ["before", "Lamp", "2", "1/1", "100.0%", "1.0", "1.000", "0.0%", "1", "0"]
    assert lines[3].split() == ["after", "Lamp", "3", "1/2", "50.0%", "2.0", "0.500", "50.0%", "0", "1"]
    assert "Calls after the end of their episode: 1." in lines
    assert "Broken lines skipped: 1." in lines


def test_missing_reward_stays_missing(tmp_path, capsys):
    path = tmp_path / "rollouts.jsonl"
    env = Lamp(trace_path=str(path))
    env.reset()
    env._end(StopReason.WALL)
    env.get_reward()
    line = show(capsys, str(path))[2].split()
    assert line == ["Lamp", "1", "0/0", "-", "-", "-", "-", "1", "0"]


def test_rollouts_that_never_ended_have_no_success_rate(tmp_path, capsys):
    path = tmp_path / "rollouts.jsonl"
    Lamp(trace_path=str(path)).reset()
    assert show(capsys, str(path))[2].split() == ["Lamp", "1", "0/0", "-", "-", "-", "-", "0", "1"]


def test_grader_that_fails_says_nothing_about_the_policy(tmp_path):
    class Ungraded(Lamp):
        def get_reward(self) -> float | None:
            raise OSError("the grader is gone")

    path = tmp_path / "rollouts.jsonl"
    for cls, times in ((Ungraded, 2), (Ungraded, 1), (Lamp, 1)):  # gave up, solved, solved
        env = cls(trace_path=str(path))
        env.reset()
        env.switch(lamp="desk", times=times)
        env.get_reward()
    summary = summarize(read_trace(path).rollouts)
    assert summary.stops == {"gave_up": 1, "solved": 2}
    assert (summary.solved, summary.scored, summary.spoiled, summary.success, summary.reward) == (1, 1, 2, 1.0, 1.0)
    assert summary.solved_steps == [1]


def test_rollout_that_nobody_came_to_score_is_spoiled(tmp_path):
    env = Lamp(trace_path=str(tmp_path / "rollouts.jsonl"))
    env.reset()
    env.reset()
    summary = summarize(read_trace(tmp_path / "rollouts.jsonl").rollouts)
    assert (summary.episodes, summary.scored, summary.spoiled, summary.unfinished) == (2, 0, 1, 1)
    assert summary.success is None


def test_empty_trace_says_so(tmp_path, capsys):
    (tmp_path / "rollouts.jsonl").write_text("", encoding="utf-8")
    assert show(capsys, str(tmp_path / "rollouts.jsonl")) == ["The trace holds no rollouts (broken lines: 0)."]


def test_slowest_tools_come_first(tmp_path):
    path = tmp_path / "rollouts.jsonl"
    start = {"event": "start", "rollout": "r", "env": "E", "row": "", "time": 0}
    turns = [
        {"event": "turn", "rollout": "r", "turn": i, "tool": f"tool{i}", "wall_s": 0.001 * i, "error": None}
        for i in range(30)
    ]
    write(path, start, *turns)
    rows = [line.split() for line in render_summary(read_trace(path)).splitlines() if line.startswith("E  ")][1:]
    assert [row[1] for row in rows] == [f"tool{i}" for i in range(29, 19, -1)]
    assert rows[0] == ["E", "tool29", "1", "0.0%", "0.03", "29.0", "29.0"]


# One rollout


def test_rollout_is_shown_turn_by_turn_from_the_start_of_its_id(path, capsys):
    rollout = read_trace(path).rollouts[0]
    lines = show(capsys, str(path), "--rollout", rollout.id[:10])
    assert lines[0].startswith(f"rollout {rollout.id}  Lamp  row ")
    assert lines[4].split()[:2] == ["1", "switch"]
    assert '{"lamp": "desk", "times": 1}' in lines[4]
    assert "coerced_argument x1" in lines[4]
    assert "after_end" in lines[5]
    assert "stop solved, reward 1" in lines
    assert "reward parts: lit 1.0" in lines


def test_rollout_that_never_ended_is_shown(path, capsys):
    lines = show(capsys, str(path), "--rollout", read_trace(path).rollouts[-1].id)
    assert lines[-1] == "It did not end: the process that played it did, or it still runs."


def test_unscorable_rollout_shows_no_reward(path, capsys):
    assert "stop wall, reward -" in show(capsys, str(path), "--rollout", read_trace(path).rollouts[1].id)


def test_failure_is_shown_with_its_traceback(tmp_path, capsys):
    class Breaks(Lamp):
        def switch(self, lamp: str, times: int = 1) -> str:
            """Switch a lamp.

            Args:
                lamp: Which.
                times: How often.
            """
            raise KeyError("fuse")

    env = Breaks(trace_path=str(tmp_path / "rollouts.jsonl"))
    env.reset()
    env.switch(lamp="desk")
    env.get_reward()
    lines = show(capsys, str(tmp_path / "rollouts.jsonl"), "--rollout", env._episode.id)
    assert "stop env_error, reward -" in lines
    assert lines[-1] == "KeyError: 'fuse'"


@pytest.mark.parametrize("wanted", ["no-such-id", ""])
def test_unknown_or_ambiguous_rollout_is_one_sentence_that_names_some(wanted, path, capsys):
    assert cli.main(["trace", str(path), "--rollout", wanted]) == 2
    assert read_trace(path).rollouts[0].id in capsys.readouterr().err


# Hostile traces

LIES = [None, True, -1, 1e308, float("nan"), float("inf"), "x", "\x1b[31m", [], [1], {}, {"a": {"b": []}}, "\ud800"]


@pytest.mark.parametrize("seed", range(20))
def test_trace_full_of_lies_is_shown(seed, tmp_path, capsys):
    draw = random.Random(f"lies {seed}")
    events = []
    for rollout in ("a", "b", "c"):
        events.append({"event": "start", "rollout": rollout, "env": draw.choice(LIES), "row": "r", "time": 0})
        for _ in range(3):
            fields = ("turn", "tool", "arguments", "repairs", "result_chars", "wall_s", "error")
            events.append(
                {"event": "turn", "rollout": rollout}
                | {name: draw.choice(LIES) for name in fields if draw.random() < 0.9}
            )
        fields = ("stop", "reward", "reward_parts", "tokens", "wall_s", "turns", "error")
        events.append({"event": "end", "rollout": rollout} | {name: draw.choice(LIES) for name in fields})
    path = tmp_path / "rollouts.jsonl"
    write(path, *events)
    for arguments in ([], ["--rollout", "a"]):
        lines = show(capsys, str(path), *arguments)
        assert all(line.isprintable() for line in lines)


def test_control_characters_in_arguments_reach_no_terminal(path, capsys):
    lines = show(capsys, str(path), "--rollout", read_trace(path).rollouts[3].id)
    text = "\n".join(lines)
    assert all(line.isprintable() for line in lines)
    assert "\\x1b[2J" in text or "\\u001b[2J" in text
    assert "\\u202e" in text


def test_trace_that_is_no_text_is_shown(tmp_path, capsys):
    (tmp_path / "rollouts.jsonl").write_bytes(random.Random("bytes").randbytes(5000))
    assert "holds no rollouts" in show(capsys, str(tmp_path / "rollouts.jsonl"))[0]


def test_huge_numbers_have_a_mean(tmp_path, capsys):
    path = tmp_path / "rollouts.jsonl"
    for rollout in "ab":
        write(
            path,
            {"event": "start", "rollout": rollout, "env": "E", "row": "", "time": 0},
            {"event": "end", "rollout": rollout, "stop": "solved", "reward": 1.7e308},
        )
    assert show(capsys, str(path))[2].split()[0] == "E"
    assert summarize(read_trace(path).rollouts).reward == 1.7e308


@pytest.mark.parametrize("depth", range(100, 1000, 30))
def test_arguments_of_any_depth_are_shown(depth, tmp_path, capsys):
    path = tmp_path / "rollouts.jsonl"
    nested = "[" * depth + "]" * depth
    write(
        path,
        {"event": "start", "rollout": "a", "env": "E", "row": "", "time": 0},
        f'{{"event": "turn", "rollout": "a", "tool": "t", "arguments": {{"x": {nested}}}}}',
        f'{{"event": "end", "rollout": "a", "stop": {nested}, "reward": {nested}, "error": {nested}}}',
    )
    assert show(capsys, str(path), "--rollout", "a")[0].startswith("rollout a")


# Text for terminals


@pytest.mark.parametrize("text", ["\x1b[31m", "\x00\x07\x08", "a\r\nb", "\u202eabc", "\ud800", "\x9b31m", "\u2028"])
def test_printable_text_has_no_control_characters(text):
    assert printable(text).isprintable()
    assert printable(text, 3).isprintable()
    printable(text).encode("utf-8")


def test_printable_text_keeps_letters_of_all_languages():
    assert printable("Straße 東京 naïve") == "Straße 東京 naïve"


def test_long_cells_are_cut():
    assert len(table(["a"], [["x" * 10**6]], "l").splitlines()[2]) == CELL_CHARS


def test_repairs_noted_beside_a_call_are_those_that_the_metrics_count(path):
    env = Lamp(trace_path=str(path))
    env.reset()
    env._note_repair("malformed_call")
    env.switch(lamp="desk", times="2")
    env._note_repair("malformed_call")
    env.switch(lamp="desk", times=2)
    env.get_reward()
    rollout = read_trace(path).rollouts[-1]
    assert [turn["repairs"] for turn in rollout.turns] == [
        {"malformed_call": 1, "coerced_argument": 1},
        {"malformed_call": 1},
    ]
    counted = summarize([rollout]).repairs
    assert {f"repairs/{kind}": count for kind, count in counted.items()} | {"repairs": 3.0} == {
        name: figure for name, figure in env._metrics().items() if name.startswith("repairs")
    }
