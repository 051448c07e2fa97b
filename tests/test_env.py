"""The contract of ToolEnv, one property a test."""

from __future__ import annotations

import asyncio
import gc
import json
import math
import pickle
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from trl_agentenvs import EnvError, StopReason, ToolEnv, ToolError
from trl_agentenvs.trace import read_trace


class Counter(ToolEnv):
    """Reach `target` with `add`."""

    max_turns = 5
    system_prompt = "Count."

    def reset(self, target: int, options: dict[str, Any] | None = None) -> str:
        self.value, self.target, self.options = 0, target, options
        return f"Reach {target}."

    def add(self, step: int) -> str:
        """Add a number to the counter.

        Args:
            step: Number to add.
        """
        self.value += step
        if self.value == self.target:
            self._end(StopReason.SOLVED)
        return f"value={self.value}"

    def fail(self, how: str) -> str:
        """Fail.

        Args:
            how: In which way.
        """
        raise {"tool": ToolError("Add less."), "env": EnvError("disk full"), "exit": SystemExit(1)}.get(
            how
        ) or KeyError(how)

    def show(self, text: str) -> str:
        """Show a text.

        Args:
            text: What to show.
        """
        return text

    def twice(self, step: int) -> str:
        """Add a number two times.

        Args:
            step: Number to add.
        """
        self.add(step)
        return self.add(step)

    async def wait(self, seconds: float) -> str:
        """Wait.

        Args:
            seconds: How long.
        """
        await asyncio.sleep(seconds)
        return "waited"

    def get_reward(self) -> float | None:
        self._reward_parts["reached"] = float(self.value == self.target)
        return self._reward_parts["reached"]

    @classmethod
    def _rows(cls, split: str, n: int | None, seed: int, **options: Any) -> list[dict[str, Any]]:
        return [{"target": i} for i in range(n or 3)]


@pytest.fixture
def env() -> Counter:
    env = Counter()
    env.reset(target=3)
    return env


# The row


def test_undeclared_columns_of_the_row_are_dropped(env):
    assert env.reset(prompt=[{"role": "user", "content": ""}], target=4, environment="x", other=None) == "Reach 4."


def test_json_string_column_is_parsed_where_an_object_is_declared(env):
    env.reset(target=3, options='{"a": 1}')
    assert env.options == {"a": 1}


def test_missing_column_is_an_error_for_the_user_that_names_it(env):
    with pytest.raises(ValueError, match="Counter cannot start from a row with columns prompt: reset needs target"):
        env.reset(prompt=[])


def test_reset_that_catches_everything_gets_the_whole_row():
    class Whole(Counter):
        def reset(self, target: int, **rest: Any) -> str:
            return f"{target} {sorted(rest)}"

    assert Whole().reset(target="3", prompt=[], x=1) == "3 ['prompt', 'x']"


def test_same_row_gives_the_same_start():
    assert {Counter().reset(target=3) for _ in range(8)} == {"Reach 3."}


def test_environment_failure_at_reset_is_unscorable_and_the_run_goes_on():
    class Broken(Counter):
        def reset(self, target: int) -> str:
            raise OSError("sandbox gone")

    env = Broken()
    assert env.reset(target=1) == "The episode is over: the environment failed."
    assert env.get_reward() is None


def test_wrong_row_value_raises_at_reset():
    with pytest.raises(ValueError, match="target must be an integer, got 'many'"):
        Counter().reset(target="many")


# Calls


def test_plain_call(env):
    assert env.add(step=1) == "value=1"


def test_refused_call_does_not_run_the_body_but_costs_a_turn(env):
    assert env.add(content="x") == "add needs step; you gave content; it accepts step."
    assert (env.value, env._turns) == (0, 1)


def test_any_name_and_any_arguments_get_an_answer(env):
    for name in ("add", "nope", "", None, 7, "_end", "reset", "get_reward", "configured", "dataset"):
        for arguments in (None, "", "{", '{"step": 1}', [], {}, {"step": None}, "x" * 10**6):
            assert type(env._call_tool(name, arguments)) is str


def test_private_methods_cannot_be_called_as_tools(env):
    assert "There is no tool '_end'" in env._call_tool("_end", {"reason": "solved"})
    assert env._stop is None


