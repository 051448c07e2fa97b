from __future__ import annotations

import json

import pytest

pytest.importorskip("trl")

import torch
import trl
from trl.trainer import utils

from trl_agentenvs.training.arguments import resolve
from trl_agentenvs.training.modelfiles import model_init_kwargs
from trl_agentenvs.training.preflight import preflight
from trl_agentenvs.training.settings import check_machine, check_settings


def stops(*argv: str) -> list[str]:
    """What of the settings stops a run; the preset is 24gb, with a colocated engine, unless the arguments name one."""
    return [finding.text for finding in check_settings(resolve(argv).values) if finding.stops]


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--num_generations", "3"], ["no multiple of num_generations 3", "--gradient_accumulation_steps 3"]),
        (["--num_generations", "1"], ["num_generations 1", "2 or more"]),
        (["--eval_split", "valid_seen", "--per_device_eval_batch_size", "3"], ["--num_generations_eval 1"]),
        (["--use_peft", "--lora_target_modules", "lm_head", "q_proj"], ["lm_head", "all-linear"]),
        (["--use_peft", "--lora_target_modules", ".*(head|q_proj)"], ["lm_head"]),
        (["--use_peft", "--lora_target_modules", "(q_proj"], ["regular expression"]),
        (["--resume_from_checkpoint", "no/such"], ["no/such", "no such folder"]),
        (["--resume_from_checkpoint", "latest", "--output_dir", "no/such"], ["no/such", "checkpoint-*"]),
        (["--patches", "25gb"], ["25gb", "24gb"]),
        (["--model_init_kwargs", "{dtype"], ["model_init_kwargs", "JSON"]),
    ],
)
def test_settings_that_cannot_work(argv: list[str], words: list[str]) -> None:
    (sentence,) = stops("--preset", "none", *argv)
    assert "\n" not in sentence
    assert [word for word in words if word not in sentence] == []


def test_suggested_accumulation_fits() -> None:
    argv = [
        "--preset",
        "none",
        "--num_generations",
        "6",
        "--per_device_train_batch_size",
        "4",
        "--gradient_accumulation_steps",
        "4",
    ]
    (sentence,) = stops(*argv)
    assert sentence.endswith("--gradient_accumulation_steps 6")
    assert stops(*argv, *sentence.rpartition("use ")[2].split()) == []


def test_all_processes_count_in_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    argv = ["--preset", "none", "--num_generations", "8", "--per_device_train_batch_size", "4"]
    assert len(stops(*argv)) == 1
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert stops(*argv) == []


def test_the_24gb_preset_contradicts_nothing() -> None:
    assert stops() == []


@pytest.mark.parametrize("argv", [["--top_p", "0.9"], ["--top_k", "20"], ["--min_p", "0.05"]])
def test_cut_sampling_biases_the_correction(argv: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trl, "__version__", "1.16.0")
    (sentence,) = stops(*argv)
    assert argv[0].removeprefix("--") in sentence
    assert "importance sampling" in sentence
    assert stops(*argv, "--vllm_importance_sampling_correction", "False") == []
    monkeypatch.setattr(trl, "__version__", "1.17.0")
    assert stops(*argv) == []


@pytest.mark.parametrize("argv", [["--dtype", "float32"], ["--model_init_kwargs", '{"dtype": "float32"}']])
def test_float32_beside_a_colocated_engine(argv: list[str]) -> None:
    (sentence,) = stops(*argv)
    assert "--dtype bfloat16" in sentence


def test_float32_without_adapters_is_only_a_warning() -> None:
    assert stops("--dtype", "float32", "--use_peft", "False") == []


@pytest.mark.parametrize("variable", ["PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"])
def test_expandable_segments_with_sleep_mode(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "garbage_collection_threshold:0.8, expandable_segments:True")
    (sentence,) = stops()
    assert variable in sentence
    assert stops("--vllm_enable_sleep_mode", "False") == []
    monkeypatch.setenv(variable, "expandable_segments:False")
    assert stops() == []


def test_missing_gpu_and_engine_stop_a_run_and_no_dry_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: False)
    resolved = resolve(["--preset", "24gb", "--n_train", "1", "--n_eval", "1"])
    assert any("--preset cpu-demo" in finding.text for finding in check_machine(resolved.values) if finding.stops)
    assert preflight(resolved, dry_run=True).built is not None


def test_old_trl_without_fused_head_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(utils, "add_fused_lm_head", raising=False)
    (finding,) = (f for f in check_machine(resolve(["--preset", "24gb"]).values) if "fused LM head" in f.text)
    assert not finding.stops


def test_loading_options_are_merged_as_trl_does() -> None:
    values = resolve(["--preset", "24gb", "--attn_implementation", "sdpa", "--model_revision", "v2"]).values
    assert model_init_kwargs(values) == {"dtype": "bfloat16", "attn_implementation": "sdpa", "revision": "v2"}
    values["model_init_kwargs"] = json.dumps({"dtype": "float16"})
    assert model_init_kwargs(values)["dtype"] == "float16"
