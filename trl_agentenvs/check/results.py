"""Rules about single calls: whatever a model writes, a tool answers with harmless text; and what `get_reward` returns.

Every probe starts from a fresh `reset`, so that a call which ends the episode does not hide the next one. At most one
finding per rule and tool, with the first call that broke it.
"""

from __future__ import annotations

import json
import math
import numbers
from collections.abc import Iterator
from typing import Any

from ..env import ToolEnv
from ..results import neutralise
from .calls import Probe, probes
from .subject import Answer, Finding, Subject, show, show_call

__all__ = ["check_results", "check_rewards"]


def check_results(subject: Subject, row: dict[str, Any]) -> Iterator[Finding]:
    """Try every tool with sensible, missing, undeclared, wrong and hostile arguments."""
    env = subject.make()
    for name, signature in subject.signatures(env).items():
        broken: dict[str, tuple[str, int]] = {}
        for probe in probes(signature):
            subject.reset(env, row)
            rule, problem = _judge(subject.call(env, name, probe.arguments), probe)
            if rule == "tolerant-arguments" and "tool-raises" in broken:
                continue  # it raises with good arguments, too
            if rule:
                first, count = broken.get(rule, (f"{show_call(name, probe.arguments)} {problem}", 0))
                broken[rule] = (first, count + 1)
        for rule, (first, count) in broken.items():
            advice = _ADVICE["env-error" if "raised EnvError" in first else rule]
            yield Finding(rule, f"{first}{f' ({count} such calls)' if count > 1 else ''}. {advice}")
        if isinstance(env, ToolEnv) and not broken:
            yield from _check_words(subject, env, row, name, next(probes(signature)).arguments)


def _judge(answer: Answer, probe: Probe) -> tuple[str, str]:
    """The rule an answer breaks and how, or two empty strings."""
    if answer.error is not None:
        return ("tolerant-arguments" if probe.shape else "tool-raises"), str(answer)
    if type(answer.value) is not str:
        return "str-results", f"returned {show(answer)} ({type(answer.value).__name__})"
    harmless = neutralise(answer.value)
    if harmless != answer.value:
        at = next(i for i, (one, other) in enumerate(zip(answer.value, harmless, strict=False)) if one != other)
        return "control-tokens", f"returned text with {answer.value[max(0, at - 1) : at + 20]!r} in it"
    return "", ""


def _check_words(
    subject: Subject, env: ToolEnv, row: dict[str, Any], name: str, usual: dict[str, Any]
) -> Iterator[Finding]:
    """The whole call as a model words it: arguments as JSON text, in a list or not at all, a tool that is none."""
    worded = [(name, json.dumps(usual)), (name, '{"cut off'), (name, None), (name, [usual]), (f"{name}_x", usual)]
    for tool, arguments in worded:
        subject.reset(env, row)
        rule, problem = _judge(subject.call_by_words(env, tool, arguments), Probe({}, shape=True))
        if rule:
            yield Finding(rule, f"{show_call(tool, arguments)} {problem}. {_ADVICE[rule]}")
            return


_ADVICE = {
    "tolerant-arguments": (
        "Models leave arguments out, give None and add others; the trainer then shows the model a Python error that"
        " names neither the accepted arguments nor the fix. Derive the environment from trl_agentenvs.ToolEnv, which"
        " repairs or explains such calls."
    ),
    "tool-raises": (
        "An exception reads to the model as a Python error without a fix, and SystemExit ends the training. Answer with"
        " one sentence that says what is accepted: raise trl_agentenvs.ToolError in a ToolEnv, return text elsewhere."
    ),
    "env-error": (
        "The episode ends without a reward. EnvError is for infrastructure that failed; if it did not fail here, answer"
        " what the model did wrong with trl_agentenvs.ToolError."
    ),
    "str-results": (
        "The trainer shows Python's repr of other objects to the model, and chat templates drop lists or fail on them."
        " Return str."
    ),
    "control-tokens": (
        "The tokenizer takes this for the end of the tool's message, so a file or an argument can speak as the user or"
        " the system; on half a character it fails. Pass results through trl_agentenvs.results.shape_result, as ToolEnv"
        " does."
    ),
    "reward-value": (
        "Return a finite number, or None where the episode cannot be scored; text and exceptions stop the training."
    ),
    "reward-twice": (
        "Trainers and logs may both ask, and must hear the same. Let get_reward compute from the state and change none."
    ),
    "after-end": (
        "After the end nothing may change, or the reward depends on how long the model talks on. Write tools on the"
        " class itself, so that ToolEnv wraps them, and end episodes with self._end."
    ),
}


def check_rewards(subject: Subject, row: dict[str, Any]) -> Iterator[Finding]:
    """Ask for the reward before, in the middle of and after an episode, and go on calling after the end."""
    env = subject.make()
    moments = [("before the first reset", subject.reward(env))]
    subject.reset(env, row)
    moments.append(("before any call", subject.reward(env)))
    env = subject.make()
    subject.play(env, row, subject.players[-1], score=False)
    first, second = subject.reward(env), subject.reward(env)
    moments.append(("after an episode", first))
    for moment, answer in moments:
        value = answer.value
        if answer.error is None and (value is None or (isinstance(value, numbers.Real) and math.isfinite(value))):
            continue
        seen = str(answer) if answer.error is not None else f"returned {show(answer)}"
        yield Finding("reward-value", f"get_reward {seen} {moment}. {_ADVICE['reward-value']}")
        return
    if str(first) != str(second):
        yield Finding(
            "reward-twice", f"get_reward returned {first}, and {second} when asked again. {_ADVICE['reward-twice']}"
        )
    elif isinstance(env, ToolEnv):
        yield from _check_end(subject, env, first)


def _check_end(subject: Subject, env: ToolEnv, reward: Answer) -> Iterator[Finding]:
    """`env` has been scored, so its episode is over."""
    for name, signature in subject.signatures(env).items():
        turns, arguments = env._turns, next(probes(signature)).arguments
        answer = subject.call(env, name, arguments)
        if env._stop is None or env._stop.notice not in str(answer.value):
            problem = f"answered {show(answer)} after the end instead of saying that the episode is over"
        elif env._turns != turns or str(subject.reward(env)) != str(reward):
            problem = f"changed the episode after its end: {turns} turns and reward {reward} before"
        else:
            continue
        yield Finding("after-end", f"{show_call(name, arguments)} {problem}. {_ADVICE['after-end']}")
