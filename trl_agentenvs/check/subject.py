"""An environment under test, built, reset, called and scored the way a trainer does it.

The rules of `check_env` look at environments through `Subject` alone. It works for `ToolEnv` subclasses and for plain
classes: tools are the public functions of the class, `async def` tools are awaited on one event loop in a thread of its
own, exceptions become data. Nothing here judges; limits on time are the rules' business.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import re
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from ..dispatch import ToolSignature
from ..env import ToolEnv
from ..errors import EnvError
from ..stop import StopReason
from ..toollint import NOT_TOOLS
from .calls import Call, scripted_calls

__all__ = ["Answer", "Finding", "Policy", "Subject", "show", "show_call", "show_difference"]

MAX_CALLS = 200
SHOWN_CHARS = 160
LOOP_WAIT_S = 2.0
_ADDRESS = re.compile(r" at 0x[0-9A-Fa-f]+")

Policy = Callable[[list[str]], Call | None]
"""Observations so far -> the next call as (tool, arguments), or None to stop."""


@dataclass(frozen=True)
class Finding:
    """One way in which an environment breaks the contract.

    Attributes:
        rule: Name of the broken rule, as `check.RULES` lists them.
        message: What was seen, why it matters to the trainer, and what to do.
    """

    rule: str
    message: str


@dataclass(frozen=True)
class Answer:
    """What came back from an environment: a value or an exception."""

    value: Any = None
    error: BaseException | None = None

    def __str__(self) -> str:
        """The answer in words and in full; equal answers read equally."""
        return _words(self.value) if self.error is None else f"raised {_words(self.error)}"


class Subject:
    """The environment under test; a context manager, since `async def` tools need a loop.

    Attributes:
        factory: What the trainer would call to get an instance.
        rows: Rows to reset with.
        players: Who plays episodes: calls derived from the signatures, and the user's policy if there is one.
        unfit: Public methods that are no tools by a rule about classes; they are not called.
    """

    def __init__(self, factory: Callable[[], Any], rows: Sequence[dict[str, Any]], policy: Policy | None) -> None:
        self.factory, self.rows = factory, list(rows)
        self.players: list[Policy] = [self._play_script, *([policy] if policy else [])]
        self.unfit: set[str] = set()
        self._names: list[str] | None = None
        self._script: list[Call] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread
        self._done = asyncio.Event()
        self._references: dict[tuple[int, int], list[str]] = {}

    def __enter__(self) -> Subject:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._done.set)
            self._thread.join(LOOP_WAIT_S)

    def make(self, factory: Callable[[], Any] | None = None) -> Any:
        """Build an instance. A `ToolEnv` is made to raise what it would log, and to leave the user's trace alone."""
        env = (factory or self.factory)()
        if isinstance(env, ToolEnv):
            env._strict, env._trace_path = True, None
        return env

    def tools(self, env: Any) -> dict[str, Callable[..., Any]]:
        """The fit tools of an instance by attribute name, as the trainer finds them on its class."""
        if self._names is None:
            found = inspect.getmembers(type(env), inspect.isfunction)
            self._names = [name for name, _ in found if name not in NOT_TOOLS and not name.startswith("_")]
        return {name: getattr(env, name) for name in self._names if name not in self.unfit}

    def signatures(self, env: Any) -> dict[str, ToolSignature]:
        """What each tool declares."""
        return {name: ToolSignature(name, tool) for name, tool in self.tools(env).items()}

    def reset(self, env: Any, row: dict[str, Any]) -> Answer:
        """Start an episode. An `async def reset` is not awaited, since no trainer does."""
        return _unless_failed(env, False, self._attempt(env.reset, row))

    def call(self, env: Any, name: str, arguments: dict[str, Any]) -> Answer:
        """Call a tool as a trainer does: its named arguments unpacked, awaited where it is async."""
        tool = getattr(env, name)
        before, awaits = _has_failed(env), inspect.iscoroutinefunction(tool)
        return _unless_failed(env, before, self._attempt(tool, arguments, awaits=awaits))

    def call_by_words(self, env: ToolEnv, name: str, arguments: Any) -> Answer:
        """Call a tool as a model words it, which only a `ToolEnv` takes."""
        before, worded = _has_failed(env), {"name": name, "arguments": arguments}
        return _unless_failed(env, before, self._attempt(env._call_tool, worded, awaits=True))

    def reward(self, env: Any) -> Answer:
        """Score the episode; the value is None where the environment leaves scoring to reward functions."""
        if not hasattr(type(env), "get_reward"):
            return Answer()
        return self._attempt(env.get_reward, {}, awaits=inspect.iscoroutinefunction(env.get_reward))

    def _attempt(self, func: Callable[..., Any], arguments: dict[str, Any], *, awaits: bool = False) -> Answer:
        try:
            value = func(**arguments)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # also what derives from no Exception, as a panic of a library in Rust
            return Answer(error=error)
        if inspect.iscoroutine(value):
            if not awaits:  # the trainer would not either; the rules see a value that is no text
                value.close()
                return Answer(value)
            answer = asyncio.run_coroutine_threadsafe(_settle(value), self._running_loop()).result()
            if answer.error is not None:
                return answer
            value = answer.value
        return Answer(value)

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            loop = asyncio.new_event_loop()

            def run() -> None:
                with asyncio.Runner(loop_factory=lambda: loop) as runner:  # cancels what is still awaited at the end
                    runner.run(self._done.wait())

            self._thread = threading.Thread(target=run, name="check_env-loop", daemon=True)
            self._thread.start()
            self._loop = loop
        return self._loop

    # Whole episodes

    def _play_script(self, seen: list[str]) -> Call | None:
        if self._script is None:
            self._script = scripted_calls(self.signatures(self.make()))
        return self._script[len(seen) - 1] if len(seen) <= len(self._script) else None

    def steps(
        self, env: Any, row: dict[str, Any], player: Policy, transcript: list[str], *, score: bool = True
    ) -> Iterator[None]:
        """Play one episode, one interaction a step, and write what came back into `transcript`.

        Args:
            env: The instance to play on.
            row: The row to start from.
            player: Who chooses the calls.
            transcript: Filled with the first observation, each call with its result, and the reward.
            score: Whether to ask for the reward at the end.
        """
        observation = self.reset(env, row)
        transcript.append(f"reset -> {observation}")
        seen = [_seen(observation)]
        yield
        while len(seen) <= MAX_CALLS and (call := player(list(seen))) is not None:
            name, arguments = call
            if name not in self.tools(env):
                raise ValueError(f"policy called {name!r}; expected one of {', '.join(sorted(self.tools(env)))}")
            answer = self.call(env, name, dict(arguments))
            transcript.append(f"{show_call(name, arguments)} -> {answer}")
            seen.append(_seen(answer))
            yield
        if score:
            transcript.append(f"get_reward -> {self.reward(env)}")
            yield

    def play(
        self, env: Any, row: dict[str, Any], player: Policy, *, max_steps: int | None = None, score: bool = True
    ) -> list[str]:
        """Play an episode and return its transcript; with `max_steps`, leave it in the middle."""
        transcript: list[str] = []
        steps = self.steps(env, row, player, transcript, score=score)
        with contextlib.closing(steps):  # type: ignore[type-var]
            for index, _ in enumerate(steps, start=1):
                if index == max_steps:
                    break
        return transcript

    def reference(self, row_index: int, player_index: int) -> list[str]:
        """Transcript of an episode played alone on a fresh instance; played once, then remembered."""
        key = (row_index, player_index)
        if key not in self._references:
            self._references[key] = self.play(self.make(), self.rows[row_index], self.players[player_index])
        return self._references[key]


