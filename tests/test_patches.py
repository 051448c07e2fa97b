"""The frame of the patches: what every patch can rely on, shown on fake targets and on the real TRL."""

from __future__ import annotations

import importlib
import logging
import subprocess
import sys
import types
from pathlib import Path

import pytest

from trl_agentenvs import patches
from trl_agentenvs.patches import frame

REPO = Path(__file__).resolve().parent.parent
pytestmark = pytest.mark.trainer


def loop() -> object:
    from trl.trainer.grpo_trainer import GRPOTrainer

    return GRPOTrainer.__dict__["_tool_call_loop"]


def states() -> set[str]:
    return set(patches.status().values())


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """A library with a class, a subclass that inherits, and a function."""
    module = types.ModuleType("fakelib")

    class Engine:
        def run(self, speed: int = 1) -> str:
            """Run."""
            return f"run {speed}"

    class Turbo(Engine):
        pass

    module.Engine, module.Turbo, module.parse = Engine, Turbo, lambda text: text.upper()
    monkeypatch.setitem(sys.modules, "fakelib", module)
    return module


def louder(original):
    def run(*args, **kwargs):
        return original(*args, **kwargs) + "!"

    return run


# frame ----------------------------------------------------------------------------------------------------------------


def test_a_replacement_keeps_name_signature_and_docstring(library):
    import inspect

    frame.replace_function("loud", "fakelib:Engine.run", louder)
    assert library.Engine().run(2) == "run 2!"
    assert (library.Engine.run.__name__, library.Engine.run.__doc__) == ("run", "Run.")
    assert list(inspect.signature(library.Engine.run).parameters) == ["self", "speed"]


def test_undo_restores_the_very_object(library):
    before = library.Engine.__dict__["run"]
    undo = frame.undo_together(frame.replace_function("loud", "fakelib:Engine.run", louder))
    undo()
    assert library.Engine.__dict__["run"] is before


def test_undo_of_an_inherited_method_leaves_nothing_on_the_subclass(library):
    undo = frame.undo_together(frame.replace_function("loud", "fakelib:Turbo.run", louder))
    assert library.Turbo().run() == "run 1!"
    assert library.Engine().run() == "run 1"
    undo()
    assert "run" not in library.Turbo.__dict__


def test_undo_of_a_mapping_item_removes_what_was_not_there():
    variables = {"KEPT": "1"}
    undo = frame.undo_together(
        frame.replace("env", variables, "NEW", "2"), frame.replace("env", variables, "KEPT", "3")
    )
    assert variables == {"KEPT": "3", "NEW": "2"}
    undo()
    assert variables == {"KEPT": "1"}


def test_undo_below_another_replacement_is_refused_and_names_it(library):
    undo_lower = frame.undo_together(frame.replace_function("lower", "fakelib:Engine.run", louder))
    frame.replace_function("upper", "fakelib:Engine.run", louder)
    with pytest.raises(RuntimeError, match=r"cannot undo lower: Engine\.run was replaced by upper"):
        undo_lower()
    assert library.Engine().run() == "run 1!!"


def test_undo_is_all_or_nothing(library):
    function = frame.replace_function("both", "fakelib:parse", louder)
    method = frame.replace_function("both", "fakelib:Engine.run", louder)
    library.Engine.run = lambda self: "somebody else's"
    with pytest.raises(RuntimeError, match=r"Engine\.run was replaced by somebody else"):
        frame.undo_together(function, method)()
    assert library.parse("a") == "A!"


def test_undo_twice_is_refused(library):
    undo = frame.undo_together(frame.replace_function("loud", "fakelib:Engine.run", louder))
    undo()
    with pytest.raises(RuntimeError, match="undone already"):
        undo()


def test_marks_of_a_chain_add_up_and_carry_options(library):
    frame.replace_function("lower", "fakelib:Engine.run", louder, {"by": 2})
    frame.replace_function("upper", "fakelib:Engine.run", louder)
    assert frame.marked_options("lower", "fakelib:Engine.run") == {"by": 2}
    assert frame.marked_options("upper", "fakelib:Engine.run") == {}
    assert frame.marked_options("other", "fakelib:Engine.run") is None


