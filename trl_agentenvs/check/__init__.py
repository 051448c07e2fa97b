"""`check_env`: run the contract against an environment instead of explaining it.

Covered: every rule of `RULES`, for `ToolEnv` subclasses and for plain classes alike, without a model, a trainer or a
GPU. Calls are derived from the signatures of the tools and harmless by themselves; a tool that deletes files does so
here as well, so check such an environment where a model would be let loose. Not covered: whether the task is solvable,
whether the reward is right, and races that need rare timing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from .episodes import check_datasets, check_episodes, check_other_process, check_pickling, check_starts, round_trip
from .leaks import check_leaks, only_new_garbage, private_temp_folder
from .results import check_results, check_rewards
from .subject import Finding, Policy, Subject, show
from .surroundings import Surroundings
from .threads import check_threads
from .tools import check_tools, schema_renderer

__all__ = ["RULES", "Finding", "check_env"]

logger = logging.getLogger("trl_agentenvs.check")
environments_logger = logging.getLogger("trl_agentenvs")

RULES: dict[str, str] = {
    "factory": "the factory builds an instance without arguments",
    "reset": "reset(**row) starts every row and returns text",
    "tools": "there is something a model can do",
    "tool-schema": "every tool has a docstring and types from which a JSON schema is rendered",
    "public-helper": "nothing becomes a tool by accident",
    "mixed-async": "tools are all async or all plain",
    "extra-columns": "columns that reset does not want change nothing",
    "same-start": "the same row gives the same start on every instance",
    "tolerant-arguments": "missing, undeclared and null arguments are repaired or explained",
    "tool-raises": "no value makes a tool raise",
    "str-results": "results are exactly str",
    "control-tokens": "results hold no control tokens of chat templates",
    "reward-value": "get_reward returns a finite number or None, at any time",
    "reward-twice": "get_reward says the same when asked again",
    "after-end": "calls after the end change nothing and say so",
    "deterministic": "the same calls from the same row play the same",
    "clean-reset": "reset leaves nothing of an episode that was cut",
    "separate-instances": "instances do not share state",
    "picklable-factory": "the factory can be sent to another process",
    "other-process": "the same row gives the same start in another process",
    "dataset-rows": "rows survive datasets.Dataset",
    "threads": "instances can be used from several threads",
    "leaks": "files, threads, temporary files and processes do not add up over resets",
    "global-state": "working folder, variables, arguments, path, streams, signals and random state stay as they were",
}


def check_env(
    factory: Callable[[], Any], rows: Iterable[Mapping[str, Any]], *, policy: Policy | None = None
) -> list[Finding]:
    """Run the contract against an environment.

    Rules that rest on a broken one are not run, so one fault gives one finding and not ten. What cannot be checked for
    want of a library or of time is said in the log.

    Args:
        factory: What a trainer would get as `environment_factory`: a class, `MyEnv.configured(...)`, a partial.
        rows: Rows to reset with, as dicts or as a `datasets.Dataset`; a handful that differ is enough.
        policy: Plays the environment further than derived calls do: the observations of an episode so far -> the next
            call as `(tool, arguments)`, or None to stop. It must depend on nothing else.

    Returns:
        One finding for each fault; empty when the environment keeps the contract.

    Raises:
        ValueError: There are no rows, or the policy calls a tool that does not exist.
    """
    starts = [dict(row) for row in rows]
    if not starts:
        raise ValueError("got no rows; expected at least one dict that reset can start from")
    # Libraries are loaded before the surroundings are recorded: some change them on import.
    render = schema_renderer()
    try:
        stored = round_trip(starts)
    except ImportError:
        logger.warning("not checked: rows that went through datasets.Dataset; datasets is not installed")
        stored = None
    with only_new_garbage(), private_temp_folder() as temp_folder, Subject(factory, starts, policy) as subject:
        surroundings = Surroundings()
        environments_logger.disabled = True  # failures that the check provokes are findings, not news
        try:
            findings = list(_check(subject, render, stored, temp_folder))
            findings += surroundings.check()
        finally:
            environments_logger.disabled = False
            surroundings.restore()
    return findings


def _check(
    subject: Subject,
    render: Callable[[Any], Any] | None,
    stored: list[dict[str, Any]] | Exception | None,
    temp_folder: Path,
) -> Iterator[Finding]:
    try:
        env = subject.make()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever the constructor raises is the finding
        yield Finding(
            "factory",
            f"the factory raised {show(error)}; the trainer calls it without arguments. Give every constructor"
            " argument a default, or pass MyEnv.configured(...) or functools.partial.",
        )
        return
    of_class = list(check_tools(subject, env, render))
    yield from of_class
    if any(finding.rule == "reset" for finding in of_class):
        return
    of_starts = list(check_starts(subject))
    yield from of_starts
    if any(finding.rule == "reset" for finding in of_starts):
        return
    yield from check_results(subject, subject.rows[0])
    yield from check_rewards(subject, subject.rows[0])
    if not any(finding.rule == "same-start" for finding in of_starts):
        of_episodes = list(check_episodes(subject))
        yield from of_episodes
        if not any(finding.rule == "deterministic" for finding in of_episodes):
            of_factory = list(check_pickling(subject))
            yield from of_factory or check_other_process(subject)
            if not any(finding.rule == "separate-instances" for finding in of_episodes):
                yield from check_threads(subject)
        if stored is not None:
            yield from check_datasets(subject, stored)
    yield from check_leaks(subject, temp_folder)
