# Two commands: `make demo` trains an agent on this machine's CPU, `make test` checks everything. Both make .venv first.

PYTHON ?= python3
SEED ?= 0
VENV := .venv
OLDEST := .venv-oldest
TEXTWORLD := .venv-textworld
BIN := $(VENV)/bin

# Nothing here may reach for a hub; TRL's notice about experimental features would come once per process.
export HF_HUB_OFFLINE := 1
export HF_HUB_DISABLE_TELEMETRY := 1
export TRL_EXPERIMENTAL_SILENCE := 1
export TOKENIZERS_PARALLELISM := false
export PIP_DISABLE_PIP_VERSION_CHECK := 1

# The tiny models of the demo and the tests gain nothing from more threads than this.
THREADS ?= $(shell n=$$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2); [ "$$n" -gt 4 ] && n=4; echo "$$n")

# Every default that accelerate would otherwise guess and warn about. --cpu: the demo is the same with and without a GPU.
LAUNCH := $(BIN)/accelerate launch --cpu --num_processes 1 --num_machines 1 --mixed_precision no --dynamo_backend no \
	--num_cpu_threads_per_process $(THREADS)

.DEFAULT_GOAL := help
.PHONY: help venv demo test lint format test-oldest parity bench-alfworld bench-expert clean

help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

venv: $(VENV)/.installed ## Create .venv with everything that training and testing on a CPU need

demo: venv ## Train an agent on ALFWorld games on the CPU, and show success before and after (SEED=0)
	CUDA_VISIBLE_DEVICES= $(LAUNCH) recipes/grpo_24gb.py --preset cpu-demo --seed $(SEED)

test: lint ## Run ruff, mypy and the whole test suite (PYTEST_ARGS="-k name")
	OMP_NUM_THREADS=$(THREADS) $(BIN)/python -m pytest $(PYTEST_ARGS)

lint: venv ## Run ruff and mypy, change nothing
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

format: venv ## Rewrite the code the way ruff wants it
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

test-oldest: $(OLDEST)/.installed ## Run the tests that drive TRL's trainers, on the oldest supported TRL
	OMP_NUM_THREADS=$(THREADS) $(OLDEST)/bin/python -m pytest -m trainer $(PYTEST_ARGS)

parity: $(TEXTWORLD)/.installed ## Compare ALFWorld games with TextWorld, move by move (half an hour; ALFWORLD_GAMES=folder)
	OMP_NUM_THREADS=1 $(TEXTWORLD)/bin/python -m pytest -m parity -v tests/parity $(PYTEST_ARGS)

bench-alfworld: $(TEXTWORLD)/.installed ## Measure ALFWorld games against stock TextWorld (BENCH_ARGS="--json FILE")
	@$(TEXTWORLD)/bin/python tests/benchmarks/alfworld.py $(BENCH_ARGS)

bench-expert: venv ## Let the ALFWorld expert play all splits (official games: ALFWORLD_DATA)
	$(BIN)/python tests/benchmarks/alfworld_expert.py $(BENCH_ARGS)

clean: ## Remove the environments, builds and caches; runs/ stays
	rm -rf $(VENV) $(OLDEST) $(TEXTWORLD) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamp is written last, so an interrupted install is taken up again.
$(VENV)/.installed: pyproject.toml constraints.txt
	$(call create,$(VENV))
	$(BIN)/python -m pip install -q -c constraints.txt -e ".[train,dev]"
	@touch $@

$(OLDEST)/.installed: pyproject.toml constraints-oldest.txt
	$(call create,$(OLDEST))
	$(OLDEST)/bin/python -m pip install -q -c constraints-oldest.txt -e ".[train]" pytest
	@touch $@

# TextWorld compiles a planner: cmake and g++ must be there, and Python must be older than 3.13.
$(TEXTWORLD)/.installed: pyproject.toml constraints-textworld.txt
	$(call create,$(TEXTWORLD))
	$(TEXTWORLD)/bin/python -m pip install -q -c constraints-textworld.txt -e ".[textworld]"
	@touch $@

define create
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' || { \
		echo "got $$($(PYTHON) --version 2>&1); expected Python 3.11, 3.12 or 3.13; run make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)" >&2; exit 1; }
	@echo "Installing into $(1) (a minute or two) ..."
	@$(PYTHON) -m venv $(1)
endef