def test_asking_for_marks_imports_nothing():
    assert frame.marked_options("any", "antigravity:fly") is None
    assert "antigravity" not in sys.modules


@pytest.mark.parametrize(
    ("symbol", "found"),
    [
        ("fakelib:Engine.walk", "nothing there"),
        ("fakelib:Motor.run", "nothing there"),
        ("fakelib.moved:Engine.run", "no module fakelib"),
        ("json.moved:Engine.run", "no module json.moved"),
    ],
)
def test_a_moved_target_names_the_symbol_looked_for(library, symbol, found):
    with pytest.raises(frame.PatchTargetMoved, match=f"patch loud looked for {symbol} and found {found}") as caught:
        frame.find("loud", symbol)
    assert (caught.value.patch, caught.value.symbol) == ("loud", symbol)


def test_a_package_that_is_not_installed_is_no_moved_target():
    with pytest.raises(frame.SteppedAside, match="no_such_package is not installed"):
        frame.find("loud", "no_such_package.deep:thing")


def test_a_missing_dependency_of_the_target_is_not_called_moved(tmp_path, monkeypatch):
    (tmp_path / "halfinstalled.py").write_text("import no_such_dependency\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="no_such_dependency"):
        frame.find("loud", "halfinstalled:thing")


# choosing -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"profile": "12gb"}, "got profile '12gb'; expected one of 24gb"),
        ({"only": ["episode_ends"]}, "got patch 'episode_ends'; expected some of keep_whitespace, recover_calls"),
        ({"without": ["sleep"]}, "got patch 'sleep'; expected some of"),
        ({"recover": {}}, "got patch 'recover'; expected some of"),
        ({"only": "episode_end"}, "expected lists of patch names"),
        ({"only": ["episode_end"], "recover_calls": {}}, "got options of recover_calls; expected options of patches"),
    ],
)
def test_a_wrong_choice_is_refused_before_anything_is_applied(arguments, message):
    before = loop()
    with pytest.raises(ValueError, match=message):
        patches.apply(**arguments)
    assert loop() is before


def test_every_patch_states_its_issue_and_its_end():
    for name in patches.PATCHES:
        patch = importlib.import_module(f"trl_agentenvs.patches.{name}")
        assert "Upstream:" in patch.__doc__, name
        assert "Limits:" in patch.__doc__, name
        assert "Delete when:" in patch.__doc__, name
        assert patch.UPSTREAM in patch.__doc__, name
        assert patch.GIVES, name


def test_profiles_name_patches_there_are():
    for chosen in patches.PROFILES.values():
        assert set(chosen) <= set(patches.PATCHES)


