"""The rollout ends when its environment says so: on the real GRPOTrainer, with scripted turns."""

from __future__ import annotations

import functools
import itertools
from types import SimpleNamespace

import pytest

from tests.scripted import Rollout, ScriptedGRPOTrainer, build_tokenizer, call, play, say
from trl_agentenvs import StopReason, ToolEnv, patches
from trl_agentenvs.patches import episode_end
from trl_agentenvs.patches.tool_loop import Rollouts

pytestmark = pytest.mark.trainer

TEMPLATES = ("qwen3", "qwen3_5_nothink", "qwen3_5_think")
TOO_LATE = "This turn comes too late."


@pytest.fixture
def patched():
    with patches.applied(only=["episode_end"]):
        yield


class Door:
    """Opens with "open"; says through `_stop` that it is over then."""

    def reset(self, **row):
        self._stop, self.commands = None, []

    def act(self, command: str) -> str:
        """Act.

        Args:
            command: What to do.
        """
        self.commands.append(command)
        if command != "open":
            return "Nothing happens."
        self._stop = "solved"
        return "The door is open."

    def get_reward(self) -> float:
        return float(self._stop == "solved")


def scripts(template: str) -> list[list[str]]:
    """Wins in the second turn; wins in the first; never calls; looks twice and gives up."""
    look, win = call(template, "act", command="look"), call(template, "act", command="open")
    return [
        [look, win, say(template, TOO_LATE)],
        [win, say(template, TOO_LATE)],
        [say(template, "No.")],
        [look, look, say(template, "I give up.")],
    ]


@functools.cache
def finished(template: str) -> ScriptedGRPOTrainer:
    """A trainer after one patched step on `scripts(template)`."""
    with patches.applied(only=["episode_end"]):
        return play(Door, scripts(template), template=template)


def log_of(trainer: ScriptedGRPOTrainer) -> dict[str, float]:
    return trainer.state.log_history[0]


def assert_masks_fit(rollout: Rollout, template: str) -> None:
    """Masks run along ids; what is unmasked is what the model said, and each tool result is masked."""
    tokenizer = build_tokenizer(template)
    assert len(rollout.mask) == len(rollout.ids)
    said = tokenizer.decode([token for token, own in zip(rollout.ids, rollout.mask, strict=True) if own])
    read = tokenizer.decode([token for token, own in zip(rollout.ids, rollout.mask, strict=True) if not own])
    for result in rollout.texts("tool"):
        assert result in read
        assert result not in said
    assert said.count("<tool_call>") == rollout.roles.count("tool")


@pytest.mark.parametrize("template", TEMPLATES)
def test_the_rollout_stops_and_keeps_its_last_result(template):
    second, first, silent, looker = finished(template).rollouts
    assert second.roles == ["assistant", "tool", "assistant", "tool"]
    assert first.roles == ["assistant", "tool"]
    assert (second.texts("tool")[-1], first.texts("tool")[-1]) == ("The door is open.",) * 2
    assert silent.roles == ["assistant"]
    assert looker.roles == ["assistant", "tool", "assistant", "tool", "assistant"]
    tokenizer = build_tokenizer(template)
    for rollout in finished(template).rollouts:
        assert TOO_LATE not in tokenizer.decode(rollout.ids)
        assert rollout.ids[-1] == tokenizer.eos_token_id
        assert_masks_fit(rollout, template)


def test_ended_rollouts_are_not_generated_for():
    # All four; then of the three that called, the one that won is over; then only the looker goes on.
    assert finished("qwen3").rows_generated == [4, 2, 1]


def test_when_all_have_ended_nothing_is_generated(patched):
    trainer = play(Door, [[call("qwen3", "act", command="open"), say("qwen3", TOO_LATE)]] * 2)
    assert trainer.rows_generated == [2]
    assert [rollout.roles for rollout in trainer.rollouts] == [["assistant", "tool"]] * 2


def test_stock_trl_goes_on_after_the_end():
    trainer = play(Door, scripts("qwen3"))
    assert trainer.rollouts[0].texts("assistant")[-1] == TOO_LATE
    assert trainer.rows_generated == [4, 3, 2]


def test_rewards_are_paid_as_ever():
    log = log_of(finished("qwen3"))
    assert log["rewards/Door/mean"] == log["reward"] == 0.5
    assert log["tools/call_frequency"] == 5 / 4
    assert log["tools/failure_frequency"] == 0


@pytest.mark.parametrize("template", TEMPLATES)
def test_ended_rollouts_count_as_terminated(template):
    log = log_of(finished(template))
    assert log["completions/clipped_ratio"] == 0
    assert log["completions/mean_terminated_length"] == log["completions/mean_length"]


