from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl")

from tests.scripted import build_model, build_tokenizer
from trl_agentenvs import ToolEnv
from trl_agentenvs.training.arguments import resolve
from trl_agentenvs.training.modelfiles import is_path
from trl_agentenvs.training.preflight import Preflight, PreflightError, preflight

LONG_WORDS = 1500  # of a docstring or a first observation that fills a model length of 4096


@pytest.fixture(scope="session")
def saved_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    tokenizer = build_tokenizer("qwen3")
    build_model(tokenizer).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def model(saved_model: Path, tmp_path: Path) -> Path:
    """A folder of its own, to be spoiled."""
    return Path(shutil.copytree(saved_model, tmp_path / "model"))


def check(*argv: str, model: Path | str | None = None) -> Preflight:
    """Preflight of a run that can start on a CPU, but for what the arguments change."""
    base = ["--preset", "none", "--use_cpu", "--max_completion_length", "2000", "--n_train", "4", "--n_eval", "4"]
    base += [] if model is None else ["--model", str(model)]
    return preflight(resolve([*base, *argv]))


def the_stop(checked: Preflight) -> str:
    """The only thing that stops the run, which is one sentence."""
    (sentence,) = checked.stops
    assert "\n" not in sentence
    return sentence


def test_a_run_that_can_start_passes_with_everything_it_needs(saved_model: Path) -> None:
    checked = check(model=saved_model)
    assert (checked.stops, checked.warnings) == ([], [])
    assert checked.built is not None
    assert checked.playable is not None
    assert len(checked.playable.train_rows) == 4
    assert checked.budget is not None
    assert checked.budget.prompt > checked.budget.schemas > 0
    checked.raise_for_stops()


def test_all_findings_come_at_once() -> None:
    checked = check("--num_generations", "7", "--env", "nope", "--patches", "25gb", model="no/such/folder")
    with pytest.raises(PreflightError) as caught:
        checked.raise_for_stops()
    assert caught.value.findings == checked.stops
    assert len(checked.stops) == 4
    assert str(caught.value).splitlines() == checked.stops


# The model's files


def test_no_model() -> None:
    assert "got no model" in the_stop(check())


@pytest.mark.parametrize("name", ["./nowhere", "/nowhere/at/all", "~/nowhere", "a/b/c"])
def test_missing_folder(name: str) -> None:
    sentence = the_stop(check(model=name))
    assert name in sentence
    assert "no such folder" in sentence


def test_folder_without_config(tmp_path: Path) -> None:
    assert "holds no config.json" in the_stop(check(model=tmp_path))


def test_adapter_instead_of_a_model(tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text("{}")
    assert "LoRA adapter" in the_stop(check(model=tmp_path))


def test_folder_without_weights(model: Path) -> None:
    for path in model.glob("*.safetensors"):
        path.unlink()
    assert "no weights" in the_stop(check(model=model))


@pytest.mark.parametrize("text", ["{", '{"model_type": "nonesuch"}', "{}"])
def test_config_that_is_none(model: Path, text: str) -> None:
    (model / "config.json").write_text(text)
    assert "cannot load the model" in the_stop(check(model=model))


def test_hub_id_without_network() -> None:
    sentence = the_stop(check(model="nobody/nothing-here"))
    assert "nobody/nothing-here" in sentence
    assert "network" in sentence


def test_dry_run_looks_up_nothing_on_the_hub() -> None:
    checked = preflight(resolve(["--preset", "none", "--model", "nobody/nothing-here", "--n_train", "4"]), dry_run=True)
    assert checked.stops == []
    assert checked.model is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [("Qwen/Qwen3.5-4B", False), ("gpt2", False), ("./x", True), ("a/b/c", True), ("~/m", True), ("C:\\m", True)],
)
def test_folders_and_hub_ids_are_told_apart(name: str, expected: bool) -> None:
    assert is_path(name) is expected


def test_missing_tokenizer(model: Path) -> None:
    for path in model.glob("*token*"):
        path.unlink()
    assert "holds no tokenizer" in the_stop(check(model=model))


def test_broken_tokenizer(model: Path) -> None:
    (model / "tokenizer.json").write_text("{")
    assert "cannot load the tokenizer" in the_stop(check(model=model))


# The chat template


def change_template(model: Path, template: str | None) -> None:
    (model / "chat_template.jinja").unlink()
    if template is not None:
        (model / "chat_template.jinja").write_text(template)


def test_tokenizer_without_chat_template(model: Path) -> None:
    change_template(model, None)
    assert "has no chat template" in the_stop(check(model=model))


def test_template_that_renders_no_tool_calls(model: Path) -> None:
    change_template(model, "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}")
    assert "does not render tool calls" in the_stop(check(model=model))


def test_template_that_trl_does_not_know(model: Path) -> None:
    change_template(model, (model / "chat_template.jinja").read_text() + "{# one comment #}")
    sentence = the_stop(check(model=model))
    assert "does not know the chat template" in sentence
    assert "response_template" in sentence


