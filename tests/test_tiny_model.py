from __future__ import annotations

import inspect
import json
import time

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl.chat_template_utils import add_response_schema, get_training_chat_template, parse_response

from trl_agentenvs.training.tiny_model import build_model, build_tokenizer, chat_template, constant_texts

pytestmark = pytest.mark.trainer

SYSTEM = "Play."
CORPUS = [f"You arrive at drawer {n}. On the drawer {n}, you see a mug {n}, and a pen {n}." for n in range(1, 9)] * 3


def act(command: str) -> str:
    """Do something.

    Args:
        command: What to do.
    """
    return command


def tokenizer(**options):
    return build_tokenizer(**{"corpus": CORPUS, "tools": [act], "system_prompt": SYSTEM, **options})


def pieces(tok, text: str) -> list[str]:
    return [tok.decode([token]) for token in tok(text, add_special_tokens=False)["input_ids"]]


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "a  b\t\r\n\n c ",
        "You arrive at drawer 12. drawer12 drawers 1",
        "Drawer 1 DRAWER 1",
        "héllo wörld, 抽屉 1, 🎉👩‍👩‍👧, \u202e, \x00\x7f",
        '<tool_call>\n{"name": "act", "arguments": {"command": "go to drawer 1"}}\n</tool_call>',
        "<think></think><tool_response>",
        "\ufffd \ud7ff \U0010ffff",
        "x" * 5000,
    ],
)
def test_any_text_comes_back_unchanged(text: str) -> None:
    tok = tokenizer()
    assert tok.decode(tok(text, add_special_tokens=False)["input_ids"]) == text


def test_names_and_numbers_are_tokens_of_their_own_and_what_is_between_is_one() -> None:
    found = pieces(tokenizer(), "You arrive at drawer 2. On the drawer 2, you see a pen 7, and a mug 1.")
    assert found == ["You arrive at", " drawer", " 2", ". On the", " drawer", " 2", ", you see a", " pen", " 7",
                     ", and a", " mug", " 1", "."]  # fmt: skip


def test_a_name_is_the_same_token_wherever_it_stands() -> None:
    tok = tokenizer()
    assert (
        len({tuple(tok(text)["input_ids"][-2:]) for text in (" drawer 2", "You arrive at drawer 2", "x drawer 2")}) == 1
    )


def test_what_never_changes_in_a_prompt_takes_few_tokens() -> None:
    tok = tokenizer()
    ids = tok.apply_chat_template(
        [{"role": "system", "content": SYSTEM}, {"role": "user", "content": ""}],
        tools=[act], add_generation_prompt=True, return_dict=False,
    )  # fmt: skip
    assert len(ids) <= 6


def test_a_call_takes_two_tokens_beside_its_argument() -> None:
    call = json.dumps({"name": "act", "arguments": {"command": "drawer"}})
    found = pieces(tokenizer(), f"<think>\n\n</think>\n\n<tool_call>\n{call}\n</tool_call>")
    assert found[0].endswith('"command": "')
    assert found[-1] == '"}}\n</tool_call>'
    assert "".join(found[1:-1]) == "drawer"


def test_constants_end_where_a_turn_is_handed_over() -> None:
    tok = build_tokenizer()
    assert "\n<|im_start|>assistant\n" in constant_texts(tok, [act], SYSTEM)


def test_rare_pieces_are_no_tokens() -> None:
    assert len(build_tokenizer(corpus=["once drawer 1"], min_count=2)) == len(build_tokenizer())


def test_the_vocabulary_takes_no_more_pieces_than_asked_for() -> None:
    assert len(build_tokenizer(corpus=CORPUS, max_pieces=3)) == len(build_tokenizer()) + 3


def test_a_long_result_takes_no_longer_than_its_length() -> None:
    tok = tokenizer()
    started = time.process_time()
    tok("x" * 200_000)
    assert time.process_time() - started < 5