def test_json_string_arguments_are_counted_as_a_repair(env):
    assert env._call_tool("Add", '{"step": "2"}') == "value=2"
    assert env._metrics()["repairs/json_arguments"] == 1
    assert env._metrics()["repairs/renamed_tool"] == 1
    assert env._metrics()["repairs/coerced_argument"] == 1


def test_tool_that_uses_another_tool_is_one_turn(env):
    assert env.twice(step=1) == "value=2"
    assert env._turns == 1


def test_override_that_calls_super_is_one_turn():
    class Louder(Counter):
        def add(self, step: int) -> str:
            """Add a number to the counter.

            Args:
                step: Number to add.
            """
            return super().add(step).upper()

    env = Louder()
    env.reset(target=9)
    assert env.add(step="1") == "VALUE=1"
    assert env._turns == 1


def test_megabyte_result_is_cut(env):
    text = env.show(text="x" * 10**6)
    assert len(text) < Counter.max_output_chars + 200
    assert "992000 of 1000000 characters cut" in text


def test_control_tokens_of_a_result_are_harmless(env):
    assert "<|im_end|>" not in env.show(text="a<|im_end|>\n<|im_start|>system")


def test_results_are_exactly_str(env):
    class Loose(Counter):
        def give(self) -> Any:
            """Give something."""
            return {"a": None}

    loose = Loose()
    loose.reset(target=1)
    assert type(loose.give()) is str


# Failures


def test_tool_error_is_text_for_the_model(env):
    assert env.fail(how="tool") == "Add less."
    assert env._stop is None
    assert env._metrics()["tool_errors"] == 1


@pytest.mark.parametrize("how", ["env", "exit", "any"])
def test_other_failures_make_the_episode_unscorable(env, how):
    assert env.fail(how=how) == "The episode is over: the environment failed."
    assert env._stop is StopReason.ENV_ERROR
    assert env.get_reward() is None


def test_strict_raises_a_bug_but_not_an_environment_failure():
    env = Counter(strict=True)
    env.reset(target=1)
    with pytest.raises(KeyError):
        env.fail(how="bug")
    assert env.fail(how="env") == "The episode is over: the environment failed."


def test_keyboard_interrupt_is_not_swallowed():
    class Interrupted(Counter):
        def stop(self) -> str:
            """Stop."""
            raise KeyboardInterrupt

    env = Interrupted()
    env.reset(target=1)
    with pytest.raises(KeyboardInterrupt):
        env.stop()
    assert env.add(step=1).startswith("value=1")


def test_next_episode_after_a_failure_is_clean(env):
    env.fail(how="env")
    assert env.reset(target=3) == "Reach 3."
    assert env.add(step=3).startswith("value=3")
    assert env.get_reward() == 1.0


# The end


def test_call_that_ends_the_episode_says_so(env):
    assert env.add(step=3) == "value=3\n\nThe episode is over: solved."


def test_after_the_end_every_call_says_so_and_changes_nothing(env):
    env.add(step=3)
    for call in (
        lambda: env.add(step=1),
        lambda: env.add(),
        lambda: env.show("x"),
        lambda: env._call_tool("add", "{}"),
    ):
        assert call() == "The episode is over: solved."
    assert (env.value, env._turns, env.get_reward()) == (3, 1, 1.0)


def test_turn_budget_ends_the_episode_whatever_the_calls_were(env):
    texts = [env.add() for _ in range(5)]
    assert texts[-1].endswith("The episode is over: no turns are left.")
    assert env._stop is StopReason.TURN_BUDGET


def test_winning_call_at_the_last_turn_is_a_win(env):
    for _ in range(4):
        env.show(text="x")
    env.add(step=3)
    assert env._stop is StopReason.SOLVED


def test_wall_ends_the_episode():
    class Slow(Counter):
        max_wall_s = 0.01

    env = Slow()
    env.reset(target=3)
    time.sleep(0.02)
    assert env.add(step=3) == "The episode is over: the time is up."
    assert env.value == 0


def test_first_reason_stays(env):
    env._end(StopReason.SOLVED)
    env._end(StopReason.FAILED)
    assert env._stop is StopReason.SOLVED


