# Every target makes its own virtual environment on first use; nothing is installed by hand.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DEV := $(VENV)/.dev
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: help demo test test-portable lint types unit package docs bench clean

help:
	@echo "make demo   show what xdops does, on this machine, now"
	@echo "make test   lint, types and all tests"
	@echo "make test-portable   the tests that train, as on other processors"
	@echo "make package   wheel and sdist, installed into new environments and used"
	@echo "make docs   the documentation with its gallery, in docs/_build/html"
	@echo "make bench  time XD-operations against the convolutions they replace"

# What a user needs, and what the tests need besides.
$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) "torch==2.13.0"
	$(PIP) -e .
	touch $(READY)

$(DEV): $(READY)
	$(PIP) -e ".[dev]"
	touch $(DEV)

demo: $(READY)
	rm -rf runs/demo
	$(BIN)/xdops search --out runs/demo

test: lint types unit

lint: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(DEV)
	$(BIN)/mypy

# Kernels are compiled beforehand, as many processes of the tests would each do it for themselves. Then two workers with one thread
# each: more threads than cores only wait for each other.
unit: $(DEV)
	$(BIN)/python tests/support/compile_kernels.py
	PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/pytest -n 2

# Other instructions and other numbers of threads round otherwise; what training achieves must not depend on it.
test-portable: $(DEV)
	OMP_NUM_THREADS=1 ATEN_CPU_CAPABILITY=default MKL_ENABLE_INSTRUCTIONS=SSE4_2 ONEDNN_MAX_CPU_ISA=SSE41 $(BIN)/pytest -n 2 -m trains
	OMP_NUM_THREADS=1 ATEN_CPU_CAPABILITY=avx2 MKL_ENABLE_INSTRUCTIONS=AVX2 ONEDNN_MAX_CPU_ISA=AVX2 $(BIN)/pytest -n 2 -m trains
	OMP_NUM_THREADS=2 $(BIN)/pytest -n 1 -m trains

# Dependencies are those of this environment; what is tried is what a user gets from `pip install xdops`.
package: $(DEV)
	rm -rf dist
	$(BIN)/python -m build --no-isolation
	OMP_NUM_THREADS=1 $(BIN)/python tests/support/try_package.py dist

# Runs the ten examples of the gallery; XDOPS_TINY=1 does it at a tiny scale.
docs: $(DEV)
	$(PIP) -e ".[docs,onnx]"
	OMP_NUM_THREADS=1 $(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

bench: $(READY)
	$(PIP) -e ".[kernels]"
	$(BIN)/xdops bench layers

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
