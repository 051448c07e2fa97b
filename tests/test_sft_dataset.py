"""`sft_dataset` gives every row back as it was, or refuses it."""

from __future__ import annotations

import json
import sys

import pytest
from datasets import load_dataset

import trl_agentenvs
from tests.tool_rows import THREE_TOOLS, TOOLS, calling, row
from trl_agentenvs.training.sft_rows import sft_dataset
from trl_agentenvs.training.trained_turns import difference

pytestmark = pytest.mark.trainer


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


def test_a_missing_library_is_told_with_what_to_install(monkeypatch) -> None:
    monkeypatch.delitem(sys.modules, "trl_agentenvs.training.sft_rows")
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(ImportError, match=r'datasets is not installed; run: pip install "trl_agentenvs\[train\]"'):
        trl_agentenvs.__getattr__("sft_dataset")


def test_a_missing_module_of_our_own_is_no_missing_library(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "trl_agentenvs.training.sft_rows", None)
    with pytest.raises(ModuleNotFoundError, match=r"trl_agentenvs\.training\.sft_rows"):
        trl_agentenvs.__getattr__("sft_dataset")
