"""A call that cannot be made is answered with the fix: on the real GRPOTrainer, with scripted turns."""

from __future__ import annotations

import functools
import json

import pytest

from tests.scripted import EOS, Rollout, ScriptedGRPOTrainer, build_tokenizer, call, call_text, play, raw, say
from trl_agentenvs import ToolEnv, patches
from trl_agentenvs.patches import recover_calls

pytestmark = pytest.mark.trainer

JSON, XML, THINK = "qwen3", "qwen3_5_nothink", "qwen3_5_think"
UNBALANCED = f'<tool_call>\n{{"name": "add", "arguments": {{"step": 1}}\n</tool_call>{EOS}'


@pytest.fixture
def patched():
    with patches.applied(only=["recover_calls"]):
        yield


class Counter:
    """Counts; plain, without anything of a ToolEnv."""

    def reset(self, **row):
        self.count, self.noted = 0, []

    def add(self, step: int, times: int = 1) -> str:
        """Add.

        Args:
            step: How much.
            times: How often.
        """
        self.count += step * times
        return f"value={self.count}"

    def get_reward(self) -> float:
        return float(self.count)

    def _note_repair(self, kind: str) -> None:
        self.noted.append(kind)


def run(template: str, *turns: str, environment: type = Counter, **options) -> tuple[Rollout, ScriptedGRPOTrainer]:
    """Play the turns beside a rollout that says nothing; return the rollout and the trainer."""
    trainer = play(environment, [list(turns), [say(template)]], template=template, **options)
    return trainer.rollouts[0], trainer


def answer_to(rollout: Rollout) -> str:
    return rollout.texts("tool")[0]


# what a malformed turn looks like -------------------------------------------------------------------------------------


MALFORMED = [
    (JSON, UNBALANCED, "its JSON is not valid (Expecting"),
    (JSON, raw(JSON, call_text(XML, "add", step=1)), "it is not a JSON object"),
    (JSON, raw(JSON, '<tool_call>\n{"arguments": {"step": 1}}\n</tool_call>'), 'it has no "name"'),
    (JSON, raw(JSON, '{"name": "add", "arguments": {"step": 1}}'), "the tool-call tag"),
    (JSON, raw(JSON, '```json\n{"name": "add", "arguments": {}}\n```'), "the tool-call tag"),
    (XML, raw(XML, call_text(JSON, "add", step=1)), "it is written in JSON"),
    (XML, raw(XML, "<function=add>\n<parameter=step>\n1\n</parameter>\n</function>"), "the tool-call tag"),
    (THINK, raw(THINK, call_text(JSON, "add", step=1)), "it is written in JSON"),
    (THINK, raw(THINK, "<function=add>\n</function>"), "the tool-call tag"),
    (THINK, f"hm\n{call(XML, 'add', step=1)}", "inside your thinking"),
]


@functools.cache
def recovered(template: str) -> dict[str, Rollout]:
    """The rollouts of one batch, by the malformed turn each begins with; a proper call and an answer follow."""
    turns = [turn for of, turn, _ in MALFORMED if of == template]
    with patches.applied(only=["recover_calls"]):
        trainer = play(
            Counter, [[turn, call(template, "add", step=2), say(template)] for turn in turns], template=template
        )
    log = trainer.state.log_history[0]
    assert (log["tools/call_frequency"], log["tools/failure_frequency"]) == (2, 0.5)
    assert (log["reward"], log["completions/clipped_ratio"]) == (2, 0)
    return dict(zip(turns, trainer.rollouts, strict=True))


@pytest.mark.parametrize(("template", "bad", "fault"), MALFORMED)
def test_a_malformed_turn_is_answered_and_the_rollout_goes_on(template, bad, fault):
    rollout = recovered(template)[bad]
    assert rollout.roles == ["assistant", "tool", "assistant", "tool", "assistant"]
    assert fault in answer_to(rollout)
    assert "The tools are add." in answer_to(rollout)
    assert rollout.texts("tool")[1] == "value=2"


