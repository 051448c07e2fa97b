from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import pytest

from trl_agentenvs import cli
from trl_agentenvs.stop import StopReason
from trl_agentenvs.trace import append_event, mark_phase, read_trace
from trl_agentenvs.training.closing import PHASES, closing_numbers, closing_table, wilson


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return tmp_path / "rollouts.jsonl"


def play(
    trace: Path, stop: str | None, calls: int = 3, reward: float | None = 0.0, errors: tuple[Any, ...] = ()
) -> None:
    """Append one episode; `errors` are those of its first calls, `stop=None` leaves it unfinished."""
    name = f"r{sum(1 for _ in trace.open()) if trace.exists() else 0}"
    append_event(trace, {"event": "start", "rollout": name, "env": "E", "row": "x", "time": 1.0})
    for turn in range(calls):
        error = errors[turn] if turn < len(errors) else None
        append_event(trace, {"event": "turn", "rollout": name, "turn": turn + 1, "tool": "act", "error": error})
    if stop is not None:
        append_event(trace, {"event": "end", "rollout": name, "stop": stop, "reward": reward, "turns": calls})


def numbers(trace: Path, /, **facts: Any) -> dict[str, Any]:
    return closing_numbers(read_trace(trace), **({"seed": 3, "minutes": 1.5} | facts))


def cells(table: str, label: str) -> list[str]:
    """The cells of the row that begins with a label; one cell holds no two spaces in a row."""
    line = next(line for line in table.splitlines() if line.strip().startswith(label))
    return [cell.strip() for cell in line.split(label, 1)[1].split("  ") if cell.strip()]


def test_success_is_the_share_of_solved_episodes_of_its_own_phase(trace: Path) -> None:
    mark_phase(trace, "before")
    for stop in ("solved", "turn_budget", "gave_up", "no_call"):
        play(trace, stop)
    mark_phase(trace, "train")
    play(trace, "solved")
    mark_phase(trace, "after")
    for stop in ("solved", "solved", "solved", "turn_budget"):
        play(trace, stop)
    told = numbers(trace)
    assert (told["success_before"], told["success_after"]) == (0.25, 0.75)
    assert told["phases"]["train"]["success"] == 1.0


def test_failed_is_no_success_although_the_word_is_not_solved(trace: Path) -> None:
    mark_phase(trace, "after")
    for stop in StopReason:
        play(trace, stop.value)
    told = numbers(trace)["phases"]["after"]
    assert (told["solved"], told["scored"]) == (1, len(StopReason))


def test_steps_are_those_of_solved_episodes_only(trace: Path) -> None:
    mark_phase(trace, "before")
    play(trace, "solved", calls=4)
    play(trace, "solved", calls=8)
    play(trace, "gave_up", calls=1)
    assert numbers(trace)["steps_before"] == 6.0


def test_calls_after_the_end_are_neither_steps_nor_errors(trace: Path) -> None:
    mark_phase(trace, "before")
    play(trace, "solved", calls=5, errors=("tool_error", None, None, "after_end", "after_end"))
    told = numbers(trace)["phases"]["before"]
    assert (told["steps"], told["calls"], told["failed_calls"]) == (3.0, 3, 1)


def test_what_was_not_played_is_missing_and_not_zero(trace: Path) -> None:
    mark_phase(trace, "train")
    play(trace, "turn_budget", calls=0)
    told = numbers(trace, minutes=None)
    assert [told[key] for key in ("success_before", "success_after", "steps_before", "steps_after", "minutes")] == [
        None
    ] * 5
    table = closing_table(told)
    assert cells(table, "success") == ["-", "0.00 [0.00, 0.79]", "-"]
    assert cells(table, "reward") == ["-", "0.000", "-"]
    assert cells(table, "tool calls that failed") == ["-"] * 3
    assert cells(table, "ended: turn_budget") == ["-", "1", "-"]


def test_zero_is_told_as_zero(trace: Path) -> None:
    mark_phase(trace, "before")
    play(trace, "turn_budget", reward=0.0)
    table = closing_table(numbers(trace))
    assert cells(table, "reward")[0] == "0.000"
    assert cells(table, "tool calls that failed")[0] == "0.0%"


def test_spoiled_and_cut_episodes_are_counted_but_in_no_rate(trace: Path) -> None:
    mark_phase(trace, "after")
    play(trace, "solved", reward=1.0)
    play(trace, "env_error", reward=None)
    play(trace, "gave_up", reward=None)  # its grader failed
    play(trace, None)
    told = numbers(trace)
    after = told["phases"]["after"]
    assert told["success_after"] == 1.0
    assert (after["episodes"], after["scored"], after["spoiled"], after["unfinished"]) == (4, 1, 2, 1)
    table = closing_table(told)
    assert cells(table, "spoiled, not scored") == ["-", "-", "2"]
    assert cells(table, "cut, not scored") == ["-", "-", "1"]


