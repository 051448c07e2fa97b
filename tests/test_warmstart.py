from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import datasets
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import GRPOConfig
from trl.chat_template_utils import get_training_chat_template

from tests.scripted import ScriptedGRPOTrainer
from trl_agentenvs.alfworld import data
from trl_agentenvs.alfworld.engine import Engine
from trl_agentenvs.alfworld.env import ALFWorldEnv
from trl_agentenvs.training import warmstart
from trl_agentenvs.training.demos import DATA_OPTIONS, expert_demos
from trl_agentenvs.training.tiny_model import build_model, build_tokenizer
from trl_agentenvs.training.warmstart import WarmStart, cache_key, default_cache_dir, warm_model

pytestmark = pytest.mark.trainer

SMALL = WarmStart(demos=8, steps=2, batch_size=2, warmup_steps=1)
ALL_TYPES = {"source": "endless", "max_receptacles": 6}
NOTHING = "Nothing happens."


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    return warm_model(0, tmp_path_factory.mktemp("warm"), recipe=SMALL, progress=False)


@pytest.fixture
def no_training(monkeypatch):
    def train(*args, **kwargs):
        raise AssertionError("it was trained again")

    monkeypatch.setattr(warmstart, "train_on_demos", train)


# Demonstrations


@pytest.mark.parametrize("slip_rate", [0.0, 0.3])
def test_the_commands_of_a_demo_win_its_game(slip_rate: float) -> None:
    for demo in expert_demos(12, 3, slip_rate=slip_rate, env_options={"max_steps": 40}, data_options=ALL_TYPES):
        engine = Engine(data.load(demo.game))
        for command in demo.commands:
            assert not engine.won
            engine.step(command)
        assert engine.won


def test_slips_are_refused_and_change_nothing() -> None:
    slips = 0
    for demo in expert_demos(12, 3, slip_rate=0.3, env_options={"max_steps": 40}, data_options=ALL_TYPES):
        results = [message["content"] for message in demo.messages if message["role"] == "tool"]
        refused = [answer.startswith(NOTHING) for answer in results]
        slips += sum(refused)
        engine = Engine(data.load(demo.game))
        for command, was_refused in zip(demo.commands, refused, strict=True):
            if not was_refused:
                engine.step(command)
        assert engine.won
    assert slips > 12


def test_a_seed_fixes_the_demos_and_another_gives_others() -> None:
    first, again, other = (expert_demos(5, seed) for seed in (1, 1, 2))
    assert first == again
    assert {demo.game for demo in first} != {demo.game for demo in other}
    assert len({demo.game for demo in first}) == 5


def test_no_demo_is_of_a_game_that_evaluation_plays() -> None:
    played = {demo.game for demo in expert_demos(50, 0)}
    for split in ("valid_seen", "valid_unseen"):
        assert not played & set(data.game_ids(split, n=100, **DATA_OPTIONS))


def test_fewer_demos_than_asked_for_is_an_error_that_says_how_many() -> None:
    with pytest.raises(ValueError, match=r"got n=5; the expert won 0 of \d+ games; lower n or raise max_steps"):
        expert_demos(5, 0, env_options={"max_steps": 1})


# Tokens


