"""What is taken for a malformed call, and what the model reads about it."""

from __future__ import annotations

import pytest

from tests.scripted import build_tokenizer
from trl_agentenvs.patches.malformed import call_format, diagnose

JSON, XML, THINK = "qwen3", "qwen3_5_nothink", "qwen3_5_think"
UNBALANCED = '<tool_call>\n{"name": "add", "arguments": {"step": 1}\n</tool_call>'


@pytest.mark.parametrize(
    "message",
    [
        {"content": "I am done."},
        {"content": ""},
        {"content": "Done.", "reasoning_content": "I could write a <tool_call> now, but no."},
        {"content": '{"name": "Ada", "age": 36}'},
        {"content": "The object is {} and its name is add."},
        {"content": None, "reasoning_content": None},
    ],
)
def test_a_final_answer_is_left_alone(message):
    assert diagnose(message, "json", ["add"]) is None


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_brackets_without_end_are_malformed(opening):
    text = '<tool_call>\n{"name": "add", "arguments": ' + opening * 100_000
    assert "nested too deeply" in diagnose({"content": text}, "json", ["add"]).sentence


def test_no_tag_reaches_the_model_as_a_tag():
    texts = [UNBALANCED, "<tool_call>", "</tool_call>", "<function=x>", '{"name": "<tool_call>", "arguments": 1}']
    for form in ("json", "parameter tags", None):
        for text in texts:
            for message in ({"content": text}, {"content": "", "reasoning_content": f"<tool_call>{text}"}):
                assert "<" not in diagnose(message, form, ["add"]).sentence


@pytest.mark.parametrize(
    ("template", "form"),
    [(JSON, "json"), (XML, "parameter tags"), (THINK, "parameter tags"), ("glm4moe", None), ("llama3", None)],
)
def test_the_form_of_calls_is_read_from_the_chat_template(template, form):
    assert call_format(build_tokenizer(template)) == form
