# Every target makes its own virtual environment on first use; nothing is installed by hand.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: help demo test lint types unit bench clean

help:
	@echo "make demo   show what xdops does, on this machine, now"
	@echo "make test   lint, types and all tests"
	@echo "make bench  time XD-operations against the convolutions they replace"

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "torch==2.13.0" -c constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $(READY)

demo: $(READY)
	rm -rf runs/demo
	$(BIN)/xdops search --out runs/demo

test: lint types unit

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

# Two workers with one thread each: more threads than cores only wait for each other.
unit: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2

bench: $(READY)
	$(BIN)/xdops bench layers

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
