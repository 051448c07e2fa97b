from __future__ import annotations

import json
import re
import sys

import pytest
from datasets import Dataset, DatasetDict, load_dataset
from trl.chat_template_utils import get_training_chat_template

import trl_agentenvs
from tests.scripted import build_tokenizer
from trl_agentenvs.training.chat_template import use_training_template
from trl_agentenvs.training.sft_rows import check_sft_rows, sft_dataset
from trl_agentenvs.training.trained_turns import difference

pytestmark = pytest.mark.trainer


def schema(name: str, **parameters: str) -> dict:
    properties = {key: {"type": kind, "description": f"The {key}."} for key, kind in parameters.items()}
    function = {"name": name, "description": f"To {name}.", "parameters": {"type": "object", "properties": properties}}
    return {"type": "function", "function": function}


TOOLS = [
    schema("read", path="string", lines="integer"),
    schema("write", path="string", content="string"),
    schema("run", command="string", options="object", seconds="number", names="array"),
]


def calling(*calls: tuple[str, dict], **fields) -> dict:
    made = [{"type": "function", "function": {"name": name, "arguments": arguments}} for name, arguments in calls]
    return {"role": "assistant", "content": "", "tool_calls": made, **fields}


def row(*turns: dict, tools: list | None = TOOLS, **columns) -> dict:
    """Turns of the assistant, a result behind each that calls."""
    messages = [{"role": "system", "content": "Work."}, {"role": "user", "content": "Go."}]
    for turn in turns:
        messages.append(turn)
        names = [made["function"]["name"] for made in turn.get("tool_calls", [])]
        messages += [{"role": "tool", "name": name, "content": "ok"} for name in names]
    return {"messages": messages, **({"tools": tools} if tools else {}), **columns}


THREE_TOOLS = row(
    calling(("read", {"path": "a.py"})),
    calling(("write", {"path": "a.py", "content": "x = 1"})),
    calling(("run", {"command": "pytest"})),
    {"role": "assistant", "content": "All pass."},
)


def faults(dataset, template: str = "qwen3", max_length: int | None = None, *, tokenizer=None) -> str:
    """What the check says."""
    with pytest.raises(ValueError, match="faults:\n") as caught:
        check_sft_rows(dataset, tokenizer or build_tokenizer(template), max_length=max_length)
    return str(caught.value)


# The dataset


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"path": None},
        {"a": 1, "b": 1.0, "c": True, "d": "1", "e": "None", "f": "null", "g": ""},
        {"b": 1, "a": 2},
        {"big": 2**63 - 1, "small": -(2**63), "float": 1e300, "sum": 0.1 + 0.2},
        {"nested": {"list": [1, "a", None, {"x": {}}, [], [[]]], "empty": {}}},
        {"text": "é 抽屉 🎉 \u202e \u2028 \x00 \\ \" ' \t\r\n  "},
        {"date": "2020-01-01T00:00:00", "json": '{"a": 1}'},
        {"": 1, "a.b": 2, "é": 3, "type": "function"},
    ],
)
def test_arguments_come_back_as_they_are_beside_others(arguments: dict) -> None:
    other = row(calling(("write", {"path": "b", "content": "y", "a": [1], "nested": "text"})))
    rows = [row(calling(("run", arguments), ("read", {}))), other]
    dataset = sft_dataset(rows)
    assert [json.dumps(given) for given in dataset] == [json.dumps(made) for made in rows]


def test_keys_that_are_none_and_keys_that_are_absent_stay_so() -> None:
    turns = [{"role": "assistant", "content": None}, {"role": "assistant"}, {"role": "assistant", "tool_calls": []}]
    rows = [{"messages": [{"role": "user", "content": "x"}, turn]} for turn in turns]
    assert [given["messages"][1] for given in sft_dataset(rows)] == turns


def test_other_columns_are_kept_and_flat_ones_keep_a_type() -> None:
    rows = [
        {**THREE_TOOLS, "game": "g1", "steps": 3, "share": 0.5, "won": True, "note": None, "plan": ["a", {"b": 1}]},
        {**THREE_TOOLS, "game": "g2", "steps": 4, "share": 1.0, "won": False, "note": "n", "plan": None},
    ]
    dataset = sft_dataset(rows)
    assert list(dataset) == rows
    assert dataset.filter(lambda steps: steps > 3, input_columns="steps")["game"][:] == ["g2"]
    assert [dataset.features[name].dtype for name in ("game", "steps", "share", "won")] == [
        "string", "int64", "float64", "bool",
    ]  # fmt: skip


def test_options_of_the_template_differ_from_row_to_row() -> None:
    options = [{"enable_thinking": False}, {}, {"other": None}]
    rows = [row(calling(("read", {})), chat_template_kwargs=chosen) for chosen in options]
    assert sft_dataset(rows)["chat_template_kwargs"][:] == options


def test_rows_survive_map_and_a_file_of_arrow(tmp_path) -> None:
    dataset = sft_dataset([THREE_TOOLS, row(calling(("read", {"lines": 3})))])
    expected = list(dataset)
    assert [{**given, "n": 1} for given in expected] == list(dataset.map(lambda _: {"n": 1}))
    dataset.to_parquet(tmp_path / "rows.parquet")
    assert list(load_dataset("parquet", data_files=str(tmp_path / "rows.parquet"), split="train",
                             cache_dir=str(tmp_path))) == expected  # fmt: skip


