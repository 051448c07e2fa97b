"""ToolEnv: how episodes end, score, and live in pools and threads; one property a test."""

from __future__ import annotations

import asyncio
import gc
import math
import pickle
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from tests.counter import Counter
from trl_agentenvs import StopReason


@pytest.fixture
def env() -> Counter:
    env = Counter()
    env.reset(target=3)
    return env


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


@pytest.mark.parametrize(
    ("value", "reward"),
    [(None, None), (math.nan, None), (math.inf, None), (1, 1.0), (True, 1.0), (Fraction(1, 2), 0.5)],
)
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


def test_release_that_fails_does_not_spoil_the_next_episode_and_raises_when_strict(caplog):
    def fail() -> None:
        raise OSError("sandbox gone")

    for strict in (False, True):
        env = Counter(strict=strict)
        env.reset(target=1)
        env._resources.callback(fail)
        if strict:
            with pytest.raises(OSError, match="sandbox gone"):
                env.reset(target=2)
        else:
            assert env.reset(target=2) == "Reach 2."
            assert "could not release what an episode held: OSError('sandbox gone')" in caplog.text


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


def test_calls_that_overlap_do_not_get_past_the_turn_budget(env):
    async def turn() -> list[str]:
        return await asyncio.gather(*(env.wait(seconds=0) for _ in range(20)))

    over = "The episode is over: no turns are left."
    assert sorted(asyncio.run(turn())) == [over] * 15 + ["waited"] * 4 + [f"waited\n\n{over}"]
    assert env._turns == 5


def test_call_that_a_reset_overtook_does_not_touch_the_new_episode():
    class Late(Counter):
        max_turns = 1

        async def win(self, seconds: float) -> str:
            """Win.

            Args:
                seconds: When.
            """
            await asyncio.sleep(seconds)
            self._end(StopReason.SOLVED)
            return "won"

    async def play(env: Late) -> None:
        late = asyncio.create_task(env.win(seconds=0.02))
        await asyncio.sleep(0.01)
        env.reset(target=3)
        await late

    env = Late()
    env.reset(target=3)
    asyncio.run(play(env))
    assert (env._stop, env._turns) == (None, 0)


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
