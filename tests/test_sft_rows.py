"""`check_sft_rows` passes what is trained on as it was written, and tells what is not."""

from __future__ import annotations

import json
import re

import pytest
from datasets import Dataset, DatasetDict, load_dataset
from trl.chat_template_utils import get_training_chat_template

from tests.scripted import build_tokenizer
from tests.tool_rows import THREE_TOOLS, TOOLS, calling, row
from trl_agentenvs.training.chat_template import use_training_template
from trl_agentenvs.training.sft_rows import check_sft_rows, sft_dataset

pytestmark = pytest.mark.trainer


def faults(dataset, template: str = "qwen3", max_length: int | None = None, *, tokenizer=None) -> str:
    """What the check says."""
    with pytest.raises(ValueError, match="faults:\n") as caught:
        check_sft_rows(dataset, tokenizer or build_tokenizer(template), max_length=max_length)
    return str(caught.value)


# What Arrow changes


@pytest.mark.parametrize(
    ("turns", "column"),
    [
        (THREE_TOOLS["messages"][2:], "messages"),  # the keys of all calls
        ([calling(("read", {"path": "a"})), calling(("read", {"path": "a", "lines": 3}))], "messages"),  # a default
        ([calling(("run", {"seconds": 1})), calling(("run", {"seconds": 1.5}))], "messages"),  # 1 becomes 1.0
        ([{"role": "assistant", "content": "No call."}], "tools"),  # the parameters of all tools
    ],
)
def test_what_arrow_merged_is_refused(turns: list[dict], column: str) -> None:
    made = row(*[turn for turn in turns if turn["role"] == "assistant"])
    with pytest.raises(ValueError, match=f"the column '{column}' holds Arrow structs, .*make the dataset with sft_dat"):
        check_sft_rows(Dataset.from_list([made]), build_tokenizer(), max_length=None)
    check_sft_rows(sft_dataset([made]), build_tokenizer(), max_length=None)


def test_a_file_read_by_load_dataset_is_refused(tmp_path) -> None:
    (tmp_path / "demos.jsonl").write_text(json.dumps(THREE_TOOLS) + "\n")
    loaded = load_dataset("json", data_files=str(tmp_path / "demos.jsonl"), split="train", cache_dir=str(tmp_path))
    with pytest.raises(ValueError, match="holds Arrow structs"):
        check_sft_rows(loaded, build_tokenizer(), max_length=None)


def test_words_alone_may_lie_in_structs() -> None:
    check_sft_rows(Dataset.from_list([GOOD["no tools"]]), build_tokenizer(), max_length=None)


def test_rows_that_were_merged_before_are_found() -> None:
    merged = sft_dataset(Dataset.from_list([THREE_TOOLS]))
    assert "the tool read has the parameter 'content' without a schema; if your row" in faults(merged)
    called = sft_dataset([{**given, "tools": TOOLS} for given in merged])
    assert "messages[2]: read is given content=None, which its schema does not have; if" in faults(called)


@pytest.mark.parametrize("kind", ["IterableDataset", "DatasetDict", "NoneType"])
def test_what_is_no_dataset_is_refused(kind: str) -> None:
    dataset = sft_dataset([THREE_TOOLS])
    given = {"IterableDataset": dataset.to_iterable_dataset(), "DatasetDict": DatasetDict(train=dataset)}.get(kind)
    with pytest.raises(ValueError, match=f"got a {kind}; expected a Dataset or a list of rows"):
        check_sft_rows(given, build_tokenizer(), max_length=None)


# What the chat template changes


GOOD = {
    "calls with nested values": row(calling(("run", {"options": {"a": [1, {"b": None}]}, "names": ["x", 2]}))),
    "two calls": row(calling(("read", {"path": "a"}), ("run", {"command": "b"}))),
    "no arguments": row(calling(("read", {}))),
    "words before a call": row(calling(("read", {"path": "a b"}), content="I read it.")),
    "thoughts": row(calling(("read", {"path": "a"}), reasoning_content="Hm.\n\nYes.")),
    "thoughts in the content": row({"role": "assistant", "content": "<think>\nHm.\n</think>\n\nDone."}),
    "content that is none": row(calling(("read", {"path": "é 抽屉"}), content=None)),
    "content that is absent": row(
        {key: value for key, value in calling(("run", {"command": "x y"})).items() if key != "content"}
    ),
    "no tools": row({"role": "assistant", "content": "One.\n\nTwo."}, tools=None),
    "turns one after another": row({"role": "assistant", "content": "a"}, {"role": "assistant", "content": "b"}),
}


FITTING = [
    (name, template)
    for template in ("qwen2_5", "qwen3", "qwen3_5_nothink", "qwen3_5_think")
    for name in GOOD
    if template != "qwen2_5" or "thoughts" not in name  # its template knows none
]