def test_ended_rollouts_train_although_truncated_ones_are_masked(patched):
    win, silent = [call("qwen3", "act", command="open")], [say("qwen3", "No.")]
    log = log_of(play(Door, [win, silent], mask_truncated_completions=True))
    assert log["grad_norm"] > 0


def test_logprobs_run_along_the_ids(patched):
    class WithLogprobs(ScriptedGRPOTrainer):
        with_logprobs = True

    for batch in (scripts("qwen3"), [[call("qwen3", "act", command="open")]] * 2):
        for rollout in play(Door, batch, trainer_class=WithLogprobs).rollouts:
            assert [-float(own) for own in rollout.mask] == rollout.logprobs


def test_a_last_result_that_does_not_fit_ends_the_rollout_without_it(patched):
    class Talkative(Door):
        def act(self, command: str) -> str:
            """Act.

            Args:
                command: What to do.
            """
            return super().act(command) + " You can see" + " very" * 400 + " far."

    win = call("qwen3", "act", command="open")
    trainer = play(Talkative, [[win, say("qwen3", TOO_LATE)], [say("qwen3")]], max_completion_length=100)
    assert trainer.rollouts[0].roles == ["assistant"]
    assert len(trainer.rollouts[0].mask) == len(trainer.rollouts[0].ids)
    assert trainer.rows_generated == [2]
    assert log_of(trainer)["reward"] == 0.5
    assert log_of(trainer)["completions/clipped_ratio"] == 0


def test_a_last_result_that_just_fits_is_kept(patched):
    win = [call("qwen3", "act", command="open")]
    needed = len(play(Door, [win, win]).rollouts[0].ids)
    kept = play(Door, [win, win], max_completion_length=needed).rollouts[0]
    dropped = play(Door, [win, win], max_completion_length=needed - 1).rollouts[0]
    assert (kept.roles, dropped.roles) == (["assistant", "tool"], ["assistant"])
    assert len(kept.ids) == needed


def test_both_results_of_the_turn_that_ends_it_are_kept(patched):
    both = call("qwen3", "act", command="open").removesuffix("<|im_end|>") + "\n" + call("qwen3", "act", command="look")
    trainer = play(Door, [[both, say("qwen3", TOO_LATE)], [say("qwen3")]])
    assert trainer.rollouts[0].texts("tool") == ["The door is open.", "Nothing happens."]
    assert trainer.rollouts[0].roles == ["assistant", "tool", "tool"]


def test_rollouts_with_the_same_words_end_each_by_its_own_environment(patched):
    class Stubborn(Door):
        made = 0

        def __init__(self):
            self.opens = Stubborn.made % 2 == 0
            Stubborn.made += 1

        def act(self, command: str) -> str:
            """Act.

            Args:
                command: What to do.
            """
            text = super().act(command)
            self._stop = self._stop if self.opens else None
            return text

    trainer = play(Stubborn, [[call("qwen3", "act", command="open"), say("qwen3", "More.")]] * 4)
    assert [rollout.roles[-1] for rollout in trainer.rollouts] == ["tool", "assistant"] * 2


def test_anything_but_a_reason_leaves_the_rollout_running(patched):
    stops = itertools.cycle([None, "", 0, True, print, object()])

    class Strange(Door):
        def act(self, command: str) -> str:
            """Act.

            Args:
                command: What to do.
            """
            self._stop = next(stops)
            return "Go on."

    trainer = play(Strange, [[call("qwen3", "act", command="open"), say("qwen3")]] * 6)
    assert [rollout.roles for rollout in trainer.rollouts] == [["assistant", "tool", "assistant"]] * 6


def test_environments_without_the_attribute_are_untouched(patched):
    class Plain:
        def reset(self, **row):
            self.count = 0

        def add(self, step: int) -> str:
            """Add.

            Args:
                step: How much.
            """
            self.count += step
            return f"value={self.count}"

        def get_reward(self) -> float:
            return float(self.count)

    batch = [[call("qwen3", "add", step=2), say("qwen3")], [say("qwen3")]]
    with_patch = play(Plain, batch).rollouts
    assert [rollout.roles for rollout in with_patch] == [["assistant", "tool", "assistant"], ["assistant"]]