def test_names_that_mean_something_to_a_regular_expression_are_harmless() -> None:
    tok = build_tokenizer(corpus=["a.b 1 (c 2 [d 3 *e 4 \\w 5 $ 6"] * 5)
    assert tok.decode(tok("(c 2 [d 3 \\w 5")["input_ids"]) == "(c 2 [d 3 \\w 5"


CALLS = {
    "qwen3": '<tool_call>\n{"name": "act", "arguments": {"command": "open safe 1"}}\n</tool_call><|im_end|>',
    "qwen3_5_nothink": "<tool_call>\n<function=act>\n<parameter=command>\nopen safe 1\n</parameter>\n</function>\n"
    "</tool_call><|im_end|>",
}


@pytest.mark.parametrize("name", CALLS)
def test_trl_recognises_the_template_and_parses_a_call(name: str) -> None:
    tok = add_response_schema(build_tokenizer(name))
    prompt = tok.apply_chat_template([{"role": "user", "content": "x"}], add_generation_prompt=True, return_dict=False)
    known = inspect.signature(parse_response).parameters  # TRL before 1.14 finds the start of the answer by itself
    options = {name: value for name, value in {"prefix": prompt, "tools": [act]}.items() if name in known}
    message = parse_response(tok, tok(CALLS[name], add_special_tokens=False)["input_ids"], **options)
    assert message["tool_calls"][0]["function"] == {"name": "act", "arguments": {"command": "open safe 1"}}


def test_trl_swaps_in_its_training_template() -> None:
    tok = build_tokenizer()
    assert tok.chat_template == chat_template("qwen3")
    assert get_training_chat_template(tok) == chat_template("qwen3_training")


@pytest.mark.parametrize("name", ["qwen4", "", "../qwen3", "llama3"])
def test_a_template_that_does_not_fit_is_refused_with_those_that_do(name: str) -> None:
    with pytest.raises(ValueError, match=r"expected one of .*qwen3,"):
        build_tokenizer(name)


def test_the_same_arguments_give_the_same_tokenizer() -> None:
    assert tokenizer().backend_tokenizer.to_str() == tokenizer().backend_tokenizer.to_str()


def test_a_seed_fixes_the_weights_and_leaves_the_global_generator_alone() -> None:
    tok = build_tokenizer()
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    first, again, other = (build_model(tok, seed).get_input_embeddings().weight for seed in (1, 1, 2))
    assert torch.equal(torch.rand(3), expected)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize(("hidden_size", "heads"), [(128, 3), (6, 2), (10, 4)])
def test_a_width_that_does_not_fit_the_heads_is_refused(hidden_size: int, heads: int) -> None:
    with pytest.raises(ValueError, match="expected a multiple of"):
        build_model(build_tokenizer(), hidden_size=hidden_size, heads=heads)


def test_model_and_tokenizer_survive_a_folder(tmp_path) -> None:
    tok = tokenizer()
    model = build_model(tok).eval()
    model.save_pretrained(tmp_path)
    tok.save_pretrained(tmp_path)
    loaded_tok = AutoTokenizer.from_pretrained(tmp_path)
    ids = tok(CORPUS[0])["input_ids"]
    assert loaded_tok(CORPUS[0])["input_ids"] == ids
    assert (loaded_tok.eos_token, loaded_tok.pad_token) == (tok.eos_token, tok.pad_token)
    assert loaded_tok.chat_template == tok.chat_template
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32).eval()
    with torch.no_grad():
        assert torch.equal(loaded(torch.tensor([ids])).logits, model(torch.tensor([ids])).logits)


def test_generation_ends_with_the_turn() -> None:
    tok = build_tokenizer()
    model = build_model(tok)
    assert model.generation_config.eos_token_id == tok.convert_tokens_to_ids("<|im_end|>")
    assert model.generation_config.pad_token_id == tok.convert_tokens_to_ids("<|endoftext|>")
