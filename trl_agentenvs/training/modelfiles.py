"""What of a model is needed before its weights: config, and a tokenizer whose chat template TRL can train tools with.

TRL asks three things of the chat template: it renders tool calls and their results, TRL knows how to parse its calls
back (it compares the whole text with the templates it ships, unless the tokenizer brings a `response_template`), and
each turn renders the same whatever follows it, or TRL has a variant of which that is true. All three are asked here, by
TRL's own functions.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["ModelFiles", "is_path", "model_init_kwargs", "open_model_files"]

WEIGHTS = ("*.safetensors", "pytorch_model*.bin")
# Without any of them transformers makes up an empty tokenizer of the model's kind instead of complaining.
TOKENIZERS = ("tokenizer*", "vocab*", "*.tiktoken", "spiece.model")
SHOWN_ERROR_CHARS = 300


@dataclass
class ModelFiles:
    """A model without its weights.

    Attributes:
        name: Folder or hub id.
        config: Its `PretrainedConfig`.
        processing_class: Tokenizer or processor as TRL loads it, or None when there is none to be had.
        without_processor: Why there is a tokenizer instead of a processor; "" where there is a processor.
    """

    name: str
    config: Any
    processing_class: Any = None
    without_processor: str = ""

    @property
    def is_multimodal(self) -> bool:
        """Whether there are towers beside the language model."""
        return self.config.get_text_config() is not self.config

    @property
    def max_positions(self) -> int | None:
        """Tokens that the model's positions reach to, or None when its config does not say."""
        return getattr(self.config.get_text_config(), "max_position_embeddings", None)


def model_init_kwargs(values: Mapping[str, Any]) -> dict[str, Any]:
    """Merge the loading options of `ModelConfig` into `model_init_kwargs`, which win, as TRL's own script does.

    Args:
        values: Every field by name.

    Raises:
        ValueError: `model_init_kwargs` is a string, but no JSON object.
    """
    given = values["model_init_kwargs"]
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except json.JSONDecodeError as error:
            raise ValueError(f"got --model_init_kwargs {given!r}; expected a JSON object ({error})") from error
    merged = {"dtype": values["dtype"]}
    if values["model_revision"] != "main":
        merged["revision"] = values["model_revision"]
    if values["attn_implementation"] is not None:
        merged["attn_implementation"] = values["attn_implementation"]
    return merged | dict(given or {})


def is_path(name: str) -> bool:
    """Whether a model name means a folder and no hub id, which has one slash at most and begins with a word."""
    return name.startswith((".", "/", "~")) or name.count("/") > 1 or "\\" in name or Path(name).exists()


def open_model_files(values: Mapping[str, Any], *, local_only: bool) -> tuple[ModelFiles | None, list[str]]:
    """Load config and tokenizer, and ask TRL about the chat template.

    Args:
        values: Every field by name.
        local_only: Look up nothing on the hub; a hub id is then left unchecked.

    Returns:
        The files, None when there are none, and a sentence for each thing that is wrong.
    """
    name = values["model_name_or_path"]
    if not name:
        return None, ["got no model; expected a folder or a hub id; use --model, as in --model Qwen/Qwen3.5-4B"]
    if is_path(name):
        wrong = _folder_fault(Path(name).expanduser(), name)
        if wrong:
            return None, [wrong]
        name = str(Path(name).expanduser())
    elif local_only:
        return None, []
    from transformers import AutoConfig

    where = {"revision": values["model_revision"], "trust_remote_code": values["trust_remote_code"]}
    try:
        files = ModelFiles(name, AutoConfig.from_pretrained(name, **where))
    except (OSError, ValueError, ImportError) as error:
        return None, [
            f"cannot load the model {name!r}: {_brief(error)}; check the name and the network, or give a folder"
        ]
    try:
        files.processing_class, files.without_processor = _load_processing_class(name, where)
    except (OSError, ValueError, ImportError) as error:
        return files, [f"cannot load the tokenizer of {name!r}: {_brief(error)}"]
    return files, _processor_faults(values, files) or _template_faults(files)


