import json
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from biomed.corpora.words import split_words
from biomed.ner.entities import Entity
from biomed.ner.manifest import EntitySettings
from biomed.ner.tagger import EntityTagger
from domainbert.encoders.loading import EncoderError
from domainbert.errors import UserError

VOCABULARY = (
    *(
        "heart",
        "failure",
        "kidney",
        "insulin",
        "medication",
        "patient",
        "was",
        "not",
        "xyz",
    ),
    *(
        ".",
        ",",
        "-",
        "\n",
        "\n\n",
        "\t",
        "\x10",
        "\u00a0",
        "e\u0301",
        "🫀",
        "9/7/1992",
    ),
)


def found(tagger, text):
    return [(e.text, e.label) for e in tagger.tag(text)]


def test_entities_of_two_types_in_order(tagger):
    text = "Patient: insulin medication for heart failure\nand kidney pain, renal disease."
    entities = tagger.tag(text)
    assert [(e.text, e.label) for e in entities] == [
        ("insulin medication", "Drug"),
        ("heart failure", "Disease"),
        ("kidney pain", "Disease"),
        ("renal disease", "Disease"),
    ]
    assert all(
        text[e.start : e.end] == e.text and 0 < e.score <= 1 for e in entities
    )
    assert tagger.types == ("Disease", "Drug")
    assert tagger.score_kind == "span_probability"
    assert repr(tagger) == "EntityTagger(Disease, Drug)"


def test_neighbours_stay_two_and_line_breaks_are_fine(tagger):
    assert found(tagger, "heart kidney failure") == [
        ("heart", "Disease"),
        ("kidney failure", "Disease"),
    ]
    assert found(tagger, "heart\r\nfailure") == [
        ("heart\r\nfailure", "Disease")
    ]
    assert found(tagger, "heart\x10failure") == [
        ("heart\x10failure", "Disease")
    ]
    assert found(tagger, "heart\n \nfailure") == [
        ("heart", "Disease"),
        ("failure", "Disease"),
    ]


def test_an_entity_goes_on_over_the_number_of_its_name(tagger):
    (entity,) = tagger.tag("the pneumonia-19 patient")
    assert entity.text == "pneumonia-19"
    assert (
        found(tagger, "pneumonia-7/10, pneumonia -1")
        == [("pneumonia", "Disease")] * 2
    )
    assert found(tagger, "patient-19 pneumonia") == [("pneumonia", "Disease")]
    assert found(tagger, "heart-19 failure")[0] == ("heart-19", "Disease")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("heart&nbsp;failure", ["heart&nbsp;failure"]),
        ("heart<br>\nfailure", ["heart<br>\nfailure"]),
        ("heart\\nfailure", ["heart\\nfailure"]),
        ("\u60a3\u8005heart failure\u548c\u5fc3", ["heart failure"]),
        ("heart\U0001f637heart", ["heart", "heart"]),
        ("\uff48\uff45\uff41\uff52\uff54", ["\uff48\uff45\uff41\uff52\uff54"]),
    ],
)
def test_markup_and_foreign_letters_keep_positions(tagger, text, names):
    assert [name for name, _ in found(tagger, text)] == names


@given(st.text())
def test_spans_are_exact_for_any_text(tagger, text):
    check(tagger, text)


@given(
    st.lists(st.sampled_from(VOCABULARY), max_size=60),
    st.sampled_from(["", " "]),
)
@settings(max_examples=60)
def test_spans_are_exact_and_whole_words(undecided, words, between):
    check(undecided, between.join(words))


@pytest.fixture(scope="module")
def undecided(tokenizer, new_random):
    """A random network in windows of 16 tokens."""
    settings = EntitySettings(window=16)
    return EntityTagger(new_random(tokenizer), tokenizer, settings=settings)


def check(tagger, text):
    words = split_words(text)
    last_end = {}
    for entity in tagger.tag(text):
        assert text[entity.start : entity.end] == entity.text
        assert entity.start in words[:, 0]
        assert entity.end in words[:, 1]
        assert 0 < entity.score <= 1
        assert entity.start >= last_end.get(entity.label, 0)
        last_end[entity.label] = entity.end


