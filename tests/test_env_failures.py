"""ToolEnv: what a body raises or returns stays inside the environment, whatever it is."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.counter import Counter
from trl_agentenvs import ToolError

FAILED = "The episode is over: the environment failed."


class Panic(BaseException):
    """What a library in Rust raises."""


class MuteError(ToolError):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class Wordless:
    def __str__(self) -> str:
        raise RuntimeError("no words")


class Puppet(Counter):
    """Does in each method what the test wants."""

    what: Any = ""

    def reset(self) -> Any:
        return self._do()

    def use(self) -> Any:
        """Use it."""
        return self._do()

    async def use_later(self) -> Any:
        """Use it, later."""
        return self._do()

    def get_reward(self) -> Any:
        return self._do()

    def _do(self) -> Any:
        if isinstance(self.what, BaseException):
            raise self.what
        return self.what


@pytest.fixture
def env() -> Puppet:
    env = Puppet()
    env.reset()
    return env


@pytest.mark.parametrize(
    "what",
    [
        Panic("x"),
        SystemExit(0),
        MuteError(),
        BaseExceptionGroup("", [Panic()]),
        ExceptionGroup("", [OSError(), ToolError("Less.")]),
        Wordless(),
    ],
)
@pytest.mark.parametrize("method", ["use", "use_later", "reset"])
def test_whatever_a_body_raises_or_returns_stays_inside(env, method, what):
    env.what = what
    result = getattr(env, method)()
    assert (asyncio.run(result) if method == "use_later" else result) == FAILED
    assert env._turns == (method != "reset")
    assert env.get_reward() is None


@pytest.mark.parametrize("what", [Panic("x"), SystemExit(0), MuteError(), Wordless()])
def test_whatever_the_grader_raises_or_returns_is_a_missing_reward(env, what):
    env.what = what
    assert env.get_reward() is None


def test_policy_errors_in_a_group_are_text_for_the_model(env):
    env.what = ExceptionGroup("", [ToolError("Add less."), ExceptionGroup("", [ToolError("Show more.")])])
    assert env.use() == "Add less. Show more."
    assert (env._metrics()["tool_errors"], env._stop) == (1, None)


def test_call_that_is_closed_in_another_context_is_quiet_and_counted(env):
    call = env.wait(seconds=1)
    loop = asyncio.new_event_loop()
    tasks: list[Any] = []  # keeps the task from being collected with its loop

    async def start() -> None:
        tasks.append(asyncio.ensure_future(call))
        await asyncio.sleep(0)

    loop.run_until_complete(start())
    loop.close()
    call.close()
    assert (env._turns, env._stop) == (1, None)


def test_cancelled_call_is_cancelled_and_counted(env):
    async def play() -> None:
        async with asyncio.timeout(0.01):
            await env.wait(seconds=10)

    with pytest.raises(TimeoutError):
        asyncio.run(play())
    assert (env._turns, env._stop) == (1, None)
