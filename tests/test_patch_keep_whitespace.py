"""Tool arguments keep the whitespace they begin and end with: what is rendered is what is parsed."""

from __future__ import annotations

import copy
import json

import pytest

from tests.scripted import build_tokenizer, call, play, say
from trl_agentenvs import patches
from trl_agentenvs.patches import keep_whitespace

VALUES = ["    return 1\n", "\n\n", "  ", "", "a\n", "\ta", "plain", "two\nlines\n\n", " <b> & </b> ", "\r\nx\r\n"]
pytestmark = pytest.mark.trainer
QWEN = ("qwen3_5_nothink", "qwen3_5_think", "qwen3_6")


@pytest.fixture
def patched():
    with patches.applied(only=["keep_whitespace"]) as active:
        assert active == ["keep_whitespace"]
        yield


def edit(path: str, new: str) -> str:
    """Edit.

    Args:
        path: Which file.
        new: The new text.
    """
    return f"{path}: {new!r}"


def round_trip(template: str, new: str) -> str:
    """Render a call by the chat template, parse it as TRL does, and return the argument."""
    from trl.chat_template_utils import add_response_schema, parse_response

    tokenizer = add_response_schema(build_tokenizer(template))
    asked = {"role": "user", "content": "x"}
    function = {"name": "edit", "arguments": {"path": "a.py", "new": new}}
    turn = {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": function}]}
    before = tokenizer.apply_chat_template([asked], tokenize=False, add_generation_prompt=True)
    text = tokenizer.apply_chat_template([asked, turn], tokenize=False)
    said = text[text.index("<tool_call>") :]
    prefix = tokenizer(before.removesuffix("<think>\n"))["input_ids"]
    message = parse_response(tokenizer, tokenizer(said)["input_ids"], prefix=prefix)
    (parsed,) = message["tool_calls"]
    assert parsed["function"]["name"] == "edit"
    return parsed["function"]["arguments"]["new"]


@pytest.mark.parametrize("template", QWEN)
@pytest.mark.parametrize("value", VALUES)
def test_what_is_rendered_is_what_is_parsed(patched, template, value):
    assert round_trip(template, value) == value


def test_stock_trl_strips():
    assert round_trip("qwen3_5_nothink", "    return 1\n") == "return 1"


def test_every_template_with_parameter_tags_is_mended(patched):
    from trl import chat_template_utils as utils

    mended = keep_whitespace._parameter_tag_fields(utils)
    assert "qwen3_5_template" in mended
    assert len(mended) >= 2
    assert keep_whitespace._stripping_fields() == {}


def test_a_tool_gets_the_text_as_it_was_written(patched):
    class Editor:
        def reset(self, **row):
            self.text = None

        def edit(self, path: str, new: str) -> str:
            """Edit.

            Args:
                path: Which file.
                new: The new text.
            """
            self.text = new
            return "ok"

        def get_reward(self) -> float:
            return float(self.text is not None)

    template, new = "qwen3_5_nothink", "    if x:\n        return 2\n"
    trainer = play(
        Editor,
        [[call(template, "edit", path="a.py", new=new), say(template)], [say(template)]],
        template=template,
    )
    assert trainer.environments[0].text == new


def test_numbers_are_still_numbers(patched):
    class Counter:
        def reset(self, **row):
            self.step = None

        def add(self, step: int) -> str:
            """Add.

            Args:
                step: How much.
            """
            self.step = step
            return "ok"

        def get_reward(self) -> float:
            return float(self.step is not None)

    template = "qwen3_5_nothink"
    trainer = play(Counter, [[call(template, "add", step=7), say(template)], [say(template)]], template=template)
    assert (type(trainer.environments[0].step), trainer.environments[0].step) == (int, 7)


def test_undo_puts_the_very_arguments_back():
    from trl import chat_template_utils as utils

    fields = utils.qwen3_5_template["fields"]["tool_calls"]
    stock, text = fields["content_args"], json.dumps(utils.qwen3_5_template)
    with patches.applied(only=["keep_whitespace"]):
        assert fields["content_args"] is not stock
        assert json.dumps(utils.qwen3_5_template) != text  # still plain data, as a saved tokenizer needs it
        assert "stripping" not in json.dumps(utils.qwen3_5_template)
    assert fields["content_args"] is stock
    assert json.dumps(utils.qwen3_5_template) == text


def test_it_steps_aside_where_templates_keep_whitespace(monkeypatch):
    from trl import chat_template_utils as utils

    for name in list(keep_whitespace._parameter_tag_fields(utils)):
        template = copy.deepcopy(getattr(utils, name))
        arguments = template["fields"]["tool_calls"]["content_args"]
        arguments.update(
            tag_pattern=keep_whitespace._PARAMETER, value_parser={"name": "text", "args": {"strip": False}}
        )
        monkeypatch.setattr(utils, name, template)
    assert patches.apply(only=["keep_whitespace"]) == []
    assert patches.status()["keep_whitespace"] == "stepped aside: TRL's templates keep whitespace"


def test_a_moved_template_is_named(monkeypatch):
    from trl import chat_template_utils as utils

    monkeypatch.delattr(utils, "qwen3_5_template")
    with pytest.raises(patches.PatchTargetMoved, match=r"looked for trl\.chat_template_utils:qwen3_5_template"):
        patches.apply(only=["keep_whitespace"])


def test_it_steps_aside_without_response_templates(monkeypatch):
    monkeypatch.setattr(keep_whitespace, "is_installed", lambda module: False)
    assert patches.apply(only=["keep_whitespace"]) == []
    assert patches.status()["keep_whitespace"] == "stepped aside: this transformers has no response templates"
