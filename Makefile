# What one types: make lab, make test, make demo. Everything is installed into .venv on first use.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PORT ?= 8888

.PHONY: lab demo classroom exercises test test-whole test-quick test-serial test-floors test-newest test-releases test-nbgrader wheel test-wheel test-wheel-whole gpu test-gpu lint site site-serve site-test clean

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

$(VENV)/classroom: requirements-dev.txt $(VENV)/learner
	$(BIN)/python -m pip install --disable-pip-version-check "$$(grep ^voila== requirements-dev.txt)"
	@touch $@

classroom: $(VENV)/classroom  ## the puzzle alone on a page, for a projector
	@$(BIN)/python -m gpipe_edu classroom --port $(PORT)

exercises: $(VENV)/learner  ## build exercises/ from solutions/
	@$(BIN)/python -m gpipe_edu build

# Hundreds of processes are started, which would all compile the package again where Python is told to keep nothing.
test test-whole test-quick test-serial: export PYTHONDONTWRITEBYTECODE =

# Many tests wait for processes that start, so two workers would leave two cores partly idle. Files and tests come in an
# order by chance, which is printed: SEED=... has the same again.
SEED ?= $(shell date +%s)

test: $(VENV)/developer $(VENV)/npm/ready  ## every test and every notebook
	$(BIN)/python -m pytest -n 4 --dist loadfile --random-order --random-order-seed=$(SEED)

test-whole: $(VENV)/developer $(VENV)/npm/ready  ## as `make test`, with all that is drawn at random and the whole bank in place
	$(BIN)/python -m pytest -n 4 --dist loadfile --whole

test-quick: $(VENV)/developer  ## for everyday work: no browser, no notebook, a sample of the bank
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not slow" tests

# A worker of `make test` sees a few files; here each test has all before it as its neighbours.
test-serial: $(VENV)/developer  ## the quick tests in one process, in an order by chance
	$(BIN)/python -m pytest -p no:xdist -m "not slow" --random-order --random-order-seed=$(SEED) tests

# The light way to the course: of all that developers need, only this is installed for it.
$(VENV)/build: requirements-dev.txt | $(BIN)/python
	$(BIN)/python -m pip install --disable-pip-version-check "$$(grep ^build== requirements-dev.txt)"
	@touch $@

wheel: $(VENV)/build  ## what `pip install` takes, in dist/: the package with the course in it
	$(BIN)/python -m build

test-wheel: $(BIN)/python  ## the wheel alone in an empty environment and an empty folder: lab, lessons, a check, an upgrade
	PYTHON=$(PYTHON) .ci/wheel

test-wheel-whole: $(BIN)/python  ## as `make test-wheel`, and every lesson and exercise, with PyTorch
	PYTHON=$(PYTHON) .ci/wheel --whole

test-floors:  ## the quick tests with the oldest releases that pyproject.toml allows, in .venv-oldest
	PYTHON=$(PYTHON) .ci/other_releases oldest

test-newest:  ## the quick tests with the newest releases of all that we use, also beyond pyproject.toml, in .venv-newest
	PYTHON=$(PYTHON) .ci/other_releases newest

# The lists in names.py, read without importing torch. Each environment stands on .venv, but has a PyTorch of its own.
RELEASES = $(shell sed -n 's/^TESTED: Final = (\(.*\))$$/\1/p' gpipe_edu/cluster/torch_private.py | tr -d '",')

test-releases: $(VENV)/developer  ## several processes, with each release of PyTorch that they are promised for
	@test -n "$(RELEASES)" || { echo "TESTED was not found in gpipe_edu/cluster/torch_private.py"; exit 1; }
	@for release in $(RELEASES); do \
		there=$(VENV)-torch-$$release; \
		test -x $$there/bin/python || $(BIN)/python -m venv $$there || exit 1; \
		if [ "$(TORCH)" = cpu ] && [ "$$(uname)" = Linux ]; then from="--extra-index-url https://download.pytorch.org/whl/cpu"; fi; \
		$$there/bin/python -m pip install -q --disable-pip-version-check $$from "torch==$$release.*" || exit 1; \
		$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
			> "$$($$there/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/behind.pth"; \
		echo "PyTorch $$release:"; \
		OMP_NUM_THREADS=1 PYTHONPATH=. $$there/bin/python -m pytest -q tests/cluster/test_pipeline.py tests/cluster/test_gate.py \
			tests/cluster/test_values.py tests/cluster/test_saving.py tests/cluster/test_resume.py tests/cluster/test_torch_private.py \
			|| exit 1; \
	done

# nbgrader is for teachers, so it is in an environment of its own that stands on .venv.
$(VENV)-nbgrader/ready: requirements-nbgrader.txt $(VENV)/developer
	$(BIN)/python -m venv $(VENV)-nbgrader
	$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
		> "$$($(VENV)-nbgrader/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/behind.pth"
	$(VENV)-nbgrader/bin/python -m pip install --disable-pip-version-check -r requirements-nbgrader.txt
	@touch $@

# CLASS=whole hands in every answer of the bank, not a sample.
test-nbgrader: $(VENV)-nbgrader/ready  ## nbgrader, from the sources to the exported marks
	OMP_NUM_THREADS=1 PYTHONPATH=. $(VENV)-nbgrader/bin/python -m pytest tests/grading/test_nbgrader.py \
		$(if $(filter whole,$(CLASS)),--whole-class)

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

test-gpu:  ## `make gpu` rehearsed on the pretend GPU, with the oldest PyTorch and only what it needs, in .venv-gpu
	PYTHON=$(PYTHON) .ci/gpu_environment

lint: $(VENV)/developer $(VENV)/npm/ready  ## style, formatting, types, which room may import which; CSS, JS and HTML
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(VENV)/npm/node_modules/.bin/biome lint --error-on-warnings

$(VENV)/site: requirements-site.txt $(VENV)/developer
	$(BIN)/python -m pip install --disable-pip-version-check --no-deps --upgrade --target $(VENV)/jupyterlite -r requirements-site.txt
	@touch $@

site: $(VENV)/site $(VENV)/npm/ready  ## the course as pages and as a lab in a browser, in _site/
	$(BIN)/python -m website build

site-serve:  ## hand out _site/ on this machine
	$(BIN)/python -m website serve

site-test: $(VENV)/site $(VENV)/npm/ready  ## every page and every NumPy lesson in a real browser
	$(BIN)/python -m pytest tests/website --whole-site --durations=0 -rA

clean:  ## remove what make installed
	rm -rf $(VENV)
