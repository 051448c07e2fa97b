"""Why a rollout ended, read from what was generated, and what reaches the trainer's log."""

from __future__ import annotations

from typing import Any

import pytest

from trl_agentenvs import EpisodeLog, StopReason, ToolEnv, read_trace
from trl_agentenvs.episode_log import classify_stop
from trl_agentenvs.patches.recover_calls import MALFORMED_CALL

EOS = frozenset({2})
CALL = {"role": "assistant", "tool_calls": [{"type": "function", "function": {"name": "look", "arguments": {}}}]}
BROKEN = {"role": "assistant", "tool_calls": [{"function": {"name": MALFORMED_CALL, "arguments": {}}}]}
RESULT = {"role": "tool", "name": "look", "content": "A room."}


def said(text: str, **fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text, **fields}


class Room(ToolEnv):
    def reset(self) -> str:
        return "Go."

    def look(self) -> str:
        """Look around."""
        return "A room."

    def get_reward(self) -> float | None:
        self._reward_parts["turns"] = self._turns / 10
        return self._reward_parts["turns"] if self._turns else None


def played(turns: int) -> Room:
    env = Room()
    env.reset()
    for _ in range(turns):
        env.look()
    return env


@pytest.mark.parametrize(
    ("turns", "messages", "ids", "stop"),
    [
        (0, [said("I will not.")], [5, 2], StopReason.NO_CALL),
        (1, [CALL, RESULT, said("Done.")], [5, 2], StopReason.GAVE_UP),
        (1, [CALL, RESULT, said("Well,")], [5, 5], StopReason.TRUNCATED),
        (1, [CALL], [5, 2], StopReason.TOKEN_BUDGET),
        (1, [CALL, RESULT, CALL], [5, 2], StopReason.TURN_BUDGET),
        (1, [CALL, RESULT, said('<tool_call>\n{"name": "look"')], [5, 2], StopReason.MALFORMED),
        (0, [said("", reasoning_content="so <tool_call>...")], [5, 2], StopReason.MALFORMED),
        (0, [said(None)], [2], StopReason.NO_CALL),
        (0, [], [], StopReason.NO_CALL),
        (1, [BROKEN, RESULT, CALL], [5, 2], StopReason.TOKEN_BUDGET),
        (0, [BROKEN, RESULT, said("Done.")], [5, 2], StopReason.NO_CALL),
        (0, [said("", tool_calls=[{"type": "other", "name": "look"}])], [5, 2], StopReason.TURN_BUDGET),
    ],
)
def test_reason_is_read_from_the_rollout(turns, messages, ids, stop):
    assert classify_stop(played(turns), messages, ids, EOS) is stop


def test_reason_of_the_environment_comes_first():
    env = played(1)
    env._end(StopReason.SOLVED)
    assert classify_stop(env, [CALL], [5, 5], EOS) is StopReason.SOLVED


def test_log_scores_nothing_and_every_rollout_has_one_reason():
    logged: dict[str, float] = {}
    envs = [played(0), played(2), object()]
    completions = [[said("No.")], [CALL, RESULT, CALL, RESULT, said("Done.")], [said("x")]]
    scores = EpisodeLog(EOS)(
        completions=completions,
        completion_ids=[[5, 2], [5, 5, 2], [2]],
        environments=envs,
        log_metric=logged.__setitem__,
        prompts=[],
        game=["a", "b", "c"],
    )
    assert scores == [None] * 3
    assert sum(value for name, value in logged.items() if name.startswith("Room/stop/")) == 1.0
    assert logged["Room/stop/no_call"] == logged["Room/stop/gave_up"] == 0.5
    assert logged["Room/turns"] == 1.0
    assert logged["Room/unscorable"] == 0.5
    assert logged["Room/reward/turns"] == 0.1
    assert logged["Room/tokens/completion"] == 2.5


def test_figure_that_no_episode_has_is_not_logged_as_zero():
    logged: dict[str, float] = {}
    EpisodeLog()(
        completions=[[said("No.")]], completion_ids=[[2]], environments=[played(0)], log_metric=logged.__setitem__
    )
    assert "Room/tool_error_rate" not in logged


def test_repairs_are_told_per_episode_and_not_per_episode_that_needed_some():
    logged: dict[str, float] = {}
    envs = [played(0) for _ in range(4)]
    envs[0]._note_repair("malformed_call")
    EpisodeLog()(
        completions=[[said("No.")]] * 4, completion_ids=[[2]] * 4, environments=envs, log_metric=logged.__setitem__
    )
    assert logged["Room/repairs/malformed_call"] == logged["Room/repairs"] == 0.25


def test_repair_made_on_the_trainers_side_is_counted():
    env = played(0)
    env._note_repair("malformed_call")
    assert env._metrics()["repairs/malformed_call"] == 1


@pytest.mark.parametrize("value", [None, float("nan"), "much", [1]])
def test_part_of_a_reward_that_is_no_number_is_missing(value, tmp_path):
    class Partly(Room):
        def get_reward(self) -> float | None:
            self._reward_parts.update(known=1.0, unknown=value)
            return 1.0

    env, logged = Partly(trace_path=str(tmp_path / "rollouts.jsonl")), {}
    env.reset()
    EpisodeLog()([[said("Done.")]], [[2]], [env], lambda name, figure: logged.update({name: figure}))
    assert logged["Partly/reward/known"] == 1.0
    assert "Partly/reward/unknown" not in logged
    assert read_trace(tmp_path / "rollouts.jsonl").rollouts[0].reward_parts["known"] == 1.0


def test_success_is_a_rate_of_scored_episodes_alone():
    logged: dict[str, float] = {}
    won, unscorable = played(1), played(0)
    won._end(StopReason.SOLVED)
    EpisodeLog()(
        completions=[[said("Done.")], [said("No.")]],
        completion_ids=[[2], [2]],
        environments=[won, unscorable],
        log_metric=logged.__setitem__,
    )
    assert (logged["Room/success"], logged["Room/stop/solved"]) == (1.0, 0.5)
