# Every target sets up its own environment first: .venv, from pyproject.toml and constraints.txt.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo train test test-matrix check bench docs notebooks mutants fuzz kill locked lock clean

demo: .venv/runtime.stamp  ## a page with futures of several images: out/demo/index.html
	$(BIN)/visual-dynamics demo --out out/demo --overwrite

train: .venv/runtime.stamp  ## a small model of Shapes, learned here in a quarter of an hour: out/train/page/index.html
	$(BIN)/visual-dynamics train out/train $(if $(wildcard out/train/state.safetensors),--resume,--recipe shapes-small)
	$(BIN)/visual-dynamics demo --model out/train/shapes-small.safetensors --out out/train/page --overwrite

test: check  ## the checks, then every test
	$(BIN)/python -m pytest -n 2 --dist worksteal

test-matrix:  ## a fast part of the tests with each Python and torch that can be had; see docs/versions.md
	$(PYTHON) tests/matrix.py

check: .venv/development.stamp  ## style, types, import order
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

notebooks: .venv/development.stamp  ## run the course again, in place: docs/notebooks
	$(BIN)/python -m tests.notebooks

bench: .venv/development.stamp  ## speed, as ratios in one run; results in out/bench
	$(BIN)/python benchmarks/speed.py --out out/bench

docs: .venv/development.stamp  ## the documentation as a site: out/docs/site/index.html
	$(BIN)/python docs/build.py out/docs

locked: .venv/bin/python  ## the environment for CI: what is not, byte for byte, in requirements.lock is not installed
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	# Torch by version alone: its builds for CPUs and for CUDA have one version, and other bytes.
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps -c constraints.txt torch
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch .venv/runtime.stamp .venv/development.stamp

lock: .venv/bin/python  ## requirements.lock, again after a change of constraints.txt
	$(BIN)/pip install --quiet --disable-pip-version-check uv
	$(BIN)/uv pip compile --quiet --no-deps --generate-hashes --no-emit-package torch --no-header --no-annotate \
		constraints.txt -o requirements.lock

mutants: .venv/development.stamp  ## is every small fault noticed by a test? hours; goes on where it was
	$(BIN)/python -m tests.mutants.run --workers 2 --summary out/mutants.json

fuzz: .venv/development.stamp  ## do readers stand damaged files? out/fuzz/fuzz.json
	$(BIN)/python -m tests.fuzz.run

kill: .venv/development.stamp  ## is anything lost when processes are killed, or a disk is full? out/kill.json
	$(BIN)/python -m tests.kill.run

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
