"""From a configuration that passed preflight to a trained policy and its closing table.

`build_trainer` makes stock TRL's `GRPOTrainer`; `run` evaluates, trains, saves, evaluates again and tells the result.
With several processes every one trains, and the first alone writes phase marks, tables and files.

What is not covered: engines that several processes share (vLLM's server mode with more than one training process,
tensor parallelism) can hang in TRL's tool loop, where processes leave at different turns.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trl_agentenvs import patches
from trl_agentenvs.episode_log import EpisodeLog
from trl_agentenvs.terminal import MISSING
from trl_agentenvs.trace import mark_phase, read_trace
from trl_agentenvs.trace_summary import summarize

from .closing import closing_numbers, closing_table
from .modelfiles import model_init_kwargs, open_model_files
from .preflight import Preflight, PreflightError
from .progress import CompactProgress, say
from .settings import is_latest

if TYPE_CHECKING:
    from peft import LoraConfig
    from trl import GRPOTrainer

    from .arguments import ModelArguments
    from .modelfiles import ModelFiles

__all__ = ["LANGUAGE_MODEL_ONLY", "build_trainer", "lora_config", "run", "set_aside", "trace_path"]

TRACE_FILE, NUMBERS_FILE = "rollouts.jsonl", "closing.json"
SECONDS_A_MINUTE = 60.0

# Everything outside the language backbone of a multimodal model, as transformers 5 calls it: a vision tower sees no
# gradient in a text environment, so adapters there would cost memory and weight pushes for nothing.
LANGUAGE_MODEL_ONLY = r"(?!(.*\.)?(language_model|text_model)\.).*"


def trace_path(output_dir: str) -> Path:
    """Where the rollouts of a run are written."""
    return Path(output_dir) / TRACE_FILE


def lora_config(arguments: ModelArguments, model: ModelFiles) -> LoraConfig | None:
    """Return the adapters' configuration, or None without `--use_peft`.

    With `all-linear`, modules outside the language model of a multimodal model are left alone; modules named one by one
    are taken as they are.
    """
    from trl import get_peft_config

    config: Any = get_peft_config(arguments)
    if config is not None and config.target_modules == "all-linear" and model.is_multimodal:
        config.exclude_modules = LANGUAGE_MODEL_ONLY
    return config  # type: ignore[no-any-return]


def build_trainer(checked: Preflight) -> GRPOTrainer:
    """Build the trainer: patches, model, environments, logging.

    Args:
        checked: A run that passed preflight.

    Raises:
        PreflightError: It did not pass, or the demo model cannot be used.
    """
    checked.raise_for_stops()
    if checked.built is None or checked.playable is None:
        raise PreflightError(["this configuration was not checked to its end; call preflight(resolved)"])
    from accelerate import PartialState  # type: ignore[import-untyped]
    from trl import GRPOTrainer, get_quantization_config

    arguments, training, model_arguments = checked.built
    values, playable, state = checked.resolved.values, checked.playable, PartialState()
    if arguments.patches != "none":
        active = patches.apply(arguments.patches)
        say(f"patches: {', '.join(active) or 'none needed'}")
    model = checked.model or _demo_model(values)

    path = trace_path(values["output_dir"])
    with state.main_process_first():
        if state.is_main_process and path.exists() and not training.resume_from_checkpoint:
            say(f"an earlier trace was kept as {set_aside(path)}")
    training.model_init_kwargs = model_init_kwargs(values)
    log = EpisodeLog()
    quantization = get_quantization_config(model_arguments)
    extra: dict[str, Any] = {} if quantization is None else {"quantization_config": quantization}
    reward_funcs: list[Any] = [log]
    trainer: Any = GRPOTrainer(
        model=model.name,
        args=training,
        reward_funcs=reward_funcs,
        environment_factory=playable.factory(str(path)),
        train_dataset=playable.train_rows,
        eval_dataset=playable.eval_rows,
        processing_class=model.processing_class,
        peft_config=lora_config(model_arguments, model),
        **extra,
    )
    # TRL before 1.14 ends turns at the tokenizer's token alone.
    tokenizer = getattr(model.processing_class, "tokenizer", model.processing_class)
    log.eos_token_ids = frozenset(getattr(trainer, "eos_token_ids", [tokenizer.eos_token_id]))
    _replace_progress(trainer, CompactProgress(playable.name))
    return trainer  # type: ignore[no-any-return]


def run(trainer: GRPOTrainer, checked: Preflight, *, started: float) -> dict[str, Any]:
    """Evaluate, train, save, evaluate again; print and save the closing table.

    An interrupt (Ctrl-C) ends training early and leaves a table of what was played.

    Args:
        trainer: What `build_trainer` returned.
        checked: The run.
        started: `time.monotonic()` of its start, for its minutes.

    Returns:
        What `closing.closing_numbers` returns.
    """
    values = checked.resolved.values
    path = trace_path(values["output_dir"])
    resume, interrupted, saved = values["resume_from_checkpoint"], False, False
    try:
        if not (resume and _was_played(path, "before")):
            _evaluate(trainer, path, "before", values["eval_split"])
        _mark(trainer, path, "train")
        trainer.train(resume_from_checkpoint=True if resume and is_latest(resume) else resume)
        trainer.save_model(values["output_dir"])
        saved = True
        _evaluate(trainer, path, "after", values["eval_split"])
    except KeyboardInterrupt:
        interrupted = True
        say("\ninterrupted; this is what was played so far")
    numbers = closing_numbers(
        read_trace(path),
        seed=values["seed"],
        minutes=round((time.monotonic() - started) / SECONDS_A_MINUTE, 2),
        env=values["env"],
        preset=values["preset"],
        eval_split=values["eval_split"],
        trace=str(path),
        output_dir=values["output_dir"],
        steps_trained=trainer.state.global_step,
        interrupted=interrupted,
    )
    if trainer.is_world_process_zero():
        (Path(values["output_dir"]) / NUMBERS_FILE).write_text(json.dumps(numbers, indent=2) + "\n", encoding="utf-8")
        unseen = (
            f"before and after: {values['eval_split']}; " if checked.playable and checked.playable.eval_rows else ""
        )
        say(f"\n{closing_table(numbers)}\n")
        say(f"{unseen}train: {values['split']}; intervals are 95 %; {numbers['minutes']} minutes")
        model = values["output_dir"] if saved else "not saved"
        say(f"traces: {path}   model: {model}   numbers: {Path(values['output_dir']) / NUMBERS_FILE}")
    return numbers


def _demo_model(values: dict[str, Any]) -> ModelFiles:
    from accelerate import PartialState

    from .warmstart import warm_model, warm_model_dir

    cached = warm_model_dir(values["seed"])
    if cached.is_dir():
        say(f"model: the tiny one in {cached}")
    else:
        say("model: making a tiny one that has seen expert games, a matter of minutes; it is kept for the next time")
    with PartialState().main_process_first():
        folder = warm_model(values["seed"])
    files, faults = open_model_files(values | {"model_name_or_path": str(folder)}, local_only=True)
    if files is None or faults:
        raise PreflightError(faults)
    return files


def _evaluate(trainer: GRPOTrainer, path: Path, phase: str, split: str) -> None:
    rows: Any = trainer.eval_dataset
    if rows is None:
        return
    say(f"playing {len(rows)} rows of {split} {phase} training ...")
    _mark(trainer, path, phase)
    began, began_s = time.time(), time.monotonic()
    trainer.evaluate()
    took_s = time.monotonic() - began_s
    if trainer.is_world_process_zero():
        played = [r for r in read_trace(path).rollouts if r.phase == phase and r.started >= began]
        success = summarize(played).success
        say(f"played in {took_s:.1f} s, success {MISSING if success is None else f'{success:.2f}'}")


def _mark(trainer: GRPOTrainer, path: Path, phase: str) -> None:
    """Mark the phase between two barriers, so that no rollout of another process falls on the wrong side."""
    trainer.accelerator.wait_for_everyone()
    if trainer.is_world_process_zero():
        mark_phase(path, phase)
    trainer.accelerator.wait_for_everyone()


def _was_played(path: Path, phase: str) -> bool:
    return path.exists() and any(rollout.phase == phase for rollout in read_trace(path).rollouts)


def set_aside(path: Path) -> Path:
    """Rename a trace to the first free `rollouts.N.jsonl`."""
    number = 1
    while (aside := path.with_name(f"{path.stem}.{number}{path.suffix}")).exists():
        number += 1
    return path.rename(aside)


def _replace_progress(trainer: GRPOTrainer, progress: Any) -> None:
    from transformers import PrinterCallback
    from transformers.trainer_callback import ProgressCallback

    quiet = trainer.args.disable_tqdm
    for callback in (PrinterCallback, ProgressCallback):
        trainer.remove_callback(callback)
    if not quiet:
        trainer.add_callback(progress)
