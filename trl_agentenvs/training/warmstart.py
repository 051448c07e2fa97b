"""A warm start: a tiny model that has learnt from expert games just enough for GRPO to have something to improve.

`warm_model` records demonstrations, builds tokenizer and model from them, trains with TRL's `SFTTrainer` on the
assistant's tokens alone, and keeps the result in a cache folder whose name is a hash of everything that makes it:
settings, seed, our source files of games and warm start, and the versions of the libraries. A folder appears in the
cache only when it is complete, so an interrupted run leaves nothing that a later one could take for a model.

Each prompt that TRL's tool loop builds while such an episode is played is, token by token, the beginning of the
sequence that was trained on. What is not covered: removing old folders from the cache.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import datasets
from transformers import PreTrainedTokenizerFast, PrinterCallback, Qwen3ForCausalLM
from transformers.trainer_callback import ProgressCallback
from transformers.utils import get_json_schema
from trl import SFTConfig, SFTTrainer

from trl_agentenvs.alfworld.env import ALFWorldEnv

from .demos import DATA_OPTIONS, ENV_OPTIONS, SLIP_RATE, expert_demos
from .progress import ShortBar
from .sft_rows import sft_dataset
from .tiny_model import build_model, build_tokenizer

__all__ = [
    "DEFAULT",
    "WarmStart",
    "cache_key",
    "default_cache_dir",
    "train_on_demos",
    "warm_model",
    "warm_model_dir",
]

_LIBRARIES = ("torch", "transformers", "tokenizers", "trl", "datasets")
_SOURCES = (
    "alfworld/*.py",
    "alfworld/*.json",
    "training/demos.py",
    "training/sft_rows.py",
    "training/tiny_model.py",
    "training/warmstart.py",
)
_PACKAGE = Path(__file__).resolve().parent.parent
_KEY_CHARS = 16
_MAX_TOKENS = 512  # the longest demonstration takes about 300
_DEMO_MAX_STEPS = 16  # more than a policy gets, so that the expert still wins after some slips
_ADAM_BETA2 = 0.98  # a memory of 50 steps: at 0.999 the second moment would still be that of the first steps


@dataclass(frozen=True)
class WarmStart:
    """What a warm start is made with.

    Attributes:
        demos: Won expert episodes; the defaults see each less than twice.
        slip_rate: How likely the expert slips before each command.
        steps: Optimiser steps.
        batch_size: Episodes a step.
        learning_rate: Its highest value, after the warm-up; it decays to 0 along a cosine.
        warmup_steps: Steps in which the learning rate rises.
        template: TRL's chat template.
        env_options: Constructor options of `ALFWorldEnv`.
        data_options: Which games; see `demos.expert_demos`.
    """

    demos: int = 4000
    slip_rate: float = SLIP_RATE
    steps: int = 800
    batch_size: int = 8
    learning_rate: float = 4e-3
    warmup_steps: int = 20
    template: str = "qwen3"
    env_options: Mapping[str, Any] = field(default_factory=lambda: {**ENV_OPTIONS, "max_steps": _DEMO_MAX_STEPS})
    data_options: Mapping[str, Any] = field(default_factory=lambda: dict(DATA_OPTIONS))


DEFAULT = WarmStart()
"""The warm start of the CPU demo."""


def default_cache_dir() -> Path:
    """Return the folder for warm models: `trl_agentenvs/warm_models` in the user's cache folder."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "trl_agentenvs" / "warm_models"


def cache_key(seed: int, recipe: WarmStart = DEFAULT) -> str:
    """Return a name that changes whenever something does that the warm model is made from."""
    digest = hashlib.sha256(json.dumps([seed, dataclasses.asdict(recipe)], sort_keys=True).encode())
    for path in _source_files():
        digest.update(path.relative_to(_PACKAGE).as_posix().encode() + path.read_bytes())
    digest.update(repr([(name, version(name)) for name in _LIBRARIES]).encode())
    return digest.hexdigest()[:_KEY_CHARS]


def _source_files() -> list[Path]:
    """Our own files that decide over games, demonstrations and training."""
    return [path for pattern in _SOURCES for path in sorted(_PACKAGE.glob(pattern))]


