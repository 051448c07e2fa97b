"""A tiny language model made on the spot: tokenizer and random weights, no hub, no download, no GPU.

TRL treats the pair like any other model: the chat template is byte for byte one that TRL ships, so TRL recognises it,
parses its tool calls and swaps in its prefix-preserving training variant. `build_model` gives a `Qwen3ForCausalLM` of
some 400,000 parameters that learns a text game within a minute on two CPU cores.

The tokenizer takes any text (it falls back to bytes) and gives it back unchanged, but it is short only on text like its
corpus: names that carry a number there ("drawer 2") and the digits stay tokens of their own, so that a model can copy
them; what stands between them ("You arrive at") becomes one token wherever it is frequent, and so do the parts of a
conversation that never change (`constant_texts`). What is not covered: templates whose turns do not end in
`<|im_end|>`, and real language.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
import trl
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

__all__ = ["EOS_TOKEN", "PAD_TOKEN", "build_model", "build_tokenizer", "chat_template", "constant_texts"]

EOS_TOKEN, PAD_TOKEN = "<|im_end|>", "<|endoftext|>"

# Single tokens but not special ones: decoding must keep them, or the parser never sees a call.
_CHAT_TAGS = ("<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")
_START_TOKEN = "<|im_start|>"
_NUMBERED_NAME = re.compile(r"([^\W\d_]+) \d")
_LONGEST_PIECE_CHARS = 200
_MAX_POSITIONS = 2048
_MARK = "@@"

# Small weights leave attention near uniform, and copying from the context is learnt late: at 0.06 the loss falls in
# half as many steps as at the usual 0.02. The same goes for a base of the rotary embedding that suits short texts.
_INIT_STD = 0.06
_ROPE_BASE = 1000.0


def chat_template(name: str = "qwen3") -> str:
    """Return a chat template that TRL ships, byte for byte.

    Args:
        name: Its file name in TRL, without `.jinja`.

    Raises:
        ValueError: TRL has no such template, or its turns do not end in `<|im_end|>`.
    """
    folder = Path(trl.__file__).parent / "chat_templates"
    path = folder / f"{name}.jinja"
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    if EOS_TOKEN not in text:
        fitting = sorted(file.stem for file in folder.glob("qwen*.jinja") if not file.stem.endswith("_training"))
        raise ValueError(f"got the chat template {name!r}; expected one of {', '.join(fitting)}")
    return text


def build_tokenizer(
    template: str = "qwen3",
    corpus: Iterable[str] = (),
    *,
    tools: Sequence[Callable[..., Any]] = (),
    system_prompt: str = "",
    min_count: int = 3,
    max_pieces: int = 2000,
) -> PreTrainedTokenizerFast:
    """Build a tokenizer for a chat template; the same arguments give the same tokenizer.

    Args:
        template: Name of TRL's chat template.
        corpus: Texts to be short on: observations and commands, without chat markup.
        tools: Tools whose schemas stand in every prompt; with them, prompt and calls take a few tokens.
        system_prompt: System message of every prompt.
        min_count: How often a piece of text must occur in the corpus to become a token.
        max_pieces: Most tokens taken from the corpus, the most frequent first.

    Raises:
        ValueError: See `chat_template`.
    """
    texts = list(corpus)
    names = sorted(
        {name for text in texts for name in _NUMBERED_NAME.findall(text)}, key=lambda name: (-len(name), name)
    )
    split = rf" ?\b(?:{'|'.join(names)})\b| ?\p{{N}}" if names else r" ?\p{L}+| ?\p{N}"
    pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(split), "isolated"),
            # The search for the longest piece is quadratic in the length of a run.
            pre_tokenizers.Split(Regex(rf"[\s\S]{{{_LONGEST_PIECE_CHARS}}}"), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    counts = Counter(piece for text in texts for piece, _ in pre_tokenizer.pre_tokenize_str(text))
    frequent = sorted((-count, piece) for piece, count in counts.items() if count >= min_count and len(piece) > 1)
    pieces = [piece for _, piece in frequent if len(piece) <= _LONGEST_PIECE_CHARS][:max_pieces]
    vocab = {token: index for index, token in enumerate([*sorted(pre_tokenizers.ByteLevel.alphabet()), *pieces])}
    # The longest piece that fits, else single bytes: complete over any text, and without a merge table's in-between
    # tokens, which would make the vocabulary three times as large.
    core = Tokenizer(
        models.WordPiece(vocab, unk_token=PAD_TOKEN, continuing_subword_prefix="", max_input_chars_per_word=10**9)
    )
    core.pre_tokenizer = pre_tokenizer
    core.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core,
        clean_up_tokenization_spaces=False,
        eos_token=EOS_TOKEN,
        pad_token=PAD_TOKEN,
        padding_side="left",
    )
    tokenizer.chat_template = chat_template(template)
    tokenizer.add_special_tokens({"additional_special_tokens": [_START_TOKEN]})
    constants = constant_texts(tokenizer, tools, system_prompt) if tools else []
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in [*_CHAT_TAGS, *constants]])
    return tokenizer


def constant_texts(
    tokenizer: PreTrainedTokenizerFast, tools: Sequence[Callable[..., Any]], system_prompt: str = ""
) -> list[str]:
    """Return what every conversation with these tools has in common, in pieces that end where a turn is handed over.

    Args:
        tokenizer: A tokenizer with a chat template.
        tools: The tools; each takes arguments that are text.
        system_prompt: System message; "" for none.
    """
    from trl.chat_template_utils import get_training_chat_template

    training = get_training_chat_template(tokenizer) or tokenizer.chat_template
    system = [{"role": "system", "content": system_prompt}] if system_prompt else []
    texts: set[str] = set()
    for tool in tools:
        names = [name for name in tool.__annotations__ if name != "return"]
        call = {"type": "function", "function": {"name": tool.__name__, "arguments": dict.fromkeys(names, _MARK)}}
        start: list[dict[str, Any]] = [*system, {"role": "user", "content": _MARK}]
        turn: list[dict[str, Any]] = [
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "name": tool.__name__, "content": _MARK},
        ]
        whole, prompt, unprompted = (
            str(
                tokenizer.apply_chat_template(
                    messages, tools=list(tools), chat_template=training, add_generation_prompt=prompted, tokenize=False
                )
            )
            for messages, prompted in (([*start, *turn], False), (start, True), (start, False))
        )
        handover = prompt.removeprefix(unprompted)
        seams = "|".join(map(re.escape, (_MARK, EOS_TOKEN)))
        for text in re.split(seams, whole):
            before, found, after = text.partition(handover)
            texts.update((f"{before}{found}", after) if found else (text,))
    return sorted(text for text in texts if len(text) > 1)


def build_model(
    tokenizer: PreTrainedTokenizerFast,
    seed: int = 0,
    *,
    hidden_size: int = 128,
    layers: int = 2,
    heads: int = 4,
    intermediate_size: int = 256,
) -> Qwen3ForCausalLM:
    """Build a random Qwen3 in float32; the same arguments give the same weights, and no global state changes.

    Args:
        tokenizer: What `build_tokenizer` returned.
        seed: Seed of the weights.
        hidden_size: Width; a multiple of twice the number of heads.
        layers: Number of layers; two are the least that can copy from the context.
        heads: Attention heads in each layer.
        intermediate_size: Width of the feed-forward part.

    Raises:
        ValueError: The width does not fit the heads.
    """
    if hidden_size % (2 * heads):
        raise ValueError(f"got hidden_size={hidden_size} with heads={heads}; expected a multiple of {2 * heads}")
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=hidden_size,
        intermediate_size=intermediate_size,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=heads,
        head_dim=hidden_size // heads,
        max_position_embeddings=_MAX_POSITIONS,
        tie_word_embeddings=True,
        initializer_range=_INIT_STD,
        rope_parameters={"rope_type": "default", "rope_theta": _ROPE_BASE},
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Qwen3ForCausalLM(config)
