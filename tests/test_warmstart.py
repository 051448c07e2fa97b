from __future__ import annotations

import dataclasses
from pathlib import Path

import datasets
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from trl_agentenvs.alfworld import data
from trl_agentenvs.alfworld.demos import Demo
from trl_agentenvs.alfworld.engine import Engine
from trl_agentenvs.training import warmstart
from trl_agentenvs.training.demos import DATA_OPTIONS, expert_demos
from trl_agentenvs.training.tiny_model import build_model
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


@pytest.fixture(scope="module")
def slipping() -> list[Demo]:
    """Demonstrations of an expert that slips often, of every task type."""
    return expert_demos(10, 3, slip_rate=0.3, env_options={"max_steps": 40}, data_options=ALL_TYPES)


def test_the_commands_of_a_demo_win_its_game(slipping: list[Demo]) -> None:
    for demo in slipping:
        engine = Engine(data.load(demo.game))
        for command in demo.commands:
            assert not engine.won
            engine.step(command)
        assert engine.won


def test_slips_are_refused_and_change_nothing(slipping: list[Demo]) -> None:
    slips = 0
    for demo in slipping:
        results = [message["content"] for message in demo.messages if message["role"] == "tool"]
        refused = [answer.startswith(NOTHING) for answer in results]
        slips += sum(refused)
        engine = Engine(data.load(demo.game))
        for command, was_refused in zip(demo.commands, refused, strict=True):
            if not was_refused:
                engine.step(command)
        assert engine.won
    assert slips > 10


def test_an_expert_that_does_not_slip_is_refused_nothing() -> None:
    for demo in expert_demos(3, 3, slip_rate=0.0):
        assert not any(message["content"].startswith(NOTHING) for message in demo.messages)


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


def test_the_key_is_the_same_in_another_process(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(warmstart, "_PACKAGE", tmp_path)
    monkeypatch.setattr(warmstart, "version", lambda library: "1")
    (tmp_path / "training").mkdir()
    (tmp_path / "training" / "demos.py").write_text("x = 1\n")
    assert (
        cache_key(0, SMALL) == "6ca5d5c5681fc2e8"
    )  # computed in another process; changes with the fields of WarmStart


def test_the_cache_folder_follows_the_xdg_variable(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_cache_dir() == tmp_path / "trl_agentenvs" / "warm_models"


@pytest.mark.usefixtures("made")
def test_the_progress_bars_of_datasets_are_left_as_they_were() -> None:
    assert datasets.utils.is_progress_bar_enabled()