def test_only_standalone_tools_and_no_environment_still_work(patched):

    def add(step: int) -> str:
        """Add.

        Args:
            step: How much.
        """
        return f"value={step}"

    class WithTool(ScriptedGRPOTrainer):
        def __init__(self, *args, environment_factory=None, **kwargs):
            super().__init__(*args, tools=[add], **kwargs)

    def length(completions, **columns):
        return [float(len(messages)) for messages in completions]

    batch = [[call("qwen3", "add", step=2), say("qwen3")], [say("qwen3")]]
    trainer = play(Door, batch, trainer_class=WithTool, reward_funcs=[length])
    assert trainer.rollouts[0].roles == ["assistant", "tool", "assistant"]


def test_the_next_batch_starts_afresh(patched):
    trainer = play(Door, scripts("qwen3"), rows=[{"seed": 0}, {"seed": 1}], steps=2)
    assert trainer.state.global_step == 2
    assert [row["reward"] for row in trainer.state.log_history if "reward" in row] == [0.5, 0.5]
    assert trainer.rollouts[0].roles == ["assistant", "tool", "assistant", "tool"]


def test_a_tool_env_ends_the_rollout_by_itself(patched):
    class Game(ToolEnv):
        def reset(self) -> str:
            return " The door is shut."

        def act(self, command: str) -> str:
            """Act.

            Args:
                command: What to do.
            """
            if command == "open":
                self._end(StopReason.SOLVED)
            return f"You {command}."

        def get_reward(self) -> float:
            return float(self._stop is StopReason.SOLVED)

    trainer = play(Game, scripts("qwen3"))
    assert trainer.rollouts[1].roles == ["assistant", "tool"]
    assert trainer.rollouts[1].texts("tool")[0].startswith("You open.")
    assert log_of(trainer)["reward"] == 0.5


def test_the_instance_is_left_as_it_was():
    assert not {"_get_tool_suffix_ids", "_generate_single_turn"} & set(vars(finished("qwen3")))


def test_rows_that_carry_images_are_generated_for_and_dropped():
    """Images go row by row beside the ids, so rows cannot be left out; what was generated for ended ones is dropped."""
    asked = []

    class Trainer:
        environments = (SimpleNamespace(_stop="solved"), SimpleNamespace(_stop=None))
        _tokenizer = SimpleNamespace(eos_token_id=9)

        def _get_tool_suffix_ids(self, messages):
            return [5, 9, 6]

        def _generate_single_turn(self, prompt_ids, images, num_generations):
            asked.append((prompt_ids, images))
            return [[7] for _ in prompt_ids], [[-1.0] for _ in prompt_ids]

    trainer, results = Trainer(), [{"role": "tool"}, {"role": "tool"}]
    rollouts = Rollouts(trainer, [[1], [1]], [[2], [2]], [[results[0]], [results[1]]])
    with episode_end._ending_rollouts(rollouts):
        suffixes = [trainer._get_tool_suffix_ids([result]) for result in results]
        prompts = [[1, 2, *suffix] for suffix in suffixes]
        with_images = trainer._generate_single_turn(prompts, [["image"], ["image"]], num_generations=1)
        without = trainer._generate_single_turn(prompts, None, num_generations=1)
    assert suffixes == [[5, 9], [5, 9, 6]]
    assert with_images == without == ([[], [7]], [[], [-1.0]])
    assert asked == [(prompts, [["image"], ["image"]]), (prompts[1:], None)]


def test_messages_of_no_rollout_are_a_moved_target():
    trainer = SimpleNamespace(environments=[SimpleNamespace(_stop=None)])
    trainer._get_tool_suffix_ids = lambda messages: [1]
    trainer._generate_single_turn = None
    with (
        episode_end._ending_rollouts(Rollouts(trainer, [[1]], [[2]], [[{"role": "tool"}]])),
        pytest.raises(patches.PatchTargetMoved, match="tool messages that are no rollout's own"),
    ):
        trainer._get_tool_suffix_ids([{"role": "tool"}])


def test_it_steps_aside_where_trl_asks_environments_itself(monkeypatch):
    monkeypatch.setattr(episode_end, "loop_source", lambda patch: "if environment.is_done(): break")
    assert "asks environments itself" in episode_end.superseded()
    assert patches.apply(only=["episode_end"]) == []
    assert patches.status()["episode_end"].startswith("stepped aside: TRL's tool loop")


def test_a_suffix_without_an_end_token_gets_one():
    class Trainer:
        class _tokenizer:  # noqa: N801
            eos_token_id = 9

        eos_token_ids = (9, 8)

    cut = episode_end._up_to_end_of_turn
    assert cut(Trainer, [1, 9, 2, 3]) == [1, 9]
    assert cut(Trainer, [1, 8, 2, 9, 3]) == [1, 8, 2, 9]
    assert cut(Trainer, [1, 2]) == [1, 2, 9]
