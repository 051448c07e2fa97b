"""ToolEnv: rows in, calls in, text out; one property a test."""

from __future__ import annotations

from typing import Any

import pytest

from tests.counter import Counter
from trl_agentenvs import StopReason
from trl_agentenvs.trace import read_trace


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


@pytest.mark.parametrize("row", [{}, {"target": "many"}, {"target": -1}])
def test_episode_that_a_row_could_not_start_is_over_and_unscorable(env, row):
    class Picky(Counter):
        def reset(self, target: int) -> str:
            if target < 0:
                raise ValueError(f"got target={target}; expected 0 or more")
            return super().reset(target)

    env = Picky()
    env.reset(target=3)
    with pytest.raises(ValueError, match="target"):
        env.reset(**row)
    assert env.add(step=3) == "The episode is over: the environment failed."
    assert (env.value, env.get_reward()) == (0, None)


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
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    for name in ("add", "nope", "", None, 7, deep, "_end", "reset", "get_reward", "configured", "dataset"):
        for arguments in (None, "", "{", '{"step": 1}', [], {}, {"step": None}, "x" * 10**6):
            assert type(env._call_tool(name, arguments)) is str


def test_argument_called_self_is_undeclared_like_any_other(env):
    assert env.add(self=2, step=1) == "value=1"
    assert env._call_tool("add", {"self": 2, "step": 1}) == "value=2"


def test_deeply_nested_arguments_are_refused_and_traced(tmp_path):
    env = Counter(trace_path=str(tmp_path / "rollouts.jsonl"))
    env.reset(target=3)
    nested: Any = 1
    for _ in range(100_000):
        nested = [nested]
    assert "step must be an integer" in env.add(step=nested)
    assert "text must be a string" in env.show(text=nested)
    assert env.add(step=1, junk=nested) == "value=1"
    assert [turn["error"] for turn in read_trace(tmp_path / "rollouts.jsonl").rollouts[0].turns] == [
        "tool_error"
    ] * 2 + [None]


def test_row_may_be_given_by_position(env):
    assert env.reset(4) == "Reach 4."

    class Longer(Counter):
        def reset(self, target: int) -> str:
            return super().reset(target + 1)

    assert Longer().reset(target=4) == "Reach 5."


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
