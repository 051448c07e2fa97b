"""What TRL's own trainers make of demonstrations: what SFTTrainer trains on is what GRPOTrainer plays."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from datasets import Dataset
from transformers import PreTrainedTokenizerBase
from transformers.utils import get_json_schema
from trl import GRPOConfig, SFTConfig, SFTTrainer
from trl.chat_template_utils import get_training_chat_template

from tests.scripted import ScriptedGRPOTrainer, build_model, build_tokenizer, call, say
from trl_agentenvs.alfworld.env import ALFWorldEnv
from trl_agentenvs.training.chat_template import check_template, sft_template, training_sequence, use_training_template
from trl_agentenvs.training.demos import expert_demos
from trl_agentenvs.training.sft_rows import check_sft_rows, sft_dataset
from trl_agentenvs.training.tiny_model import build_tokenizer as build_short_tokenizer

pytestmark = pytest.mark.trainer

TEMPLATES = ("qwen3", "qwen3_5_nothink", "qwen3_5_think")
NO_THOUGHT = "<think>\n\n</think>\n\n"
ENV_OPTIONS = {"max_steps": 12}
QUIET = {
    "use_cpu": True, "bf16": False, "gradient_checkpointing": False, "report_to": "none", "save_strategy": "no",
    "disable_tqdm": True, "per_device_train_batch_size": 2,
}  # fmt: skip


@pytest.fixture(scope="module")
def rows() -> list[dict]:
    """Rows as a file of demonstrations holds them."""
    tools = [get_json_schema(ALFWorldEnv(**ENV_OPTIONS).act)]
    demos = expert_demos(4, 5, env_options=ENV_OPTIONS)
    return [{"messages": demo.messages, "tools": tools, "game": demo.game} for demo in demos]


def commands(row: dict) -> list[str]:
    calls = [message["tool_calls"][0] for message in row["messages"] if message["role"] == "assistant"]
    return [made["function"]["arguments"]["command"] for made in calls]


def training_tokenizer(template: str) -> PreTrainedTokenizerBase:
    made = build_tokenizer(template)
    use_training_template(made, enable_thinking=False)
    return made


class RecordingTrainer(SFTTrainer):
    """Keeps what the loss is computed from."""

    def compute_loss(self, model, inputs, *args, **kwargs):
        self.seen += zip(inputs["input_ids"].tolist(), inputs["labels"].tolist(), strict=True)
        return super().compute_loss(model, inputs, *args, **kwargs)


def sft_trainer(made: PreTrainedTokenizerBase, rows: list[dict], folder: Path) -> RecordingTrainer:
    args = SFTConfig(
        output_dir=str(folder), max_steps=2, assistant_only_loss=True, max_length=4096, learning_rate=1e-2, **QUIET
    )
    trainer = RecordingTrainer(
        model=build_model(made), processing_class=made, args=args, train_dataset=sft_dataset(rows)
    )
    trainer.seen = []
    return trainer


@pytest.mark.parametrize("template", ["qwen3", "qwen3_5_nothink"])
def test_sft_trainer_trains_on_exactly_the_turns_of_the_assistant(template: str, rows, tmp_path) -> None:
    made = training_tokenizer(template)
    trainer = sft_trainer(made, rows, tmp_path)
    start = {name: weight.detach().clone() for name, weight in trainer.model.named_parameters()}
    trainer.train()
    assert all(not torch.equal(start[name], weight) for name, weight in trainer.model.named_parameters())
    written = {
        "qwen3": '{{"name": "act", "arguments": {{"command": "{}"}}}}',
        "qwen3_5_nothink": "<function=act>\n<parameter=command>\n{}\n</parameter>\n</function>",
    }[template]
    turn = f"{NO_THOUGHT}<tool_call>\n{written}\n</tool_call><|im_end|>\n"
    expected = ["".join(turn.format(command) for command in commands(row)) for row in rows]
    trained = [made.decode([token for token in labels if token != -100]) for _, labels in trainer.seen]
    assert sorted(trained) == sorted(expected)
    for ids, labels in trainer.seen:
        assert all(label in (-100, token) for token, label in zip(ids, labels, strict=True))


@pytest.mark.parametrize("template", TEMPLATES)
@pytest.mark.parametrize("fixed", [False, True])
def test_sft_trainer_renders_with_the_template_that_the_checks_take(template: str, fixed: bool, rows, tmp_path) -> None:
    made = training_tokenizer(template) if fixed else build_tokenizer(template)
    trainer = sft_trainer(made, rows[:1], tmp_path)
    assert trainer.chat_template == sft_template(made) == (None if fixed else get_training_chat_template(made))
    ids, _ = training_sequence(made, rows[0], sft_template(made))
    assert trainer.train_dataset[0]["input_ids"] == ids


@pytest.mark.parametrize("template", TEMPLATES)
def test_demos_pass_both_checks(template: str, rows) -> None:
    made, dataset = training_tokenizer(template), sft_dataset(rows)
    check_sft_rows(dataset, made, max_length=4096)
    check_template(made, dataset)


def test_demos_pass_where_a_token_reaches_beyond_the_turn(rows) -> None:
    merging = build_short_tokenizer(tools=[ALFWorldEnv().act], system_prompt=rows[0]["messages"][0]["content"])
    check_sft_rows(sft_dataset(rows), merging, max_length=4096)


@pytest.mark.parametrize("template", TEMPLATES)
def test_grpo_plays_the_very_tokens_that_sft_trains_on(template: str, rows, tmp_path) -> None:
    made, row = training_tokenizer(template), rows[0]
    args = GRPOConfig(output_dir=str(tmp_path), num_generations=2, max_steps=1, max_completion_length=4000, **QUIET)
    prompt = [row["messages"][0], {"role": "user", "content": ALFWorldEnv.user_prompt}]
    trainer = ScriptedGRPOTrainer(
        model=build_model(made),
        processing_class=made,
        args=args,
        train_dataset=Dataset.from_list([{"prompt": prompt, "game": row["game"]}]),
        environment_factory=ALFWorldEnv.configured(**ENV_OPTIONS),
    )
    style = "qwen3" if template == "qwen3" else "qwen3_5_nothink"
    trainer.scripts = [[*(call(style, "act", command=command) for command in commands(row)), say(style, "Done.")]]
    trainer.train()
    assert trainer.chat_template is None  # TRL found nothing to replace
    rollout = trainer.rollouts[0]
    played = [*rollout.prompt_ids, *rollout.ids]
    said = [0] * len(rollout.prompt_ids) + rollout.mask
    trained, in_loss = training_sequence(made, row, sft_template(made))
    assert played[: len(trained)] == trained
    # What is said is trained on; beside it, the block that opens a turn and the line feed behind it.
    pairs = list(zip(in_loss, said, strict=False))
    assert all(loss for loss, turn in pairs if turn)
    beside = [token for token, (loss, turn) in zip(trained, pairs, strict=True) if loss and not turn]
    assert made.decode(beside) == f"{NO_THOUGHT}\n" * len(commands(row))