@pytest.mark.parametrize(("template", "bad", "fault"), MALFORMED)
def test_masks_tell_what_the_model_said_from_the_answers(template, bad, fault):
    rollout, tokenizer = recovered(template)[bad], build_tokenizer(template)
    assert len(rollout.mask) == len(rollout.ids)
    said = tokenizer.decode([token for token, own in zip(rollout.ids, rollout.mask, strict=True) if own])
    read = tokenizer.decode([token for token, own in zip(rollout.ids, rollout.mask, strict=True) if not own])
    assert said == bad + call(template, "add", step=2) + say(template)
    assert fault in read


def test_stock_trl_ends_the_rollout_in_silence():
    rollout, trainer = run(JSON, UNBALANCED, call(JSON, "add", step=2), say(JSON))
    assert rollout.roles == ["assistant"]
    assert trainer.state.log_history[0]["tools/call_frequency"] == 0


def test_a_malformed_later_turn_is_answered_too(patched):
    rollout, trainer = run(JSON, call(JSON, "add", step=2), UNBALANCED, call(JSON, "add", step=3), say(JSON))
    assert rollout.texts("tool")[::2] == ["value=2", "value=5"]
    assert "is not valid" in rollout.texts("tool")[1]
    assert trainer.environments[0].noted == ["malformed_call"]


def test_the_message_shows_the_turn_and_a_call_by_a_plain_name(patched):
    rollout, _ = run(JSON, UNBALANCED, say(JSON))
    (shown,) = rollout.messages[0]["tool_calls"]
    assert shown["function"] == {"name": recover_calls.MALFORMED_CALL, "arguments": {}}
    assert '{"name": "add"' in rollout.messages[0]["content"]
    names = [shown["function"]["name"], rollout.messages[1]["name"]]
    assert [type(name) for name in names] == [str, str]
    assert json.loads(json.dumps(rollout.messages)) == rollout.messages


# bounds ---------------------------------------------------------------------------------------------------------------


def test_malformed_turns_in_a_row_are_bounded(patched):
    rollout, trainer = run(JSON, UNBALANCED, max_completion_length=2000)
    assert rollout.roles == ["assistant", "tool"] * recover_calls.MAX_IN_A_ROW + ["assistant"]
    assert "tool_calls" not in rollout.messages[-1]
    assert trainer.environments[0].noted == ["malformed_call"] * recover_calls.MAX_IN_A_ROW


def test_a_proper_call_starts_the_count_again():
    good = call(JSON, "add", step=1)
    with patches.applied(only=["recover_calls"], recover_calls={"max_in_a_row": 1}):
        rollout, _ = run(JSON, UNBALANCED, good, UNBALANCED, good, UNBALANCED, UNBALANCED, max_completion_length=2000)
    assert rollout.roles == ["assistant", "tool"] * 5 + ["assistant"]


def test_rollouts_with_the_same_words_are_counted_apart(patched):
    trainer = play(Counter, [[UNBALANCED, call(JSON, "add", step=1), say(JSON)]] * 3)
    assert [rollout.roles for rollout in trainer.rollouts] == [["assistant", "tool"] * 2 + ["assistant"]] * 3
    assert [environment.noted for environment in trainer.environments] == [["malformed_call"]] * 3


def test_the_trainer_s_own_bound_on_turns_still_holds(patched):
    rollout, _ = run(JSON, UNBALANCED, max_tool_calling_iterations=2)
    assert rollout.roles == ["assistant", "tool"] * 2 + ["assistant"]


def test_a_call_cut_at_the_token_budget_is_not_recovered(patched):
    length = len(build_tokenizer(JSON)(UNBALANCED)["input_ids"])
    rollout, trainer = run(JSON, UNBALANCED, max_completion_length=length - 4)
    assert rollout.roles == ["assistant"]
    assert "tool_calls" not in rollout.messages[0]
    log = trainer.state.log_history[0]
    assert (log["tools/call_frequency"], log["completions/clipped_ratio"]) == (0, 0.5)


@pytest.mark.parametrize("max_in_a_row", [0, -1])
def test_a_bound_below_one_is_refused(max_in_a_row):
    with pytest.raises(ValueError, match=f"got max_in_a_row={max_in_a_row}; expected at least 1"):
        patches.apply(only=["recover_calls"], recover_calls={"max_in_a_row": max_in_a_row})


