"""How the methods of an environment run: tools through dispatch, `reset` and `get_reward` with their bookkeeping.

`ToolEnv` replaces the functions written on a class by what `wrap_tool`, `wrap_reset` and `wrap_get_reward` return.
Wrappers keep signature and docstring (`functools.wraps`). A call from inside the same environment, as in
`super().act(...)` or one tool using another, is a plain call: it counts nothing and raises what it raises.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import inspect
import json
import math
import numbers
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from .dispatch import ToolSignature
from .errors import EnvError, ToolError
from .results import shape_result
from .stop import StopReason

if TYPE_CHECKING:
    from .env import ToolEnv
    from .episode import Episode

__all__ = ["ToolCall", "running_episode", "wrap_get_reward", "wrap_reset", "wrap_tool"]

TRACED_ARGUMENT_CHARS = 4000

# Not failures of an environment: somebody stops the program, or the awaiting of a body. All else that a body raises is,
# whatever it derives from: code that is run for a model may call `sys.exit`, and a library in Rust may panic.
_STOPS_PROGRAM = (KeyboardInterrupt,)
_STOPS_AWAITING = (KeyboardInterrupt, GeneratorExit, asyncio.CancelledError)

# The environment whose own code runs in this context (thread or task), and the episode that it runs for.
_running: contextvars.ContextVar[tuple[object, Episode] | None] = contextvars.ContextVar("running", default=None)


@contextlib.contextmanager
def _inside(env: ToolEnv) -> Iterator[None]:
    token = _running.set((env, env._episode))
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):  # a coroutine that is closed unfinished may be closed in another context
            _running.reset(token)


def _is_inside(env: ToolEnv) -> bool:
    running = _running.get()
    return running is not None and running[0] is env


def running_episode(env: ToolEnv) -> Episode:
    """The episode for which code of `env` runs in this context, also after a reset meanwhile; else the current one."""
    running = _running.get()
    return running[1] if running is not None and running[0] is env else env._episode


class ToolCall:
    """One call of a tool, from the model's words to the text it reads back."""

    def __init__(self, env: ToolEnv, tool: str, repairs: Mapping[str, int] | None = None) -> None:
        """Begin a call.

        Args:
            env: The environment called.
            tool: Name of the tool.
            repairs: Repairs that were needed to get here, by kind.
        """
        self.env, self.tool, self.episode = env, tool, env._episode
        self.arguments: Mapping[str, Any] = {}
        self.repairs = Counter(repairs or {})
        self.text = ""
        self.error: str | None = None
        self.started = time.monotonic()
        if env.max_wall_s is not None and self.episode.elapsed_s > env.max_wall_s and self.episode.running:
            self.episode.end(StopReason.WALL)
        self.counts = self.episode.admit(env.max_turns)

    def bind(self, signature: ToolSignature, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
        """Fit the arguments to the tool; False when its body is not to run."""
        self.arguments = kwargs or dict(zip(signature.names, args, strict=False))
        if not self.counts:
            return False
        try:
            bound = signature.bind(args, kwargs, self.env.aliases)
        except ToolError as error:
            self.refuse(str(error))
            return False
        self.arguments = bound.arguments
        self.repairs += bound.repairs
        return True

    def answer(self, result: object) -> None:
        """Take what the model is to read."""
        self.text = shape_result(result, self.env.max_output_chars, self.env.see_rest)

    def refuse(self, sentence: str) -> None:
        """Answer with a sentence for the model."""
        self.error = "tool_error"
        self.answer(sentence)

    @contextlib.contextmanager
    def guarded(self, passing: tuple[type[BaseException], ...]) -> Iterator[None]:
        """Sort what the body raises: words for the model, a failure of the infrastructure, or a bug of ours.

        Args:
            passing: Exceptions that are raised on.
        """
        try:
            try:
                yield
            except* ToolError as refused:
                self.refuse(" ".join(_sentences(refused)))
        except passing:
            self.error = "interrupted"
            raise
        except BaseException as error:
            self.error = "env_error"
            if self.env._strict and not isinstance(error, EnvError):
                raise
            self.episode.fail(error)

    def settle(self) -> str:
        """Count and trace the call, see whether the episode is over, and return what the model reads."""
        env, episode, wall_s = self.env, self.episode, time.monotonic() - self.started
        text = ""
        if self.counts:
            text = "" if self.error == "env_error" else self.text
            episode.turns += 1
            episode.tool_errors += self.error == "tool_error"
            episode.tool_s += wall_s
            episode.repairs += self.repairs
            if env.max_turns is not None and episode.turns >= env.max_turns:
                episode.end(StopReason.TURN_BUDGET)
        if not episode.id:
            return "No episode is running; one starts with reset."
        if episode.stop is not None or not self.counts:  # not admitted while it runs: the last turns are under way
            notice = (episode.stop or StopReason.TURN_BUDGET).notice
            text = f"{text}\n\n{notice}" if text else notice
        episode.log(
            "turn",
            turn=episode.turns,
            tool=_brief(self.tool),
            arguments={_brief(name): _brief(value) for name, value in self.arguments.items()},
            repairs=dict(episode.untraced_repairs() if self.counts else self.repairs),
            result_chars=len(text),
            wall_s=round(wall_s, 6),
            error=self.error if self.counts else "after_end",
        )
        return text


def wrap_tool(func: Callable[..., Any]) -> Callable[..., Any]:
    """Return the tool as a trainer calls it: any arguments in, text out, no exception for a policy error."""
    signature = ToolSignature(func.__name__, func)

    if inspect.iscoroutinefunction(func):

        @functools.wraps(func)
        async def async_tool(self: ToolEnv, /, *args: Any, **kwargs: Any) -> Any:
            if _is_inside(self):
                return await func(self, *args, **kwargs)
            with self._lock:
                call = ToolCall(self, func.__name__, self._take_repairs())
                ready = call.bind(signature, args, kwargs)
            try:
                if ready:
                    with _inside(self), call.guarded(_STOPS_AWAITING):
                        call.answer(await func(self, **call.arguments))
            finally:
                with self._lock:
                    text = call.settle()
            return text

        return async_tool

    @functools.wraps(func)
    def tool(self: ToolEnv, /, *args: Any, **kwargs: Any) -> Any:
        if _is_inside(self):
            return func(self, *args, **kwargs)
        with self._lock, _inside(self):
            call = ToolCall(self, func.__name__, self._take_repairs())
            try:
                if call.bind(signature, args, kwargs):
                    with call.guarded(_STOPS_PROGRAM):
                        call.answer(func(self, **call.arguments))
            finally:
                text = call.settle()
            return text

    return tool


def wrap_reset(func: Callable[..., Any]) -> Callable[..., Any]:
    """Return `reset` as a trainer calls it: the whole row in, the columns it declares passed on, an episode begun."""
    signature = ToolSignature(func.__name__, func)
    takes_all = any(p.kind is p.VAR_KEYWORD for p in inspect.signature(func).parameters.values())

    @functools.wraps(func)
    def reset(self: ToolEnv, /, *args: Any, **row: Any) -> str:
        if not hasattr(self, "_episode"):
            name = type(self).__name__
            raise TypeError(
                f"{name} never ran ToolEnv.__init__; call super().__init__() in its __init__ or __post_init__"
            )
        if _is_inside(self):
            return func(self, *args, **row)  # type: ignore[no-any-return]
        row = {**dict(zip(signature.names, args, strict=False)), **row}
        with self._lock:
            self._begin(row)
            with _inside(self):
                try:
                    columns = _columns(self, signature, row)
                    text = func(self, **({**row, **columns} if takes_all else columns))
                    return "" if text is None else shape_result(text, self.max_output_chars, self.see_rest)
                except _STOPS_PROGRAM:
                    raise
                except BaseException as error:
                    self._end(StopReason.ENV_ERROR)
                    if isinstance(error, ValueError | TypeError | FileNotFoundError):
                        raise  # the row is wrong: whoever wrote it must hear of it
                    if self._strict and not isinstance(error, EnvError):
                        raise
                    self._episode.fail(error)
                    return StopReason.ENV_ERROR.notice

    return reset


def wrap_get_reward(func: Callable[..., Any]) -> Callable[..., Any]:
    """Return `get_reward` as a trainer calls it: scores an episode once, ends it, None where there is no score."""

    @functools.wraps(func)
    def get_reward(self: ToolEnv, /) -> float | None:
        if _is_inside(self):
            return func(self)  # type: ignore[no-any-return]
        with self._lock, _inside(self):
            episode = self._episode
            if episode.scored:
                return episode.reward
            # Where no EpisodeLog told more, the model stopped calling.
            self._end(StopReason.GAVE_UP if episode.turns else StopReason.NO_CALL)
            reward = None
            if episode.stop is not StopReason.ENV_ERROR:
                try:
                    reward = _as_reward(func(self))
                except _STOPS_PROGRAM:
                    raise
                except BaseException as error:
                    if self._strict and not isinstance(error, EnvError):
                        raise
                    episode.fail(error)
            episode.score(reward)
            return reward

    return get_reward


def _columns(env: ToolEnv, signature: ToolSignature, row: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of a row that `reset` declares, as it declares them."""
    try:
        return signature.bind((), {name: row[name] for name in signature.names if name in row}).arguments
    except ToolError as error:
        got = ", ".join(row) or "none"
        raise ValueError(f"{type(env).__name__} cannot start from a row with columns {got}: {error}") from None


def _sentences(group: BaseExceptionGroup[Any]) -> Iterator[str]:
    """What each exception in a group says."""
    for error in group.exceptions:
        yield from _sentences(error) if isinstance(error, BaseExceptionGroup) else (str(error),)


def _brief(value: Any) -> Any:
    """An argument as the trace keeps it: what is long by its head, what JSON cannot hold by its type."""
    try:
        text = value if isinstance(value, str) else json.dumps(value, default=str, allow_nan=False)
    except (ValueError, TypeError, RecursionError):
        return f"({type(value).__name__} that JSON cannot hold)"
    if len(text) > TRACED_ARGUMENT_CHARS:
        return f"{text[:TRACED_ARGUMENT_CHARS]}... ({len(text)} characters)"
    return value


def _as_reward(value: Any) -> float | None:
    """A finite float, or None for missing; anything else is a bug of the environment."""
    if value is None:
        return None
    if not isinstance(value, numbers.Real):  # NumPy's numbers are some
        raise TypeError(f"get_reward returned {value!r}; expected a number or None")
    return float(value) if math.isfinite(value) else None
