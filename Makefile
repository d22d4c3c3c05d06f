# make run and make test do everything; the rest is for those who change the code.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
export LITELLM_LOCAL_MODEL_COST_MAP = True

.PHONY: run test lint format lock sessions baseline prices readme bench nightly clean help

help:
	@sed -n 's/^\([a-z]*\):.*## /\1	/p' Makefile

$(VENV)/.installed: requirements.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(None if (3, 11) <= sys.version_info[:2] < (3, 14) else "needs Python 3.11 to 3.13; this is " + sys.version.split()[0])'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

run: $(VENV)/.installed ## set up, then measure the strategy prune on the bundled sessions
	$(BIN)/python -m bench run strategy=prune

test: $(VENV)/.installed ## set up, then run all tests
	$(BIN)/python -m pytest

lint: $(VENV)/.installed ## style and common mistakes
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(VENV)/.installed ## put the code into its style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lock: $(VENV)/.installed ## pin the newest versions that pyproject.toml allows
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --no-emit-index-url --no-header --extra dev pyproject.toml -o requirements.lock

sessions: $(VENV)/.installed ## record the bundled sessions anew and write their data card
	PYTHONPATH=src:data $(BIN)/python -m recorder --card

baseline: $(VENV)/.installed ## measure every strategy without a model on the bundled sessions and keep the summaries
	$(BIN)/python results/keep_baseline.py
	$(BIN)/python results/write_readme.py

prices: $(VENV)/.installed ## keep the price map of the installed litellm under today's date
	$(BIN)/python -m bench.models.prices

readme: $(VENV)/.installed ## write the generated parts of README.md from results/baseline
	$(BIN)/python results/write_readme.py

bench: $(VENV)/.installed ## speed and size, with pytest-benchmark
	$(BIN)/python -m pytest benchmarks --benchmark-enable --benchmark-only

nightly: $(VENV)/.installed ## the long tests too
	$(BIN)/python -m pytest --nightly

clean:
	rm -rf $(VENV) results/runs results/.sweeps
