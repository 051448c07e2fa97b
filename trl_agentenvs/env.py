"""The one contract every environment shares: typed tools, a reward, an end.

A subclass is plain Python: `reset(...) -> str` takes the row columns it wants, `get_reward()` scores the episode, and
every other public method written on the class is a tool that the model can call. `ToolEnv` wraps each of them when the
class is made, so there is no decorator to forget and TRL's JSON schema stays that of the plain method.

Promises: bad arguments are repaired or answered with one instructive sentence; no exception leaves a tool for a policy
error; an infrastructure failure makes the episode unscorable (`None`), never 0; results are short, harmless `str`;
after the end nothing changes; a half-finished episode leaves nothing behind. Works pooled on one thread (GRPOTrainer)
and on many (AsyncGRPOTrainer): no global state, no chdir, no signals.

Limits: plain tools of one instance run one at a time, so one that waits for another thread to call a tool of the same
instance waits forever; `async def` tools that a model calls in one turn overlap, as the trainer gathers them.
"""

from __future__ import annotations

import abc
import contextlib
import difflib
import functools
import hashlib
import inspect
import json
import logging
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, cast

from .dispatch import parse_arguments, plain_tool_name, resolve_tool
from .episode import Episode
from .errors import ToolError
from .rows import EnvSpec, build_dataset
from .stop import StopReason
from .toolcall import ToolCall, running_episode, wrap_get_reward, wrap_reset, wrap_tool
from .toollint import NOT_TOOLS, tool_faults

if TYPE_CHECKING:
    from datasets import Dataset

__all__ = ["ToolEnv"]

logger = logging.getLogger("trl_agentenvs")

_WRAPPED = "__agentenvs_wrapped__"