def test_unknown_template_passes_when_the_tokenizer_says_how_to_parse(saved_model: Path, tmp_path: Path) -> None:
    from transformers import AutoTokenizer
    from trl.chat_template_utils import add_response_schema

    tokenizer = add_response_schema(AutoTokenizer.from_pretrained(saved_model))
    if getattr(tokenizer, "response_template", None) is None:
        pytest.skip("this transformers keeps no response template in a saved tokenizer")
    folder = Path(shutil.copytree(saved_model, tmp_path / "own"))
    # A template that keeps each turn as it is, whatever follows: TRL needs no training variant of it.
    tokenizer.chat_template = (
        "{% for t in tools or [] %}{{ t | tojson }}{% endfor %}"
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
        "{% for c in m.tool_calls or [] %}<tool_call>\n{{ c.function | tojson }}\n</tool_call>{% endfor %}<|im_end|>\n"
        "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    tokenizer.save_pretrained(folder)
    assert check(model=folder).stops == []


# The environment and its rows


class Rows(ToolEnv):
    """A toy whose rows, options and texts the tests choose."""

    observation = "Hello."
    seeds = (1, 2, 3)
    max_turns = 3

    def __init__(self, *, size: int = 1, trace_path: str | None = None) -> None:
        if size < 1:
            raise ValueError(f"got size={size}; expected at least 1")
        super().__init__(trace_path=trace_path)

    def reset(self, seed: int) -> str:
        if seed < 0:
            raise FileNotFoundError(f"there is no game {seed}")
        if seed > 100:
            raise RuntimeError("the sandbox is gone")
        return self.observation

    def look(self) -> str:
        """Look around."""
        return "Nothing."

    def get_reward(self) -> float:
        return 0.0

    @classmethod
    def _rows(cls, split: str, n: int | None, seed: int, **options: Any) -> list[dict[str, Any]]:
        if split not in ("train", "test"):
            raise ValueError(f"got the split {split!r}; expected one of train, test")
        return [{"seed": number} for number in cls.seeds][:n]


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> type[Rows]:
    """The toy, known on the command line as toy:Rows."""
    module = type(sys)("toy")
    copy = type("Rows", (Rows,), {})
    vars(module).update(Rows=copy, NoEnv=int)
    monkeypatch.setitem(sys.modules, "toy", module)
    return copy


def test_environment_that_breaks_the_contract(
    saved_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "breaks_it.py").write_text(
        "from trl_agentenvs import ToolEnv\nclass Env(ToolEnv):\n    def look(self, where):\n        return where\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    sentence = the_stop(check("--env", "breaks_it:Env", model=saved_model))
    assert "Env cannot be an environment" in sentence


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("alfwrld", ["did you mean alfworld", "module:Class", "path/to/file.py:Class"]),
        ("toy", ["alfworld", "module:Class"]),
        ("nonesuch.module:Env", ["nonesuch.module cannot be imported"]),
        ("no/such/file.py:Env", ["no/such/file.py", "there is none"]),
        ("toy:Nope", ["toy has no class or factory 'Nope'", "it has Rows"]),
        ("toy:NoEnv", ["no subclass", "ToolEnv"]),
    ],
)
def test_unknown_environment(rows: type[Rows], saved_model: Path, name: str, words: list[str]) -> None:
    sentence = the_stop(check("--env", name, model=saved_model))
    assert [word for word in words if word not in sentence] == []


def test_environment_of_somebody_else(rows: type[Rows], saved_model: Path) -> None:
    checked = check("--env", "toy:Rows", "--env_options", '{"size": 2}', model=saved_model)
    assert checked.stops == []
    assert checked.playable is not None
    assert checked.playable.factory("trace")()._trace_path == "trace"


def test_environment_in_a_file(saved_model: Path, repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    checked = check("--env", f"{repo / 'examples' / 'own_env.py'}:NumberEnv", model=saved_model)
    assert checked.playable is not None
    assert checked.playable.name == "NumberEnv"
    sys.modules.pop("own_env", None)


@pytest.mark.parametrize(
    ("options", "words"),
    [('{"sizes": 1}', ["sizes", "it takes size"]), ('{"size": 0}', ["size=0"]), ("[]", ["JSON object"])],
)
def test_wrong_options(rows: type[Rows], saved_model: Path, options: str, words: list[str]) -> None:
    sentence = the_stop(check("--env", "toy:Rows", "--env_options", options, model=saved_model))
    assert [word for word in words if word not in sentence] == []


@pytest.mark.parametrize("option", ["--split", "--eval_split"])
def test_unknown_split(saved_model: Path, option: str) -> None:
    sentence = the_stop(check(option, "valid_unsen", "--num_generations_eval", "1", model=saved_model))
    assert "valid_unsen" in sentence
    assert "valid_unseen" in sentence


def test_unknown_way_to_choose_rows(saved_model: Path) -> None:
    assert "got the row option 'max_rooms'" in the_stop(check("--data_options", '{"max_rooms": 3}', model=saved_model))


def test_missing_official_games(saved_model: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    official = ("--data_options", '{"source": "official"}')
    assert "ALFWORLD_DATA" in the_stop(check(*official, model=saved_model))
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path))
    assert str(tmp_path) in the_stop(check(*official, model=saved_model))