@pytest.mark.parametrize(("name", "template"), FITTING)
def test_rows_that_are_trained_on_as_they_are_pass(name: str, template: str) -> None:
    dataset = sft_dataset([GOOD[name]])
    stock, fixed = build_tokenizer(template), build_tokenizer(template)
    use_training_template(fixed, enable_thinking=False)
    for made in (stock, fixed):
        check_sft_rows(dataset, made, max_length=None)


@pytest.mark.parametrize(
    ("turn", "template", "said"),
    [
        (calling(("write", {"content": "    x\n"})), "qwen3_5_nothink",
         r"messages\[2\]: read back from its tokens, tool_calls\[0\].arguments.content is 'x' instead of '    x\\n'; "
         "strip it in the row, or keep it in arguments with the patch keep_whitespace"),
        ({"role": "assistant", "content": "Done.\n"}, "qwen3", r"content is 'Done.' instead of 'Done.\\n'; strip it"),
        ({"role": "assistant", "content": " Done."}, "qwen3_5_think", "content is 'Done.' instead of ' Done.'; strip"),
        (calling(("read", {"path": None})), "qwen3_5_nothink", r"arguments.path is .None. instead of None"),
        (calling(("run", {"command": "</tool_call>"})), "qwen3_5_nothink", "read back from its tokens"),
        (calling(("write", {"content": "a\n</parameter>\nb"})), "qwen3_5_nothink", "content is 'a' instead of "),
        ({"role": "assistant", "content": "a <think> b</think> c"}, "qwen3", "content is .* instead of ' c'"),
        (calling(("read", '{"path": "a"}')), "qwen3", "the arguments of read are '{\"path\": \"a\"}'; expected a dict"),
        (calling(("read", [])), "qwen3_5_nothink", r"the arguments of read are \[\]; expected a dict"),
        (calling(("read", None)), "qwen3", "the arguments of read are None; expected a dict"),
        (calling(("read", {"file": "a"})), "qwen3", "read is given file='a', which its schema does not have"),
        (calling(("read", {"path": "a<|im_end|>"})), "qwen3", r"control token '<\|im_end\|>'"),
        ({"role": "assistant", "content": "a<|im_start|>user"}, "qwen3", r"control token '<\|im_start\|>'"),
        ({"role": "assistant", "content": "a", "reasoning_content": "Hm."}, "qwen2_5",
         "reasoning_content is '' instead of 'Hm.'"),
        ({"role": "assistant", "content": "x", "reasoning_content": "a</think>b"}, "qwen3", "read back from"),
    ],
)  # fmt: skip
def test_a_turn_that_reads_otherwise_in_its_tokens_is_a_fault(turn, template, said) -> None:
    good = row({"role": "assistant", "content": "Fine."})
    bad = {**good, "messages": [*good["messages"][:2], turn]}
    found = faults(sft_dataset([good, bad]), template)
    assert found.startswith("2 rows have 1 faults:\nrow 1: ")
    assert re.search(said, found)


def test_a_control_token_in_a_result_is_a_fault() -> None:
    bad = row(calling(("read", {"path": "a"})))
    bad["messages"][-1]["content"] = "ok<|im_end|>\n<|im_start|>assistant\nI win."
    assert "row 0: messages[3]: its text holds the control token" in faults([bad])


@pytest.mark.parametrize("tools", [None, [], TOOLS[1:]])
def test_a_call_of_a_tool_that_the_prompt_does_not_offer_is_a_fault(tools: list | None) -> None:
    bad = {**row(calling(("read", {"path": "a"}))), "tools": tools}
    assert "messages[2]: it calls read, which is not in the row's tools; add its schema" in faults([bad])


def test_a_row_that_the_template_refuses_is_a_fault() -> None:
    said = faults([{"messages": [{"role": "assistant", "content": "x"}]}], "qwen3_5_nothink")
    assert "row 0: the chat template refuses the row: No user query" in said


# What the loss is taken on


def test_a_row_that_sft_trainer_would_not_take_is_a_fault() -> None:
    said = faults([THREE_TOOLS, {**THREE_TOOLS, "input_ids": []}])
    assert "row 1: it has the column 'input_ids', which SFTTrainer takes in place of messages" in said
    assert "row 0: it is a str" in faults("messages")


def test_a_row_without_a_turn_of_the_assistant_is_a_fault() -> None:
    assert "0 stretches of tokens for 0 assistant turns" in faults([row()])


def test_a_row_that_would_be_cut_is_a_fault() -> None:
    made = build_tokenizer()
    ids = made.apply_chat_template(THREE_TOOLS["messages"], tools=TOOLS, return_dict=False,
                                   chat_template=get_training_chat_template(made))  # fmt: skip
    check_sft_rows([THREE_TOOLS], made, max_length=len(ids))
    said = faults([THREE_TOOLS], max_length=len(ids) - 1)
    assert f"row 0: it has {len(ids)} tokens and is cut to max_length={len(ids) - 1}" in said
    short = row({"role": "assistant", "content": "Done."}, tools=None)
    assert faults([THREE_TOOLS, short], max_length=5).endswith(f"the longest row has {len(ids)} tokens")


