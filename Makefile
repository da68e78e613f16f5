# Every target sets up its own environment first: .venv, from pyproject.toml and constraints.txt.
PYTHON ?= python3
BIN := .venv/bin

PEOPLE := visual_dynamics/models/people.safetensors
PEOPLE_COMMIT := ca6f422c1a54de823376588760cfd9bba8a3446b
PEOPLE_SHA256 := 49738be704411a37b3132d7e93cd31e32bdbf43fb961a442dda542bd7aaf2583

.PHONY: demo test check bench people clean

demo: .venv/runtime.stamp  ## a page with futures of several images: out/demo/index.html
	$(BIN)/visual-dynamics demo --out out/demo --overwrite

test: check  ## the checks, then every test
	$(BIN)/python -m pytest -n 2 --dist worksteal

check: .venv/development.stamp  ## style, types, import order
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

people:  ## the weights of the model of real video, 11 MB, out of the history: too large for every checkout
	git show $(PEOPLE_COMMIT):$(PEOPLE) > $(PEOPLE).part
	echo "$(PEOPLE_SHA256)  $(PEOPLE).part" | sha256sum --check --quiet
	mv $(PEOPLE).part $(PEOPLE)

bench: .venv/development.stamp  ## speed, as ratios in one run; results in out/bench
	$(BIN)/visual-dynamics bench --out out/bench

.venv/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "visual-dynamics needs Python 3.11 or later")'
	$(PYTHON) -m venv .venv

.venv/runtime.stamp: .venv/bin/python pyproject.toml constraints.txt
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	touch $@

.venv/development.stamp: .venv/runtime.stamp
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

clean:
	rm -rf .venv out build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
