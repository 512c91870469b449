# One virtual environment in .venv; `demo` needs the core install only, the rest the development one.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet

.PHONY: demo dist test coverage quick test-long lint fix bench tables clean

demo: $(VENV)/.core
	$(BIN)/shortlist demo

# The tests of a file stay in one process, with what they share; tests/conftest.py orders the files.
# Modules are compiled once, not in every process that a test starts; threads of PyTorch and BLAS
# would wait for each other, as both processors are in use.
test coverage quick: export PYTHONDONTWRITEBYTECODE =
test coverage quick: export OMP_NUM_THREADS = 1
test: $(VENV)/.dev
	$(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder

# The same tests take a third longer where the lines that run are counted.
coverage: $(VENV)/.dev
	$(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder --cov --cov-report=term:skip-covered --cov-fail-under=90

# While you work on one folder of tests/, as in `make quick FOLDER=retrieval`.
quick: $(VENV)/.dev
	@test -n "$(FOLDER)" -a -d "tests/$(FOLDER)" || { echo "FOLDER=$(FOLDER): no folder of tests/; use one of:" \
		$(filter-out __pycache__,$(notdir $(patsubst %/,%,$(wildcard tests/*/)))) >&2; exit 2; }
	$(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder tests/$(FOLDER)

# Real servers and clients, kept in $$XDG_CACHE_HOME/shortlist-tests; names what it cannot install.
test-long: $(VENV)/.dev
	$(BIN)/python -m pytest -m long

# Everything that a release publishes, in dist/; see docs/releasing.md.
dist: $(VENV)/.dev
	$(BIN)/python packaging/make_dist.py $(if $(OWNER),--owner $(OWNER))

lint: $(VENV)/.dev $(VENV)/lint/shortlist
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	MYPYPATH=$(VENV)/lint $(BIN)/mypy -p shortlist

fix: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.dev
	$(BIN)/shortlist lab bench --quick --bars

tables: $(VENV)/.dev
	for page in $$(grep -l '^<!-- table:' README.md docs/*.md lab/training/README.md); \
		do $(BIN)/shortlist lab tables $$page; done
	$(BIN)/shortlist lab plots --out docs/plots

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.core: pyproject.toml | $(BIN)/python
	$(PIP) --editable .
	touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	$(PIP) --editable '.[dev]'
	touch $@ $(VENV)/.core

# mypy finds packages by folder name; the checkout may be called anything.
$(VENV)/lint/shortlist: | $(BIN)/python
	mkdir -p $(VENV)/lint
	ln -sfn ../.. $@
