# What one types: make lab, make test, make demo. Everything is installed into .venv on first use.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PORT ?= 8888

.PHONY: help lab demo classroom test test-quick test-whole lint site site-serve site-test wheel gpu clean

help:  ## what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-11s %s\n", $$1, $$2}' Makefile

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
	$(BIN)/python -m pip install --disable-pip-version-check --no-deps --config-settings editable_mode=compat -e .
	@touch $@

$(VENV)/developer: requirements-dev.txt $(VENV)/learner
	$(BIN)/python -m pip install --disable-pip-version-check -r requirements-dev.txt
	@touch $@

lab: $(VENV)/learner  ## open the course in JupyterLab, on a copy in work/
	@$(BIN)/python -m gpipe_edu lab --port $(PORT)

demo: $(VENV)/learner  ## one screen: train on the digits with 4 stages and 8 micro-batches
	@$(BIN)/python -m gpipe_edu train --partitions 4 --micro-batches 8

$(VENV)/classroom: requirements-dev.txt $(VENV)/learner
	$(BIN)/python -m pip install --disable-pip-version-check "$$(grep ^voila== requirements-dev.txt)"
	@touch $@

classroom: $(VENV)/classroom  ## the puzzle alone on a page, for a projector
	@$(BIN)/python -m gpipe_edu classroom --port $(PORT)

# Hundreds of processes are started, which would all compile the package again where Python is told to keep nothing.
test test-whole test-quick: export PYTHONDONTWRITEBYTECODE =

# Many tests wait for processes that start, so two workers would leave two cores partly idle. Files and tests come in an
# order by chance. Its seed is printed, and picks the share of the day of cases that are alike: SEED=... repeats both.
SEED ?= $(shell date +%s)

test: $(VENV)/developer $(VENV)/npm/ready  ## every room of tests and every notebook
	$(BIN)/python -m pytest -n 4 --dist loadfile --random-order --random-order-seed=$(SEED)

test-whole: $(VENV)/developer $(VENV)/npm/ready  ## as `make test`, with all that is drawn or alike, and the whole bank
	$(BIN)/python -m pytest -n 4 --dist loadfile --random-order --random-order-seed=$(SEED) --whole

test-quick: $(VENV)/developer  ## for everyday work: no browser, no notebook, a sample of the bank
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not slow" tests

# The light way to the course: of all that developers need, only this is installed for it.
$(VENV)/build: requirements-dev.txt | $(BIN)/python
	$(BIN)/python -m pip install --disable-pip-version-check "$$(grep ^build== requirements-dev.txt)"
	@touch $@

wheel: $(VENV)/build  ## what `pip install` takes, in dist/: the package with the course in it
	$(BIN)/python -m build

# What pages take from npm, and what bundles and checks them: named in website/package.json.
$(VENV)/npm/ready: website/package.json | $(BIN)/python
	@mkdir -p $(@D) && cp $< $(@D)/
	npm install --silent --no-audit --no-fund --no-package-lock --prefix $(@D)
	@touch $@

# Where PyTorch is missing, that with CUDA comes, gigabytes; of the rest of the course only what this needs.
gpu: | $(BIN)/python  ## what only a GPU can answer, in at most 8 minutes; results in benchmarks/gpu/
	@$(BIN)/python -c 'import torch' 2>/dev/null || $(BIN)/python -m pip install --disable-pip-version-check \
		-r requirements-gpu.txt -c requirements.txt
	@$(BIN)/python -m benchmarks.gpu

lint: $(VENV)/developer $(VENV)/npm/ready  ## style, formatting, types, which room may import which; CSS, JS and HTML
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(VENV)/npm/node_modules/.bin/biome lint --error-on-warnings

$(VENV)/site: requirements-site.txt requirements-lab.txt $(VENV)/developer
	$(BIN)/python -m pip install --disable-pip-version-check --no-deps --upgrade --target $(VENV)/jupyterlite -r requirements-site.txt
	rm -rf $(VENV)/lab
	$(BIN)/python -m pip download --disable-pip-version-check --no-deps --only-binary :all: --python-version 3.14 \
		--platform any --implementation py --abi none --dest $(VENV)/lab -r requirements-lab.txt
	@touch $@

site: $(VENV)/site $(VENV)/npm/ready  ## the course as pages and as a lab in a browser, in _site/
	$(BIN)/python -m website build

site-serve:  ## hand out _site/ on this machine
	$(BIN)/python -m website serve

site-test: $(VENV)/site $(VENV)/npm/ready  ## every page and every NumPy lesson in a real browser
	$(BIN)/python -m pytest tests/website --whole-site --durations=0 -rA

clean:  ## remove what make installed
	rm -rf $(VENV)