class EnvType(abc.ABCMeta):
    """Class-level methods of environments.

    They live on the metaclass, since TRL before 1.15 takes every bound method it finds on an instance for a tool.
    """

    def configured(cls, **options: Any) -> Callable[[], ToolEnv]:
        """Return a picklable factory of instances with these constructor options.

        Raises:
            TypeError: The constructor has no such option.
        """
        inspect.signature(cls).bind(**options)
        return cast("Callable[[], ToolEnv]", functools.partial(cls, **options))

    def dataset(cls, split: str, n: int | None = None, seed: int = 0, **options: Any) -> Dataset:
        """Return the rows of a split as a `datasets.Dataset` with `prompt` (system and user message) and flat columns.

        Args:
            split: Name of the split.
            n: Number of rows, drawn by `seed`; None for all of them.
            seed: Seed of the draw.
            **options: What the environment offers to choose rows by.

        Raises:
            TypeError: The environment has no such option.
            ValueError: There are no such rows.
        """
        env = cast("type[ToolEnv]", cls)
        _check_row_options(env, options)
        return build_dataset(env._rows(split, n, seed, **options), env.system_prompt, env.user_prompt)

    def spec(
        cls,
        split: str,
        n: int | None = None,
        seed: int = 0,
        env_options: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> EnvSpec:
        """Bundle rows, factory and logging for a trainer: `GRPOTrainer(model, **vars(MyEnv.spec("train")))`.

        Args:
            split: Name of the split.
            n: Number of rows; None for all of them.
            seed: Seed of the draw.
            env_options: Constructor options of the environment.
            **options: What the environment offers to choose rows by.
        """
        from .episode_log import EpisodeLog

        factory = cls.configured(**(env_options or {}))
        return EnvSpec(cls.dataset(split, n, seed, **options), factory, [EpisodeLog()])


class ToolEnv(metaclass=EnvType):
    """Base class of environments for `GRPOTrainer(environment_factory=...)`.

    Class attributes to override:
        max_turns: Tool calls after which the episode ends with `StopReason.TURN_BUDGET`; None is unlimited.
        max_wall_s: Seconds from reset after which it ends with `StopReason.WALL`; None is unlimited.
        max_output_chars: Characters of a result, and of what `reset` returns, that the model gets to read.
        see_rest: How the model can see the part of a result that was cut, for the marker.
        aliases: Declared parameter -> other names models give it, on top of the common ones.
        tool_aliases: Tool -> other names models give it, in lower case. Stock TRL answers calls of unknown tools by
            itself; the patch `recover_calls` hands them over.
        system_prompt: System message of the rows that `dataset` makes; "" for none.
        user_prompt: User message of those rows; what `reset` returns is appended to it.

    For subclasses (all underscored, since TRL makes every public method a tool):
        _end(reason): End the episode.
        _stop: Why it ended, or None while it runs.
        _turns: Tool calls before the one that runs, refused ones included.
        _reward_parts: What the reward is made of, by name; logged and traced.
        _resources: `contextlib.ExitStack` for what the episode opens; closed at the next reset, when the instance is
            garbage-collected, and at exit. A callback that refers to the instance keeps it alive until exit.
    """

    max_turns: int | None = None
    max_wall_s: float | None = None
    max_output_chars: int = 8000
    see_rest: ClassVar[str] = ""
    aliases: ClassVar[dict[str, tuple[str, ...]]] = {}
    tool_aliases: ClassVar[dict[str, tuple[str, ...]]] = {}
    system_prompt: ClassVar[str] = ""
    user_prompt: ClassVar[str] = ""

    def __init__(self, *, strict: bool = False, trace_path: str | None = None) -> None:
        """Make an instance; no episode is running until `reset`.

        Args:
            strict: Raise unexpected exceptions of tools instead of ending the episode with `ENV_ERROR`; for tests.
            trace_path: File to which events are appended as they happen (see `trl_agentenvs.trace`); None for none.
        """
        self._strict = strict
        self._trace_path = trace_path
        self._lock = threading.RLock()
        self._resources = contextlib.ExitStack()
        weakref.finalize(self, self._resources.close)
        self._early_repairs: Counter[str] = Counter()
        self._episode = Episode(type(self).__name__, "", trace_path, blank=True)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Wrap the tools, `reset` and `get_reward` that the subclass or its mix-ins write.

        Raises:
            TypeError: A public method can be no tool; the message says how to mend it.
        """
        super().__init_subclass__(**kwargs)
        aliases: Mapping[str, object] = cls.aliases
        alone = {name: alias for name, alias in aliases.items() if isinstance(alias, str)}  # would be read by letters
        faults = [f"aliases of {name} are {alias!r}; write ({alias!r},)" for name, alias in alone.items()]
        for name, member in inspect.getmembers(cls, inspect.isfunction):
            if name.startswith("_") or member is getattr(ToolEnv, name, None):
                continue
            if name in NOT_TOOLS:
                wrap = wrap_reset if name == "reset" else wrap_get_reward
                faults += [f"{name} must be a plain def"] if inspect.iscoroutinefunction(member) else []
            else:
                wrap = wrap_tool
                faults += [f"tool {name} hides {name} of the class; rename it"] if name in vars(EnvType) else []
                faults += tool_faults(name, inspect.getattr_static(cls, name))
            if getattr(member, _WRAPPED, None) is member:  # a decorator copies the mark of what it wraps
                continue
            wrapper = wrap(member)
            setattr(wrapper, _WRAPPED, wrapper)
            setattr(cls, name, wrapper)
        faults += _tool_alias_faults(cls)
        if faults:
            raise TypeError(f"{cls.__name__} cannot be an environment: " + "; ".join(faults))

    def reset(self, *args: Any, **row: Any) -> str:
        """Start the episode that the row describes and return its first observation.

        Everything derives from the row: the same row gives the same episode start. A subclass declares the columns it
        wants as typed parameters; other columns are dropped, JSON strings are parsed where an object is declared.

        Raises:
            ValueError: The row lacks a column or holds a wrong value.
        """
        raise NotImplementedError(f"{type(self).__name__} must define reset(self, ...) -> str")

    def get_reward(self) -> float | None:
        """Score the episode, once; None when there is none or it cannot be scored. The episode is over then."""
        raise NotImplementedError(f"{type(self).__name__} must define get_reward(self) -> float | None")

    # For subclasses

    @property
    def _stop(self) -> StopReason | None:
        return self._episode.stop

    @property
    def _turns(self) -> int:
        return self._episode.turns

    @property
    def _reward_parts(self) -> dict[str, float]:
        return self._episode.reward_parts

    def _end(self, reason: StopReason) -> None:
        """End the episode; the first reason given stays. A call that a reset overtook ends its own, not the new one."""
        running_episode(self).end(reason)

    def _close(self) -> None:
        """Release what the episode holds."""
        self._resources.close()

    @classmethod
    def _row_id(cls, row: Mapping[str, Any]) -> str:
        """Name of a row in traces: a digest of its columns, unless a subclass knows a more telling one."""
        columns = {name: value for name, value in row.items() if name != "prompt"}
        return hashlib.sha256(json.dumps(columns, sort_keys=True, default=str).encode()).hexdigest()[:12]

    @classmethod
    def _rows(cls, *args: Any, **options: Any) -> list[dict[str, Any]]:
        """The rows of a split, without `prompt`: `_rows(split, n, seed, **options)`; `dataset` and `spec` need it."""
        raise NotImplementedError(f"{cls.__name__} has no rows of its own; build a datasets.Dataset or define _rows")

    # For trainers, tests and people

    def _tools(self) -> dict[str, Callable[..., Any]]:
        """The tools by name, as a trainer finds them on the class."""
        names = [name for name, _ in inspect.getmembers(type(self), inspect.isfunction) if not name.startswith("_")]
        return {name: getattr(self, name) for name in names if name not in NOT_TOOLS}

    def _call_tool(self, name: Any, arguments: Any) -> Any:
        """Call a tool as a model names it: any name, arguments as a mapping, a JSON string or None.

        Returns:
            What the model reads. Where the tool is `async def` an awaitable of it, unless the call is refused before
            it reaches the tool. Policy errors never raise.
        """
        tools = self._tools()
        with self._lock:
            try:
                tool = resolve_tool(name, tools, self.tool_aliases)
                named = parse_arguments(tool, arguments)
            except ToolError as error:
                call = ToolCall(self, name if isinstance(name, str) else type(name).__name__)
                call.refuse(str(error))
                return call.settle()
            self._early_repairs += Counter(
                renamed_tool=int(tool != name), json_arguments=int(isinstance(arguments, str))
            )
            return tools[tool](**named)

    def _note_generation(self, stop: StopReason, tokens: Mapping[str, int]) -> None:
        """Take what only the trainer knows: why generation ended, and how many tokens it took."""
        self._end(stop)
        self._episode.tokens = dict(tokens)

    def _note_repair(self, kind: str) -> None:
        """Count a repair that a trainer's side made before a call reached this environment."""
        self._episode.repairs[kind] += 1

    def _metrics(self) -> dict[str, float]:
        """Figures of this episode by name, for the trainer's log; what is not known is left out."""
        return self._episode.metrics()

    # For the wrappers

    def _begin(self, row: Mapping[str, Any]) -> None:
        """Leave the last episode, finished or not, and begin one."""
        self._episode.abandon()
        try:
            self._close()
        except Exception as error:  # what the last episode could not release does not spoil the next one
            if self._strict:
                raise
            logger.warning("%s could not release what an episode held: %r", type(self).__name__, error)
        self._episode = Episode(type(self).__name__, self._row_id(row), self._trace_path)

    def _take_repairs(self) -> Counter[str]:
        """Repairs made on the way to a tool, to be counted with its call."""
        repairs, self._early_repairs = self._early_repairs, Counter()
        return repairs


def _check_row_options(env: type[ToolEnv], options: Mapping[str, Any]) -> None:
    """Refuse options that `_rows` does not take, in a sentence that names those it does."""
    taken = inspect.signature(env._rows).parameters.values()
    known = [parameter.name for parameter in taken if parameter.name not in ("split", "n", "seed")]
    unknown = [name for name in options if name not in known]
    if unknown and not any(parameter.kind is parameter.VAR_KEYWORD for parameter in taken):
        near = difflib.get_close_matches(unknown[0], known, n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        expected = f"one of {', '.join(known)}" if known else "none, it has no options of rows"
        raise TypeError(f"got the row option {unknown[0]!r} of {env.__name__}{hint}; expected {expected}")


def _tool_alias_faults(cls: type[ToolEnv]) -> list[str]:
    """What is wrong with `tool_aliases`: each must mean one tool, be the name of none, and be found."""
    public = [name for name, _ in inspect.getmembers(cls, inspect.isfunction) if not name.startswith("_")]
    meant = {name.lower(): name for name in public}
    faults = []
    aliases: Mapping[str, Any] = cls.tool_aliases
    for tool, names in aliases.items():
        if isinstance(names, str):  # would be read by letters
            faults.append(f"tool_aliases of {tool} are {names!r}; write ({names!r},)")
            continue
        faults += [] if tool in public and tool not in NOT_TOOLS else [f"tool_aliases name {tool}, which is no tool"]
        for name in names:
            plain = plain_tool_name(name)
            faults += [] if name == plain else [f"the alias {name!r} of {tool} is looked up as {plain!r}; write that"]
            faults += [f"the alias {name} of {tool} already means {meant[name]}"] if name in meant else []
        meant |= dict.fromkeys(names, tool)
    return faults
