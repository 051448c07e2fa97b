from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl")

from trl_agentenvs.training.arguments import KNOWN, Resolved, UsageError, resolve
from trl_agentenvs.training.presets import PRESETS, preset_values


def write(folder: Path, text: str) -> str:
    path = folder / "run.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def refusal(*argv: str) -> str:
    with pytest.raises(UsageError) as caught:
        resolve(argv)
    return str(caught.value)


@pytest.mark.parametrize("name", PRESETS)
def test_presets_set_only_fields_that_exist(name: str) -> None:
    assert preset_values(name, KNOWN).missing == ()


def test_a_field_that_trl_lacks_is_left_out_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PRESETS, "24gb", PRESETS["24gb"] | {"vllm_llm_kwargs": {}, "beta": 0.5})
    resolved = resolve([])
    assert "vllm_llm_kwargs" not in resolved.values
    assert resolved.values["beta"] == 0.5
    (note,) = resolved.notes
    assert "vllm_llm_kwargs" in note
    assert "beta" not in note


def test_24gb_carries_what_is_known_to_be_right() -> None:
    values = resolve(["--preset", "24gb"]).values
    expected = {
        "dtype": "bfloat16",
        "use_vllm": True,
        "vllm_mode": "colocate",
        "vllm_enable_sleep_mode": True,
        "use_peft": True,
        "lora_r": 32,
        "per_device_train_batch_size": 1,
        "scale_rewards": "none",
        "beta": 0.01,
        "vllm_importance_sampling_mode": "token_truncate",
        "top_p": 1.0,
        "top_k": 0,
        "temperature": 1.0,
        "num_generations": 8,
        "gradient_checkpointing": True,
    }
    assert {name: values[name] for name in expected} == expected
    assert values["max_completion_length"] >= 6144
    assert 1e-5 <= values["learning_rate"] <= 5e-5
    assert 0.53 <= values["vllm_gpu_memory_utilization"] <= 0.61
    assert values["vllm_max_model_length"] > values["max_completion_length"]


def test_24gb_is_the_preset_when_none_is_named() -> None:
    resolved = resolve([])
    assert resolved.values["preset"] == "24gb"
    assert resolved.sources["beta"] == "preset 24gb"


def test_cpu_demo_plays_what_its_warm_start_learnt() -> None:
    demos = pytest.importorskip("trl_agentenvs.training.demos")
    resolved = resolve(["--preset", "cpu-demo"])
    assert resolved.options("env_options").items() >= dict(demos.ENV_OPTIONS).items()
    assert resolved.options("data_options").items() >= dict(demos.DATA_OPTIONS).items()


def test_none_leaves_trl_its_defaults() -> None:
    from trl import GRPOConfig

    values = resolve(["--preset", "none"]).values
    defaults = {f.name: f.default for f in dataclasses.fields(GRPOConfig) if f.default is not dataclasses.MISSING}
    assert {n: values[n] for n in ("beta", "learning_rate", "use_vllm", "scale_rewards")} == {
        n: defaults[n] for n in ("beta", "learning_rate", "use_vllm", "scale_rewards")
    }


def test_yaml_wins_over_preset_and_command_line_over_yaml(tmp_path: Path) -> None:
    config = write(tmp_path, "beta: 0.2\nlearning_rate: 2e-5\nmax_steps: 7\n")
    resolved = resolve(["--config", config, "--max_steps", "9"])
    values, sources = resolved.values, resolved.sources
    assert (values["scale_rewards"], sources["scale_rewards"]) == ("none", "preset 24gb")
    assert (values["beta"], sources["beta"]) == (0.2, "config file")
    assert (values["learning_rate"], sources["learning_rate"]) == (2e-5, "config file")  # YAML reads 2e-5 as a string
    assert (values["max_steps"], sources["max_steps"]) == (9, "command line")
    assert "adam_beta1" not in sources


def test_preset_may_be_named_in_the_yaml_file(tmp_path: Path) -> None:
    assert resolve([f"--config={write(tmp_path, 'preset: cpu-demo')}"]).values["use_vllm"] is False


def test_command_line_value_equal_to_the_default_still_wins(tmp_path: Path) -> None:
    resolved = resolve(["--beta", "0.0"])
    assert (resolved.values["beta"], resolved.sources["beta"]) == (0.0, "command line")


def test_short_and_long_names_of_the_model_are_one(tmp_path: Path) -> None:
    for argv in (["--model", "a/b"], ["--model_name_or_path=a/b"], ["--config", write(tmp_path, "model: a/b")]):
        assert resolve(argv).values["model_name_or_path"] == "a/b"


