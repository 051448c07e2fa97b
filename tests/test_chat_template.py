from __future__ import annotations

import re
from pathlib import Path

import pytest
import trl
from transformers import AutoTokenizer
from transformers.utils import get_json_schema
from trl.chat_template_utils import parse_response

from tests.scripted import call
from trl_agentenvs.training.chat_template import check_template, sft_template, training_sequence, use_training_template
from trl_agentenvs.training.tiny_model import build_tokenizer

pytestmark = pytest.mark.trainer

TEMPLATES = ("qwen3", "qwen3_5_nothink", "qwen3_5_think")
NO_THOUGHT = "<think>\n\n</think>\n\n"


def act(command: str) -> str:
    """Do something.

    Args:
        command: What to do.
    """
    return f"You did: {command}."


@pytest.fixture(params=TEMPLATES)
def template(request: pytest.FixtureRequest) -> str:
    return request.param


def tokenizer(name: str):
    """With two line feeds as one token, as in Qwen's vocabulary."""
    made = build_tokenizer(name, ["a\n\nb"] * 3)
    assert len(made("\n\n")["input_ids"]) == 1
    return made


def tool_episode(thought: str | None = None, turns: int = 3) -> dict:
    """One question, answered by calls."""
    messages = [{"role": "system", "content": "Play."}, {"role": "user", "content": "Go."}]
    reasoning = {} if thought is None else {"reasoning_content": thought}
    for turn in range(turns):
        arguments = {"command": f"go to desk {turn}"}
        made = {"type": "function", "function": {"name": "act", "arguments": arguments}}
        messages.append({"role": "assistant", "content": "", **reasoning, "tool_calls": [made]})
        messages.append({"role": "tool", "name": "act", "content": act(**arguments)})
    messages.append({"role": "assistant", "content": "Done.", **reasoning})
    return {"messages": messages, "tools": [get_json_schema(act)]}


def chat_episode(thought: str | None = None) -> dict:
    """Each observation is a message of the user."""
    reasoning = {} if thought is None else {"reasoning_content": thought}
    messages: list[dict] = [{"role": "system", "content": "Play."}]
    for turn in range(3):
        messages.append({"role": "user", "content": f"You see desk {turn}."})
        messages.append({"role": "assistant", "content": f"go to desk {turn}", **reasoning})
    return {"messages": messages}


EPISODES = {"tools": tool_episode, "chat": chat_episode}


# Which of TRL's templates hold

# Episode, thought, and for each template: None if every prompt begins the training sequence, else the first that does
# not. Thinking is off for episodes without thoughts and on for the others.
STOCK = [
    ("tools", None, {"qwen3": "turn 1", "qwen3_5_nothink": None, "qwen3_5_think": None}),
    ("chat", None, {"qwen3": "turn 1", "qwen3_5_nothink": "turn 1", "qwen3_5_think": "turn 1"}),
    ("tools", "Hm.", {"qwen3": None, "qwen3_5_nothink": None, "qwen3_5_think": None}),
    ("chat", "Hm.", {"qwen3": "turn 1", "qwen3_5_nothink": "turn 1", "qwen3_5_think": "turn 1"}),
]


@pytest.mark.parametrize(("kind", "thought", "outcome"), STOCK)
def test_which_stock_templates_rewrite_what_was_trained_on(kind, thought, outcome, template) -> None:
    row, options = EPISODES[kind](thought), {"enable_thinking": thought is not None}
    if outcome[template] is None:
        check_template(tokenizer(template), [row], **options)
    else:
        with pytest.raises(ValueError, match=rf"episode 0: {outcome[template]} "):
            check_template(tokenizer(template), [row], **options)


@pytest.mark.parametrize("thought", [None, "Hm.", "Let me see.\n\nA desk."])
@pytest.mark.parametrize("kind", EPISODES)
def test_the_training_template_rewrites_nothing(kind, thought, template) -> None:
    fixed = tokenizer(template)
    use_training_template(fixed, enable_thinking=thought is not None)
    check_template(fixed, [EPISODES[kind](thought)])