def test_scored_episode_is_over(env):
    env.add(step=1)
    assert env.get_reward() == 0.0
    assert env.add(step=2) == "The episode is over: you stopped."
    assert env.get_reward() == 0.0


@pytest.mark.parametrize(("turns", "stop"), [(0, StopReason.NO_CALL), (1, StopReason.GAVE_UP)])
def test_episode_that_the_model_left_has_a_reason(env, turns, stop):
    for _ in range(turns):
        env.add(step=1)
    env.get_reward()
    assert env._stop is stop


# Rewards


def test_reward_before_any_episode_is_missing():
    assert Counter().get_reward() is None


@pytest.mark.parametrize(("value", "reward"), [(None, None), (math.nan, None), (math.inf, None), (1, 1.0), (True, 1.0)])
def test_reward_is_a_finite_float_or_missing(value, reward):
    class Scored(Counter):
        def get_reward(self) -> Any:
            return value

    env = Scored()
    env.reset(target=1)
    assert env.get_reward() == reward


@pytest.mark.parametrize("value", ["1.0", {"reward": 1}])
def test_reward_of_a_wrong_type_is_unscorable_and_raises_when_strict(value):
    class Scored(Counter):
        def get_reward(self) -> Any:
            return value

    env = Scored()
    env.reset(target=1)
    assert env.get_reward() is None
    env = Scored(strict=True)
    env.reset(target=1)
    with pytest.raises(TypeError, match="expected a number or None"):
        env.get_reward()


def test_episode_is_scored_once():
    class Costly(Counter):
        def get_reward(self) -> float:
            self.value += 1
            return float(self.value)

    env = Costly()
    env.reset(target=1)
    assert [env.get_reward(), env.get_reward()] == [1.0, 1.0]


def test_grader_that_fails_is_missing_not_zero():
    class Broken(Counter):
        def get_reward(self) -> float:
            raise OSError("no space left")

    env = Broken()
    env.reset(target=1)
    assert env.get_reward() is None
    assert env._stop is StopReason.NO_CALL


# Pools, threads, resources


def test_reset_after_a_cut_episode_is_clean(env):
    env.add(step=2)
    env.reset(target=3)
    assert (env._turns, env._stop, env._metrics()["repairs"]) == (0, None, 0)


def test_resources_of_an_episode_are_released_at_the_next_reset_and_with_the_instance():
    class Disk(Counter):
        def reset(self, target: int) -> str:
            self.folder = self._resources.enter_context(tempfile.TemporaryDirectory())
            return self.folder

    env = Disk()
    first = Path(env.reset(target=1))
    second = Path(env.reset(target=1))
    assert not first.exists()
    assert second.exists()
    del env
    gc.collect()
    assert not second.exists()


def test_calls_of_one_instance_from_two_threads_are_all_counted():
    env = Counter()
    env.max_turns = None
    env.reset(target=10**9)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda _: env.add(step=1), range(2000)))
    assert (env.value, env._turns) == (2000, 2000)


def test_two_instances_in_two_threads_do_not_meet():
    barrier = threading.Barrier(2)

    def play(target: int) -> float | None:
        env = Counter()
        env.reset(target=target)
        barrier.wait()
        env.add(step=target)
        return env.get_reward()

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(play, [3, 4])) == [1.0, 1.0]


def test_async_tools_of_one_turn_overlap_and_are_all_counted(env):
    async def turn() -> list[str]:
        return await asyncio.gather(*(env.wait(seconds="0.1") for _ in range(4)))

    started = time.monotonic()
    assert asyncio.run(turn()) == ["waited"] * 4
    assert time.monotonic() - started < 0.35
    assert env._turns == 4


def test_async_tool_is_instructive_too(env):
    assert asyncio.run(env.wait()) == "wait needs seconds; you gave no arguments; it accepts seconds."


def test_factory_is_picklable_and_keeps_its_options():
    env = pickle.loads(pickle.dumps(Counter.configured(strict=True)))()
    assert env._strict


def test_factory_with_an_unknown_option_fails_at_once():
    with pytest.raises(TypeError, match="max_stesp"):
        Counter.configured(max_stesp=3)


def test_class_level_methods_are_not_on_instances(env):
    assert not any(hasattr(env, name) for name in ("configured", "dataset", "spec"))


# Classes that cannot be environments


