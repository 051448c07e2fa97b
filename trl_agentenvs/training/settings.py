"""Settings that contradict each other, that the machine cannot serve, or that are known to spoil training.

Looked at from the values alone: no model, no environment. What TRL would refuse is refused earlier and with the fix.
"""

from __future__ import annotations

import importlib.util
import math
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trl_agentenvs.patches import PROFILES

from .modelfiles import model_init_kwargs

__all__ = ["Obstacle", "check_machine", "check_settings", "has_accelerator", "is_latest"]

# The first TRL whose importance ratios account for a cut distribution.
UNBIASED_CUT_SAMPLING_TRL = "1.17"
ALLOCATOR_VARIABLES = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF")


@dataclass(frozen=True)
class Obstacle:
    """One thing that is wrong.

    Attributes:
        text: A sentence: what was found, what was expected, what to do.
        stops: Whether the run cannot or must not start; otherwise it is a warning.
    """

    text: str
    stops: bool = True


def check_settings(values: Mapping[str, Any]) -> Iterator[Obstacle]:
    """Look at the settings among themselves.

    Args:
        values: Every field by name.
    """
    colocated = values["use_vllm"] and values["vllm_mode"] == "colocate"
    yield from _check_dtype(values, colocated)
    yield from _check_sampling(values)
    yield from _check_batches(values)
    yield from _check_lora(values)
    if colocated and values["vllm_enable_sleep_mode"]:
        yield from _check_allocator()
    yield from _check_resume(values)
    if values["patches"] != "none" and values["patches"] not in PROFILES:
        yield Obstacle(f"got the patch profile {values['patches']!r}; expected one of {', '.join(PROFILES)}, or none")


def _check_dtype(values: Mapping[str, Any], colocated: bool) -> Iterator[Obstacle]:
    try:
        dtype = model_init_kwargs(values).get("dtype")
    except ValueError as error:
        yield Obstacle(str(error))
        return
    if colocated and dtype in (None, "float32"):
        yield Obstacle(
            f"got dtype {dtype} beside a colocated vLLM; expected bfloat16, since the trainer's weights take twice the "
            "memory otherwise; use --dtype bfloat16",
            stops=bool(values["use_peft"]),
        )


def _check_sampling(values: Mapping[str, Any]) -> Iterator[Obstacle]:
    import trl
    from packaging.version import Version

    cuts = {
        "top_p": values["top_p"] is not None and values["top_p"] < 1,
        "top_k": values["top_k"] is not None and values["top_k"] > 0,
        "min_p": values["min_p"] is not None and values["min_p"] > 0,
    }
    cut = ", ".join(f"{name} {values[name]}" for name, is_cut in cuts.items() if is_cut)
    corrected = values["use_vllm"] and values["vllm_importance_sampling_correction"]
    if cut and corrected and Version(trl.__version__) < Version(UNBIASED_CUT_SAMPLING_TRL):
        yield Obstacle(
            f"got {cut} with importance sampling correction; TRL {trl.__version__}, as every one before "
            f"{UNBIASED_CUT_SAMPLING_TRL}, then biases each ratio towards 0 and the loss with it; use --top_p 1 "
            "--top_k 0 and no min_p, or a newer TRL"
        )


def _check_batches(values: Mapping[str, Any]) -> Iterator[Obstacle]:
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    group, device_batch = values["num_generations"], values["per_device_train_batch_size"]
    if group < 2:
        yield Obstacle(f"got num_generations {group}; expected 2 or more, since rollouts are compared within a group")
        return
    steps = values["steps_per_generation"] or values["gradient_accumulation_steps"]
    batch = values["generation_batch_size"] or device_batch * processes * steps
    if batch % group:
        unit = group // math.gcd(device_batch * processes, group)
        fits = math.ceil(steps / unit) * unit
        yield Obstacle(
            f"a batch holds {batch} rollouts ({device_batch} a device x {processes} processes x {steps} steps), no "
            f"multiple of num_generations {group}; use --gradient_accumulation_steps {fits}"
        )
    eval_group = values["num_generations_eval"] or group
    eval_batch = values["per_device_eval_batch_size"] * processes
    if (values["eval_split"] or "none").lower() != "none" and eval_batch % eval_group:
        yield Obstacle(
            f"an evaluation batch holds {eval_batch} rollouts, no multiple of num_generations_eval {eval_group}; use "
            "--num_generations_eval 1"
        )


def _check_lora(values: Mapping[str, Any]) -> Iterator[Obstacle]:
    targets = values["lora_target_modules"]
    if not values["use_peft"] or targets is None:
        return
    names = [targets] if isinstance(targets, str) else list(targets)
    try:
        # peft takes a single name for a regular expression of the whole module name.
        hit = any(name.endswith("lm_head") for name in names) or (len(names) == 1 and re.fullmatch(names[0], "lm_head"))
    except re.error as error:
        yield Obstacle(f"got lora_target_modules {names[0]!r}, which is no regular expression: {error}")
        return
    if hit:
        yield Obstacle(
            f"lora_target_modules {', '.join(names)} reaches lm_head, whose adapter TRL would never train; leave it "
            "out, or use --lora_target_modules all-linear"
        )


def _check_allocator() -> Iterator[Obstacle]:
    for variable in ALLOCATOR_VARIABLES:
        if re.search(r"expandable_segments\s*:\s*true", os.environ.get(variable, ""), re.IGNORECASE):
            yield Obstacle(
                f"{variable} sets expandable_segments:True, which vLLM's sleep mode cannot work with; unset it, or use "
                "--vllm_enable_sleep_mode False"
            )


def _check_resume(values: Mapping[str, Any]) -> Iterator[Obstacle]:
    wanted, output = values["resume_from_checkpoint"], values["output_dir"]
    if not wanted:
        return
    if is_latest(wanted):
        if not any(Path(output).glob("checkpoint-*")):
            yield Obstacle(f"got --resume_from_checkpoint {wanted}; {output} holds no checkpoint-* folder")
    elif not Path(wanted).is_dir():
        yield Obstacle(f"got --resume_from_checkpoint {wanted}; there is no such folder; give one, or 'latest'")


def is_latest(checkpoint: str) -> bool:
    """Whether `--resume_from_checkpoint` asks for the last checkpoint of the output folder."""
    return checkpoint.lower() in ("latest", "true")


def check_machine(values: Mapping[str, Any]) -> Iterator[Obstacle]:
    """Look at what the machine and its libraries have; nothing is asked of a run without vLLM.

    Args:
        values: Every field by name.
    """
    if not values["use_vllm"]:
        return
    if not has_accelerator():
        yield Obstacle(
            "no GPU is visible, which vLLM needs; use --preset cpu-demo for a run without one, or --use_vllm False"
        )
    if importlib.util.find_spec("vllm") is None:
        yield Obstacle('vLLM is not installed; run pip install "trl_agentenvs[vllm]", or use --use_vllm False (slow)')
    import trl
    from trl.trainer import utils

    if not hasattr(utils, "add_fused_lm_head"):
        yield Obstacle(
            f"TRL {trl.__version__} has no fused LM head (1.15 brought it), so the logits of a whole episode are kept "
            "in memory: with 24 GiB and 4 B parameters training ends at about 3800 tokens; run pip install -U trl",
            stops=False,
        )


def has_accelerator() -> bool:
    """Whether PyTorch sees a GPU or the like."""
    import torch

    return bool(torch.accelerator.is_available())
