# Every target sets up what it needs in .venv; a machine needs Python (>= 3.11) and make, nothing else.
PYTHON ?= python3
BIN := .venv/bin
export OMP_NUM_THREADS ?= 1

.PHONY: install demo test lint test-slow test-hub fixtures bench wheel-check clean

install: .venv/.installed

.venv/.installed: pyproject.toml constraints-cpu.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and f"offleash needs Python 3.11 or newer, {sys.executable} is {sys.version.split()[0]}; try: make PYTHON=python3.12")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints-cpu.txt -e '.[dev]'
	@touch $@

demo: install          ## compare a small base and RL model from the counts in examples/
	-@$(BIN)/offleash compare base=examples/counts/base.csv rl=examples/counts/rl.csv

test: install          ## everything a change must pass, under ten minutes on two cores
	$(BIN)/pytest -n 2 -m "not slow and not hub and not real and not vllm"

test-slow: install     ## the long simulations: coverage and size of every interval and test
	$(BIN)/pytest -n 2 -m slow

test-hub: install      ## the benchmarks' columns, read from the Hugging Face hub: needs network
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints-cpu.txt -e '.[hub]'
	OFFLEASH_TEST_HUB=1 $(BIN)/pytest -m hub

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

fixtures:              ## make the log fixtures again by running the real tools, each in its own environment
	$(PYTHON) tests/logs/make_fixtures.py

bench: install         ## every benchmark; each ends in lines 'ratio <what>: <number>'
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints-cpu.txt -e '.[bench]' || echo "peers not installed; the benchmark says which"
	for script in benchmarks/*.py; do $(BIN)/python $$script || exit 1; done

wheel-check: install   ## the wheel, alone in a clean environment without torch, runs compare
	$(BIN)/python tests/wheel_check.py

clean:
	rm -rf .venv .envs build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