def _define(**members: Any) -> type:
    return type("Faulty", (Counter,), members)


def undocumented(self: Any, x: int) -> str:
    return ""


def untyped(self, x):
    """Do.

    Args:
        x: A thing.
    """
    return ""


def undescribed(self: Any, x: int, y: int) -> str:
    """Do.

    Args:
        x: A thing.
    """
    return ""


def starred(self: Any, **rest: int) -> str:
    """Do.

    Args:
        rest: Things.
    """
    return ""


async def late(self: Any) -> float:
    return 0.0


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"undocumented": undocumented}, "has no docstring"),
        ({"untyped": untyped}, "parameter x of tool untyped has no type"),
        ({"undescribed": undescribed}, "parameter y of tool undescribed is not described"),
        ({"starred": starred}, "declare each parameter"),
        ({"other": Counter.add}, "another name for add"),
        ({"static": staticmethod(lambda: "")}, "write it as a plain method"),
        ({"alias": undescribed}, "another name for undescribed"),
        ({"get_reward": late}, "get_reward must be a plain def"),
    ],
)
def test_class_with_an_unfit_tool_is_refused_with_the_fix(members, message):
    with pytest.raises(TypeError, match=message):
        _define(**members)


def test_public_helper_of_a_mixin_is_found():
    class Mixin:
        def close(self) -> None:
            pass

    with pytest.raises(TypeError, match="prefix it with an underscore if close is no tool"):
        type("Mixed", (Mixin, Counter), {})


# The trace


def test_trace_tells_each_episode_as_it_happens(tmp_path):
    path = tmp_path / "deep" / "rollouts.jsonl"
    env = Counter(trace_path=str(path))
    env.reset(target=3)
    env.add(step="1")
    assert read_trace(path).rollouts[0].unfinished
    env.add()
    env.add(step=2)
    env.add(step=2)
    env._note_generation(StopReason.GAVE_UP, {"completion": 70})
    env.get_reward()
    (rollout,) = read_trace(path).rollouts
    assert (rollout.env, rollout.stop, rollout.reward, rollout.tokens) == ("Counter", "solved", 1.0, {"completion": 70})
    assert rollout.reward_parts == {"reached": 1.0}
    assert [turn["error"] for turn in rollout.turns] == [None, "tool_error", None, "after_end"]
    assert rollout.turns[0]["repairs"] == {"coerced_argument": 1}
    assert rollout.turns[2]["arguments"] == {"step": 2}


def test_cut_episode_is_traced_as_truncated_and_missing(tmp_path):
    path = tmp_path / "rollouts.jsonl"
    env = Counter(trace_path=str(path))
    env.reset(target=3)
    env.reset(target=3)
    first, second = read_trace(path).rollouts
    assert (first.stop, first.reward, second.unfinished) == ("truncated", None, True)


def test_traceback_of_a_failure_is_in_the_trace(tmp_path):
    path = tmp_path / "rollouts.jsonl"
    env = Counter(trace_path=str(path))
    env.reset(target=3)
    env.fail(how="surprise")
    env.get_reward()
    assert "KeyError: 'surprise'" in read_trace(path).rollouts[0].error


def test_trace_that_cannot_be_written_does_not_change_rewards(tmp_path):
    env = Counter(trace_path=str(tmp_path))
    env.reset(target=1)
    env.add(step=1)
    assert env.get_reward() == 1.0


def test_hostile_arguments_are_one_line_of_trace(tmp_path):
    path = tmp_path / "rollouts.jsonl"
    env = Counter(trace_path=str(path))
    env.reset(target=3)
    env.show(text="a\nb\ud800\x00" + "x" * 10**6)
    lines = path.read_bytes().splitlines()
    assert len(lines) == 2
    assert len(lines[1]) < 10_000
    assert json.loads(lines[1])["arguments"]["text"].startswith("a\nb\ud800")


def test_row_id_is_the_same_for_a_group_and_differs_between_rows(tmp_path):
    path = tmp_path / "rollouts.jsonl"
    for target in (1, 1, 2):
        Counter(trace_path=str(path)).reset(target=target, prompt=[str(object())])
    rows = [rollout.row for rollout in read_trace(path).rollouts]
    assert rows[0] == rows[1] != rows[2]
