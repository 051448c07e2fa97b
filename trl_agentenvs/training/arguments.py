"""The command line of the recipes: our `RunArguments`, and every field of TRL's `GRPOConfig` and `ModelConfig`.

Precedence: preset < YAML file (`--config run.yaml`) < command line. `resolve` applies it and remembers where each value
comes from; `Resolved.to_yaml` writes all of it as a file that `--config` takes back. Types, aliases and `--no_...`
switches are those of TRL's own `TrlParser`.

What is not covered: nothing is built here. `GRPOConfig` itself needs the GPU that the values are for, so values are
resolved first and `Resolved.build` makes the objects when it is time.
"""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, NoReturn

import yaml  # type: ignore[import-untyped]
from trl import GRPOConfig, ModelConfig, TrlParser

from trl_agentenvs.registry import ENVIRONMENTS

from .presets import PRESETS, preset_values

__all__ = ["DEFAULT_PRESET", "ModelArguments", "Resolved", "RunArguments", "UsageError", "resolve"]

DEFAULT_PRESET = "24gb"
COMMAND_LINE, CONFIG_FILE = "command line", "config file"
_NOT_IN_YAML = ("dry_run",)


class UsageError(ValueError):
    """The command line or the YAML file cannot be understood; the message is one sentence for the user."""


@dataclass
class RunArguments:
    """What to play, on what, and how to tell the result; everything else belongs to TRL."""

    env: str = field(
        default="alfworld",
        metadata={"help": f"{', '.join(ENVIRONMENTS)}, or your own as module:Class or path/to/file.py:Class."},
    )
    preset: str = field(default=DEFAULT_PRESET, metadata={"help": f"One of {', '.join(PRESETS)}."})
    dry_run: bool = field(default=False, metadata={"help": "Print the full configuration as YAML and exit."})
    split: str = field(default="train", metadata={"help": "Split to train on."})
    n_train: int | None = field(default=None, metadata={"help": "Rows to train on, drawn by --seed; all by default."})
    eval_split: str | None = field(
        default=None, metadata={"help": "Split to play before and after training; 'none' for no evaluation."}
    )
    n_eval: int | None = field(default=None, metadata={"help": "Rows to evaluate on, the same for every --seed."})
    env_options: str | None = field(
        default=None, metadata={"help": """Options of the environment as JSON: '{"max_steps": 30}'."""}
    )
    data_options: str | None = field(
        default=None, metadata={"help": """How to choose rows, as JSON: '{"max_receptacles": 8}'."""}
    )
    patches: str = field(default="none", metadata={"help": "Profile of trl_agentenvs.patches to apply, or 'none'."})
    demo_model: bool = field(
        default=False, metadata={"help": "Without --model: build a tiny model and warm it up on expert games."}
    )


@dataclass
class ModelArguments(ModelConfig):
    """TRL's `ModelConfig`, with `--model` for short."""

    model_name_or_path: str | None = field(
        default=None, metadata={"help": "Folder or hub id of the model.", "aliases": ["--model"]}
    )


DATACLASSES: tuple[Any, ...] = (RunArguments, GRPOConfig, ModelArguments)
FIELDS = {cls: tuple(f.name for f in dataclasses.fields(cls) if f.init) for cls in DATACLASSES}
KNOWN = frozenset(name for names in FIELDS.values() for name in names)


class RunParser(TrlParser):
    """`TrlParser` that reports errors as `UsageError` instead of printing two hundred options."""

    def error(self, message: str) -> NoReturn:
        """Turn what argparse complains about into one sentence."""
        raise UsageError(f"{message}; see --help")


@dataclass
class Resolved:
    """A configuration before anything is built from it.

    Attributes:
        values: Every field of `RunArguments`, `GRPOConfig` and `ModelArguments`.
        sources: Field -> who set it: "preset NAME", "config file" or "command line"; absent at the default.
        derived: Field -> what it was filled in from, because nobody set it.
        notes: Sentences for the user.
    """

    values: dict[str, Any]
    sources: dict[str, str]
    derived: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def fill(self, name: str, value: Any, source: str) -> None:
        """Set a field that nobody set; one that is None counts as not set."""
        if self.values[name] is None:
            self.values[name] = value
            self.derived[name] = source

    @property
    def eval_split(self) -> str | None:
        """The split to evaluate on, or None for no evaluation."""
        name: str | None = self.values["eval_split"]
        return None if name is None or name.lower() == "none" else name

    def options(self, name: str) -> dict[str, Any]:
        """Return a field that holds JSON (`env_options`, `data_options`) as a dict.

        Raises:
            UsageError: It is no JSON object.
        """
        value = self.values[name]
        if value is None:
            return {}
        try:
            options = json.loads(value) if isinstance(value, str) else value
        except json.JSONDecodeError:
            options = None
        if not isinstance(options, dict):
            raise UsageError(f"""got --{name} {value!r}; expected a JSON object such as '{{"max_steps": 30}}'""")
        return options

    def build(self, **overrides: Any) -> tuple[RunArguments, GRPOConfig, ModelArguments]:
        """Make the objects that the values describe.

        Args:
            **overrides: Field -> value, instead of the resolved one.

        Raises:
            ValueError: TRL or transformers refuse a value.
        """
        values = self.values | overrides
        run, training, model = ({name: values[name] for name in FIELDS[cls]} for cls in DATACLASSES)
        return RunArguments(**run), GRPOConfig(**training), ModelArguments(**model)

    def to_yaml(self) -> str:
        """Write every value as YAML that `--config` takes; comments tell who set what is no default.

        What was derived is null there and its value in the comment, so that it follows when the file is edited.
        """
        blocks = []
        for cls in DATACLASSES:
            title = f"# {(ModelConfig if cls is ModelArguments else cls).__name__}"
            names = [name for name in FIELDS[cls] if name not in _NOT_IN_YAML]
            blocks.append("\n".join([title, *(self._yaml_line(name) for name in names)]))
        return "\n\n".join(blocks) + "\n"

    def _yaml_line(self, name: str) -> str:
        value = self.values[name]
        if name.endswith("_token") and value is not None:
            return f"{name}: null  # set by the {self.sources[name]}, a secret"
        if name in self.derived:
            return f"{name}: null  # {value}, {self.derived[name]}"
        value = value.value if isinstance(value, Enum) else value
        text = yaml.safe_dump(value, default_flow_style=True, width=float("inf"), allow_unicode=True)
        line = f"{name}: {text.removesuffix('...' + chr(10)).strip()}"
        return f"{line}  # {self.sources[name]}" if name in self.sources else line