def warm_model_dir(seed: int, cache_dir: Path | None = None, *, recipe: WarmStart = DEFAULT) -> Path:
    """Return the folder that `warm_model` fills; it exists once the model is made."""
    return (cache_dir or default_cache_dir()) / f"seed{seed}-{cache_key(seed, recipe)}"


def warm_model(seed: int, cache_dir: Path | None = None, *, recipe: WarmStart = DEFAULT, progress: bool = True) -> Path:
    """Return a folder with a warm model and its tokenizer, for `from_pretrained`; made now if it is not cached.

    Args:
        seed: Seed of games, weights and batches.
        cache_dir: Where warm models are kept; None: `default_cache_dir`.
        recipe: What it is made with.
        progress: Show a progress bar while it is made.

    Raises:
        ValueError: There are fewer won expert games than the recipe asks for.
        OSError: The cache folder cannot be written.
    """
    target = warm_model_dir(seed, cache_dir, recipe=recipe)
    parent = target.parent
    if target.is_dir():
        return target
    parent.mkdir(parents=True, exist_ok=True)
    model, tokenizer = train_on_demos(seed, recipe, progress=progress)
    with tempfile.TemporaryDirectory(dir=parent, prefix=".unfinished-") as scratch:
        made = Path(scratch) / "model"
        model.save_pretrained(made)
        tokenizer.save_pretrained(made)
        try:
            made.rename(target)
        except OSError:
            if not target.is_dir():  # else another process was faster, with the same model
                raise
    return target


def train_on_demos(
    seed: int, recipe: WarmStart = DEFAULT, *, progress: bool = True
) -> tuple[Qwen3ForCausalLM, PreTrainedTokenizerFast]:
    """Make a warm model; `warm_model` does so once and keeps it.

    Args:
        seed: Seed of games, weights and batches.
        recipe: What it is made with.
        progress: Show a progress bar.

    Raises:
        ValueError: There are fewer won expert games than the recipe asks for.
    """
    demos = expert_demos(
        recipe.demos,
        seed,
        slip_rate=recipe.slip_rate,
        env_options=recipe.env_options,
        data_options=recipe.data_options,
    )
    env = ALFWorldEnv(**recipe.env_options)
    tools = list(env._tools().values())
    schemas = [get_json_schema(tool) for tool in tools]
    corpus = (text for demo in demos for text in demo.texts)
    tokenizer = build_tokenizer(recipe.template, corpus, tools=tools, system_prompt=env.system_prompt)
    with tempfile.TemporaryDirectory() as scratch, _no_bars_of_datasets():
        trainer = SFTTrainer(
            model=build_model(tokenizer, seed),
            processing_class=tokenizer,
            train_dataset=sft_dataset([{"messages": demo.messages, "tools": schemas} for demo in demos]),
            args=SFTConfig(
                output_dir=scratch,
                max_steps=recipe.steps,
                per_device_train_batch_size=recipe.batch_size,
                learning_rate=recipe.learning_rate,
                lr_scheduler_type="cosine",
                warmup_steps=recipe.warmup_steps,
                adam_beta2=_ADAM_BETA2,
                assistant_only_loss=True,
                max_length=_MAX_TOKENS,
                seed=seed,
                use_cpu=True,
                bf16=False,
                gradient_checkpointing=False,
                logging_strategy="no",
                save_strategy="no",
                report_to="none",
                disable_tqdm=not progress,
            ),
        )
        for callback in (PrinterCallback, ProgressCallback):
            trainer.remove_callback(callback)
        if progress:
            trainer.add_callback(ShortBar("warm start on expert games"))
        trainer.train()
    model: Any = trainer.model
    return model, tokenizer


@contextlib.contextmanager
def _no_bars_of_datasets() -> Iterator[None]:
    """Hide the four bars that preparing the rows would show for a second each."""
    shown = datasets.utils.is_progress_bar_enabled()
    datasets.disable_progress_bars()
    try:
        yield
    finally:
        if shown:
            datasets.enable_progress_bars()