def test_a_policy_that_may_think_cannot_play_what_was_trained_without_thoughts() -> None:
    thinking = tokenizer("qwen3_5_think")
    use_training_template(thinking)
    with pytest.raises(
        ValueError, match=r"token \d+ is '\\n' in the prompt and '\\n\\n' in training, after '.*<think>'"
    ):
        check_template(thinking, [tool_episode()])
    check_template(thinking, [tool_episode()], enable_thinking=False)


def test_the_difference_may_lie_in_the_tokens_alone() -> None:
    thinking, row = tokenizer("qwen3_5_think"), tool_episode()
    options = {"tools": row["tools"], "tokenize": False}
    prompt = thinking.apply_chat_template(row["messages"][:2], add_generation_prompt=True, **options)
    assert thinking.apply_chat_template(row["messages"], **options).startswith(prompt)
    with pytest.raises(ValueError, match="turn 0 "):
        check_template(thinking, [row])


# What a fault says


def test_a_fault_names_episode_turn_message_token_and_context() -> None:
    with pytest.raises(ValueError, match="prompts of 1 of 2 episodes") as caught:
        check_template(tokenizer("qwen3"), [tool_episode(turns=0), tool_episode()], enable_thinking=False)
    _, fault, advice = str(caught.value).splitlines()
    assert fault.startswith("episode 1: turn 1 (messages[4]): token ")
    assert "is '<tool_call>' in the prompt and '<think>' in training, after '" in fault
    assert fault.endswith("sistant\\n'")
    assert advice.startswith("call use_training_template(tokenizer) before training")


def test_a_turn_that_opens_the_conversation_has_no_prompt() -> None:
    fixed, (_, *messages) = tokenizer("qwen3"), chat_episode()["messages"]
    use_training_template(fixed)
    check_template(fixed, [{"messages": [{"role": "assistant", "content": "Ready."}, *messages]}])


def test_the_token_is_the_first_that_differs() -> None:
    stock, row = tokenizer("qwen3"), tool_episode()
    with pytest.raises(ValueError, match="token") as caught:
        check_template(stock, [row])
    at = int(str(caught.value).split("token ")[1].split()[0])
    trained, _ = training_sequence(stock, row, sft_template(stock))
    prompt = stock.apply_chat_template(
        row["messages"][:4], tools=row["tools"], add_generation_prompt=True, return_dict=False
    )
    assert prompt[:at] == trained[:at]
    assert prompt[at] != trained[at]


def test_a_prompt_longer_than_what_was_trained_on_is_a_fault() -> None:
    chatty = tokenizer("qwen3")
    use_training_template(chatty)
    chatty.chat_template += "{%- if add_generation_prompt %}{{ 'x' * 50 }}{%- endif %}"
    with pytest.raises(ValueError, match=r"is 'x+' in the prompt and "):
        check_template(chatty, [chat_episode()])


def test_many_faulty_episodes_are_counted_and_a_few_shown() -> None:
    with pytest.raises(ValueError, match="prompts of 9 of 9 episodes") as caught:
        check_template(tokenizer("qwen3"), [chat_episode()] * 9)
    assert len(str(caught.value).splitlines()) == 5


def test_options_of_the_prompts_that_rows_lack_are_a_fault() -> None:
    fixed = tokenizer("qwen3")
    use_training_template(fixed)
    fixed.chat_template = "{%- if style is defined %}{{ style }}{%- endif -%}\n" + fixed.chat_template
    row = tool_episode()
    with pytest.raises(ValueError, match=r"turn 0 .*token 0 "):
        check_template(fixed, [row], style="brief")
    check_template(fixed, [{**row, "chat_template_kwargs": {"style": "brief"}}], style="brief")


