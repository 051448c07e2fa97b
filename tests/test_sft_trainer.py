"""What TRL's own trainers make of demonstrations: what SFTTrainer trains on is what GRPOTrainer plays."""

from __future__ import annotations

from pathlib import Path

import pytest
from datasets import Dataset
from transformers import PreTrainedTokenizerBase
from transformers.utils import get_json_schema
from trl import GRPOConfig, SFTConfig, SFTTrainer
from trl.chat_template_utils import get_training_chat_template

from tests.scripted import Rollout, ScriptedGRPOTrainer, build_model, build_tokenizer, call, say
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


def warm_start_tokenizer(rows: list[dict]) -> PreTrainedTokenizerBase:
    """With a vocabulary of the rows' words, and TRL's template as it comes."""
    env = ALFWorldEnv(**ENV_OPTIONS)
    texts = [message["content"] for row in rows for message in row["messages"]]
    return build_short_tokenizer(corpus=texts, tools=[env.act], system_prompt=env.system_prompt)


def sft_trainer(made: PreTrainedTokenizerBase, rows: list[dict], folder: Path) -> SFTTrainer:
    args = SFTConfig(output_dir=str(folder), assistant_only_loss=True, max_length=4096, **QUIET)
    return SFTTrainer(model=build_model(made), processing_class=made, args=args, train_dataset=sft_dataset(rows))


@pytest.mark.parametrize("template", ["qwen3", "qwen3_5_nothink"])
def test_sft_trainer_trains_on_exactly_the_turns_of_the_assistant(template: str, rows, tmp_path) -> None:
    made = training_tokenizer(template)
    batches = list(sft_trainer(made, rows, tmp_path).get_train_dataloader())
    seen = [
        pair for batch in batches for pair in zip(batch["input_ids"].tolist(), batch["labels"].tolist(), strict=True)
    ]
    written = {
        "qwen3": '{{"name": "act", "arguments": {{"command": "{}"}}}}',
        "qwen3_5_nothink": "<function=act>\n<parameter=command>\n{}\n</parameter>\n</function>",
    }[template]
    turn = f"{NO_THOUGHT}<tool_call>\n{written}\n</tool_call><|im_end|>\n"
    expected = ["".join(turn.format(command) for command in commands(row)) for row in rows]
    trained = [made.decode([token for token in labels if token != -100]) for _, labels in seen]
    assert sorted(trained) == sorted(expected)
    for ids, labels in seen:
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
    check_sft_rows(sft_dataset(rows), warm_start_tokenizer(rows), max_length=4096)


def played(made: PreTrainedTokenizerBase, row: dict, folder: Path, style: str, opened: str = "") -> Rollout:
    """What GRPOTrainer has of an episode with the commands of a row; `opened`: what the policy says before each."""
    trainer = ScriptedGRPOTrainer(
        model=build_model(made),
        processing_class=made,
        args=GRPOConfig(output_dir=str(folder), num_generations=2, max_steps=1, max_completion_length=4000, **QUIET),
        train_dataset=Dataset.from_list(
            [
                {
                    "prompt": [row["messages"][0], {"role": "user", "content": ALFWorldEnv.user_prompt}],
                    "game": row["game"],
                }
            ]
        ),
        environment_factory=ALFWorldEnv.configured(**ENV_OPTIONS),
    )
    turns = [*(call(style, "act", command=command) for command in commands(row)), say(style, "Done.")]
    trainer.scripts = [[opened + turn for turn in turns]]
    trainer.train()
    return trainer.rollouts[0]


@pytest.mark.parametrize("template", TEMPLATES)
def test_grpo_plays_the_very_tokens_that_sft_trains_on(template: str, rows, tmp_path) -> None:
    made, row = training_tokenizer(template), rows[0]
    rollout = played(made, row, tmp_path, "qwen3" if template == "qwen3" else "qwen3_5_nothink")
    said = [0] * len(rollout.prompt_ids) + rollout.mask
    trained, in_loss = training_sequence(made, row, sft_template(made))
    assert [*rollout.prompt_ids, *rollout.ids][: len(trained)] == trained
    # What is said is trained on; beside it, the block that opens a turn and the line feed behind it.
    pairs = list(zip(in_loss, said, strict=False))
    assert all(loss for loss, turn in pairs if turn)
    beside = [token for token, (loss, turn) in zip(trained, pairs, strict=True) if loss and not turn]
    assert made.decode(beside) == f"{NO_THOUGHT}\n" * len(commands(row))


def test_grpo_plays_the_very_tokens_that_the_warm_start_trains_on(rows, tmp_path) -> None:
    made, row = warm_start_tokenizer(rows), rows[0]
    rollout = played(made, row, tmp_path, "qwen3", opened=NO_THOUGHT)
    trained, _ = training_sequence(made, row, sft_template(made))
    length = len(trained) - 1  # its last line feed is one token with what comes behind it in play
    assert [*rollout.prompt_ids, *rollout.ids][:length] == trained[:length]
