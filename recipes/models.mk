# Every shipped model, from its recipe. `make -j 4 models` runs branches side by side, and
# `make models/qa` builds one model and those that it starts from.
#
# A step is done when its target is there. All steps write to runs/, and `make` resumes where it
# stopped: a training run that was interrupted continues from its last checkpoint. Delete a
# folder of runs/ to repeat its step. A finished model in runs/models is copied over the shipped
# one, because others start from it.

CLINICAL_MODELS := readmission-diabetes130 readmission-demo diagnoses-codiesp
BIOMED_MODELS := disease-drug qa terms rerank
MODELS := $(addprefix models/,$(CLINICAL_MODELS) $(BIOMED_MODELS))
# What is made up is made so many times smaller; for a rehearsal.
PART := 1
part = $(shell expr $(1) / $(PART))
RESUME = $(if $(wildcard $(@D)-checkpoints),--resume)

.PHONY: models rehearsal $(MODELS)
.DELETE_ON_ERROR:

# The recipes read the packages and models of this tree, not those that are installed.
models runs/%: export PYTHONPATH := $(CURDIR)

models: export DOMAINBERT_DATA := $(DATA)
models: $(MODELS)
	$(BIN)/python benchmarks/quality.py --page docs/lab/benchmarks.md --readme README.md

# All commands of `make models`, from nothing, on a part of the data and in fewer passes.
rehearsal: PART := 20
rehearsal: runs/all-mpnet-base-v2/config.json | $(INSTALLED)
	rm -rf runs/rehearsal
	git clone --quiet . runs/rehearsal
	PYTHONPATH=. $(BIN)/python -m recipes.rehearsal runs/rehearsal --data $(DATA) --part $(PART)
	mkdir runs/rehearsal/runs
	ln -s $(abspath $(<D)) runs/rehearsal/runs
	$(MAKE) -C runs/rehearsal models DATA=data BIN=$(abspath $(BIN)) INSTALLED= PART=$(PART)

$(MODELS): models/%: runs/installed/%

