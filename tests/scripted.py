"""A real GRPOTrainer whose model says what the test wrote: everything after generation is TRL's own.

No hub, no pretrained weights: the tokenizer is trained on the spot on a chat template that TRL ships (so that TRL
recognises it), the model is random and tiny. `play` runs an environment through scripted turns and returns the trainer.
"""

from __future__ import annotations

import copy
import functools
import json
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

import torch
import trl
from datasets import Dataset
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM
from trl import GRPOConfig, GRPOTrainer

__all__ = ["Rollout", "ScriptedGRPOTrainer", "build_model", "build_tokenizer", "call", "play", "raw", "say"]

EOS = "<|im_end|>"
# Single tokens, but not "special": decoding must keep them, or the parser never sees a call.
PLAIN_ADDED = ["<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"]
SPECIAL = ["<|endoftext|>", "<|im_start|>", EOS]
WORDS = Regex(r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+")
VOCAB_SIZE = 600
MAX_POSITIONS = 4096


def chat_template(name: str) -> str:
    """A chat template that TRL ships, byte by byte."""
    return (Path(trl.__file__).parent / "chat_templates" / f"{name}.jinja").read_text()


@functools.cache
def _trained_tokenizer(template: str) -> PreTrainedTokenizerFast:
    bpe = Tokenizer(models.BPE(unk_token=None))
    bpe.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(WORDS, "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    bpe.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE, initial_alphabet=alphabet, special_tokens=[], show_progress=False
    )
    bpe.train_from_iterator([chat_template(template)], trainer)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=bpe, clean_up_tokenization_spaces=False)
    tokenizer.add_special_tokens({"eos_token": EOS, "pad_token": "<|endoftext|>", "additional_special_tokens": SPECIAL})
    tokenizer.add_tokens(PLAIN_ADDED)
    tokenizer.chat_template = chat_template(template)
    tokenizer.padding_side = "left"
    return tokenizer


def build_tokenizer(template: str = "qwen3") -> PreTrainedTokenizerFast:
    """A fresh tokenizer with one of TRL's chat templates; trained once per process."""
    return copy.deepcopy(_trained_tokenizer(template))


def build_model(tokenizer: PreTrainedTokenizerFast, hidden: int = 32, layers: int = 1) -> Qwen3ForCausalLM:
    """A random Qwen3 of some 60,000 parameters."""
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=hidden,
        intermediate_size=2 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=hidden // 2,
        max_position_embeddings=MAX_POSITIONS,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
    )
    return Qwen3ForCausalLM(config)


def raw(template: str, text: str) -> str:
    """One turn of the model: `text` and the end of the turn; thinking, where the template opens it, is closed."""
    return f"</think>\n\n{text}{EOS}" if template == "qwen3_5_think" else f"{text}{EOS}"


def say(template: str, text: str = "Done.") -> str:
    """One turn without a tool call."""
    return raw(template, text)


def call(template: str, name: str, **arguments: Any) -> str:
    """One turn with a tool call, as the template's models write it."""
    return raw(template, call_text(template, name, **arguments))


def call_text(template: str, name: str, **arguments: Any) -> str:
    """A tool call without the end of the turn."""
    if template.startswith("qwen3_5"):
        values = {key: value if isinstance(value, str) else json.dumps(value) for key, value in arguments.items()}
        tags = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in values.items())
        return f"<tool_call>\n<function={name}>\n{tags}</function>\n</tool_call>"
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


@dataclass
class Rollout:
    """One rollout as TRL has it after the tool loop."""

    prompt_ids: list[int]
    ids: list[int]
    mask: list[int]
    messages: list[dict[str, Any]]
    logprobs: list[float] | None

    @property
    def roles(self) -> list[str]:
        return [message["role"] for message in self.messages]

    def texts(self, role: str) -> list[str]:
        return [message["content"] for message in self.messages if message["role"] == role]