def test_env_in_yaml_is_the_environment_or_trls_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AGENTENVS_TEST_VARIABLE", raising=False)
    assert resolve(["--config", write(tmp_path, "env: my:Env")]).values["env"] == "my:Env"
    resolve(["--config", write(tmp_path, "env: {AGENTENVS_TEST_VARIABLE: 5}")])
    assert os.environ.pop("AGENTENVS_TEST_VARIABLE") == "5"


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--learing_rate", "1e-5"], ["--learing_rate", "did you mean --learning_rate"]),
        (["--learing-rate=1e-5"], ["--learing-rate", "did you mean --learning-rate"]),
        (["--max_step", "3"], ["--max_step", "--max_steps"]),  # no abbreviations: a prefix of two options is a trap
        (["alfworld"], ["alfworld"]),
        (["--learning_rate", "fast"], ["learning_rate", "fast"]),
        (["--scale_rewards"], ["scale_rewards"]),
        (["--preset", "24gbs"], ["24gbs", "did you mean 24gb", "cpu-demo"]),
        (["--config"], ["--config"]),
        (["--config", "no/such.yaml"], ["no/such.yaml", "cannot be read"]),
    ],
)
def test_what_cannot_be_understood_is_one_sentence(argv: list[str], words: list[str]) -> None:
    sentence = refusal(*argv)
    assert "\n" not in sentence
    assert [word for word in words if word not in sentence] == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("learing_rate: 1", ["learing_rate", "learning_rate"]),
        ("num_generations: eight", ["num_generations", "eight"]),
        ("- a\n- b", ["list"]),
        ("a: [", ["no YAML"]),
    ],
)
def test_faulty_yaml_is_one_sentence(tmp_path: Path, text: str, words: list[str]) -> None:
    sentence = refusal("--config", write(tmp_path, text))
    assert "\n" not in sentence
    assert [word for word in words if word not in sentence] == []


def test_options_of_the_preset_that_are_no_longer_set_are_told() -> None:
    (note,) = resolve(["--preset", "cpu-demo", "--data_options", '{"source": "generated", "hint": "both"}']).notes
    assert note.startswith("data_options from the command line replaces all of the preset's")
    assert "no longer set: max_receptacles, task_types." in note
    kept = '{"max_steps": 9, "step_cost": 0}'
    assert resolve(["--preset", "cpu-demo", "--env_options", kept]).notes == []


@pytest.mark.parametrize("text", ["[1]", "{", "5", "max_steps=3"])
def test_options_that_are_no_json_object_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="JSON object"):
        resolve(["--env_options", text]).options("env_options")


def test_options_are_read_from_json_and_from_yaml(tmp_path: Path) -> None:
    assert resolve(["--env_options", '{"max_steps": 3}']).options("env_options") == {"max_steps": 3}
    config = write(tmp_path, "env_options: {max_steps: 3}")
    assert resolve(["--config", config]).options("env_options") == {"max_steps": 3}
    assert resolve([]).options("env_options") == {}


def round_trip(resolved: Resolved, folder: Path) -> Resolved:
    return resolve(["--config", write(folder, resolved.to_yaml())])


@pytest.mark.parametrize(
    "argv",
    [
        ["--preset", "24gb"],
        ["--preset", "cpu-demo", "--seed", "7"],
        ["--lora_target_modules", "q_proj", "v_proj", "--reward_weights", "0.5", "1"],
        ["--model_init_kwargs", '{"dtype": "float16", "n": 1e-05}', "--env_options", '{"text": "# : \\n \'\\""}'],
        ["--run_name", "a: b # c", "--output_dir", "with space/é", "--eval_split", "none"],
        ["--no_gradient_checkpointing", "--learning_rate", "1e-7", "--max_grad_norm", "0"],
    ],
)
def test_printed_configuration_fed_back_gives_the_same(tmp_path: Path, argv: list[str]) -> None:
    first = resolve(argv)
    assert round_trip(first, tmp_path).values == first.values


def test_printed_configuration_tells_where_values_come_from(tmp_path: Path) -> None:
    text = resolve(["--config", write(tmp_path, "beta: 0.2"), "--max_steps", "9"]).to_yaml()
    lines = {line.split(":")[0]: line for line in text.splitlines() if ":" in line}
    assert lines["beta"].endswith("# config file")
    assert lines["max_steps"].endswith("# command line")
    assert lines["lora_r"].endswith("# preset 24gb")
    assert "#" not in lines["adam_beta1"]
    assert set(lines) == KNOWN - {"dry_run"}


def test_secrets_are_not_printed() -> None:
    text = resolve(["--hub_token", "hf_secret"]).to_yaml()
    assert "hf_secret" not in text
    assert "hub_token: null" in text


def test_built_objects_hold_the_resolved_values() -> None:
    resolved = resolve(["--preset", "none", "--beta", "0.25", "--lora_r", "4", "--n_train", "5", "--use_cpu"])
    run, training, model = resolved.build()
    got: tuple[Any, ...] = (run.n_train, training.beta, model.lora_r)
    assert got == (5, 0.25, 4)


def test_help_tells_defaults_and_the_configuration_file(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        resolve(["--preset", "24gb", "--help"])
    assert caught.value.code == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "--config FILE.yaml" in text
    assert "(default: 0.2)" in text
