"""Traces survive what happens to runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from trl_agentenvs.trace import Turn, append_event, mark_phase, read_trace


def start(rollout, **fields):
    return {"event": "start", "rollout": rollout, "env": "E", "row": "r", "time": 1.0, **fields}


def end(rollout, **fields):
    return {"event": "end", "rollout": rollout, "stop": "solved", "reward": 1.0, **fields}


def test_kill_in_mid_run_loses_nothing_that_was_logged(tmp_path, repo):
    path = tmp_path / "rollouts.jsonl"
    program = (
        "import sys, itertools; from trl_agentenvs.trace import append_event\n"
        f"for i in itertools.count(): append_event({str(path)!r}, "
        "{'event': 'start', 'rollout': str(i), 'env': 'E', 'row': 'r', 'time': 0}); print(i, flush=True)"
    )
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, cwd=repo, text=True)
    assert process.stdout is not None
    logged = [int(process.stdout.readline()) for _ in range(50)][-1]
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    trace = read_trace(path)
    assert len(trace.rollouts) > logged
    assert trace.broken_lines == 0


def test_writers_do_not_mix(tmp_path):
    path = tmp_path / "rollouts.jsonl"
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda i: append_event(path, start(str(i), pad="x" * 5000)), range(400)))
    trace = read_trace(path)
    assert (len(trace.rollouts), trace.broken_lines) == (400, 0)


def test_phase_holds_for_the_rollouts_that_start_after_it(tmp_path):
    path = tmp_path / "rollouts.jsonl"
    append_event(path, start("a"))
    mark_phase(path, "train")
    append_event(path, start("b"))
    append_event(path, end("a"))
    assert {r.id: r.phase for r in read_trace(path).rollouts} == {"a": "", "b": "train"}


@pytest.mark.parametrize(
    "line",
    [
        b'{"event": "start", "rollout": "b", "env"',
        b"not json",
        b'"a string"',
        b"[1]",
        b"{}",
        b'{"event": "turn", "rollout": "unknown"}',
        b'{"event": "end", "rollout": "a"}',
        b'{"event": "later kind", "rollout": "a"}',
        b"\xff\xfe\x00",
        b"[" * 100_000,
        b'{"event": "start", "rollout": "b", "env": "E", "row": "r", "time": 1' + b"0" * 400 + b"}",
    ],
)
def test_broken_line_is_counted_and_the_rest_is_read(tmp_path, line):
    path = tmp_path / "rollouts.jsonl"
    append_event(path, start("a"))
    path.write_bytes(path.read_bytes() + line + b"\n")
    append_event(path, end("a"))
    trace = read_trace(path)
    assert trace.broken_lines == 1
    assert [rollout.stop for rollout in trace.rollouts] == ["solved"]


def test_line_cut_short_by_a_crash_does_not_eat_the_next_run(tmp_path):
    path = tmp_path / "rollouts.jsonl"
    path.write_bytes(b'{"event": "start", "rollout": "a", "env": "E", "ro')
    append_event(path, start("b"))
    trace = read_trace(path)
    assert [rollout.id for rollout in trace.rollouts] == ["b"]
    assert trace.broken_lines == 1


def test_event_behind_a_cut_line_is_found_whatever_its_arguments_look_like(tmp_path):
    path = tmp_path / "rollouts.jsonl"
    append_event(path, start("a"))
    with path.open("ab") as file:
        file.write(b'{"event": "turn", "rollout": "a", "arguments": {"x": {"event": "y"}, "z": "cut')
    append_event(path, {"event": "turn", "rollout": "a", "arguments": {"x": {"event": "y"}}})
    trace = read_trace(path)
    assert (len(trace.rollouts[0].turns), trace.broken_lines) == (1, 1)


def test_pipe_that_nobody_reads_does_not_hold_up_the_run(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="pipe"):
        append_event(tmp_path / "pipe", start("a"))


def test_missing_file_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_trace(tmp_path / "none.jsonl")


def test_argument_that_looks_like_an_event_is_an_argument(tmp_path):
    path = tmp_path / "rollouts.jsonl"
    append_event(path, start("a"))
    append_event(path, {"event": "turn", "rollout": "a", "arguments": {"event": "x"}})
    trace = read_trace(path)
    assert (len(trace.rollouts[0].turns), trace.broken_lines) == (1, 0)


NO_NUMBERS = ["null", "true", '"1"', "[]", "{}", "NaN", "Infinity", "-Infinity", "1e999", "1" + "0" * 400]


def read_one(path, turn: str = "", end: str = '"stop": "solved", "reward": 1'):
    append_event(path, start("a"))
    with path.open("a", encoding="utf-8") as file:
        file.write(f'{{"event": "turn", "rollout": "a"{turn}}}\n{{"event": "end", "rollout": "a", {end}}}\n')
    (rollout,) = read_trace(path).rollouts
    return rollout


@pytest.mark.parametrize("value", NO_NUMBERS)
def test_figure_that_is_no_finite_number_is_missing(tmp_path, value):
    rollout = read_one(
        tmp_path / "rollouts.jsonl",
        f', "turn": {value}, "wall_s": {value}, "result_chars": {value}, "repairs": {{"kind": {value}}}',
        f'"stop": "solved", "reward": {value}, "wall_s": {value}, "tokens": {{"completion": {value}}},'
        f'"reward_parts": {{"win": {value}, "steps": -1}}',
    )
    assert (rollout.reward, rollout.wall_s, rollout.tokens, rollout.reward_parts) == (None, None, {}, {"steps": -1.0})
    (turn,) = rollout.turns
    assert (turn["turn"], turn["wall_s"], turn["result_chars"], turn["repairs"]) == (None, None, None, {})


@pytest.mark.parametrize("value", ["null", "true", "5", '"text"', "[]", "[1]"])
def test_what_is_no_object_has_no_members(tmp_path, value):
    rollout = read_one(
        tmp_path / "rollouts.jsonl",
        f', "arguments": {value}, "repairs": {value}',
        f'"stop": "solved", "reward": 1, "reward_parts": {value}, "tokens": {value}',
    )
    assert (rollout.reward_parts, rollout.tokens) == ({}, {})
    assert (rollout.turns[0]["arguments"], rollout.turns[0]["repairs"]) == ({}, {})


@pytest.mark.parametrize("value", ["null", "true", "5", "[]", "{}"])
def test_what_is_no_text_is_missing(tmp_path, value):
    rollout = read_one(
        tmp_path / "rollouts.jsonl",
        f', "tool": {value}, "error": {value}',
        f'"stop": "solved", "reward": 1, "error": {value}',
    )
    assert (rollout.turns[0]["tool"], rollout.turns[0]["error"], rollout.error) == ("", None, "")


def test_turn_that_tells_nothing_has_all_its_keys(tmp_path):
    (turn,) = read_one(tmp_path / "rollouts.jsonl").turns
    assert set(turn) == set(Turn.__annotations__)


@pytest.mark.parametrize("value", ["null", "true", "5", "[]", "{}"])
def test_end_without_a_reason_is_a_broken_line(tmp_path, value):
    path = tmp_path / "rollouts.jsonl"
    rollout = read_one(path, end=f'"stop": {value}, "reward": 1')
    assert (rollout.unfinished, rollout.scored, rollout.spoiled) == (True, False, False)
    assert read_trace(path).broken_lines == 1


def test_rollout_named_by_a_number_has_its_turns(tmp_path):
    path = tmp_path / "rollouts.jsonl"
    append_event(path, start(1))
    append_event(path, {"event": "turn", "rollout": 1})
    append_event(path, end(1))
    (rollout,) = read_trace(path).rollouts
    assert (rollout.id, rollout.stop, len(rollout.turns)) == ("1", "solved", 1)