def test_a_phase_of_nothing_but_spoiled_episodes_has_no_success(trace: Path) -> None:
    mark_phase(trace, "after")
    play(trace, "env_error", reward=None)
    assert numbers(trace)["success_after"] is None


def test_rollouts_outside_every_phase_are_left_out(trace: Path) -> None:
    play(trace, "solved")
    assert numbers(trace)["phases"] == {}
    assert cells(closing_table(numbers(trace)), "episodes") == ["-"] * 3


def test_numbers_are_json_and_keep_the_facts(trace: Path) -> None:
    mark_phase(trace, "before")
    play(trace, "solved", reward=1.0)
    told = numbers(trace, trace=str(trace), env="alfworld")
    assert json.loads(json.dumps(told, allow_nan=False)) == told
    assert (told["seed"], told["minutes"], told["env"], told["trace"]) == (3, 1.5, "alfworld", str(trace))


def test_table_agrees_with_that_of_the_trace_command(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    draw = random.Random("agree")
    for phase in PHASES:
        mark_phase(trace, phase)
        for _ in range(40):
            stop = draw.choice([*StopReason, None])
            errors = draw.choices([None, "tool_error", "env_error", "after_end"], k=6)
            play(trace, stop, draw.randrange(7), draw.choice([None, 0.0, 0.25, 1.0]), tuple(errors))
    assert cli.main(["trace", str(trace)]) == 0
    by_phase = [line.split() for line in capsys.readouterr().out.splitlines()[2:5]]
    table = closing_table(numbers(trace))
    assert cells(table, "episodes") == [row[2] for row in by_phase]
    assert cells(table, "scored") == [row[3].partition("/")[2] for row in by_phase]
    assert [cell.split()[0] for cell in cells(table, "success")] == [f"{float(r[4][:-1]) / 100:.2f}" for r in by_phase]
    for label, column in (("steps when solved", 5), ("reward", 6), ("tool calls that failed", 7)):
        assert cells(table, label) == [row[column] for row in by_phase]
    assert cells(table, "spoiled, not scored") == [row[8] for row in by_phase]
    assert cells(table, "cut, not scored") == [row[9] for row in by_phase]


def test_stop_reasons_stand_in_their_order_and_unknown_ones_last(trace: Path) -> None:
    mark_phase(trace, "train")
    for stop in ("zeal", "\x1b[31m", "truncated", "solved", "\ud800"):
        play(trace, stop)
    table = closing_table(numbers(trace))
    assert all(line.isprintable() for line in table.splitlines())
    ended = [line.split("ended: ")[1].split()[0] for line in table.splitlines() if "ended: " in line]
    assert ended == ["solved", "truncated", "\\x1b[31m", "zeal", "\\ud800"]


@pytest.mark.parametrize("seed", range(10))
def test_trace_full_of_lies_has_a_table(seed: int, trace: Path) -> None:
    draw = random.Random(f"closing lies {seed}")
    lies = [None, True, -1, 1.7e308, math.nan, math.inf, "x", "\x1b[2J", [], {"a": {}}, "solved", 10**400]
    for phase in PHASES:
        mark_phase(trace, phase)
        for name in "abcdef":
            ids = {"rollout": f"{phase}{name}"}
            append_event(trace, {"event": "start", **ids, "env": draw.choice(lies), "row": "r", "time": 0})
            turn = {field: draw.choice(lies) for field in ("turn", "tool", "arguments", "repairs", "wall_s", "error")}
            append_event(trace, {"event": "turn", **ids} | turn)
            end = {field: draw.choice(lies) for field in ("reward", "reward_parts", "tokens", "wall_s", "error")}
            append_event(trace, {"event": "end", **ids, "stop": draw.choice(["solved", *lies])} | end)
    told = numbers(trace)
    json.dumps(told, allow_nan=False)
    assert all(line.isprintable() for line in closing_table(told).splitlines())


@pytest.mark.parametrize(
    ("successes", "trials", "expected"),
    # Reference values: Wilson's score interval without continuity correction, as in Newcombe (1998), table I.
    [(81, 263, (0.2553, 0.3662)), (15, 148, (0.0624, 0.1605)), (0, 20, (0.0000, 0.1611)), (1, 29, (0.0061, 0.1718))],
)
def test_interval_is_wilsons(successes: int, trials: int, expected: tuple[float, float]) -> None:
    assert wilson(successes, trials) == pytest.approx(expected, abs=1e-4)


def test_interval_stays_within_zero_and_one() -> None:
    assert wilson(5, 5)[1] == 1.0
    assert wilson(0, 5)[0] == 0.0


@pytest.mark.parametrize(("successes", "trials"), [(0, 0), (3, 2), (-1, 2)])
def test_interval_of_nothing_is_refused(successes: int, trials: int) -> None:
    with pytest.raises(ValueError, match="expected 0 <= successes <= trials"):
        wilson(successes, trials)
