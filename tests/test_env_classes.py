"""ToolEnv: which classes can be environments, and what their trace tells."""

from __future__ import annotations

import dataclasses
import functools
import json
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


def dataset(self: Any) -> str:
    """Show data."""
    return ""


def yielding(self: Any) -> Any:
    """Give one by one."""
    yield ""


def unnamed(self: Any, x: int, /) -> str:
    """Do.

    Args:
        x: A thing.
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
        ({"aliases": {"step": "by"}}, r"aliases of step are 'by'; write \('by',\)"),
        ({"yielding": yielding}, "yields"),
        ({"unnamed": unnamed}, "parameter x of tool unnamed has no name in a call"),
        ({"starred": starred}, "declare each parameter"),
        ({"other": Counter.add}, "another name for add"),
        ({"static": staticmethod(lambda: "")}, "write it as a plain method"),
        ({"alias": undescribed}, "another name for undescribed"),
        ({"dataset": dataset}, "hides dataset of the class; rename it"),
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


def test_tool_may_be_called_like_a_method_that_every_class_has():
    class Register(Counter):
        def register(self) -> str:
            """Register."""
            return "registered"

    env = Register()
    env.reset(target=1)
    assert env.register() == "registered"


def test_result_may_be_annotated_with_what_only_a_type_checker_knows():
    class Annotated(Counter):
        def give(self, step: int) -> Unknown:  # type: ignore[name-defined]  # noqa: F821
            """Give.

            Args:
                step: What.
            """
            return step

    env = Annotated()
    env.reset(target=1)
    assert env.give(step="2") == "2"


def test_class_that_leaves_out_the_constructor_is_told_so():
    @dataclasses.dataclass
    class Plain(Counter):
        size: int = 3

    with pytest.raises(TypeError, match=r"Plain never ran ToolEnv.__init__; call super\(\).__init__\(\)"):
        Plain().reset(target=1)


def test_decorated_override_is_a_tool_of_its_own():
    def shaken(func: Any) -> Any:
        @functools.wraps(func)
        def wrapper(self: Any, step: int) -> str:
            text = func(self, step)
            raise KeyError(text)

        return wrapper

    class Shaken(Counter):
        add = shaken(Counter.add)

    env = Shaken()
    env.reset(target=3)
    assert env.add(step="1") == "The episode is over: the environment failed."
    assert env._turns == 1


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


@pytest.mark.parametrize("name", ["", "nul\0", "/dev/full"])
def test_trace_that_cannot_be_written_does_not_change_rewards(tmp_path, name, caplog):
    env = Counter(trace_path=str(tmp_path / name))
    env.reset(target=1)
    env.add(step=1)
    assert env.get_reward() == 1.0
    assert "cannot write the trace" in caplog.text


def test_no_depth_of_arguments_breaks_the_trace_or_the_call(tmp_path):
    env = Counter(trace_path=str(tmp_path / "rollouts.jsonl"))
    env.max_turns = None
    env.reset(target=1)
    nested: list[Any] = []
    for _ in range(1100):
        nested = [nested]
        assert "step must be an integer" in env.add(step=nested)
    assert read_trace(tmp_path / "rollouts.jsonl").broken_lines == 0


def test_hostile_arguments_are_one_line_of_trace(tmp_path):
    path = tmp_path / "rollouts.jsonl"
    env = Counter(trace_path=str(path))
    env.reset(target=3)
    env.show(text="a\nb\ud800\x00" + "x" * 10**6)
    env.show(**{"x" * 10**6: 1})
    env._call_tool("x" * 10**6, {})
    env.fail(how="x" * 10**6)
    env.get_reward()
    lines = path.read_bytes().splitlines()
    assert len(lines) == 6
    assert max(map(len, lines)) < 50_000
    assert json.loads(lines[1])["arguments"]["text"].startswith("a\nb\ud800")


def test_trace_is_json_for_every_reader(tmp_path):
    env = Counter(trace_path=str(tmp_path / "rollouts.jsonl"))
    env.reset(target=3)
    env.show(text=[float("nan")])
    env.add(step=1, junk={"a": float("inf")})
    env.add(step=float("nan"))
    for line in (tmp_path / "rollouts.jsonl").read_text().splitlines():
        json.loads(line, parse_constant=pytest.fail)


def test_row_option_that_there_is_not_is_refused_with_those_there_are():
    class Rows(Counter):
        @classmethod
        def _rows(cls, split, n, seed, source="a"):
            return [{"target": 1}]

    with pytest.raises(TypeError, match=r"'sorce' of Rows \(did you mean source\?\); expected one of source"):
        Rows.dataset("train", sorce="b")


def test_row_id_is_the_same_for_a_group_and_differs_between_rows(tmp_path):
    path = tmp_path / "rollouts.jsonl"
    for target in (1, 1, 2):
        Counter(trace_path=str(path)).reset(target=target, prompt=[str(object())])
    rows = [rollout.row for rollout in read_trace(path).rollouts]
    assert rows[0] == rows[1] != rows[2]