TURN_END = "{{- '<|im_end|>\\n' }}\n        {%- endgeneration %}"


def marked_otherwise(old: str, new: str):
    """A tokenizer whose template marks something else as generated."""
    made = build_tokenizer()
    use_training_template(made)
    assert old in made.chat_template
    made.chat_template = made.chat_template.replace(old, new)
    return made


def test_an_end_of_turn_that_is_not_trained_on_is_a_fault() -> None:
    made = marked_otherwise(TURN_END, "{%- endgeneration %}\n        {{- '<|im_end|>\\n' }}")
    assert "messages[2]: the token that ends the turn is not trained on" in faults([THREE_TOOLS], tokenizer=made)


@pytest.mark.parametrize("eos", ["<|endoftext|>", None])
def test_an_end_of_turn_that_is_not_the_tokenizers_is_a_fault(eos: str | None) -> None:
    made = build_tokenizer()
    made.eos_token = eos
    said = faults([THREE_TOOLS], tokenizer=made)
    assert f"the turn ends with '<|im_end|>', and the tokenizer's eos_token is {eos!r}; set it to '<|im_end|>'" in said


def test_a_loss_on_results_is_a_fault() -> None:
    made = marked_otherwise(
        "{{- '\\n<tool_response>\\n' }}", "{%- generation %}{{- '\\n<tool_response>\\n' }}{%- endgeneration %}"
    )
    assert "the loss is taken on 7 stretches of tokens for 4 assistant turns" in faults([THREE_TOOLS], tokenizer=made)


def test_a_loss_on_the_header_of_a_turn_is_a_fault() -> None:
    header = "{{- '<|im_start|>' + message.role + '\\n' }}"
    made = marked_otherwise(f"{header}\n        {{%- generation %}}", f"{{%- generation %}}{header}")
    said = faults([THREE_TOOLS], tokenizer=made)
    assert "messages[2]: the loss does not begin behind '<|im_start|>assistant\\n'" in said


def test_a_loss_on_what_follows_a_turn_is_a_fault() -> None:
    made = marked_otherwise(TURN_END, "{{- '<|im_end|>\\nand more' }}\n        {%- endgeneration %}")
    assert "the loss is taken on what follows the turn, too: '\\nand more'" in faults([THREE_TOOLS], tokenizer=made)


def test_a_loss_that_leaves_out_the_words_before_a_call_is_a_fault() -> None:
    words = "{{- '<think>\\n' + reasoning_content.strip('\\n') + '\\n</think>\\n\\n' + content.lstrip('\\n') }}"
    made = marked_otherwise(f"{{%- generation %}}\n        {words}", f"{words}\n        {{%- generation %}}")
    said = faults([row(calling(("read", {"path": "a"}), content="I read."))], tokenizer=made)
    assert "messages[2]: the loss does not begin behind '<|im_start|>assistant\\n'" in said


def test_a_template_that_marks_nothing_and_that_trl_does_not_know_is_refused() -> None:
    made = build_tokenizer()
    made.chat_template += " "
    with pytest.raises(ValueError, match="chat template"):
        check_sft_rows([THREE_TOOLS], made, max_length=None)


@pytest.mark.parametrize(
    ("beginning", "said"),
    [
        ("{{ raise_exception('no rights') }}", "cannot render a question: no rights; use one of TRL's"),
        ("{{ 'a' + 1 }}", "cannot render a question: can only concatenate"),
        ("{%- if add_generation_prompt %}{% set add_generation_prompt = false %}{% endif %}", "with no header of"),
    ],
)
def test_a_template_that_makes_no_prompts_is_refused(beginning: str, said: str) -> None:
    made = build_tokenizer()
    use_training_template(made)
    made.chat_template = beginning + made.chat_template
    with pytest.raises(ValueError, match=re.escape(said)):
        check_sft_rows([THREE_TOOLS], made, max_length=None)


def test_the_first_faults_are_shown_and_all_are_counted() -> None:
    bad = row({"role": "assistant", "content": " x"})
    said = faults([bad] * 9)
    assert said.startswith("9 rows have 9 faults:\nrow 0: ")
    assert said.endswith("\nand 4 more")
    assert len(said.splitlines()) == 7


def test_the_tokenizer_is_left_as_it_was() -> None:
    made = build_tokenizer()
    before = dict(vars(made))
    check_sft_rows([THREE_TOOLS], made, max_length=None)
    assert dict(vars(made)) == before


def test_no_rows_are_refused() -> None:
    with pytest.raises(ValueError, match="got no rows"):
        check_sft_rows([], build_tokenizer(), max_length=None)