def test_importing_the_patches_imports_nothing_heavy():
    script = (
        "import sys, trl_agentenvs.patches as p, importlib\n"
        "[importlib.import_module(f'{p.__name__}.{name}').active() for name in p.PATCHES]\n"
        "print([name for name in ('trl', 'torch', 'transformers', 'vllm', 'peft') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=REPO)
    assert done.stdout.strip() == "[]"


# on the real TRL ------------------------------------------------------------------------------------------------------


def test_applied_is_active_inside_and_gone_outside():
    before = loop()
    assert states() == {"not applied"}
    with patches.applied("24gb") as active:
        assert active == list(patches.PATCHES)
        assert states() == {"active"}
        assert loop() is not before
    assert loop() is before
    assert states() == {"not applied"}


def test_only_and_without_narrow_the_choice():
    with patches.applied(only=["episode_end"]) as active:
        assert active == ["episode_end"]
        assert patches.status()["recover_calls"] == "not applied"
    with patches.applied(without=["episode_end", "keep_whitespace"]) as active:
        assert active == ["recover_calls"]


def test_applying_twice_changes_nothing():
    with patches.applied(), patches.applied() as active:
        once = loop()
        assert active == list(patches.PATCHES)
        assert patches.apply() == list(patches.PATCHES)
        assert loop() is once


def test_an_inner_context_undoes_only_what_it_applied():
    before = loop()
    with patches.applied(only=["recover_calls"]):
        outer = loop()
        with patches.applied() as active:
            assert active == list(patches.PATCHES)
        assert loop() is outer
        assert patches.status()["recover_calls"] == "active"
    assert loop() is before


def test_leaving_the_outer_context_first_is_refused():
    outer, inner = patches.applied(only=["recover_calls"]), patches.applied(only=["episode_end"])
    outer.__enter__()
    inner.__enter__()
    with pytest.raises(RuntimeError, match=r"cannot undo recover_calls: .*_tool_call_loop was replaced by episode_end"):
        outer.__exit__(None, None, None)
    assert patches.status()["recover_calls"] == "active"
    inner.__exit__(None, None, None)
    # the refused context is spent, so its patch is taken off by hand for the tests that follow
    from trl.trainer import grpo_trainer

    for owner, name in ((grpo_trainer.GRPOTrainer, "_tool_call_loop"), (grpo_trainer, "parse_response")):
        setattr(owner, name, getattr(owner, name).__wrapped__)
    assert patches.status()["recover_calls"] == "not applied"


def test_a_patch_is_recognised_under_the_package_s_other_name():
    elsewhere = importlib.import_module("patches")
    assert elsewhere is not patches
    with patches.applied():
        once = loop()
        with elsewhere.applied() as active:
            assert active == list(patches.PATCHES)
            assert loop() is once
        assert loop() is once
        assert {elsewhere.status()[name] for name in patches.PATCHES} == {"active"}


def test_options_reach_the_patch_and_differing_ones_are_refused():
    with patches.applied(only=["recover_calls"], recover_calls={"max_in_a_row": 7}):
        assert patches.apply(only=["recover_calls"]) == ["recover_calls"]
        assert patches.apply(only=["recover_calls"], recover_calls={"max_in_a_row": 7}) == ["recover_calls"]
        with pytest.raises(RuntimeError, match=r"got options \{'max_in_a_row': 2\}; it is active with .*7"):
            patches.apply(only=["recover_calls"], recover_calls={"max_in_a_row": 2})


def test_one_log_line_per_newly_active_patch(caplog):
    caplog.set_level(logging.INFO, logger="trl_agentenvs.patches")
    with patches.applied(), patches.applied():
        pass
    lines = [record.getMessage() for record in caplog.records if "is active" in record.getMessage()]
    assert [line.partition(" ")[0] for line in lines] == list(patches.PATCHES)
    assert "trl#5389" in caplog.text


def test_a_moved_target_raises_and_leaves_nothing_applied(monkeypatch):
    from trl.trainer.grpo_trainer import GRPOTrainer

    before = loop()
    monkeypatch.delattr(GRPOTrainer, "_get_tool_suffix_ids")
    with pytest.raises(patches.PatchTargetMoved, match=r"episode_end looked for .*GRPOTrainer\._get_tool_suffix_ids"):
        patches.apply()
    assert loop() is before
    assert patches.status()["recover_calls"] == "not applied"


def test_status_reports_a_moved_target_instead_of_raising(monkeypatch):
    from trl.trainer.grpo_trainer import GRPOTrainer

    monkeypatch.setattr(GRPOTrainer, "_tool_call_loop", lambda self, prompts: None)
    assert patches.status()["episode_end"].startswith("target moved: patch episode_end looked for")
    assert "no parameter prompt_ids" in patches.status()["episode_end"]


def test_without_trl_every_patch_steps_aside():
    script = (
        "import importlib.util\n"
        "plain = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, package=None: None if name == 'trl' else plain(name, package)\n"
        "from trl_agentenvs import patches\n"
        "print(patches.apply(), sorted(set(patches.status().values())))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=REPO)
    assert done.stdout.strip() == "[] ['stepped aside: trl is not installed']"