def resolve(argv: Sequence[str]) -> Resolved:
    """Read preset, YAML file and command line.

    Args:
        argv: The arguments, without the program's name.

    Raises:
        UsageError: An unknown option, key or preset, or a value of the wrong type.
        SystemExit: Help was asked for, and printed.
    """
    argv, config_path = _without_config(argv)
    if {"-h", "--help"} & set(argv):
        _parser().parse_args(["--help"])
    given = _given(argv)
    config = {} if config_path is None else _read_config(config_path)
    name = given.get("preset") or config.get("preset") or DEFAULT_PRESET
    try:
        preset = preset_values(name, KNOWN)
    except ValueError as error:
        raise UsageError(str(error)) from error

    parser = _parser()
    parser.set_defaults_with_config(**preset.values)
    parser.set_defaults_with_config(**config)
    namespace, _ = parser.parse_known_args(argv)
    sources = dict.fromkeys(preset.values, f"preset {name}")
    sources |= dict.fromkeys(config, CONFIG_FILE) | dict.fromkeys(given, COMMAND_LINE)
    resolved = Resolved({name: getattr(namespace, name) for name in KNOWN}, sources)
    resolved.notes += _replaced_options(resolved, preset.values)
    if preset.missing:
        resolved.notes.append(
            f"The installed TRL does not have {', '.join(preset.missing)}, which the preset {name} sets; "
            "they are left out."
        )
    return resolved


def _replaced_options(resolved: Resolved, preset: Mapping[str, Any]) -> list[str]:
    """A sentence for each field of options that was given anew and lacks some of the preset's."""
    notes = []
    for name in ("env_options", "data_options"):
        lost = [option for option in preset.get(name) or () if option not in resolved.options(name)]
        if lost:
            notes.append(
                f"{name} from the {resolved.sources[name]} replaces all of the preset's; no longer set: "
                f"{', '.join(lost)}. Repeat what you want to keep."
            )
    return notes


def _parser() -> RunParser:
    return RunParser(
        DATACLASSES,
        allow_abbrev=False,
        description="Every option is also a key of the YAML file of --config FILE.yaml. What is set later wins: the "
        "preset's value over the default shown here, the file's over that, the command line's over all.",
    )


def _without_config(argv: Sequence[str]) -> tuple[list[str], str | None]:
    """Take `--config FILE` or `--config=FILE` out of the arguments; the last one counts."""
    rest, path = [], None
    words = iter(argv)
    for word in words:
        if word == "--config":
            path = next(words, None)
            if path is None:
                raise UsageError("got --config without a file; expected --config FILE.yaml")
        elif word.startswith("--config="):
            path = word.removeprefix("--config=")
        else:
            rest.append(word)
    return rest, path


def _given(argv: Sequence[str]) -> dict[str, Any]:
    """The fields that the command line sets."""
    parser = _parser()
    for action in parser._actions:
        action.default = argparse.SUPPRESS
    namespace, unknown = parser.parse_known_args(argv)
    if unknown:
        options = [option for action in parser._actions for option in action.option_strings]
        raise UsageError(_unknown("option", next((w for w in unknown if w.startswith("-")), unknown[0]), options))
    return vars(namespace)


def _read_config(path: str) -> dict[str, Any]:
    """Read the YAML file; `env` may be the environment's name, or a mapping of environment variables as TRL has it."""
    try:
        config = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"got --config {path}; it cannot be read: {error.strerror or error}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UsageError(f"got --config {path}; it is no YAML: {' '.join(str(error).split())}") from error
    if config is None:
        return {}
    if not isinstance(config, Mapping):
        raise UsageError(f"got --config {path} with a {type(config).__name__}; expected lines like 'field: value'")
    fields: dict[str, Any] = {}
    for key, value in config.items():
        name = str(key).replace("-", "_")
        name = "model_name_or_path" if name == "model" else name
        if name == "env" and isinstance(value, Mapping):
            os.environ.update({str(variable): str(text) for variable, text in value.items()})
        elif name in KNOWN:
            fields[name] = value
        else:
            raise UsageError(f"{path}: {_unknown('field', str(key), KNOWN)}")
    return fields


def _unknown(kind: str, word: str, known: Sequence[str] | frozenset[str]) -> str:
    bare = word.partition("=")[0]
    near = difflib.get_close_matches(bare, known, n=1) or difflib.get_close_matches(bare.replace("-", "_"), known, n=1)
    hint = f"did you mean {near[0]}?" if near else "--help lists what there is"
    return f"got the unknown {kind} {bare}; {hint}"
