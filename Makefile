# make demo       the whole job on a made-up hospital, from a bare machine with Python 3.11+
# make test       lint, types, and all tests but the slow ones
# make test-all   the slow tests too, as `.ci/run` does
# make numeric    only the tests whose numbers depend on the processor
# make dist       the wheel and the source archive, in dist
# make docs       the documentation site, in build/site
# make notebooks  run the notebooks and keep their outputs
# make peers      other tools beside ours on the same texts; fills docs/explanation/compared.md
# make models     rebuild every shipped model (days on two cores), make models/qa one of them;
#                 see recipes/README.md
# make rehearsal  the commands of make models on a part of the data, in a clone (an hour or two)

PYTHON ?= python3
DATA ?= ../shared/data
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
INSTALLED := $(VENV)/.installed
TOOLS := $(VENV)/.tools
ENGINES := $(VENV)/.engines
SOURCES := $(shell find domainbert clinical biomed -type f -not -name '*.pyc')

.PHONY: demo test test-all numeric lint dist docs notebooks peers clean environment

demo: $(INSTALLED)
	$(BIN)/clinical demo --out demo

test: lint $(ENGINES)
	$(BIN)/pytest -m "not slow" -n auto --dist worksteal --durations 25

test-all: lint $(ENGINES)
	$(BIN)/pytest -n auto --dist worksteal --durations 25

numeric: $(TOOLS)
	$(BIN)/pytest -m numeric -n auto --quiet

lint: $(TOOLS)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# An environment whose Python is of another version is made again.
VERSION := import sys; print(sys.version_info[:2])
ASKED := $(shell $(PYTHON) -c '$(VERSION)' 2>/dev/null)
ifneq ($(shell $(BIN)/python -c '$(VERSION)' 2>/dev/null),$(or $(ASKED),no Python))
$(INSTALLED) $(TOOLS) $(ENGINES): environment
endif

environment:
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("$(PYTHON) is Python \
	%d.%d; domainbert needs 3.11 or newer: make demo PYTHON=python3.11" % sys.version_info[:2])'
	rm -rf $(VENV)
	$(PYTHON) -m venv $(VENV)

# What a user gets: the package and its required dependencies. It is installed, not linked.
$(INSTALLED): pyproject.toml constraints.txt README.md $(SOURCES)
	$(PIP) install . -c constraints.txt
	touch $(INSTALLED)

# What the tests and the documentation need besides.
$(TOOLS): pyproject.toml constraints.txt | $(INSTALLED)
	$(PIP) install '.[dev,databases,service,spacy]' -c constraints.txt
	touch $(TOOLS)

# Ray and Spark, half a gigabyte, for their tests alone, which are skipped without them.
$(ENGINES): pyproject.toml constraints.txt | $(TOOLS)
	$(PIP) install '.[ray,spark]' -c constraints.txt \
		&& touch $(ENGINES) || echo "no Ray or no Spark here: their tests are skipped"

dist: $(TOOLS)
	$(BIN)/python -m hatchling build

docs: $(TOOLS)
	$(BIN)/python -m sphinx -b html -W --keep-going --quiet docs build/site

notebooks: $(TOOLS)
	$(BIN)/python notebooks/run.py

# The other tools have an environment of their own: they pin what this package does not.
peers:
	$(PYTHON) -m venv runs/peers
	runs/peers/bin/pip install --quiet torch -c constraints.txt
	runs/peers/bin/pip install --quiet --no-deps -r requirements.lock
	runs/peers/bin/pip install --quiet --no-deps -r benchmarks/peers.txt .
	PYTHONPATH=. runs/peers/bin/python benchmarks/peers.py --page docs/explanation/compared.md --readme README.md

include recipes/models.mk

clean:
	rm -rf $(VENV) demo runs build dist
