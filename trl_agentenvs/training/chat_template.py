"""Chat templates that give a policy in play the very tokens it was trained on.

TRL's `SFTTrainer` tokenises an episode once, as a whole; a policy plays it turn by turn, each time from a prompt that
ends where its next turn begins. Many chat templates write an earlier turn otherwise than the last one (Qwen3 and
Qwen3.5 strip the `<think></think>` block from it), so that the prompts are not what was trained on, token by token.
`check_template` renders every prompt of an episode and names the first token that differs;
`use_training_template` sets a template that keeps the block on every turn, for training, rollouts and serving alike.

What is covered: text conversations, and tokenizers whose template TRL ships or that bring `{% generation %}` markers.
What is not covered: processors of multimodal models, the loss without `assistant_only_loss` (there TRL renders with
the tokenizer's own template), and an environment whose tools are not those of the rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from jinja2 import TemplateError
from transformers import PreTrainedTokenizerBase
from trl.chat_template_utils import (
    add_response_schema,
    get_training_chat_template,
    has_generation_markers,
)

from .conversations import conversation_fault

__all__ = ["add_parser", "check_template", "sft_template", "training_sequence", "use_training_template"]

_PARSERS = ("response_template", "response_schema")
_FAULTS_SHOWN = 3
_CONTEXT_TOKENS = 8
_ADVICE = (
    "call use_training_template(tokenizer) before training and save the tokenizer with the model, for episodes without "
    "reasoning with enable_thinking=False; chat_template_kwargs of prompts must be a column of the rows, too"
)


def use_training_template(tokenizer: PreTrainedTokenizerBase, *, enable_thinking: bool | None = None) -> None:
    """Give a tokenizer TRL's training template, which renders an earlier turn as it does the last one.

    Set before SFT and saved with the model, it is what `SFTTrainer` and `GRPOTrainer` render with, and whoever loads
    the model to serve or to evaluate it. TRL would no longer recognise the template, so the parser of tool calls that
    belongs to the original one is set, too. A tokenizer that is fit already keeps its template.

    Args:
        tokenizer: It is changed in place.
        enable_thinking: Whether a turn opens with thinking where a caller does not say so; None: what the template
            does. False for demonstrations without reasoning and a template that thinks (Qwen3.5 from 4B on).

    Raises:
        ValueError: TRL has no training template for this one, or no parser.
    """
    add_parser(tokenizer)
    template = get_training_chat_template(tokenizer) or tokenizer.chat_template
    if enable_thinking is not None:
        template = _thinking_default(enable_thinking) + template
    tokenizer.chat_template = template


def add_parser(tokenizer: PreTrainedTokenizerBase) -> None:
    """Give a tokenizer the parser of turns that TRL has for its template, unless it brings one, as `GRPOTrainer` does.

    Raises:
        ValueError: TRL does not know the template.
    """
    if not any(getattr(tokenizer, kind, None) for kind in _PARSERS):
        add_response_schema(tokenizer)


def _thinking_default(enable_thinking: bool) -> str:
    """A beginning of a template that sets the variable which decides over thinking, unless the caller sets it."""
    value = str(enable_thinking).lower()
    return f"{{%- if enable_thinking is not defined %}}{{%- set enable_thinking = {value} %}}{{%- endif -%}}\n"


def sft_template(tokenizer: PreTrainedTokenizerBase) -> str | None:
    """Return the template that `SFTTrainer` renders with for `assistant_only_loss`; None: the tokenizer's own.

    Raises:
        ValueError: The tokenizer has no template, or one without markers for which TRL has no substitute.
    """
    if tokenizer.chat_template is None:
        raise ValueError("got a tokenizer without chat template; expected one of an instruction-tuned model")
    return None if has_generation_markers(tokenizer.chat_template) else get_training_chat_template(tokenizer)


def training_sequence(
    tokenizer: PreTrainedTokenizerBase, row: Mapping[str, Any], template: str | None
) -> tuple[list[int], list[int]]:
    """Tokenise a row as `SFTTrainer` does for `assistant_only_loss`.

    Args:
        tokenizer: The tokenizer.
        row: `messages`, and `tools` and `chat_template_kwargs` if it has them.
        template: What `sft_template` returned.

    Returns:
        Token ids, and a mask that is 1 where the loss is taken.

    Raises:
        ValueError: The template refuses the row.
    """
    options = {"tools": row.get("tools"), "chat_template": template, **row.get("chat_template_kwargs", {})}
    try:
        encoded: Any = tokenizer.apply_chat_template(
            list(row["messages"]), return_dict=True, return_assistant_tokens_mask=True, **options
        )
        return list(encoded["input_ids"]), list(encoded["assistant_masks"])
    except (TemplateError, TypeError) as error:
        raise ValueError(f"the chat template refuses the row: {error}") from error


def check_template(
    tokenizer: PreTrainedTokenizerBase, rows: Iterable[Mapping[str, Any]], **chat_template_kwargs: Any
) -> None:
    """Check that every prompt of an episode is the beginning of what was trained on, token by token.

    What was trained on is the sequence that `SFTTrainer` makes of the whole row for `assistant_only_loss`; the prompts
    are what the tokenizer's own template makes of the messages before each assistant turn. Each turn is rendered anew,
    which takes some 50 ms for an episode of ALFWorld.

    Args:
        tokenizer: The tokenizer, with the template that will be played with.
        rows: Episodes: rows of `sft_dataset`, or a dataset of such.
        **chat_template_kwargs: What is given to the template in play, as in `GRPOConfig.chat_template_kwargs`.

    Raises:
        ValueError: A prompt differs: names the episode, the turn, and the first token that differs.
    """
    template = sft_template(tokenizer)
    faults, episodes = [], 0
    for index, row in enumerate(rows):
        episodes += 1
        fault = _episode_fault(tokenizer, row, template, chat_template_kwargs)
        if fault:
            faults.append(f"episode {index}: {fault}")
    if not episodes:
        raise ValueError("got no episodes; expected at least one row with messages")
    if faults:
        shown = "\n".join(faults[:_FAULTS_SHOWN])
        raise ValueError(
            f"prompts of {len(faults)} of {episodes} episodes are not what is trained on:\n{shown}\n{_ADVICE}"
        )


def _episode_fault(
    tokenizer: PreTrainedTokenizerBase, row: Mapping[str, Any], template: str | None, options: Mapping[str, Any]
) -> str | None:
    """The first turn of an episode whose prompt differs from the training sequence; None if there is none."""
    unfit = conversation_fault(row)
    if unfit:
        return unfit
    messages = list(row["messages"])
    try:
        trained, _ = training_sequence(tokenizer, row, template)
    except ValueError as error:
        return str(error)
    turns = [index for index, message in enumerate(messages) if message["role"] == "assistant"]
    for turn, index in enumerate(turns):
        if index == 0:
            continue  # nothing before it that could be a prompt
        try:
            prompt: Any = tokenizer.apply_chat_template(
                messages[:index], tools=row.get("tools"), add_generation_prompt=True, return_dict=False, **options
            )
        except (TemplateError, TypeError) as error:
            return f"turn {turn}: the chat template refuses its prompt: {error}"
        if trained[: len(prompt)] != prompt:
            return f"turn {turn} (messages[{index}]): {_first_difference(tokenizer, prompt, trained)}"
    return None


def _first_difference(tokenizer: PreTrainedTokenizerBase, prompt: list[int], trained: list[int]) -> str:
    """Where two sequences of tokens part, in words."""
    same = (index for index, pair in enumerate(zip(prompt, trained, strict=False)) if pair[0] != pair[1])
    at = next(same, min(len(prompt), len(trained)))
    in_prompt, in_training = (
        repr(tokenizer.decode(ids[at : at + 1])) if at < len(ids) else "the end" for ids in (prompt, trained)
    )
    before = tokenizer.decode(prompt[max(0, at - _CONTEXT_TOKENS) : at])
    return f"token {at} is {in_prompt} in the prompt and {in_training} in training, after {before!r}"