def test_corrupt_game_file(saved_model: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    game = tmp_path / "json_2.1.1" / "train" / "look_at_obj_in_light-A-None-B-1" / "trial_1" / "game.tw-pddl"
    game.parent.mkdir(parents=True)
    game.write_text('{"pddl_domain": ')
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path))
    sentence = the_stop(check("--n_train", "1", model=saved_model))
    assert "row 0" in sentence
    assert str(game) in sentence


def test_rows_that_do_not_start_are_named_and_counted(rows: type[Rows], saved_model: Path) -> None:
    rows.seeds = (1, -1, 200, -3, -4, -5)  # type: ignore[assignment]
    stops = check("--env", "toy:Rows", "--n_train", "none", model=saved_model).stops
    assert len(stops) == 4
    assert "row 1 of Rows does not start: there is no game -1" in stops[0]
    assert "the sandbox is gone" in stops[1]
    assert "2 more" in stops[3]


def test_environment_without_rows(rows: type[Rows], saved_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "_rows", ToolEnv._rows)
    assert "has no rows of its own" in the_stop(check("--env", "toy:Rows", model=saved_model))


# Turns and tokens


def test_turn_limit_is_the_environments(saved_model: Path) -> None:
    checked = check("--env_options", '{"max_steps": 7}', model=saved_model)
    assert checked.resolved.values["max_tool_calling_iterations"] == 7
    assert checked.resolved.derived["max_tool_calling_iterations"] == "ALFWorldEnv.max_turns"
    assert checked.built is not None
    assert checked.built[1].max_tool_calling_iterations == 7


def test_turn_limit_of_the_user_stays_and_a_lower_one_is_told(saved_model: Path) -> None:
    checked = check("--max_tool_calling_iterations", "5", model=saved_model)
    assert checked.resolved.values["max_tool_calling_iterations"] == 5
    (warning,) = checked.warnings
    assert "50 calls" in warning


def test_unlimited_turns_stay_unlimited(rows: type[Rows], saved_model: Path) -> None:
    rows.max_turns = None  # type: ignore[assignment]
    checked = check("--env", "toy:Rows", model=saved_model)
    assert checked.stops == []
    assert checked.resolved.values["max_tool_calling_iterations"] is None


def test_first_observation_larger_than_the_model(rows: type[Rows], saved_model: Path) -> None:
    rows.observation = "the quick brown fox " * LONG_WORDS
    rows.max_output_chars = 10**6
    sentence = the_stop(check("--env", "toy:Rows", model=saved_model))
    assert "longest first prompt" in sentence
    assert "4096" in sentence


def test_tool_schemas_larger_than_the_model(rows: type[Rows], saved_model: Path) -> None:
    def look(self) -> str:  # type: ignore[no-untyped-def]
        return "Nothing."

    look.__doc__ = "Look around. " * LONG_WORDS
    checked = check("--env", "toy:Rows", model=saved_model)
    assert checked.budget is not None
    small = checked.budget.schemas
    sys.modules["toy"].Rows = type("Rows", (Rows,), {"look": look})  # type: ignore[attr-defined]
    checked = check("--env", "toy:Rows", model=saved_model)
    assert "tool schemas" in the_stop(checked)
    assert checked.budget is not None
    assert checked.budget.schemas > LONG_WORDS > small


def test_engine_length_counts_with_a_colocated_engine(saved_model: Path) -> None:
    argv = ["--use_vllm", "--vllm_max_model_length", "300", "--dtype", "bfloat16"]
    stops = check(*argv, model=saved_model).stops
    assert any("a model length of 300" in sentence for sentence in stops)


def test_budget_that_cannot_hold_the_turns_is_a_warning(saved_model: Path) -> None:
    checked = check("--max_completion_length", "100", model=saved_model)
    assert checked.stops == []
    (warning,) = checked.warnings
    assert "50 turns" in warning


def test_completion_longer_than_what_the_prompt_leaves_is_a_warning(saved_model: Path) -> None:
    checked = check("--max_completion_length", "4000", model=saved_model)
    assert checked.stops == []
    (warning,) = checked.warnings
    assert "rollouts are cut" in warning


def test_tool_that_cannot_be_described(rows: type[Rows], saved_model: Path) -> None:
    def look(self: Rows) -> str:  # an annotated self is one of the things that transformers cannot describe
        """Look around."""
        return "Nothing."

    sys.modules["toy"].Rows = type("Rows", (Rows,), {"look": look})  # type: ignore[attr-defined]
    sentence = the_stop(check("--env", "toy:Rows", model=saved_model))
    assert "trl-agentenvs check toy:Rows" in sentence


def test_what_trl_itself_refuses_is_told(saved_model: Path) -> None:
    assert "TRL refuses this configuration" in the_stop(check("--fp16", "True", "--bf16", "True", model=saved_model))