class _Replay(ScriptedGRPOTrainer):
    def __init__(self, *args, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        self.prompts: list[list[int]] = []

    def _generate_single_turn(self, prompt_ids, *args, **kwargs):
        self.prompts += [list(ids) for ids in prompt_ids]
        return super()._generate_single_turn(prompt_ids, *args, **kwargs)


def test_every_prompt_of_an_episode_begins_the_sequence_that_was_trained_on(tmp_path) -> None:
    options = {"max_steps": 40}
    demos = expert_demos(2, 4, slip_rate=0.2, env_options=options, data_options=ALL_TYPES)
    env = ALFWorldEnv(**options)
    tokenizer = build_tokenizer(
        corpus=[text for demo in demos for text in demo.texts], tools=[env.act], system_prompt=env.system_prompt
    )
    template = get_training_chat_template(tokenizer)
    for demo in demos:
        trained = tokenizer.apply_chat_template(
            demo.messages, tools=[env.act], chat_template=template, return_dict=True, return_assistant_tokens_mask=True
        )
        args = GRPOConfig(
            output_dir=str(tmp_path), per_device_train_batch_size=2, num_generations=2, max_steps=1, use_cpu=True,
            bf16=False, gradient_checkpointing=False, save_strategy="no", report_to="none", disable_tqdm=True,
            max_completion_length=2000, max_tool_calling_iterations=len(demo.commands),
        )  # fmt: skip
        rows = datasets.Dataset.from_list(
            [{"prompt": [*demo.messages[:1], {"role": "user", "content": ""}], "game": demo.game}]
        )
        trainer = _Replay(
            model=build_model(tokenizer, layers=1, hidden_size=16), processing_class=tokenizer, args=args,
            train_dataset=rows, environment_factory=ALFWorldEnv.configured(**options),
        )  # fmt: skip
        said = (
            "<think>\n\n</think>\n\n"
            + '<tool_call>\n{{"name": "act", "arguments": {{"command": "{}"}}}}\n</tool_call><|im_end|>'
        )
        trainer.scripts = [[said.format(command) for command in demo.commands]]
        trainer.train()
        length = len(trained["input_ids"])
        early = [prompt for prompt in trainer.prompts if len(prompt) < length]
        assert len(early) == 2 * len(demo.commands)
        for prompt in early:
            assert trained["input_ids"][: len(prompt)] == prompt
        # What is generated in a rollout is what the loss was taken on. The template counts the line feed behind a turn
        # as the assistant's, so the token it begins was trained on, too. Behind the win, TRL's loop went on.
        rollout = trainer.rollouts[0]
        played = [0] * len(rollout.prompt_ids) + rollout.mask
        after_turn = {i + 1 for i, token in enumerate(trained["input_ids"]) if token == tokenizer.eos_token_id}
        for index in set(range(length - 1)) - after_turn:  # the last line feed comes with the next generation prompt
            assert played[index] == trained["assistant_masks"][index]


# The cache


def test_a_warm_model_can_be_loaded(made: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(made)
    model = AutoModelForCausalLM.from_pretrained(made)
    assert model.config.vocab_size == len(tokenizer)
    assert all(torch.isfinite(weight).all() for weight in model.parameters())


def test_a_warm_model_was_trained(made: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(made)
    trained, untrained = AutoModelForCausalLM.from_pretrained(made), build_model(tokenizer, 0)
    assert not torch.equal(trained.get_input_embeddings().weight, untrained.get_input_embeddings().weight)


@pytest.mark.usefixtures("no_training")
def test_the_second_call_takes_the_first_ones_folder(made: Path) -> None:
    assert warm_model(0, made.parent, recipe=SMALL, progress=False) == made


def test_nothing_but_finished_models_stays_in_the_cache(made: Path) -> None:
    assert [path.name for path in made.parent.iterdir()] == [made.name]


def test_an_interrupted_run_leaves_no_model(tmp_path, monkeypatch) -> None:
    class Broken:
        def save_pretrained(self, folder):
            (Path(folder) / "half").parent.mkdir(parents=True)
            raise KeyboardInterrupt

    monkeypatch.setattr(warmstart, "train_on_demos", lambda *args, **kwargs: (Broken(), Broken()))
    with pytest.raises(KeyboardInterrupt):
        warm_model(0, tmp_path, recipe=SMALL)
    assert list(tmp_path.iterdir()) == []


def test_a_model_that_another_process_finished_first_is_taken(tmp_path, monkeypatch) -> None:
    target = tmp_path / f"seed0-{cache_key(0, SMALL)}"

    class Saved:
        def save_pretrained(self, folder):
            Path(folder).mkdir(parents=True, exist_ok=True)
            target.mkdir(exist_ok=True)
            (target / "theirs").touch()

    monkeypatch.setattr(warmstart, "train_on_demos", lambda *args, **kwargs: (Saved(), Saved()))
    assert warm_model(0, tmp_path, recipe=SMALL) == target
    assert (target / "theirs").exists()


def test_a_cache_that_cannot_be_written_is_an_error(tmp_path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        warm_model(0, tmp_path / "file", recipe=SMALL)


def test_the_key_changes_with_all_that_makes_the_model(tmp_path, monkeypatch) -> None:
    keys = [cache_key(0, SMALL), cache_key(1, SMALL)]
    for name, value in (
        ("demos", 9), ("steps", 3), ("batch_size", 4), ("learning_rate", 1e-3), ("slip_rate", 0.5),
        ("env_options", {"max_steps": 3}), ("data_options", {"source": "generated"}),
    ):  # fmt: skip
        keys.append(cache_key(0, dataclasses.replace(SMALL, **{name: value})))
    monkeypatch.setattr(warmstart, "version", lambda library: "0")
    keys.append(cache_key(0, SMALL))
    assert len(set(keys)) == len(keys)


def test_the_key_changes_with_the_sources_that_make_the_model_and_no_others(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(warmstart, "_PACKAGE", tmp_path)
    for folder in ("alfworld", "training"):
        (tmp_path / folder).mkdir()

    def key_after_writing(name: str) -> str:
        (tmp_path / name).write_text(name)
        return cache_key(0, SMALL)

    others = {key_after_writing(name) for name in ("cli.py", "training/closing.py", "alfworld/notes.md")}
    assert others == {cache_key(0, SMALL)}
    makers = [
        "alfworld/engine.py",
        "alfworld/places.json",
        "training/demos.py",
        "training/tiny_model.py",
        "training/warmstart.py",
    ]
    assert len(others | {key_after_writing(name) for name in makers}) == 1 + len(makers)


def test_every_source_file_that_the_key_hashes_exists() -> None:
    assert {"engine.py", "generate.py", "demos.py", "tiny_model.py", "warmstart.py"} <= {
        path.name for path in warmstart._source_files()
    }


def test_the_key_is_the_same_in_another_process() -> None:
    code = "from tests.test_warmstart import SMALL, cache_key; print(cache_key(0, SMALL))"
    environ = {**os.environ, "PYTHONHASHSEED": "5"}
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environ)
    assert found.stdout.strip() == cache_key(0, SMALL)


def test_the_cache_folder_follows_the_xdg_variable(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_cache_dir() == tmp_path / "trl_agentenvs" / "warm_models"


@pytest.mark.usefixtures("made")
def test_the_progress_bars_of_datasets_are_left_as_they_were() -> None:
    assert datasets.utils.is_progress_bar_enabled()