# calls that parse but cannot be made ----------------------------------------------------------------------------------


def json_call(name: str, arguments: object) -> str:
    return raw(JSON, f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>")


UNMAKABLE = {
    call(JSON, "sub", step=1): "There is no tool 'sub'; the tools are add.",
    call(JSON, "get_reward"): "There is no tool 'get_reward'; the tools are add.",
    call(JSON, "_note_repair", kind="x"): "There is no tool '_note_repair'; the tools are add.",
    call(JSON, "half\ud83d"): r"There is no tool 'half\\ud83d'; the tools are add.",
    call(JSON, "x" * 100): f"There is no tool '{'x' * 59}...; the tools are add.",
    call(JSON, "add", content=None): "add needs step; you gave content; it accepts step, times (optional).",
    json_call("add", None): "add needs step; you gave no arguments; it accepts step, times (optional).",
    call(JSON, "add", step=1, why="so"): "add does not take all of what you gave; you gave step, why; "
    "it accepts step, times (optional).",
    json_call("add", "one"): "The arguments of add must be one JSON object of names and values, got 'one'.",
    json_call("add", [1]): "The arguments of add must be one JSON object of names and values, got [1].",
    json_call("add", "[1]"): "The arguments of add must be one JSON object of names and values, got '[1]'.",
    json_call("sub", 7): "The arguments of sub must be one JSON object of names and values, got 7.",
}


@functools.cache
def refused() -> tuple[dict[str, Rollout], ScriptedGRPOTrainer]:
    """The rollouts of one batch, by the call each begins with, and their trainer."""
    with patches.applied(only=["recover_calls"]):
        trainer = play(Counter, [[turn, say(JSON)] for turn in UNMAKABLE])
    return dict(zip(UNMAKABLE, trainer.rollouts, strict=True)), trainer


@pytest.mark.parametrize(("turn", "answer"), UNMAKABLE.items())
def test_a_call_that_cannot_be_made_is_answered_with_the_fix(turn, answer):
    assert answer_to(refused()[0][turn]) == str({"error": answer})


def test_calls_that_cannot_be_made_count_as_failures_and_run_nothing():
    _, trainer = refused()
    assert trainer.state.log_history[0]["tools/failure_frequency"] == 1
    assert [environment.count for environment in trainer.environments] == [0] * len(UNMAKABLE)


def test_a_json_string_of_arguments_is_unpacked_and_the_call_made(patched):
    rollout, trainer = run(JSON, json_call("add", '{"step": 4, "times": 2}'), say(JSON))
    assert answer_to(rollout) == "value=8"
    assert trainer.environments[0].noted == ["json_arguments"]
    assert trainer.state.log_history[0]["tools/failure_frequency"] == 0
    assert rollout.messages[0]["tool_calls"][0]["function"] == {"name": "add", "arguments": {"step": 4, "times": 2}}


def test_a_proper_call_is_made_as_ever(patched):
    rollout, trainer = run(JSON, call(JSON, "add", step=1, times=3), say(JSON))
    assert answer_to(rollout) == "value=3"
    assert trainer.environments[0].noted == []


def test_an_error_inside_the_tool_is_not_taken_for_wrong_arguments(patched):
    class Faulty(Counter):
        def add(self, step: int) -> str:
            """Add.

            Args:
                step: How much.
            """
            raise TypeError("from within")

    rollout, _ = run(JSON, call(JSON, "add", step=1), say(JSON), environment=Faulty)
    assert answer_to(rollout) == "{'error': 'from within'}"


def test_asynchronous_tools_are_still_awaited(patched):
    class Waiting(Counter):
        async def add(self, step: int) -> str:
            """Add.

            Args:
                step: How much.
            """
            self.count += step
            return f"value={self.count}"

    rollout, _ = run(JSON, call(JSON, "add", step=1), call(JSON, "sub"), say(JSON), environment=Waiting)
    assert rollout.texts("tool")[0] == "value=1"
    assert "There is no tool 'sub'; the tools are add." in rollout.texts("tool")[1]


class Game(ToolEnv):
    """A ToolEnv, which answers names and arguments itself."""

    def reset(self) -> str:
        self.given: list[str] = []
        return " Begin."

    def act(self, command: str) -> str:
        """Act.

        Args:
            command: What to do.
        """
        self.given.append(command)
        return f"You {command}."

    def get_reward(self) -> float:
        return float(len(self.given))


def test_a_tool_env_answers_for_itself(patched):
    answers = {
        call(JSON, "nope", command="go"): "act",
        json_call("act", None): "act needs command",
        call(JSON, "act", cmd="go", content=None): "You go.",
        json_call("act", "[1]"): "act",
        json_call("act", '{"command": "go"}'): "You go.",
    }
    trainer = play(Game, [[turn, call(JSON, "act", command="wait"), say(JSON)] for turn in answers])
    for answer, rollout in zip(answers.values(), trainer.rollouts, strict=True):
        assert answer in rollout.texts("tool")[0]
        assert "error" not in rollout.texts("tool")[0]
        assert rollout.texts("tool")[1] == "You wait."
    assert trainer.state.log_history[0]["tools/failure_frequency"] == 0


def test_a_malformed_turn_in_a_tool_env_is_answered(patched):
    rollout, trainer = run(JSON, UNBALANCED, call(JSON, "act", command="go"), say(JSON), environment=Game)
    assert "The tools are act." in answer_to(rollout)
    assert trainer.environments[0].given == ["go"]


# beside others --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [("recover_calls", "episode_end"), ("episode_end", "recover_calls")])
def test_it_works_with_episode_end_in_either_order(order):
    class Door(Counter):
        _stop = None

        def add(self, step: int) -> str:
            """Add.

            Args:
                step: How much.
            """
            self._stop = "solved"
            return super().add(step)

    win = call(JSON, "add", step=1)
    with patches.applied(only=[order[0]]), patches.applied(only=[order[1]]):
        trainer = play(Door, [[UNBALANCED, win, say(JSON)], [win, say(JSON)], [UNBALANCED, say(JSON)], [say(JSON)]])
    assert [rollout.roles for rollout in trainer.rollouts] == [
        ["assistant", "tool", "assistant", "tool"],
        ["assistant", "tool"],
        ["assistant", "tool", "assistant"],
        ["assistant"],
    ]
    assert [len(rollout.mask) for rollout in trainer.rollouts] == [len(rollout.ids) for rollout in trainer.rollouts]
    assert trainer.state.log_history[0]["completions/clipped_ratio"] == 0


def test_turns_outside_the_tool_loop_are_parsed_as_ever(patched):
    from trl.trainer import grpo_trainer

    tokenizer = build_tokenizer(JSON)
    grpo_trainer.add_response_schema(tokenizer)
    ids = tokenizer(UNBALANCED)["input_ids"]
    assert set(grpo_trainer.parse_response(tokenizer, ids, prefix=[])) == {"role", "content"}


def test_brackets_without_end_are_text_and_do_not_end_the_training(patched):
    from trl.trainer import grpo_trainer

    tokenizer = build_tokenizer(JSON)
    grpo_trainer.add_response_schema(tokenizer)
    text = '<tool_call>\n{"name": "add", "arguments": ' + "[" * 100_000
    ids = tokenizer(text + EOS)["input_ids"]
    assert grpo_trainer.parse_response(tokenizer, ids, prefix=[]) == {"role": "assistant", "content": text}


def test_the_trainer_s_tools_are_put_back(patched):
    _, trainer = run(JSON, UNBALANCED, say(JSON))
    assert {type(tools) for tools in trainer._sync_tool_dicts} == {dict}


def test_it_steps_aside_where_the_parser_reports_failures(monkeypatch):
    from trl.trainer import grpo_trainer

    def parse_response(tokenizer, ids, prefix=None, tools=None):
        return {"role": "assistant", "content": "", "parse_error": "bad"}

    monkeypatch.setattr(grpo_trainer, "parse_response", parse_response)
    assert patches.apply(only=["recover_calls"]) == []
    assert patches.status()["recover_calls"] == "stepped aside: TRL reports calls it could not parse"