def _load_processing_class(name: str, where: Mapping[str, Any]) -> tuple[Any, str]:
    """Load what TRL would load; of a multimodal model without its image processor, the tokenizer alone, and why."""
    from transformers import AutoProcessor, AutoTokenizer

    sides = {"truncation_side": "left", "padding_side": "left"}
    try:
        return AutoProcessor.from_pretrained(name, **sides, **where), ""
    except (OSError, ImportError) as error:
        return AutoTokenizer.from_pretrained(name, **sides, **where), _brief(error)


def _folder_fault(folder: Path, name: str) -> str | None:
    if not folder.exists():
        return f"got the model {name!r}; there is no such folder; give one that holds config.json, or a hub id"
    if not (folder / "config.json").is_file():
        if (folder / "adapter_config.json").is_file():
            return f"got the model {name!r}, which is a LoRA adapter; merge it into its base model first, or give that"
        return f"got the model {name!r}, which is no model: it holds no config.json"
    if not any(any(folder.glob(pattern)) for pattern in WEIGHTS):
        return f"got the model {name!r}, which holds a config.json but no weights (*.safetensors)"
    if not any(any(folder.glob(pattern)) for pattern in TOKENIZERS):
        return f"got the model {name!r}, which holds no tokenizer; save the one it was trained with beside it"
    return None


def _processor_faults(values: Mapping[str, Any], files: ModelFiles) -> list[str]:
    """TRL reads the length of a multimodal model where only its processor tells it to look, unless vLLM knows it."""
    in_engine = values["use_vllm"] and values["vllm_mode"] == "colocate"
    if files.is_multimodal and not hasattr(files.processing_class, "tokenizer") and not in_engine:
        return [
            f"the model {files.name!r} is multimodal, but its processor cannot be loaded, without which the tool loop "
            "of TRL fails outside a colocated vLLM; install the packages it names, add the base model's "
            f"preprocessor_config.json, or use a text-only checkpoint ({files.without_processor or 'there is none'})"
        ]
    return []


def _template_faults(files: ModelFiles) -> list[str]:
    """Ask TRL's own functions about the chat template, in the order in which its trainer does."""
    from trl.chat_template_utils import (
        add_response_schema,
        get_training_chat_template,
        is_chat_template_prefix_preserving,
        supports_tool_calling,
    )

    processing_class, name = files.processing_class, files.name
    tokenizer = getattr(processing_class, "tokenizer", processing_class)
    if processing_class.chat_template is None:
        return [
            f"the tokenizer of {name!r} has no chat template, so tool calls cannot be written; use an instruction-tuned"
            " model, or set tokenizer.chat_template to one that TRL ships and save it"
        ]
    if not supports_tool_calling(processing_class):
        return [
            f"the chat template of {name!r} does not render tool calls and their results; use a model that was trained "
            "with tools, or set one of the templates that TRL ships (trl.chat_template_utils) and save the tokenizer"
        ]
    if not any(getattr(tokenizer, kind, None) for kind in ("response_template", "response_schema")):
        try:
            add_response_schema(processing_class)
        except ValueError:
            return [
                f"TRL does not know the chat template of {name!r} and so cannot parse its tool calls (one changed "
                "character is enough); restore the original template, or set tokenizer.response_template and save the "
                "tokenizer"
            ]
    if not is_chat_template_prefix_preserving(processing_class):
        try:
            get_training_chat_template(processing_class)
        except ValueError as error:
            return [f"the chat template of {name!r} rewrites earlier turns and TRL has no substitute: {_brief(error)}"]
    return []


def _brief(error: BaseException) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= SHOWN_ERROR_CHARS else f"{text[:SHOWN_ERROR_CHARS]}..."
