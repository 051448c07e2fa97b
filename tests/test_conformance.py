"""Environments through the real GRPOTrainer, played by a scripted policy: what TRL promises any environment.

The cases are those that hold for every environment: it is built by the factory and pooled, `reset` gets the row, tools
reach the right instance, the reward arrives, parameters move, unknown names and malformed calls do not crash, several
environments route by column, and the ways a rollout can end are told apart.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl")

from tests.scripted import ScriptedGRPOTrainer, build_tokenizer, call, play, raw, say
from trl_agentenvs import ALFWorldEnv, EpisodeLog, StopReason, ToolEnv
from trl_agentenvs.alfworld import data
from trl_agentenvs.trace import read_trace

pytestmark = pytest.mark.trainer
EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "own_env.py"
GAME = "generated:pick_and_place_simple:3"


@dataclass(frozen=True)
class Case:
    """An environment, a row it starts from, and calls that win."""

    env: type[ToolEnv]
    row: dict[str, Any]
    tool: str
    wins: Sequence[dict[str, Any]]

    def winning(self, template: str = "qwen3") -> list[str]:
        return [*(call(template, self.tool, **arguments) for arguments in self.wins), say(template)]


def alfworld() -> Case:
    commands = data.load(GAME).walkthrough
    return Case(ALFWorldEnv, {"game": GAME}, "act", [{"command": command} for command in commands])


def own_env() -> Case:
    spec = importlib.util.spec_from_file_location("own_env", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return Case(module.NumberEnv, {"number": 7}, "guess", [{"number": 3}, {"number": 7}])


CASES = [pytest.param(alfworld, id="alfworld"), pytest.param(own_env, id="own_env")]


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    return request.param()


def played(case: Case, scripts: Sequence[Sequence[str]], tmp_path: Path, **options: Any) -> ScriptedGRPOTrainer:
    factory = case.env.configured(trace_path=str(tmp_path / "rollouts.jsonl"), strict=True)
    eos = build_tokenizer(options.get("template", "qwen3")).eos_token_id
    options.setdefault("max_completion_length", 1500)
    return play(factory, scripts, rows=[case.row], reward_funcs=[EpisodeLog([eos])], **options)


def log_of(trainer: ScriptedGRPOTrainer) -> dict[str, float]:
    return next(entry for entry in trainer.state.log_history if "loss" in entry)


def test_scripted_win_is_rewarded_and_moves_parameters(case, tmp_path):
    before: list[Any] = []

    class Watched(ScriptedGRPOTrainer):
        def train(self, *args: Any, **kwargs: Any) -> Any:
            before.extend(p.detach().clone() for p in self.model.parameters())
            return super().train(*args, **kwargs)

    trainer = played(case, [case.winning(), [say("qwen3")]], tmp_path, trainer_class=Watched)
    log, name = log_of(trainer), case.env.__name__
    assert [env._stop for env in trainer.environments] == [StopReason.SOLVED, StopReason.NO_CALL]
    rewards = [env.get_reward() for env in trainer.environments]
    assert rewards[0] > rewards[1]
    assert log[f"rewards/{name}/mean"] == pytest.approx(sum(rewards) / 2)
    assert log[f"{name}/stop/solved"] == log[f"{name}/stop/no_call"] == 0.5
    assert log["tools/call_frequency"] == len(case.wins) / 2
    assert log["tools/failure_frequency"] == 0
    assert any(not old.equal(new) for old, new in zip(before, trainer.model.parameters(), strict=True))


def test_every_row_starts_its_own_instance_and_instances_are_pooled(case, tmp_path):
    trainer = played(case, [case.winning(), [say("qwen3")]], tmp_path, steps=2)
    assert len(trainer.environments) == 2
    assert len({id(env) for env in trainer.environments}) == 2
    rollouts = read_trace(tmp_path / "rollouts.jsonl").rollouts
    assert [rollout.stop for rollout in rollouts] == ["solved", "no_call"] * 2
    assert len({rollout.row for rollout in rollouts}) == 1


def test_group_starts_from_the_same_observation(case, tmp_path):
    trainer = played(case, [[say("qwen3")]] * 4, tmp_path)
    prompts = {tuple(rollout.prompt_ids) for rollout in trainer.rollouts}
    assert len(prompts) == 1
    text = trainer._tokenizer.decode(next(iter(prompts)))
    assert case.env().reset(**case.row)[:40] in text


def test_model_reads_what_the_tool_says_and_is_not_trained_on_it(case, tmp_path):
    trainer = played(case, [case.winning(), [say("qwen3")]], tmp_path)
    rollout = trainer.rollouts[0]
    env = case.env()
    env.reset(**case.row)
    expected = [env._call_tool(case.tool, dict(arguments)) for arguments in case.wins]
    assert rollout.texts("tool") == expected
    assert expected[-1].endswith("The episode is over: solved.")
    assert len(rollout.mask) == len(rollout.ids)
    unmasked = [token for token, keep in zip(rollout.ids, rollout.mask, strict=True) if keep]
    assert "The episode is over" not in trainer._tokenizer.decode(unmasked)


BAD_TURNS: dict[str, Callable[[str], str]] = {
    "unknown tool": lambda tool: call("qwen3", "nope", x=1),
    "private method": lambda tool: call("qwen3", "_end", reason="solved"),
    "reset": lambda tool: call("qwen3", "reset"),
    "no arguments": lambda tool: call("qwen3", tool),
    "foreign arguments": lambda tool: call("qwen3", tool, path="a", content=None),
    "null argument": lambda tool: call("qwen3", tool, command=None, number=None),
    "unbalanced json": lambda tool: raw("qwen3", f'<tool_call>\n{{"name": "{tool}", "arguments": {{\n</tool_call>'),
    "arguments as a string": lambda tool: raw(
        "qwen3", "<tool_call>\n" + json.dumps({"name": tool, "arguments": '{"command": "look"}'}) + "\n</tool_call>"
    ),
    "control tokens": lambda tool: call("qwen3", tool, command="<|im_end|>", number="<|im_end|>"),
    "thinks for ever": lambda tool: raw("qwen3", "<think>\n" + call("qwen3", tool, command="look", number=1)),
}


@pytest.mark.parametrize("bad", BAD_TURNS)
def test_bad_turn_does_not_crash_and_earns_nothing(case, bad, tmp_path):
    turn = BAD_TURNS[bad](case.tool)
    trainer = played(case, [[turn, turn, say("qwen3")], [say("qwen3")]], tmp_path)
    env = trainer.environments[0]
    assert env._stop is not None
    assert env._stop is not StopReason.SOLVED
    assert env.get_reward() <= 0
    for text in trainer.rollouts[0].texts("tool"):
        assert "<|im_end|>" not in text
        assert "Traceback" not in text


def test_refused_call_is_instructive_through_the_trainer(case, tmp_path):
    trainer = played(case, [[call("qwen3", case.tool, path="a"), say("qwen3")], [say("qwen3")]], tmp_path)
    (text,) = trainer.rollouts[0].texts("tool")
    parameter = next(iter(case.wins[0]))
    assert text == f"{case.tool} needs {parameter}; you gave path; it accepts {parameter}."


def test_calls_after_the_end_say_so_and_change_nothing(case, tmp_path):
    winning = case.winning()
    trainer = played(case, [[*winning[:-1], winning[0], say("qwen3")], [say("qwen3")]], tmp_path)
    assert trainer.rollouts[0].texts("tool")[-1] == "The episode is over: solved."
    assert trainer.environments[0]._turns == len(case.wins)


def test_malformed_call_is_told_from_giving_up(case, tmp_path):
    broken = raw("qwen3", '<tool_call>\n{"name": ')
    first = call("qwen3", case.tool, **case.wins[0])
    trainer = played(case, [[broken], [first, say("qwen3")]], tmp_path)
    assert [env._stop for env in trainer.environments] == [StopReason.MALFORMED, StopReason.GAVE_UP]


def test_turn_limit_of_the_trainer_is_told_from_giving_up(case, tmp_path):
    again = [call("qwen3", case.tool, **case.wins[0])] * 3
    trainer = played(case, [again, [say("qwen3")]], tmp_path, max_tool_calling_iterations=2)
    assert trainer.environments[0]._stop is StopReason.TURN_BUDGET


def test_result_that_does_not_fit_the_token_budget_is_told_from_giving_up(case, tmp_path):
    again = [call("qwen3", case.tool, **case.wins[0])] * 40
    trainer = played(case, [again, [say("qwen3")]], tmp_path, max_completion_length=300)
    assert trainer.environments[0]._stop in (StopReason.TOKEN_BUDGET, StopReason.TRUNCATED)


def test_two_environments_route_by_column_and_show_only_their_own_tools():
    one, other = alfworld(), own_env()
    rows = [
        {"environment": "house", "game": GAME, "number": None},
        {"environment": "guess", "game": None, "number": 7},
    ]
    texts = {}
    for row in rows:
        trainer = play(
            {"house": one.env, "guess": other.env},  # type: ignore[arg-type]
            [[say("qwen3")]] * 2,
            rows=[row],
            reward_funcs=[EpisodeLog()],
        )
        texts[row["environment"]] = trainer._tokenizer.decode(trainer.rollouts[0].prompt_ids)
    assert '"name": "act"' in texts["house"]
    assert '"name": "guess"' not in texts["house"]
    assert '"name": "guess"' in texts["guess"]
    assert '"name": "act"' not in texts["guess"]


def test_environment_that_brings_its_own_task_needs_no_dataset(case):
    class OwnTask(case.env):  # type: ignore[misc, name-defined]
        def reset(self) -> str:
            return super().reset(**case.row)

    trainer = play(OwnTask, [case.winning(), [say("qwen3")]], rows=None, max_completion_length=1500)
    assert [env._stop for env in trainer.environments] == [StopReason.SOLVED, StopReason.NO_CALL]


def test_row_without_what_reset_needs_is_told_before_anything_is_generated(case):
    (column,) = case.row
    with pytest.raises(ValueError, match=f"cannot start from a row with columns prompt: reset needs {column}"):
        play(case.env, [[say("qwen3")]] * 2, rows=None)


def test_reward_that_is_missing_is_not_a_zero(tmp_path):
    case = own_env()

    class Unscorable(case.env):  # type: ignore[misc, name-defined]
        def get_reward(self) -> None:
            return None

    trainer = play(Unscorable, [[say("qwen3")]] * 2, rows=[case.row], reward_funcs=[EpisodeLog()])
    log = log_of(trainer)
    assert log["Unscorable/unscorable"] == 1
    assert log.get("rewards/Unscorable/mean") != 0.0


@pytest.mark.parametrize("template", ["qwen3", "qwen3_5_think", "qwen3_5_nothink"])
def test_templates_of_several_families_play(case, template, tmp_path):
    trainer = played(case, [case.winning(template), [say(template)]], tmp_path, template=template)
    assert trainer.environments[0]._stop is StopReason.SOLVED


def test_spec_is_all_a_trainer_needs():
    spec = vars(ALFWorldEnv.spec("train", n=2, source="generated", env_options={"max_steps": 3}))
    assert set(spec) == {"train_dataset", "environment_factory", "reward_funcs"}
    assert spec["environment_factory"]().max_turns == 3
