"""Presets: the settings that are known to be right for a situation, each with its reason.

A preset is a set of defaults for the command line: what a YAML file or the command line says wins. Names are those of
TRL's `GRPOConfig` and `ModelConfig`, and of our `RunArguments`. Only fields that the installed TRL has are set.

What is not covered: whether a model fits. The figures of `24gb` were computed for models of the size of Qwen3.5-4B in
bf16; a larger one needs other settings, or a larger card.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from .demos import DATA_OPTIONS, ENV_OPTIONS

__all__ = ["PRESETS", "PresetValues", "preset_values"]

ONE_GPU_24GB: dict[str, Any] = {
    # What to play
    "env": "alfworld",
    "split": "train",
    "eval_split": "valid_unseen",  # the result is told on rooms that no training game uses
    "n_eval": 60,
    "patches": "24gb",
    # Loading. TRL loads float32 by default: 16.9 GiB for 4 B parameters, which leaves no room for an engine.
    "dtype": "bfloat16",
    # LoRA: gradients and Adam moments of the adapters alone fit beside two copies of the weights, and the adapter
    # switched off is the reference model of the KL term for free.
    "use_peft": True,
    "lora_r": 32,
    "lora_alpha": 64,  # alpha / r = 2, as TRL's own default has it (32 / 16)
    "lora_dropout": 0.0,  # TRL: 0.05; dropout would make the trainer's log-probs differ from the engine's
    # All linear layers of the language model: peft leaves out the output embedding (TRL refuses adapters there), and
    # `launch.lora_config` the vision tower of a multimodal model.
    "lora_target_modules": ["all-linear"],
    # Generation by vLLM in the same process, which gives its memory back while the trainer works.
    "use_vllm": True,
    "vllm_mode": "colocate",
    "vllm_enable_sleep_mode": True,  # TRL: off; frees about 12 GiB for the backward pass
    # TRL: 0.3, which leaves no key-value cache beside 8.5 GiB of weights. At a 4 B model and 8192 tokens the window on
    # 24 GiB is 0.53 to 0.61: below, the cache does not hold a sequence; above, it collides with the trainer's weights.
    "vllm_gpu_memory_utilization": 0.55,
    "vllm_max_model_length": 8192,  # TRL: what the model allows, often 262144, for which no cache is large enough
    # TRL: 512. It is the budget of a whole episode, results of tools included, and not of one turn.
    "max_completion_length": 6144,
    # Sampling from the whole distribution: TRL before 1.17 computes importance ratios against the full softmax, while
    # the engine's log-probs are those of the cut one, so that top_p, top_k or min_p bias each ratio towards 0.
    "temperature": 1.0,
    "top_p": 1.0,
    "top_k": 0,
    # TRL: sequence_mask with 3.0, the product of the ratios of all tokens: at thousands of tokens an episode it masks
    # or shrinks most episodes. Per token, it corrects what it should.
    "vllm_importance_sampling_mode": "token_truncate",
    "vllm_importance_sampling_clip_max": 2.0,
    # The update
    "num_generations": 8,
    "per_device_train_batch_size": 1,  # TRL: 8; activations of one episode at a time make the group size free
    "gradient_accumulation_steps": 32,  # 4 tasks x 8 rollouts a step; one update for each batch keeps it on-policy
    "gradient_checkpointing": True,
    "scale_rewards": "none",  # TRL: group; dividing by the group's std blows tiny step costs up to whole advantages
    "beta": 0.01,  # TRL: 0; keeps the policy near the start, and costs no memory with LoRA
    # TRL: 1e-6, a value for full fine-tuning. LoRA wants 1e-5 to 5e-5 (1e-4 with small batches is known to collapse
    # within steps), and without the division by the std advantages are 2 to 4 times smaller, so: 3 x 1e-5.
    "learning_rate": 3.0e-5,
    "lr_scheduler_type": "constant_with_warmup",  # TRL: linear decay; a longer run then equals a resumed one
    "warmup_steps": 5,
    "max_steps": 200,
    # Evaluation: one sampled rollout a game; TRL's batch of 8 full-length episodes is the largest forward pass of all.
    "num_generations_eval": 1,
    "per_device_eval_batch_size": 4,
    # Records
    "logging_steps": 1,  # TRL: 10; a step takes minutes
    "log_completions": True,  # what the model wrote, as parquet files in OUTPUT_DIR/completions
    "num_completions_to_print": 0,  # ... and not on the terminal
    "save_steps": 25,  # TRL: 500
    "save_total_limit": 3,
    "report_to": "none",
}

CPU_DEMO: dict[str, Any] = {
    # What to play: what the warm start has learnt to play (`demos`), each game in a room of its own; evaluation is in
    # rooms that no training game uses.
    "env": "alfworld",
    "split": "train",
    "n_train": 400,
    "eval_split": "valid_unseen",
    "n_eval": 128,
    "env_options": dict(ENV_OPTIONS),
    "data_options": dict(DATA_OPTIONS),
    "patches": "24gb",
    "demo_model": True,  # without --model: built on the spot and warmed up on expert games
    "use_cpu": True,
    "dtype": "float32",
    "bf16": False,  # TRL: on
    "max_completion_length": 512,
    "generation_kwargs": {"max_new_tokens": 16},  # a turn that does not end by itself must not hold up the batch
    "num_generations": 8,
    "per_device_train_batch_size": 64,  # 8 games x 8 rollouts; at this size more rollouts are almost free
    "gradient_checkpointing": False,  # TRL: on; memory is no concern, time is
    "scale_rewards": "none",
    "learning_rate": 5.0e-4,  # all weights of a tiny model: from 1e-3 on they are destroyed
    "beta": 0.02,  # TRL: 0; without it more and more turns never end
    "lr_scheduler_type": "constant",
    "adam_beta2": 0.98,
    "max_steps": 40,
    "num_generations_eval": 1,
    "per_device_eval_batch_size": 128,
    "logging_steps": 1,
    "save_strategy": "no",
    "report_to": "none",
}

PRESETS: dict[str, dict[str, Any]] = {"24gb": ONE_GPU_24GB, "cpu-demo": CPU_DEMO, "none": {}}
"""Preset name -> field -> value. `none` leaves everything at TRL's defaults."""


@dataclass(frozen=True)
class PresetValues:
    """A preset as the installed TRL can take it.

    Attributes:
        values: Field -> value.
        missing: Fields of the preset that the installed TRL does not have, so they are not set.
    """

    values: dict[str, Any]
    missing: tuple[str, ...]


def preset_values(name: str, known: Collection[str]) -> PresetValues:
    """Return the values of a preset.

    Args:
        name: One of `PRESETS`.
        known: The fields that there are.

    Raises:
        ValueError: There is no such preset.
    """
    if name not in PRESETS:
        near = difflib.get_close_matches(name, PRESETS, n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        raise ValueError(f"got the preset {name!r}{hint}; expected one of {', '.join(PRESETS)}")
    preset = PRESETS[name]
    return PresetValues(
        {field: value for field, value in preset.items() if field in known},
        tuple(field for field in preset if field not in known),
    )
