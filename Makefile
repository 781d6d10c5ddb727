# make demo       the whole job on a made-up hospital, from a bare machine with Python 3.11+
# make test       lint, types, tests
# make numeric    only the tests whose numbers depend on the processor
# make dist       the wheel and the source archive, in dist
# make docs       the documentation site, in build/site
# make notebooks  run the notebooks and keep their outputs
# make models     rebuild every shipped model from recipes/ (a day on a CPU); needs the folder
#                 runs/all-mpnet-base-v2, see recipes/disease-drug-teacher.toml

PYTHON ?= python3
DATA ?= ../shared/data
CORPORA := $(addprefix $(DATA)/ner/,ncbi-disease bc5cdr-disease bc5cdr-chemical) \
	$(addprefix runs/,biored bc5cdr-ids ncbi-disease-ids notes)
DEVEL := $(addsuffix /devel.tsv,$(addprefix $(DATA)/ner/,ncbi-disease bc5cdr-disease bc5cdr-chemical) runs/notes) \
	recipes/notes/real-sections/dev.jsonl recipes/notes/hand-tagged-notes/dev.jsonl
TESTS := --test $(DATA)/ner/ncbi-disease/test.tsv --test recipes/notes/real-sections/test.jsonl \
	--test recipes/notes/hand-tagged-notes/test.jsonl
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
ENGINES := $(VENV)/.engines
SOURCES := $(shell find domainbert clinical biomed -type f -not -name '*.pyc')

.PHONY: demo test numeric lint dist docs notebooks models clean

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

# The models start from one another: from those of this tree, not of the installed copy.
models: export PYTHONPATH := $(CURDIR)
models: $(INSTALLED)
	mkdir -p runs
	$(BIN)/python -m recipes.diabetes130 $(DATA)/readmission --out runs/diabetes130.parquet
	$(BIN)/clinical train runs/diabetes130.parquet --recipe recipes/readmission-diabetes130.toml \
		--out clinical/models/readmission-diabetes130
	$(BIN)/clinical synthesize runs/brief --stays 100000 --seed 2 --brief
	$(BIN)/clinical cohort runs/brief --out runs/brief.parquet
	$(BIN)/clinical train runs/brief.parquet --recipe recipes/readmission-brief.toml \
		--out runs/readmission-brief
	$(BIN)/clinical synthesize runs/hospital --stays 15000 --seed 1
	$(BIN)/clinical cohort runs/hospital --out runs/hospital.parquet
	$(BIN)/clinical synthesize runs/more --stays 20000 --seed 6 --brief
	$(BIN)/clinical cohort runs/more --out runs/more.parquet
	$(BIN)/clinical train runs/hospital.parquet --also runs/more.parquet \
		--recipe recipes/readmission-demo.toml --out clinical/models/readmission-demo
	$(BIN)/clinical synthesize runs/new --stays 1500 --seed 3 --notes-per-stay many
	$(BIN)/clinical cohort runs/new --out runs/new.parquet
	$(BIN)/python -m recipes.evidence runs/new.parquet clinical/models/readmission-demo
	$(BIN)/python -m recipes.notes.generate runs/notes --data $(DATA) --open
	$(BIN)/python -m recipes.notes.real runs --data $(DATA)
	$(BIN)/python -m recipes.entities $(CORPORA) --recipe recipes/disease-drug-start.toml \
		--out runs/disease-drug-start
	$(BIN)/python -m recipes.notes.real runs --data $(DATA) --model runs/disease-drug-start
	$(BIN)/python -m recipes.entities $(CORPORA) runs/silver --recipe recipes/disease-drug-silver.toml \
		--out runs/disease-drug-silver
	$(BIN)/python -m recipes.entities $(CORPORA) runs/tagged --recipe recipes/disease-drug-tagged.toml \
		--average 0.3 --out runs/disease-drug-tagged
	for seed in 0 1 2; do $(BIN)/python -m recipes.entities $(CORPORA) runs/tagged --seed $$seed \
		--recipe recipes/disease-drug-teacher.toml --out runs/teacher-$$seed || exit 1; done
	$(BIN)/python -m recipes.distillation $(CORPORA) runs/tagged --data $(DATA) \
		$(foreach seed,0 1 2,--teacher runs/teacher-$(seed)) \
		--recipe recipes/disease-drug.toml --out biomed/models/disease-drug
	$(BIN)/python -m recipes.notes.lists biomed/models/disease-drug $(DEVEL) --data $(DATA) \
		--out biomed/models/disease-drug
	$(BIN)/python -m recipes.calibration biomed/models/disease-drug $(DEVEL) $(TESTS) --data $(DATA) \
		--texts 1000 --out biomed/models/disease-drug --figure docs/lab/reliability.png
	$(BIN)/python -m recipes.contrast runs/contrast --data $(DATA)
	$(BIN)/python -m recipes.answers runs/contrast --data $(DATA) --out biomed/models/qa
	$(BIN)/python -m recipes.calibrate_answers biomed/models/qa $(DATA)/qa/covid_qa_train.json \
		--held-out 0.2 --numbers runs/contrast/devel.json \
		$(foreach file,runs/contrast/test.json recipes/questions/two-groups-test.jsonl,--measure $(file)) \
		--out biomed/models/qa
	$(BIN)/python -m recipes.terms $(DATA) --recipe recipes/terms-start.toml --out runs/terms-start
	$(BIN)/python -m recipes.terms $(DATA) --out biomed/models/terms
	$(BIN)/python -m recipes.rerank $(DATA) --out biomed/models/rerank
	$(BIN)/python -m recipes.examples clinical/models/*/ $(addprefix biomed/models/,disease-drug qa terms)
	$(BIN)/python benchmarks/quality.py --page docs/lab/benchmarks.md --readme README.md

clean:
	rm -rf $(VENV) demo runs build dist