$(CLINICAL_MODELS:%=runs/installed/%): package = clinical
$(BIOMED_MODELS:%=runs/installed/%): package = biomed
# No service offers rerank, so it needs no example for the self-test.
runs/installed/%: runs/models/%/config.json
	$(if $(filter-out rerank,$*),$(BIN)/python -m recipes.examples $(<D))
	cp $(<D)/*.json $(<D)/*.md $(<D)/*.safetensors $(package)/models/$*
	mkdir -p $(@D)
	touch $@

# readmission-diabetes130

runs/diabetes130.parquet: | $(INSTALLED)
	$(BIN)/python -m recipes.diabetes130 $(DATA)/readmission --out $@

runs/models/readmission-diabetes130/config.json: recipes/readmission-diabetes130.toml runs/diabetes130.parquet
	$(BIN)/clinical train runs/diabetes130.parquet --recipe $< --out $(@D) $(RESUME)

# diagnoses-codiesp

runs/models/diagnoses-codiesp/config.json: recipes/diagnoses-codiesp.toml | $(INSTALLED)
	$(BIN)/python -m recipes.codiesp $(DATA)/codiesp --recipe $< --out $(@D) $(RESUME)

# readmission-demo: brief summaries first, then whole ones; explanations are measured on new stays

runs/brief.parquet: hospital = --stays $(call part,100000) --seed 2 --brief
runs/hospital.parquet: hospital = --stays $(call part,15000) --seed 1
runs/more.parquet: hospital = --stays $(call part,20000) --seed 6 --brief
runs/new.parquet: hospital = --stays 1500 --seed 3 --notes-per-stay many
HOSPITALS := $(addprefix runs/,brief.parquet hospital.parquet more.parquet new.parquet)

$(HOSPITALS): runs/%.parquet: | $(INSTALLED)
	$(BIN)/clinical synthesize runs/$* $(hospital)
	$(BIN)/clinical cohort runs/$* --out $@

runs/readmission-brief/config.json: recipes/readmission-brief.toml runs/brief.parquet
	$(BIN)/clinical train runs/brief.parquet --recipe $< --out $(@D) $(RESUME)

runs/readmission-demo/config.json: recipes/readmission-demo.toml runs/readmission-brief/config.json \
		runs/hospital.parquet runs/more.parquet
	$(BIN)/clinical train runs/hospital.parquet --also runs/more.parquet --recipe $< --out $(@D) $(RESUME)

runs/models/readmission-demo/config.json: runs/readmission-demo/config.json runs/new.parquet
	$(BIN)/python -m recipes.evidence runs/new.parquet $(<D) --stays $(call part,80) --out $(@D)

# disease-drug: abstracts and generated notes, sentences that the first model tags, notes tagged by
# reading, three larger teachers, and their student

PAPERS := $(addprefix $(DATA)/ner/,ncbi-disease bc5cdr-disease bc5cdr-chemical)
CORPORA := $(PAPERS) $(addprefix runs/,biored bc5cdr-ids ncbi-disease-ids notes)
DEVEL := $(PAPERS:%=%/devel.tsv) runs/notes/devel.tsv \
	recipes/notes/real-sections/dev.jsonl recipes/notes/hand-tagged-notes/dev.jsonl
TEST := $(DATA)/ner/ncbi-disease/test.tsv \
	recipes/notes/real-sections/test.jsonl recipes/notes/hand-tagged-notes/test.jsonl
# The last file that each of two steps writes.
WRITTEN := runs/notes/devel.tsv runs/tagged/train.tsv
TEACHERS := $(addprefix runs/teacher-,0 1 2)

runs/notes/devel.tsv: | $(INSTALLED)
	$(BIN)/python -m recipes.notes.generate $(@D) --data $(DATA) --open \
		--texts $(call part,12000)

runs/tagged/train.tsv: | $(INSTALLED)
	$(BIN)/python -m recipes.notes.real runs --data $(DATA)

runs/disease-drug-start/config.json: recipes/disease-drug-start.toml $(WRITTEN)
	$(BIN)/python -m recipes.entities $(CORPORA) --recipe $< --out $(@D) $(RESUME)

runs/silver/train.tsv: runs/disease-drug-start/config.json
	$(BIN)/python -m recipes.notes.real runs --data $(DATA) --model $(<D)

runs/disease-drug-silver/config.json: recipes/disease-drug-silver.toml runs/silver/train.tsv
	$(BIN)/python -m recipes.entities $(CORPORA) runs/silver --recipe $< --out $(@D) $(RESUME)

runs/disease-drug-tagged/config.json: recipes/disease-drug-tagged.toml runs/disease-drug-silver/config.json
	$(BIN)/python -m recipes.entities $(CORPORA) runs/tagged --recipe $< --average 0.3 --out $(@D) $(RESUME)

runs/all-mpnet-base-v2/config.json:
	@echo "the teachers need the folder $(@D): see recipes/disease-drug-teacher.toml"; exit 1

$(TEACHERS:%=%/config.json): runs/teacher-%/config.json: recipes/disease-drug-teacher.toml $(WRITTEN) \
		runs/all-mpnet-base-v2/config.json
	$(BIN)/python -m recipes.entities $(CORPORA) runs/tagged --seed $* --recipe $< --out $(@D) $(RESUME)

runs/disease-drug/config.json: recipes/disease-drug.toml runs/disease-drug-tagged/config.json \
		$(TEACHERS:%=%/config.json)
	$(BIN)/python -m recipes.distillation $(CORPORA) runs/tagged --data $(DATA) \
		$(TEACHERS:%=--teacher %) --recipe $< --out $(@D) $(RESUME)

runs/disease-drug-lists/config.json: runs/disease-drug/config.json
	$(BIN)/python -m recipes.notes.lists $(<D) $(DEVEL) --data $(DATA) --out $(@D)

runs/models/disease-drug/config.json: runs/disease-drug-lists/config.json
	$(BIN)/python -m recipes.calibration $(<D) $(DEVEL) $(TEST:%=--test %) --data $(DATA) \
		--texts 1000 --out $(@D) --figure docs/lab/reliability.png

# qa

runs/contrast/test.json: recipes/questions/contrast.toml | $(INSTALLED)
	$(BIN)/python -m recipes.contrast $(@D) --data $(DATA)

runs/qa/config.json: recipes/qa.toml runs/contrast/test.json
	$(BIN)/python -m recipes.answers runs/contrast --data $(DATA) --recipe $< --out $(@D) $(RESUME)

runs/models/qa/config.json: runs/qa/config.json
	$(BIN)/python -m recipes.calibrate_answers $(<D) $(DATA)/qa/covid_qa_train.json --held-out 0.2 \
		--numbers runs/contrast/devel.json --measure runs/contrast/test.json \
		--measure recipes/questions/two-groups-test.jsonl --out $(@D)

# terms

runs/terms-start/config.json: recipes/terms-start.toml | $(INSTALLED)
	$(BIN)/python -m recipes.terms $(DATA) --recipe $< --out $(@D) $(RESUME)

runs/models/terms/config.json: recipes/terms.toml runs/terms-start/config.json
	$(BIN)/python -m recipes.terms $(DATA) --recipe $< --out $(@D) $(RESUME)

# rerank: starts from the shipped qa, and reranks what the shipped terms finds

runs/models/rerank/config.json: recipes/rerank.toml runs/installed/qa runs/installed/terms
	$(BIN)/python -m recipes.rerank $(DATA) --recipe $< --out $(@D) $(RESUME)