def _has_failed(env: Any) -> bool:
    return isinstance(env, ToolEnv) and env._stop is StopReason.ENV_ERROR


def _unless_failed(env: Any, before: bool, answer: Answer) -> Answer:
    """The answer, or the failure of the infrastructure that a `ToolEnv` logs instead of raising it."""
    if answer.error is None and not before and _has_failed(env):
        return Answer(error=EnvError(env._episode.failure.strip().rpartition("\n")[2].partition(": ")[2]))
    return answer


async def _settle(coroutine: Coroutine[Any, Any, Any]) -> Answer:
    """Await without letting `SystemExit` and its like end the loop."""
    try:
        return Answer(await coroutine)
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:
        return Answer(error=error)


def _seen(answer: Answer) -> str:
    """An answer as a policy reads it."""
    return answer.value if isinstance(answer.value, str) else _words(answer.value)


def _words(value: object) -> str:
    name = type(value).__name__
    try:
        text = f"{name}: {value}".rstrip(".") if isinstance(value, BaseException) else repr(value)
    except Exception:  # its words are the environment's own code
        text = f"{name} that cannot be shown"
    return _ADDRESS.sub("", text)


def show(value: object) -> str:
    """A value for a message, cut to `SHOWN_CHARS`."""
    text = str(value) if isinstance(value, Answer) else _words(value)
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}..."


def show_call(name: str, arguments: object) -> str:
    """A call for a message."""
    if isinstance(arguments, dict):
        return f"{name}({', '.join(f'{key}={show(value)}' for key, value in arguments.items())})"
    return f"{name}({show(arguments)})"


def show_difference(expected: Sequence[str], got: Sequence[str]) -> str:
    """The first place where two transcripts part, for a message; "" where they are equal."""
    for one, other in zip_longest(expected, got, fillvalue="nothing"):
        if one != other:
            same = next(
                (i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
            )
            start = max(0, same - SHOWN_CHARS // 2)
            first, second = (f"{'...' if start else ''}{text[start : start + SHOWN_CHARS]}" for text in (one, other))
            return f"{first!r} became {second!r}"
    return ""
