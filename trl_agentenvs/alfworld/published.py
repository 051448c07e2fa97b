"""The setting of published step-wise RL on ALFWorld (verl-agent and the methods built on it, such as GiGPO).

There each step is a prompt of its own: the task, how many steps were taken, the last observations and actions, the
present observation and the list of admissible actions, of which the answer names one between <action> tags after
thinking between <think> tags. `StepwiseEpisode` writes these prompts and reads these answers; `PUBLISHED_OPTIONS` puts
`ALFWorldEnv`, where the model calls a tool in one conversation, under the same limits and rewards.

What is covered: which facts a prompt holds and how they are written (history entries, list of actions without `help`,
the observation with its banner), how an answer is read, 50 steps, a win worth 10. Formats and numbers are those of
https://github.com/langfengQ/verl-agent (agent_system/environments: env_manager.py, prompts/alfworld.py,
env_package/alfworld, and agent_system/memory). The sentences of the default templates are our own: for an exact
comparison pass the publication's templates, which have the same placeholders. Published results are for the official
games: `data.game_ids("valid_seen", source="official")` (140) and "valid_unseen" (134).
What is not covered: training on such prompts, and the 0.1 that verl-agent's scripts take off for each answer that is
not `valid`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trl_agentenvs.alfworld.data import load
from trl_agentenvs.alfworld.engine import Engine

__all__ = [
    "MAX_STEPS",
    "PUBLISHED_OPTIONS",
    "TEMPLATE",
    "TEMPLATE_NO_HISTORY",
    "Answer",
    "StepwiseEpisode",
    "read_answer",
]

MAX_STEPS = 50
"""Steps after which an episode ends (env.max_steps of verl-agent's scripts for ALFWorld)."""

PUBLISHED_OPTIONS: Mapping[str, Any] = {
    "show_admissible": True,
    "max_steps": MAX_STEPS,
    "win_reward": 10.0,
    "step_cost": 0.0,
}
"""For `ALFWorldEnv.configured(**PUBLISHED_OPTIONS)`. The reward is 10 for a win and nothing else, as compute_reward of
verl-agent's env_package/alfworld/envs.py has it."""

_ANSWER_FORM = (
    "Choose one of these actions. First think about the situation between <think> and </think>. "
    "Then write the action that you choose, exactly as it stands in the list, between <action> and </action>."
)

TEMPLATE_NO_HISTORY = f"""\
You act in a household that is described to you in text.
What you observe: {{current_observation}}
Actions that are possible now: [{{admissible_actions}}]

{_ANSWER_FORM}"""
"""What the prompt is without a history: at the first step, and at all steps if `history_length` is 0."""

TEMPLATE = f"""\
You act in a household that is described to you in text. Your task: {{task_description}}
Steps taken so far: {{step_count}}. The last {{history_length}} of them, each with what you observed before it:
{{action_history}}
This is step {{current_step}}. What you observe: {{current_observation}}
Actions that are possible now: [{{admissible_actions}}]

{_ANSWER_FORM}"""
"""What the prompt is at later steps."""

_PLACEHOLDERS: Mapping[str, str | int] = {
    "task_description": "",
    "step_count": 0,
    "history_length": 0,
    "action_history": "",
    "current_step": 1,
    "current_observation": "",
    "admissible_actions": "",
}
"""What a template can show, each with a value of its type."""

_HISTORY_LENGTH = 2  # env.history_length of verl-agent's configuration
_ASKED = "Your task is to: "
_ACTION_START, _ACTION_END = "<action>", "</action>"
_THOUGHT_TAGS = ("<think>", "</think>")
_UNREADABLE_CHARS = 30  # of an answer without action tags, so many at its end are the command
_CHINESE = re.compile("[\u4e00-\u9fff]")


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a model's answer.

    Attributes:
        command: The command that was carried out.
        valid: Whether the answer had the asked form. Whether the command was possible is another question: one that was
            not is observed as "Nothing happens."
        observation: What the game said.
        done: Whether the episode is over.
        won: Whether the task is done.
    """

    command: str
    valid: bool
    observation: str
    done: bool
    won: bool


class StepwiseEpisode:
    """One episode in which each step is a prompt of its own.

    Args:
        game: Path of a `game.tw-pddl` file, or `generated:TYPE:SEED`.
        template: Prompt of all steps but the first, with the placeholders of `TEMPLATE`.
        template_no_history: Prompt of the first step.
        history_length: How many past steps a prompt shows at most.

    Attributes:
        done: Whether the episode is over: won, or `MAX_STEPS` taken.
        won: Whether the task is done.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: The game or a template cannot be used, or the history length is negative.
    """

    def __init__(
        self,
        game: str | os.PathLike[str],
        *,
        template: str = TEMPLATE,
        template_no_history: str = TEMPLATE_NO_HISTORY,
        history_length: int = _HISTORY_LENGTH,
    ) -> None:
        if history_length < 0:
            raise ValueError(f"got history_length={history_length}; expected 0 or more")
        _check_template(template)
        _check_template(template_no_history)
        self._template = template
        self._template_no_history = template_no_history
        self._history_length = history_length
        self._engine = Engine(load(game))
        self._observation = self._engine.reset()
        self._task = self._observation.partition(_ASKED)[2].strip()
        self._history: list[tuple[str, str]] = []
        self.done = False
        self.won = False

    @property
    def steps(self) -> int:
        """Steps taken."""
        return len(self._history)

    def prompt(self) -> str:
        """The prompt of the present step: the content of a single user message."""
        shown = self._history[-self._history_length :] if self._history_length else []
        first = self.steps - len(shown) + 1
        template = self._template if shown else self._template_no_history
        return template.format(
            task_description=self._task,
            step_count=self.steps,
            history_length=len(shown),
            action_history="\n".join(
                f"[Observation {step}: '{observation}', Action {step}: '{command}']"
                for step, (observation, command) in enumerate(shown, first)
            ),
            current_step=self.steps + 1,
            current_observation=self._observation,
            admissible_actions="\n ".join(f"'{command}'" for command in self._engine.admissible() if command != "help"),
        )

    def answer(self, model_text: str) -> Answer:
        """Carry out what the model answered to the present prompt.

        Args:
            model_text: All that the model wrote, the <think> tags included. Where the chat template opens them, put the
                opening tag back.

        Raises:
            RuntimeError: The episode is over.
        """
        if self.done:
            raise RuntimeError(f"the episode is over after {self.steps} steps; make another StepwiseEpisode")
        command, valid = read_answer(model_text)
        self._history.append((self._observation, command))
        self._observation = self._engine.step(command)
        self.won = self._engine.won
        self.done = self.won or self.steps == MAX_STEPS
        return Answer(command, valid, self._observation, self.done, self.won)


def read_answer(model_text: str) -> tuple[str, bool]:
    """The command in a model's answer, and whether the answer has the asked form, as verl-agent reads it.

    The command is what stands between the first <action> and the first </action>, in lower case; without them, it is
    the end of the text. The form is right if the action tags and, in lower case, the <think> tags are there, and no
    Chinese character is.
    """
    text = model_text.lower()
    start, end = text.find(_ACTION_START), text.find(_ACTION_END)
    if start < 0 or end < 0:
        return text[-_UNREADABLE_CHARS:], False
    valid = all(tag in model_text for tag in _THOUGHT_TAGS) and _CHINESE.search(model_text) is None
    return text[start + len(_ACTION_START) : end].strip(), valid


def _check_template(template: str) -> None:
    try:
        template.format(**_PLACEHOLDERS)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise ValueError(
            f"got a template that cannot be filled in ({type(error).__name__}: {error}); expected no placeholders but "
            f"{', '.join(_PLACEHOLDERS)}; write braces that stay as {{{{ and }}}}"
        ) from None