@pytest.mark.numeric
def test_an_entity_is_found_at_every_position_of_a_long_text(
    tokenizer, new_rules
):
    """Windows of 24 tokens over 120 words: where a window ends does not show."""
    network = new_rules(tokenizer, positions=256)
    cut = EntityTagger(network, tokenizer, settings=EntitySettings(window=24))
    whole = EntityTagger(network, tokenizer)
    texts = []
    for place in range(120):
        words = ["patient"] * 120
        words[place : place + 3] = ["heart", "failure", "pain"]
        texts.append(" ".join(words))
    windowed, unwindowed = (
        list(tagger.tag_many(texts)) for tagger in (cut, whole)
    )
    assert [[(e.start, e.end) for e in entities] for entities in windowed] == [
        [(e.start, e.end) for e in entities] for entities in unwindowed
    ]
    assert [entities[0].start for entities in windowed] == [
        8 * place for place in range(120)
    ]
    scores = np.array(
        [
            [entities[0].score for entities in each]
            for each in (windowed, unwindowed)
        ]
    )
    assert scores[0] == pytest.approx(scores[1], abs=1e-5)


def test_a_text_that_fits_is_read_in_one_window(tokenizer, new_random):
    network, text = new_random(tokenizer), "heart kidney was not insulin " * 6
    small = EntitySettings(window=33)
    models = [
        EntityTagger(network, tokenizer, settings=s)
        for s in (small, EntitySettings())
    ]
    texts = [" ".join(text.split()[:count]) for count in (1, 5, 30)]
    one, other = (list(model.tag_many(texts)) for model in models)
    assert one == other
    assert any(one)


@pytest.mark.numeric
def test_many_texts_come_back_in_order_whatever_their_company(
    tokenizer, new_random
):
    tagger = EntityTagger(new_random(tokenizer), tokenizer, batch_tokens=128)
    texts = ["heart kidney " * (n % 7) + "x " * (n % 3) for n in range(80)]
    together = list(tagger.tag_many(iter(texts)))
    for text, entities in zip(texts, together, strict=True):
        alone = tagger.tag(text)
        assert [(e.start, e.end, e.label) for e in entities] == [
            (e.start, e.end, e.label) for e in alone
        ]
        assert [e.score for e in entities] == pytest.approx(
            [e.score for e in alone], abs=1e-5
        )


def test_texts_are_taken_as_they_are_needed(tagger):
    taken = 0

    def texts():
        nonlocal taken
        while True:
            taken += 1
            yield "heart failure " * 500

    stream = tagger.tag_many(texts())
    assert len(next(stream)) == 500
    assert taken < 240
    stream.close()


@pytest.mark.parametrize(
    "text", ["", " \n\t\u00a0", "\x00", "\x10\x0f", "\ud800", "\u200b", "🫀"]
)
def test_nothing_to_find(tagger, text):
    assert tagger.tag(text) == []


def test_empty_texts_keep_their_place(tagger):
    counts = [
        len(e)
        for e in tagger.tag_many(["", "heart", " ", "heart, kidney", "\x00"])
    ]
    assert counts == [0, 1, 0, 2, 0]
    assert list(tagger.tag_many([])) == []


def test_odd_characters_shift_nothing(tagger):
    text = "\x00\x10 e\u0301\u00a0🫀\r\n\theart\u00a0failure 9/7/1992 \ud800 kidney"
    assert [(e.text, e.start) for e in tagger.tag(text)] == [
        ("heart\u00a0failure", text.index("heart")),
        ("kidney", text.index("kidney")),
    ]


def test_a_very_long_word(tagger):
    text = "a" * 300_000 + " heart failure " + "b" * 300_000
    assert [(e.start, e.end) for e in tagger.tag(text)] == [(300_001, 300_014)]


@pytest.mark.parametrize("text", [None, 3, b"heart", ["heart"]])
def test_what_is_no_text(tagger, text):
    with pytest.raises(
        ValueError,
        match=f"text number 1 is {type(text).__name__}, not a string; "
        "use tag_many for several texts$",
    ):
        list(tagger.tag_many(["heart", text]))


@pytest.mark.parametrize("text", ["asthma", b"asthma"])
def test_one_text_for_many(tagger, text):
    with pytest.raises(
        UserError, match=r"got (str|bytes); use tag for one text"
    ):
        list(tagger.tag_many(text))


