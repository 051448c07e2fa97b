"""Hinted rows: the trainer draws them in order and once, and preflight says where it would not."""

from __future__ import annotations

import pytest

pytest.importorskip("trl")

from datasets import Dataset

from trl_agentenvs.alfworld.hints import SCHEDULES
from trl_agentenvs.training.arguments import Resolved, resolve
from trl_agentenvs.training.hinted_rows import fit_hints, rows_drawn
from trl_agentenvs.training.playability import open_environment

BATCH = ["--per_device_train_batch_size", "8", "--gradient_accumulation_steps", "2", "--num_generations", "4"]
TASKS_A_STEP = 4


def resolved(*argv: str, preset: str = "none") -> Resolved:
    return resolve(["--preset", preset, "--use_cpu", *BATCH, *argv])


def hinted(n: int) -> Dataset:
    return Dataset.from_list([{"game": str(i), **SCHEDULES["both"].columns(i, n)} for i in range(n)])


def findings(resolved: Resolved, rows: Dataset) -> list[tuple[str, bool]]:
    return [(finding.text, finding.stops) for finding in fit_hints(resolved, rows)]


def test_order_of_the_rows_is_kept_where_nobody_asked_for_another():
    run = resolved("--max_steps", "10")
    assert run.values["shuffle_dataset"] is True
    assert findings(run, hinted(10 * TASKS_A_STEP)) == []
    assert run.values["shuffle_dataset"] is False
    assert "shuffle_dataset: false  # rows with hints" in run.to_yaml()


def test_rows_without_hints_are_drawn_as_they_were():
    run = resolved("--max_steps", "1000")
    assert findings(run, Dataset.from_list([{"game": "a"}])) == []
    assert run.values["shuffle_dataset"] is True
    assert "shuffle_dataset" not in run.sources


def test_order_that_the_user_asked_for_stops_the_run():
    run = resolved("--max_steps", "10", "--shuffle_dataset", "True")
    ((text, stops),) = findings(run, hinted(10 * TASKS_A_STEP))
    assert stops
    assert "shuffle_dataset True from the command line" in text


def test_written_configuration_is_read_back_without_a_complaint(tmp_path):
    run = resolved("--max_steps", "10")
    assert findings(run, hinted(40)) == []
    path = tmp_path / "run.yaml"
    path.write_text(run.to_yaml())
    again = resolve(["--config", str(path)])
    assert findings(again, hinted(40)) == []
    assert again.values["shuffle_dataset"] is False


@pytest.mark.parametrize(
    ("argv", "advice"),
    [(("--max_steps", "25"), "--max_steps 10"), (("--num_train_epochs", "2"), "--num_train_epochs 1")],
)
def test_rows_drawn_again_are_told(argv, advice):
    ((text, stops),) = findings(resolved(*argv), hinted(40))
    assert "hints that have faded start again" in text
    assert text.endswith(f"use {advice}")
    assert not stops


def test_run_that_ends_before_the_hints_do_is_told():
    ((text, stops),) = findings(resolved("--max_steps", "5"), hinted(40))
    assert text == "the run draws 20 of 40 rows, so hints do not fade to their end; use --n_train 20"
    assert not stops


def test_run_that_draws_each_row_once_is_not_told_to_draw_as_many():
    assert findings(resolved("--num_train_epochs", "1"), hinted(1)) == []


@pytest.mark.parametrize("argv", [("--max_steps", "8"), ("--max_steps", "10"), ("--num_train_epochs", "1")])
def test_run_that_reaches_the_rows_without_hints_is_fine(argv):
    assert findings(resolved(*argv), hinted(40)) == []


@pytest.mark.parametrize(
    ("argv", "steps"),
    [
        ((), 1),
        (("--num_iterations", "2"), 2),
        (("--steps_per_generation", "8"), 1),
    ],
)
def test_rows_of_a_run_are_those_the_sampler_gives(argv, steps):
    """By TRL's own sampler: the rows of as many batches as the steps take, each row once."""
    from trl import GRPOConfig
    from trl.trainer.utils import RepeatSampler

    run = resolved("--max_steps", "8", "--output_dir", "unused", *argv)
    _, config, _ = run.build()
    assert isinstance(config, GRPOConfig)
    sampler = RepeatSampler(
        list(range(100)),
        mini_repeat_count=config.num_generations,
        batch_size=config.generation_batch_size // config.num_generations,
        repeat_count=config.num_iterations * config.steps_per_generation,
        shuffle=False,
    )
    trained = config.max_steps * config.gradient_accumulation_steps
    batch = config.per_device_train_batch_size * config.steps_per_generation
    drawn = [index for index, _ in zip(iter(sampler), range(trained * batch), strict=False)]
    assert rows_drawn(run.values, 100) == len(set(drawn)) == 32 // steps
    assert sorted(set(drawn)) == list(range(len(set(drawn))))


def test_evaluation_rows_of_a_run_carry_neither_hints_nor_limits_of_their_own():
    argv = ["--n_train", "8", "--n_eval", "4", "--eval_split", "valid_unseen", "--split", "train"]
    playable, sentences = open_environment(resolved(*argv, "--data_options", '{"hint": "both", "step_limit": 3.0}'))
    assert sentences == []
    assert playable is not None
    assert playable.eval_rows is not None
    assert set(playable.eval_rows.column_names) == {"prompt", "game", "task_type"}
    assert len([name for name in playable.train_rows.column_names if "hint" in name]) == 3


def test_the_turn_limit_of_a_run_is_that_of_the_longest_row():
    argv = ["--n_train", "8", "--eval_split", "none", "--data_options", '{"step_limit": 3.0}']
    playable, _ = open_environment(resolved(*argv))
    assert playable is not None
    assert playable.max_turns == max(playable.train_rows["max_steps"]) != 50


def test_unknown_schedule_is_told():
    playable, sentences = open_environment(resolved("--n_train", "2", "--data_options", '{"hint": "all"}'))
    assert playable is None
    assert "expected one of both, action, state" in sentences[0]


def test_last_row_without_hints_of_its_own_ends_them():
    rows = [*hinted(8).to_list()[:4], *({"game": str(i)} for i in range(4, 8))]
    assert findings(resolved("--num_train_epochs", "1"), Dataset.from_list(rows)) == []
