"""The recipe as people launch it, and the few decisions that `launch` takes between preflight and TRL."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("trl")

import torch

from tests.scripted import build_model, build_tokenizer
from trl_agentenvs.recipes.grpo_24gb import main
from trl_agentenvs.trace import read_trace
from trl_agentenvs.training.arguments import KNOWN, resolve
from trl_agentenvs.training.launch import LANGUAGE_MODEL_ONLY, build_trainer, lora_config, set_aside
from trl_agentenvs.training.modelfiles import ModelFiles, open_model_files
from trl_agentenvs.training.preflight import PreflightError, preflight
from trl_agentenvs.training.progress import CompactProgress, ShortBar, quiet_libraries, step_line

TINY_RUN = (
    *("--preset", "cpu-demo", "--max_steps", "1", "--n_train", "2", "--n_eval", "2", "--seed", "5"),
    *("--per_device_train_batch_size", "2", "--num_generations", "2", "--max_completion_length", "40"),
    *("--env_options", '{"max_steps": 2}', "--save_strategy", "steps", "--save_steps", "1"),
)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    tokenizer = build_tokenizer("qwen3")
    build_model(tokenizer).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def launch(repo: Path, cwd: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE")}
    environment |= {"PYTHONPATH": str(repo), "CUDA_VISIBLE_DEVICES": ""}
    return subprocess.run([sys.executable, *command], cwd=cwd, env=environment, capture_output=True, text=True)


@pytest.fixture(scope="module")
def finished_run(
    model: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """One whole run of the script, in a process of its own."""
    folder = tmp_path_factory.mktemp("run")
    repo = Path(__file__).resolve().parent.parent
    script = str(repo / "recipes" / "grpo_24gb.py")
    return folder / "out", launch(repo, folder, script, *TINY_RUN, "--model", str(model), "--output_dir", "out")


@pytest.mark.trainer
def test_recipe_trains_evaluates_and_tells_the_result(
    finished_run: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    out, done = finished_run
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    rollouts = read_trace(out / "rollouts.jsonl").rollouts
    assert Counter(rollout.phase for rollout in rollouts) == {"before": 2, "train": 2, "after": 2}
    assert all(rollout.stop for rollout in rollouts)
    assert {rollout.tokens["completion"] <= 40 for rollout in rollouts} == {True}
    numbers = json.loads((out / "closing.json").read_text())
    assert {"seed", "success_before", "success_after", "steps_before", "steps_after", "minutes"} <= set(numbers)
    assert (numbers["seed"], numbers["steps_trained"], numbers["phases"]["after"]["episodes"]) == (5, 1, 2)
    assert numbers["steps_before"] is None  # nothing was solved, so no steps are known
    assert (out / "model.safetensors").exists()
    lines = done.stdout.splitlines()
    assert any(line.split() == ["before", "train", "after"] for line in lines)
    assert any(line.startswith("success") and "[" in line for line in lines)
    assert "step 1/1  reward" in done.stdout
    assert lines.count("playing 2 rows of valid_unseen before training ...") == 1
    assert len([line for line in lines if re.fullmatch(r"played in \d+\.\d s, success 0\.00", line)]) == 2
    assert str(Path("out") / "rollouts.jsonl") in done.stdout


@pytest.mark.trainer
def test_run_shows_no_bars_where_there_is_no_terminal(
    finished_run: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    _, done = finished_run
    shown = done.stdout + done.stderr
    assert [word for word in ("it/s]", "s/it]", "Loading weights", "Writing model shards", "\r") if word in shown] == []
    assert "\n\n\n" not in done.stdout


@pytest.mark.trainer
def test_resumed_run_goes_on_with_its_trace(
    finished_run: tuple[Path, subprocess.CompletedProcess[str]], model: Path, repo: Path
) -> None:
    out, _ = finished_run
    argv = (*TINY_RUN, "--model", str(model), "--output_dir", "out", "--resume_from_checkpoint", "latest")
    done = launch(repo, out.parent, "-m", "trl_agentenvs.recipes.grpo_24gb", *argv, "--max_steps", "2")
    assert done.returncode == 0, done.stderr
    # Before was played by the first run; the second trained one step more and played after again.
    phases = Counter(rollout.phase for rollout in read_trace(out / "rollouts.jsonl").rollouts)
    assert phases == {"before": 2, "train": 4, "after": 4}
    assert json.loads((out / "closing.json").read_text())["steps_trained"] == 2
    assert not (out / "rollouts.1.jsonl").exists()


def run_in_process(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    status = main(argv)
    captured = capsys.readouterr()
    return status, captured.out, captured.err


SMALL = ("--n_train", "2", "--n_eval", "2")


@pytest.mark.parametrize("preset", ["24gb", "cpu-demo"])
def test_dry_run_prints_what_gives_the_same_configuration_again(
    preset: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    status, first, _ = run_in_process(capsys, "--preset", preset, "--dry-run", "--seed", "3", *SMALL)
    assert status == 0
    (tmp_path / "run.yaml").write_text(first)
    status, second, _ = run_in_process(capsys, "--config", str(tmp_path / "run.yaml"), "--dry-run")
    assert status == 0
    without_sources = [
        [line.partition("  # ")[0] for line in text.splitlines()] for text in (first, second)
    ]  # what stands in the file is no preset's any more
    assert without_sources[0] == without_sources[1]
    assert {line.partition(":")[0] for line in without_sources[0] if line and line[0] != "#"} == KNOWN - {"dry_run"}


def test_what_was_derived_follows_when_the_printed_configuration_is_changed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    _, printed, _ = run_in_process(capsys, "--preset", "24gb", "--dry-run", *SMALL)
    (tmp_path / "run.yaml").write_text(printed)
    argv = ("--config", str(tmp_path / "run.yaml"), "--dry-run", "--seed", "9", "--env_options", '{"max_steps": 8}')
    _, changed, _ = run_in_process(capsys, *argv)
    assert "output_dir: null  # runs/alfworld-24gb-seed9," in changed
    assert "max_tool_calling_iterations: null  # 8," in changed


def test_dry_run_needs_no_gpu_no_model_and_no_engine(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "vllm", None)  # importing it would raise
    status, out, err = run_in_process(capsys, "--dry-run", *SMALL)
    assert status == 0
    assert "max_tool_calling_iterations: null  # 50, ALFWorldEnv.max_turns" in out
    assert "a run would stop here: got no model" in err
    assert sys.modules["vllm"] is None


@pytest.mark.parametrize(
    ("argv", "sentences"),
    [
        (["--learing_rate", "1"], 1),
        (["--preset", "nope"], 1),
        (["--preset", "none", "--use_cpu", "--model", "./nope", "--env", "nope", "--num_generations", "3"], 3),
    ],
)
def test_bad_input_is_told_in_sentences_with_status_2(
    argv: list[str], sentences: int, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, err = run_in_process(capsys, *argv)
    assert (status, out) == (2, "")
    assert len(err.splitlines()) == sentences
    assert "Traceback" not in err


def test_other_processes_print_nothing(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    assert run_in_process(capsys, "--preset", "nope") == (2, "", "")


# Between preflight and TRL


def test_a_run_that_did_not_pass_is_not_built() -> None:
    with pytest.raises(PreflightError, match="got no model"):
        build_trainer(preflight(resolve(["--preset", "none", "--use_cpu", *SMALL])))


def multimodal_model() -> Any:
    """A random Qwen3.5 with a vision tower, some 100,000 parameters."""
    transformers = pytest.importorskip("transformers", minversion="5.5")
    text = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 4}
    text |= {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16}
    text |= {f"linear_{kind}_head_dim": 16 for kind in ("key", "value")}
    text |= {f"linear_num_{kind}_heads": 2 for kind in ("key", "value")}
    vision = {"depth": 1, "hidden_size": 32, "intermediate_size": 48, "num_heads": 2, "out_hidden_size": 32}
    return transformers.Qwen3_5ForConditionalGeneration(
        transformers.Qwen3_5Config(text_config=text, vision_config=vision)
    )


def adapted(model: Any, *argv: str) -> set[str]:
    """Names of the modules that get an adapter."""
    peft = pytest.importorskip("peft")
    _, _, arguments = resolve(["--preset", "24gb", *argv]).build(use_cpu=True)
    config = lora_config(arguments, ModelFiles("x", model.config))
    assert config is not None
    assert (config.r, config.lora_alpha, config.lora_dropout) == (32, 64, 0.0)
    names = [name for name, _ in peft.get_peft_model(model, config).named_modules() if name.endswith(".lora_A")]
    return {name.removeprefix("base_model.model.").removesuffix(".lora_A") for name in names}


def test_adapters_reach_every_linear_layer_of_the_language_model_and_nothing_else() -> None:
    model = multimodal_model()
    linear = {name for name, module in model.named_modules() if isinstance(module, torch.nn.Linear)}
    language = {name for name in linear if name.startswith("model.language_model.")}
    assert linear - language - {"lm_head"}  # there is a vision tower to be left alone
    assert adapted(model) == language


def test_adapters_reach_every_linear_layer_of_a_text_model() -> None:
    model = build_model(build_tokenizer("qwen3"))
    linear = {name for name, module in model.named_modules() if isinstance(module, torch.nn.Linear)}
    assert adapted(model) == linear - {"lm_head"}


def test_a_multimodal_model_without_its_processor_is_told_why(tmp_path: Path) -> None:
    multimodal_model().save_pretrained(tmp_path)
    build_tokenizer("qwen3_5_nothink").save_pretrained(tmp_path)
    _, sentences = open_model_files(resolve(["--preset", "none", "--model", str(tmp_path)]).values, local_only=True)
    assert "its processor cannot be loaded" in sentences[0]
    assert re.search(r"\(.+\)$", sentences[0])


def test_modules_named_by_the_user_are_taken_as_they_are() -> None:
    names = adapted(multimodal_model(), "--lora_target_modules", "qkv", "q_proj")
    assert any("visual" in name for name in names)
    assert {name.rpartition(".")[2] for name in names} == {"qkv", "q_proj"}


def test_no_adapters_without_peft() -> None:
    _, _, arguments = resolve(["--preset", "none", "--use_cpu"]).build()
    assert lora_config(arguments, ModelFiles("x", build_model(build_tokenizer()).config)) is None


@pytest.mark.parametrize(
    ("name", "excluded"),
    [
        ("model.language_model.layers.0.mlp.up_proj", False),
        ("model.text_model.layers.0.mlp.up_proj", False),
        ("language_model.model.layers.0.mlp.up_proj", False),
        ("model.visual.blocks.0.attn.qkv", True),
        ("model.vision_tower.language_model_adapter", True),
        ("model.multi_modal_projector.linear", True),
    ],
)
def test_what_counts_as_the_language_model(name: str, excluded: bool) -> None:
    assert bool(re.fullmatch(LANGUAGE_MODEL_ONLY, name)) is excluded


def test_an_earlier_trace_is_kept_under_a_name_of_its_own(tmp_path: Path) -> None:
    trace = tmp_path / "rollouts.jsonl"
    for text in ("first", "second"):
        trace.write_text(text)
        set_aside(trace)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "rollouts.1.jsonl": "first",
        "rollouts.2.jsonl": "second",
    }


# Progress


def test_line_of_a_step_names_what_was_not_logged() -> None:
    logs = {"reward": 0.25, "E/success": 0.5, "E/tool_error_rate": 0.031, "step_time": 12.34}
    assert step_line(logs, "E") == "reward 0.250  success 0.50  tool errors 3.1%  seconds 12.3"
    assert step_line({"reward": None}, "E") == "reward -  success -  tool errors -  seconds -"


def test_one_line_for_each_logged_step_and_none_for_the_summary() -> None:
    progress, lines = CompactProgress("E"), []
    progress.training_bar = SimpleNamespace(write=lines.append)
    state: Any = SimpleNamespace(is_world_process_zero=True, global_step=3, max_steps=9)
    none: Any = None
    progress.on_log(none, state, none, logs={"reward": 1.0, "loss": 0.1})
    progress.on_log(none, state, none, logs={"train_runtime": 5.0})
    progress.on_log(none, state, none, logs={"eval_reward": 5.0})
    state.is_world_process_zero = False
    progress.on_log(none, state, none, logs={"reward": 1.0})
    assert lines == ["step 3/9  reward 1.000  success -  tool errors -  seconds -"]


@pytest.mark.parametrize(("batches", "shown"), [(1, False), (2, True)])
def test_evaluation_in_one_batch_has_no_bar(batches: int, shown: bool) -> None:
    bar, none = ShortBar("training"), None
    state: Any = SimpleNamespace(is_world_process_zero=True)
    for _ in range(batches):
        bar.on_prediction_step(none, state, none, eval_dataloader=[None] * batches)  # type: ignore[arg-type]
    assert (bar.prediction_bar is not None) is shown
    bar.on_evaluate(none, state, none)  # type: ignore[arg-type]
    assert bar.prediction_bar is None


def test_bars_of_downloads_stay() -> None:
    hub = pytest.importorskip("huggingface_hub.utils")
    hub.enable_progress_bars()
    quiet_libraries()
    assert not hub.are_progress_bars_disabled()
