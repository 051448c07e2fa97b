"""Tokens before the first turn, and what they leave for the episode.

The prompt of a rollout is the row's messages, the first observation and the schemas of all tools; it must fit into the
model's length with room for the turns. `max_completion_length` is the budget of all turns together, results of tools
included.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .modelfiles import ModelFiles
from .playability import Playable

__all__ = ["Budget", "measure_budget"]


@dataclass(frozen=True)
class Budget:
    """All in tokens of the model's tokenizer.

    Attributes:
        prompt: The longest first prompt, tool schemas included.
        schemas: The share of the tool schemas in it.
        limit: Length of model or engine, whichever counts, or None when it is unknown.
        left: What is left for the episode.
        turn: The cheapest turn there is: a call without arguments and an empty result.
        max_turns: Turns an episode may take, or None when unlimited.
    """

    prompt: int
    schemas: int
    limit: int | None
    left: int
    turn: int
    max_turns: int | None

    def __str__(self) -> str:
        """One line for the user."""
        schemas = f" ({self.schemas} of them tool schemas)" if self.schemas else ""
        share = f", {self.left // self.max_turns} for each of {self.max_turns} turns" if self.max_turns else ""
        return (
            f"the longest first prompt takes {self.prompt} tokens{schemas}; {self.left} are left for an episode{share}"
        )


def measure_budget(values: Mapping[str, Any], model: ModelFiles, playable: Playable) -> tuple[Budget | None, list[str]]:
    """Count the tokens of the longest first prompt and see what is left.

    Args:
        values: Every field by name.
        model: Config and tokenizer.
        playable: The environment with its longest first prompt.

    Returns:
        The budget, None when the tools cannot be described, and a sentence for each thing that is wrong.
    """
    from transformers.utils.chat_template_utils import DocstringParsingException, TypeHintParsingException

    messages = playable.longest_prompt
    if not messages:
        return None, []
    template_options = values["chat_template_kwargs"]
    if isinstance(template_options, str):
        template_options = json.loads(template_options)

    def count(conversation: list[dict[str, Any]], tools: list[Any] | None) -> int:
        tokenizer = getattr(model.processing_class, "tokenizer", model.processing_class)
        ids = tokenizer.apply_chat_template(
            conversation,
            tools=tools,
            chat_template=model.processing_class.chat_template,
            add_generation_prompt=True,
            tokenize=True,
            return_dict=False,
            **(template_options or {}),
        )
        return len(ids)

    try:
        prompt = count(messages, playable.tools)
    except (DocstringParsingException, TypeHintParsingException) as error:
        return None, [
            f"the tools of {playable.name} cannot be described to the model: {error}; "
            f"run trl-agentenvs check {values['env']}"
        ]
    name = playable.tools[0].__name__ if playable.tools else "tool"
    call = {"type": "function", "function": {"name": name, "arguments": {}}}
    turn: list[dict[str, Any]] = [
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "name": name, "content": ""},
    ]
    limit = _limit(values, model)
    room = values["max_completion_length"] if limit is None else min(limit - prompt, values["max_completion_length"])
    budget = Budget(
        prompt=prompt,
        # A tiny model's tokenizer may have one token for prompt and schemas together.
        schemas=max(prompt - count(messages, None), 0),
        limit=limit,
        left=max(room, 0),
        turn=count([*messages, *turn], playable.tools) - prompt,
        max_turns=playable.max_turns,
    )
    return budget, _judge(values, budget)


def _limit(values: Mapping[str, Any], model: ModelFiles) -> int | None:
    """The length that TRL's tool loop compares with: the engine's in colocate mode, else the model's."""
    if values["use_vllm"] and values["vllm_mode"] == "colocate" and values["vllm_max_model_length"]:
        return int(values["vllm_max_model_length"])
    return model.max_positions


def _judge(values: Mapping[str, Any], budget: Budget) -> list[str]:
    lengths = "--max_completion_length" + (" and --vllm_max_model_length" if values["use_vllm"] else "")
    wanted = values["max_completion_length"]
    if budget.left < budget.turn:
        return [
            f"the longest first prompt takes {budget.prompt} tokens, {budget.schemas} of them tool schemas; a model "
            f"length of {budget.limit} and max_completion_length {wanted} leave {budget.left} for the episode, and "
            f"one turn takes {budget.turn} or more; raise {lengths}, or shorten the prompt"
        ]
    if budget.max_turns is not None and budget.left < budget.max_turns * budget.turn:
        return [
            f"an episode may take {budget.max_turns} turns, but its {budget.left} tokens are used up after "
            f"{budget.left // budget.turn} at most (the cheapest takes {budget.turn}); raise {lengths}, or lower the "
            "turn limit of the environment"
        ]
    if budget.left < wanted:
        return [
            f"got max_completion_length {wanted}, but behind a prompt of {budget.prompt} tokens a model length of "
            f"{budget.limit} leaves {budget.left}, and rollouts are cut there; lower it to {budget.left}, or raise the "
            "model length"
        ]
    return []
