# make demo       the whole job on a made-up hospital, from a bare machine with Python 3.11+
# make test       lint, types, tests
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
INSTALLED := $(VENV)/.installed
ENGINES := $(VENV)/.engines
SOURCES := $(shell find domainbert clinical biomed -type f -not -name '*.pyc')

.PHONY: demo test numeric lint dist docs notebooks peers clean

demo: $(INSTALLED)
	$(BIN)/clinical demo --out demo

test: lint $(ENGINES)
	$(BIN)/pytest -n auto --dist worksteal --durations 25

numeric: $(INSTALLED)
	$(BIN)/pytest -m numeric -n auto --quiet

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The package is installed, not linked: tests and demo see what a user gets.
$(INSTALLED): pyproject.toml constraints.txt README.md $(SOURCES)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check '.[dev,databases,service,spacy]' -c constraints.txt
	touch $(INSTALLED)

# Ray and Spark, half a gigabyte, for their tests alone, which are skipped without them.
$(ENGINES): pyproject.toml constraints.txt | $(INSTALLED)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check '.[ray,spark]' -c constraints.txt \
		&& touch $(ENGINES) || echo "no Ray or no Spark here: their tests are skipped"

dist: $(INSTALLED)
	$(BIN)/python -m hatchling build

docs: $(INSTALLED)
	$(BIN)/python -m sphinx -b html -W --keep-going --quiet docs build/site

notebooks: $(INSTALLED)
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
