# Everything a user types, besides train.py itself. `make` alone lists it.
PYTHON ?= python3
VENV   := .venv
RUN    := $(VENV)/bin/python
TABLE  ?=
RESULTS = $(filter-out studies/archive/%,$(wildcard studies/*/record.json studies/*/*.json.xz))

.DEFAULT_GOAL := help
.PHONY: help setup demo doctor test test-all pytest quick lint bench reproduce-table results-page generate docs tensorboard clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(VENV)/.done  ## make .venv with everything installed (PYTHON=python3.12 picks the interpreter)

$(VENV)/.done: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' || \
	  { echo "Python 3.11, 3.12 or 3.13 is needed, $(PYTHON) is not: try make setup PYTHON=python3.12"; exit 2; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || \
	  { echo "$(PYTHON) has no venv module: try apt-get install python3-venv"; exit 2; }
	@echo "Setting up .venv (2 to 4 minutes; the CUDA build of torch also runs on CPUs)"
	$(PYTHON) -m venv $(VENV)
	$(RUN) -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@

demo: $(VENV)/.done  ## pretrain and evaluate on the bundled digits: 20 to 60 seconds on two cores
	$(RUN) train.py loss=debiased_pos tau_plus=0.1

doctor: $(VENV)/.done  ## environment, device, data with checksums, disk, load, ten steps: one page
	$(RUN) -m contrastive doctor

# files in the order of their names: xdist's own puts those with few tests, which are the long ones, last
PYTEST = OMP_NUM_THREADS=1 $(RUN) -m pytest -n auto --dist loadfile --no-loadscope-reorder

test: $(VENV)/.done  ## lint, types, and one real case of each promise among the fast tests: four to five minutes on two cores
	@$(MAKE) --no-print-directory --jobs=2 lint pytest

pytest: $(VENV)/.done
	$(PYTEST) -m "smoke or not slow"

quick: $(VENV)/.done  ## the fast tests alone, which start no process: two minutes on two cores
	$(PYTEST) -m "not slow and not smoke"

test-all: $(VENV)/.done lint  ## lint, types and every test: an hour on two cores
	$(PYTEST)

lint: $(VENV)/.done  ## ruff check, ruff format --check, mypy --strict
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy --strict

reproduce-table: $(VENV)/.done  ## run a table beside its published figures, with a page to look at: TABLE=digits PRESET=paper|small|smoke SEEDS=3 JOBS=2 SECONDS=840 STRICT=1 ARGS="epochs=5"; without TABLE list them
	$(RUN) scripts/reproduce_table.py $(TABLE) $(ARGS) $(if $(PRESET),--preset $(PRESET)) $(if $(SEEDS),--seeds $(SEEDS)) \
	  $(if $(JOBS),--jobs $(JOBS)) $(if $(SECONDS),--seconds $(SECONDS)) $(if $(filter 1,$(STRICT)),--strict)

results-page: $(VENV)/.done  ## write outputs/results.html: every table of a kept study to look at
	$(RUN) scripts/reproduce_table.py --static --page outputs/results.html $(RESULTS)

bench: $(VENV)/.done  ## speed and memory beside lightly, PIL and Adam: 20 minutes, some 10 on a GPU; ARGS="only=loss_16384" for a part
	$(RUN) -m pip install --quiet --disable-pip-version-check -e '.[bench]'
	$(RUN) scripts/benchmark $(ARGS)

generate: $(VENV)/.done  ## after adding a loss: its public name, and the tables of losses in docs/
	$(RUN) -m scripts.generate

docs: $(VENV)/.done  ## build the site from README, docs/ and docstrings into site/
	NO_MKDOCS_2_WARNING=1 $(RUN) -m mkdocs build --strict

tensorboard: $(VENV)/.done  ## show the curves of every run under outputs/
	$(VENV)/bin/tensorboard --logdir outputs

clean:  ## remove .venv and caches; outputs/ and data/ stay
	rm -rf $(VENV) build .pytest_cache .ruff_cache .mypy_cache .hypothesis *.egg-info