def test_a_table_for_many(tagger):
    for table in (pd.DataFrame({"text": ["heart"]}), {"text": "heart"}):
        with pytest.raises(
            UserError,
            match=r"got (DataFrame|dict); use tag for one text, and score_frame",
        ):
            list(tagger.tag_many(table))
    column = pd.Series(["heart"])
    for texts in (column, column.to_numpy(), ("heart",), iter(["heart"])):
        (entities,) = tagger.tag_many(texts)
        assert [e.text for e in entities] == ["heart"]


def test_list_items_are_entities_of_their_own(tagger):
    text = "PMH:\nHeart failure\nKidney disease\n- Edema\n- Renal failure"
    expected = ["Heart failure", "Kidney disease", "Edema", "Renal failure"]
    assert [e.text for e in tagger.tag(text)] == expected
    # Without the line ends one entity would continue: "heart failure disease".
    assert [e.text for e in tagger.tag("Heart failure\nDisease")] == [
        "Heart failure",
        "Disease",
    ]
    assert [e.text for e in tagger.tag("Heart failure disease")] == [
        "Heart failure disease"
    ]


def test_no_entity_continues_into_shorthand(tokenizer, new_rules):
    network = new_rules(tokenizer)
    row = network.bert.embeddings.word_embeddings.weight
    for character in "s/p":
        row.data[tokenizer.convert_tokens_to_ids(character)] = row.data[
            tokenizer.convert_tokens_to_ids("failure")
        ]
    tagger = EntityTagger(network, tokenizer)
    assert found(tagger, "heart failure s/p edema")[0] == (
        "heart failure",
        "Disease",
    )


def test_an_abbreviation_is_what_its_long_form_is(tagger):
    text = "Heart failure (HF) and renal disease (rd). HF is not xHF; HF was chest pain (CP), CP."
    entities = tagger.tag(text)
    assert [e.text for e in entities] == [
        "Heart failure",
        "HF",
        "renal disease",
        "HF",
        "HF",
    ]
    assert {
        e.score for e in entities if e.text in ("HF", "Heart failure")
    } == {entities[0].score}
    assert all(text[e.start : e.end] == e.text for e in entities)


def test_signs_after_entities_are_assertions(tagger):
    text = "Pneumonia (-), edema (+), heart failure (-)\nkidney pain(+)"
    assert [(e.text, e.assertion) for e in tagger.tag(text)] == [
        ("Pneumonia", "negated"),
        ("edema", "present"),
        ("heart failure", "negated"),
        ("kidney pain", "present"),
    ]


def test_an_entity_has_a_letter(tokenizer, new_rules, disease):
    network = new_rules(tokenizer)
    for character in ("1", "-", "9"):
        row = network.bert.embeddings.word_embeddings.weight
        row.data[tokenizer.convert_tokens_to_ids(character)] = row.data[
            tokenizer.convert_tokens_to_ids("heart")
        ]
    tagger = EntityTagger(network, tokenizer)
    assert list(
        disease.entities([disease.word_tokenizer.tokenize(["9"])])
    ) == [[]]
    assert [
        len(each)
        for each in tagger.entities([tagger.word_tokenizer.tokenize(["9"])])
    ] == [1]
    assert found(tagger, "9 was - heart was 1 - 9") == [("heart", "Disease")]


def test_entities_below_the_least_score_are_left_out(tokenizer, new_random):
    model = EntityTagger(new_random(tokenizer), tokenizer)
    texts = ["heart kidney was not insulin " * 6, "was stable"]
    everything = [e for entities in model.tag_many(texts) for e in entities]
    middle = float(np.median([e.score for e in everything]))
    kept = [
        e
        for entities in model.with_options(min_score=middle).tag_many(texts)
        for e in entities
    ]
    assert 0 < len(kept) < len(everything)
    assert kept == [e for e in everything if e.score >= middle]
    for bad in (-0.1, 1.5, float("nan")):
        with pytest.raises(
            UserError, match="min_score: expected a number from 0 to 1"
        ):
            model.with_options(min_score=bad)


