"""Traces survive what happens to runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from trl_agentenvs.trace import append_event, mark_phase, read_trace


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
