# What one types: make lab, make test, make demo. Everything is installed into .venv on first use.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PORT ?= 8888

.PHONY: lab demo exercises test test-quick test-floors lint site site-serve site-test clean

# Stamps: set-up runs again only when what it installs has changed. pip shows its progress.
$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "gpipe_edu needs Python 3.11 or newer; this is $$($(PYTHON) --version). Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)

# PyPI's torch for Linux brings gigabytes of CUDA; pytorch.org has one for CPUs. With a GPU: make lab TORCH=cuda
TORCH ?= cpu

$(VENV)/learner: requirements.txt pyproject.toml | $(BIN)/python
	@echo "Installing the course into $(VENV) (once; a few minutes) ..."
	@if [ "$(TORCH)" = cpu ] && [ "$$(uname)" = Linux ]; then $(BIN)/python -m pip install --disable-pip-version-check \
		--no-deps --extra-index-url https://download.pytorch.org/whl/cpu "$$(grep ^torch== requirements.txt)"; fi
	$(BIN)/python -m pip install --disable-pip-version-check -r requirements.txt
	$(BIN)/python -m pip install --disable-pip-version-check --no-deps -e .
	@touch $@

$(VENV)/developer: requirements-dev.txt $(VENV)/learner
	$(BIN)/python -m pip install --disable-pip-version-check -r requirements-dev.txt
	@touch $@

lab: $(VENV)/learner  ## open the course in JupyterLab, on a copy in work/
	@$(BIN)/python -m gpipe_edu lab --port $(PORT)

demo: $(VENV)/learner  ## one screen: train on the digits with 4 stages and 8 micro-batches
	@$(BIN)/python -m gpipe_edu train --partitions 4 --micro-batches 8

exercises: $(VENV)/learner  ## build exercises/ from solutions/
	@$(BIN)/python -m gpipe_edu build

test: $(VENV)/developer  ## every test and every notebook
	$(BIN)/python -m pytest -n 2 --dist loadfile

test-quick: $(VENV)/developer  ## for everyday work: no browser, no notebook, a sample of the bank
	$(BIN)/python -m pytest -n 2 --dist loadfile --quick tests

test-floors:  ## the quick tests with the oldest releases that pyproject.toml allows, in .venv-floors
	PYTHON=$(PYTHON) .ci/floors

lint: $(VENV)/developer  ## style, formatting, types, and which room may import which
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

$(VENV)/site: requirements-site.txt $(VENV)/developer
	$(BIN)/python -m pip install --disable-pip-version-check --no-deps --upgrade --target $(VENV)/jupyterlite -r requirements-site.txt
	@touch $@

site: $(VENV)/site  ## the course as pages and as a lab in a browser, in _site/
	$(BIN)/python -m website build

site-serve:  ## hand out _site/ on this machine
	$(BIN)/python -m website serve

site-test: $(VENV)/site  ## every page and every NumPy lesson in a real browser
	$(BIN)/python -m pytest tests/website --whole-site --durations=0 -rA

clean:  ## remove what make installed
	rm -rf $(VENV)
