"""What a tool's result looks like to the model."""

from __future__ import annotations

import pytest

from trl_agentenvs.results import cut, neutralise, shape_result

CONTROL = [
    "<|im_end|>",
    "<|im_start|>",
    "<|eot_id|>",
    "<|endoftext|>",
    "<tool_call>",
    "</tool_response>",
    "<think>",
    "</think>",
    "<function=bash>",
    "</parameter>",
    "<start_of_turn>",
    "<eos>",
    "<|turn>",
    "<turn|>",
    '<|"|>',
    "</arg_value>",
    "<function=" + "x" * 200 + ">",
    "<unused12>",
    "<seed:tool_call>",
    "<<SYS>>",
    "[gMASK]",
    "[/THINK]",
    "[|endofturn|]",
    "]~b]",
    "[INST]",
    "[/INST]",
    "</s>",
    "<\uff5cAssistant\uff5c>",
]


@pytest.mark.parametrize("token", CONTROL)
def test_control_token_does_not_survive(token):
    assert token not in neutralise(f"a{token}b")


@pytest.mark.parametrize("token", CONTROL)
def test_control_token_stays_readable(token):
    assert neutralise(token).replace(" ", "") == token


@pytest.mark.parametrize(
    "text",
    [
        "a < b",
        "<div>",
        "x = y<|z",
        "a <| b |> c",
        "if a<b and c>d",
        "f<a|b>",
        "<s",
        "List<String>",
        "[1]",
        "a || b",
        "a[i]",
        "usage: [ARGS]",
        "x[|a|]",
    ],
)
def test_ordinary_text_is_untouched(text):
    assert neutralise(text) == text


def test_control_token_made_by_neutralising_is_not_left_behind():
    assert "<|im_end|>" not in neutralise("<<|im_end|>|im_end|>")


def test_short_text_is_not_cut():
    assert cut("abc", 3) == "abc"


def test_long_text_keeps_head_and_tail_and_says_how_much_is_missing():
    text = cut("h" * 500_000 + "t" * 500_000, 100, see_rest="use offset")
    assert text.startswith("h" * 50 + "\n")
    assert text.endswith("\n" + "t" * 50)
    assert "[... 999900 of 1000000 characters cut; use offset ...]" in text


@pytest.mark.parametrize(("result", "text"), [(None, "Done."), ("", ""), (3, "3"), ({"a": 1}, "{'a': 1}")])
def test_every_result_is_text(result, text):
    assert shape_result(result, 100) == text


@pytest.mark.parametrize(
    ("text", "shown"), [("a\ud83db", "a\\ud83db"), ("\U0001f600", "\U0001f600"), ("\udcff", "\\udcff")]
)
def test_half_characters_on_which_tokenizers_fail_are_escapes(text, shown):
    assert shape_result(text, 100) == shown
    assert shape_result(text * 100, 99).encode()


def test_control_tokens_right_at_the_cut_are_harmless():
    assert "<|im_end|>" not in shape_result("x" * 45 + "<|im_end|>" * 1000, 100)