def test_options_of_the_rows_that_the_prompts_lack_are_a_fault() -> None:
    fixed = tokenizer("qwen3")
    use_training_template(fixed)
    fixed.chat_template = "{%- if style is defined %}{{ style }}{%- endif -%}\n" + fixed.chat_template
    with pytest.raises(ValueError, match=r"turn 0 .*token 0 "):
        check_template(fixed, [{**tool_episode(), "chat_template_kwargs": {"style": "brief"}}])


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ({"train": [{}]}, "episode 0: it is a str; expected a dict"),
        ([{"messages": []}], "episode 0: it is no conversation"),
        ([{**tool_episode(), "tools": "[]"}], "episode 0: its tools are no list of JSON schemas"),
        ([{**tool_episode(), "chat_template_kwargs": {"tokenize": False}}], "episode 0: `return_assistant"),
        ([{**tool_episode(), "chat_template_kwargs": {"chat_template": "x"}}], "token 0 is '<|im_start|>' in"),
    ],
)
def test_what_sft_trainer_would_not_take_is_a_fault_of_its_episode(rows, said: str) -> None:
    fixed = tokenizer("qwen3")
    use_training_template(fixed)
    with pytest.raises(ValueError, match=re.escape(said)):
        check_template(fixed, rows)


def test_no_episodes_are_refused() -> None:
    with pytest.raises(ValueError, match="got no episodes"):
        check_template(tokenizer("qwen3"), [])


def test_a_conversation_that_the_template_refuses_is_a_fault() -> None:
    row = {"messages": [{"role": "system", "content": "x"}, {"role": "assistant", "content": "y"}]}
    with pytest.raises(ValueError, match="episode 0: the chat template refuses the row: No user query"):
        check_template(tokenizer("qwen3_5_think"), [row])


@pytest.mark.parametrize("text", [None, "{{ messages[0].content }}"])
def test_a_template_that_cannot_be_trained_with_is_refused(text) -> None:
    odd = tokenizer("qwen3")
    odd.chat_template = text
    with pytest.raises(ValueError, match="chat template"):
        check_template(odd, [chat_episode()])
    with pytest.raises(ValueError, match="chat template"):
        use_training_template(odd)


# What the training template is


def ends_of_prompts(made) -> list[str]:
    options = ({}, {"enable_thinking": False}, {"enable_thinking": True})
    texts = [
        made.apply_chat_template(
            [{"role": "user", "content": "x"}], add_generation_prompt=True, tokenize=False, **chosen
        )
        for chosen in options
    ]
    return [text.split("<|im_start|>assistant\n")[1] for text in texts]


@pytest.mark.parametrize("enable_thinking", [None, False, True])
def test_whether_to_think_can_still_be_said_with_each_prompt(template, enable_thinking) -> None:
    stock, fixed = tokenizer(template), tokenizer(template)
    use_training_template(fixed, enable_thinking=enable_thinking)
    by_default, off, on = ends_of_prompts(stock)
    expected = {None: by_default, False: off, True: on}[enable_thinking]
    assert ends_of_prompts(fixed) == [expected, off, on]
    assert off == NO_THOUGHT


def test_to_use_it_again_changes_no_token(template) -> None:
    once, twice = tokenizer(template), tokenizer(template)
    use_training_template(once, enable_thinking=False)
    for _ in range(2):
        use_training_template(twice, enable_thinking=False)
    row = tool_episode()
    assert training_sequence(once, row, None) == training_sequence(twice, row, None)


def test_it_is_trls_own_text(template) -> None:
    fixed = tokenizer(template)
    use_training_template(fixed)
    folder = Path(trl.__file__).parent / "chat_templates"
    assert fixed.chat_template == (folder / f"{template}_training.jinja").read_text()


def test_it_survives_a_folder_together_with_the_parser_of_calls(template, tmp_path) -> None:
    fixed = tokenizer(template)
    use_training_template(fixed, enable_thinking=False)
    fixed.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    assert loaded.chat_template == fixed.chat_template
    check_template(loaded, [tool_episode()])
    prompt = loaded.apply_chat_template(
        [{"role": "user", "content": "x"}], add_generation_prompt=True, return_dict=False
    )
    said = loaded(call(parser_of(template), "act", command="go"))["input_ids"]
    (made,) = parse_response(loaded, said, prefix=prompt)["tool_calls"]
    assert made["function"] == {"name": "act", "arguments": {"command": "go"}}


def parser_of(template: str) -> str:
    """The template whose turns are written alike, without thinking."""
    return "qwen3" if template == "qwen3" else "qwen3_5_nothink"