class ScriptedGRPOTrainer(GRPOTrainer):
    """Says `scripts[i % len(scripts)]`, turn by turn, as rollout i of each batch; past its end, its last turn again.

    The tool loop passes only the rollouts that go on, so a row is found by the token ids it begins with.
    """

    scripts: Sequence[Sequence[str]] = ()
    with_logprobs = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.rollouts: list[Rollout] = []  # of the last batch
        self.rows_generated: list[int] = []  # rows in each generation of the last batch

    def _generate(self, prompts: Any, *args: Any, **kwargs: Any) -> Any:
        self._histories: list[tuple[int, int, list[int]]] | None = None  # rollout, turn, ids so far
        self.rows_generated = []
        result = super()._generate(prompts, *args, **kwargs)
        prompt_ids, completion_ids, mask, completions, logprobs = result[:5]
        rows = zip(prompt_ids, completion_ids, mask, completions, logprobs or [None] * len(mask), strict=True)
        self.rollouts = [Rollout(*copy.deepcopy(row)) for row in rows]
        return result

    def _generate_single_turn(self, prompt_ids: list[list[int]], *args: Any, **kwargs: Any) -> Any:
        self.rows_generated.append(len(prompt_ids))
        if self._histories is None:
            rows = [(rollout, 0, list(ids)) for rollout, ids in enumerate(prompt_ids)]
            waiting = []
        else:
            waiting, rows = list(self._histories), []
            for ids in prompt_ids:
                row = next(row for row in waiting if ids[: len(row[2])] == row[2])
                waiting.remove(row)
                rows.append(row)
        new_ids = []
        self._histories = waiting
        for (rollout, turn, _), ids in zip(rows, prompt_ids, strict=True):
            script = self.scripts[rollout % len(self.scripts)]
            text = script[min(turn, len(script) - 1)]
            said = self._tokenizer(text, add_special_tokens=False)["input_ids"][: self.max_completion_length]
            new_ids.append(said)
            self._histories.append((rollout, turn + 1, [*ids, *said]))
        return new_ids, [[-1.0] * len(ids) for ids in new_ids] if self.with_logprobs else None


def play(
    environment_factory: Callable[[], Any],
    scripts: Sequence[Sequence[str]],
    *,
    template: str = "qwen3",
    rows: Sequence[dict[str, Any]] | None = ({},),
    trainer_class: type[ScriptedGRPOTrainer] = ScriptedGRPOTrainer,
    max_completion_length: int = 500,
    steps: int = 1,
    reward_funcs: Sequence[Callable[..., Any]] | None = None,
    **config: Any,
) -> ScriptedGRPOTrainer:
    """Train for `steps` on scripted rollouts and return the trainer.

    Args:
        environment_factory: What makes environments.
        scripts: The turns of each rollout of a batch; one batch is one group of this many rollouts, at least 2.
        template: Name of TRL's chat template.
        rows: Dataset rows; `prompt` is added where a row has none. None: no dataset.
        trainer_class: A subclass of the scripted trainer.
        max_completion_length: Token budget behind the prompt.
        steps: Optimiser steps.
        reward_funcs: Reward functions beside the environment's own reward.
        **config: More of GRPOConfig.
    """
    tokenizer = build_tokenizer(template)
    prompt = [{"role": "user", "content": "Go."}]
    dataset = None if rows is None else Dataset.from_list([{"prompt": prompt, **row} for row in rows] * steps)
    with tempfile.TemporaryDirectory() as folder:
        args = GRPOConfig(
            output_dir=folder,
            per_device_train_batch_size=len(scripts),
            num_generations=len(scripts),
            max_completion_length=max_completion_length,
            max_steps=steps,
            **{
                "logging_steps": 1,
                "save_strategy": "no",
                "report_to": "none",
                "use_cpu": True,
                "bf16": False,
                "gradient_checkpointing": False,
                "disable_tqdm": True,
                "shuffle_dataset": False,
                "learning_rate": 1e-3,
                **config,
            },
        )
        trainer = trainer_class(
            model=build_model(tokenizer),
            args=args,
            train_dataset=dataset,
            processing_class=tokenizer,
            environment_factory=environment_factory,
            reward_funcs=list(reward_funcs) if reward_funcs else None,
        )
        trainer.scripts = scripts
        trainer.train()
    return trainer