def test_a_file_gives_the_rows_that_were_written_to_it(tmp_path) -> None:
    rows = [THREE_TOOLS, row(calling(("run", {"command": "a\u2028b\x85c\r\n", "options": {"é": None}})))]
    path = tmp_path / "demos.jsonl"
    path.write_text("".join(json.dumps(made, ensure_ascii=False) + "\n" for made in rows) + "\n", encoding="utf-8")
    assert list(sft_dataset(path)) == list(sft_dataset(str(path))) == rows


def test_a_line_that_is_no_row_is_named(tmp_path) -> None:
    path = tmp_path / "demos.jsonl"
    for text, said in (
        (b'{"messages": [', "line 2 is no JSON"),
        (b'{"messages": "\xff"}', "line 2 is no JSON"),
        (b"[" * 99999, "line 2 is no JSON"),
        (b"[1]", "line 2 is a list"),
    ):
        path.write_bytes(json.dumps(THREE_TOOLS).encode() + b"\n" + text + b"\n")
        with pytest.raises(ValueError, match=rf"demos.jsonl, {said}"):
            sft_dataset(path)
    with pytest.raises(FileNotFoundError):
        sft_dataset(tmp_path / "none.jsonl")


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([], "got no rows"),
        ([{"tools": []}], "row 0: it is no conversation"),
        ([{"messages": "hi"}], "row 0: it is no conversation"),
        ([{"messages": [{"content": "hi"}]}], "row 0: it is no conversation"),
        ([{"messages": []}], "row 0: it is no conversation"),
        ([{"messages": [{"role": "user", "content": ["hi"]}]}], "row 0: it is no conversation"),
        ([row(calling((3, {})))], "row 0: it is no conversation"),
        ([{**THREE_TOOLS, "tools": [{"name": "read", "parameters": "path"}]}], "row 0: its tools are no list of JSON"),
        ([{**THREE_TOOLS, "tools": json.dumps(TOOLS)}], "row 0: its tools are no list of JSON schemas"),
        ([{**THREE_TOOLS, "chat_template_kwargs": None}], "row 0: its chat_template_kwargs are no dict"),
        *[
            ([{**THREE_TOOLS, name: []}], f"row 0: it has the column '{name}', which SFTTrainer takes in place of")
            for name in ("prompt", "completion", "conversations", "input_ids", "labels", "image", "images")
        ],
        ([THREE_TOOLS, {**THREE_TOOLS, "n": 1}], r"row 1 has columns \['messages', 'n', 'tools'\]; expected \['mess"),
        ([row(calling(("run", {"seconds": 2**70})))], None),
        ([row(calling(("run", {"seconds": float("nan")})))], r"row 0 .*seconds is None instead of nan"),
        ([row(calling(("run", {"seconds": float("inf")})))], r"row 0 .*seconds is None instead of inf"),
        ([row(calling(("run", {"command": "\ud800"})))], "Arrow cannot hold the rows"),
        ([row(calling(("run", {"command": b"x"})))], None),
        ([row(calling(("run", {1: "x"})))], None),
        ([{**THREE_TOOLS, "n": 1}, {**THREE_TOOLS, "n": 1.5}], r"row 0 .*n is 1.0 instead of 1"),
        ([{**THREE_TOOLS, "n": 1}, {**THREE_TOOLS, "n": "a"}], "Arrow cannot hold the rows"),
    ],
)
def test_what_would_not_come_back_is_refused(rows, said) -> None:
    with pytest.raises(ValueError, match=said or "(Arrow cannot hold the rows|row 0 would not come back)"):
        sft_dataset(rows)


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


@pytest.mark.parametrize(
    ("got", "expected", "said"),
    [
        ({"a": {"x": 1, "y": 2}}, {"a": {"y": 2, "x": 1}}, "a is {'x': 1, 'y': 2} instead of {'y': 2, 'x': 1}"),
        ({"a": 1}, {"a": True}, "a is 1 instead of True"),
        ({"a": [1, 2]}, {"a": [1]}, "a is [1, 2] instead of [1]"),
        ({"a": [0, None]}, {"a": [0, {}]}, "a[1] is None instead of {}"),
        ({"b": 1, "a": 2}, {"a": 2, "b": 1}, None),  # columns
    ],
)
def test_the_first_difference_is_told_with_its_place(got, expected, said: str | None) -> None:
    assert difference(got, expected) == said


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


def test_a_missing_library_is_told_with_what_to_install(monkeypatch) -> None:
    monkeypatch.delitem(sys.modules, "trl_agentenvs.training.sft_rows")
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(ImportError, match=r'datasets is not installed; run: pip install "trl_agentenvs\[train\]"'):
        trl_agentenvs.__getattr__("sft_dataset")


def test_a_missing_module_of_our_own_is_no_missing_library(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "trl_agentenvs.training.sft_rows", None)
    with pytest.raises(ModuleNotFoundError, match=r"trl_agentenvs\.training\.sft_rows"):
        trl_agentenvs.__getattr__("sft_dataset")