def test_ten_threads_share_a_tagger(new_tokenizer, new_random):
    draw = np.random.default_rng(0)
    words = ["".join(draw.choice(list("abcdefghij"), 4)) for _ in range(30)]
    texts = [" ".join(draw.choice(words, 12)) for _ in range(20)]

    def new():
        tokenizer = new_tokenizer()
        return EntityTagger(new_random(tokenizer), tokenizer)

    alone = [new().tag(text) for text in texts]
    assert any(alone)
    shared, start = new(), threading.Barrier(10)

    def work(number):
        start.wait()
        order = np.random.default_rng(number).permutation(len(texts))
        return {int(place): shared.tag(texts[place]) for place in order}

    with ThreadPoolExecutor(10) as pool:
        results = list(pool.map(work, range(10)))
    for result in results:
        assert [result[number] for number in range(len(texts))] == alone


def test_tags_of_words_cut_by_someone_else(disease):
    sentences = [
        ["renal", "failure-", "was"],
        [],
        ["kidney", "\x10", "pain", "\x10", "\x10"],
    ]
    found = [
        [span[:3] for span in spans]
        for spans in disease.entities(
            map(disease.word_tokenizer.tokenize, sentences)
        )
    ]
    assert found == [[(0, 2, "Disease")], [], [(0, 3, "Disease")]]


def test_windows_that_the_encoder_cannot_read(tokenizer, new_rules):
    network = new_rules(tokenizer)
    with pytest.raises(
        ValueError, match="window must be at most 64 for this encoder, got 65"
    ):
        EntityTagger(network, tokenizer, settings=EntitySettings(window=65))


class TestWithHuggingFace:
    TEXT = "Patient with heart failure, kidney disease and renal failure. No pneumonia. Insulin."

    def pipeline(self, folder):
        from transformers import pipeline

        pipe = pipeline(
            "token-classification",
            model=str(folder),
            aggregation_strategy="first",
        )
        return [
            (e["start"], e["end"], e["entity_group"]) for e in pipe(self.TEXT)
        ]

    def test_its_folder_loads_and_finds_what_its_pipeline_finds(
        self, tokenizer, new_rules, tmp_path
    ):
        new_rules(tokenizer).save_pretrained(tmp_path)
        tokenizer.save_pretrained(tmp_path)
        ours = EntityTagger.from_pretrained(tmp_path).tag(self.TEXT)
        assert [(e.start, e.end, e.label) for e in ours] == self.pipeline(
            tmp_path
        )
        assert len(ours) == 4

    def test_ours_loads_in_its_pipeline(self, tokenizer, new_rules, tmp_path):
        model = EntityTagger(
            new_rules(tokenizer), tokenizer, settings=EntitySettings(window=40)
        )
        model.save_pretrained(tmp_path / "ours")
        ours = EntityTagger.from_pretrained(tmp_path / "ours")
        assert ours.window == 40
        found = [(e.start, e.end, e.label) for e in ours.tag(self.TEXT)]
        assert found == self.pipeline(tmp_path / "ours")
        document = json.loads((tmp_path / "ours" / "config.json").read_text())
        assert document["architectures"] == ["BertForTokenClassification"]

    def test_a_bare_encoder_is_refused(self, tiny_encoder):
        with pytest.raises(
            EncoderError,
            match=r"without a trained head.*biomed ner train CORPUS",
        ):
            EntityTagger.from_pretrained(tiny_encoder)

    def test_labels_that_are_not_iob2_are_refused(
        self, tokenizer, new_rules, tmp_path
    ):
        network = new_rules(tokenizer)
        network.config.id2label = {0: "LABEL_0", 1: "LABEL_1", 2: "LABEL_2"}
        network.save_pretrained(tmp_path)
        tokenizer.save_pretrained(tmp_path)
        with pytest.raises(
            ValueError, match=r"labels are LABEL_0, .*expected O and labels"
        ):
            EntityTagger.from_pretrained(tmp_path)

    def test_another_task_is_refused(self, model, tmp_path):
        model.save_pretrained(tmp_path / "readmission")
        with pytest.raises(
            EncoderError, match="is a model for readmission, not for entities"
        ):
            EntityTagger.from_pretrained(tmp_path / "readmission")


def test_entities_are_values():
    assert Entity(0, 1, "a", "x", 0.5) == Entity(0, 1, "a", "x", 0.5)
    assert list(pd.DataFrame([Entity(0, 1, "a", "x", 0.5)]).columns) == [
        *("start", "end", "text", "label", "score"),
        *(
            "assertion",
            "id",
            "name",
            "link_score",
            "codes",
            "section",
            "medication",
            "cue",
            "cue_start",
            "cue_end",
            "cue_rule",
        ),
    ]
