import json
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from biomed.qa.model import QuestionAnswerer, QuestionSettings
from domainbert.encoders.loading import EncoderError
from domainbert.errors import UserError
from domainbert.text.windows import LONGEST_TEXT

QUESTION = "Was the patient stable?"
VOCABULARY = (
    *(
        "heart",
        "failure",
        "insulin",
        "kidney",
        "renal",
        "patient",
        "was",
        "xyz",
    ),
    *(".", ",", "-", "\n", "\t", "\x10", "\u00a0", "e\u0301", "🫀", "9/7"),
)


def spans(answers):
    return [(a.start, a.end, a.text) for a in answers]


def test_an_answer_and_its_place(answerer):
    text = "Patient was stable on Insulin, at home."
    (answer,) = answerer.answer(QUESTION, text)
    assert spans([answer]) == [(22, 29, "Insulin")]
    # Start and end logit of 6 each, minus 2.5 each for [CLS].
    assert answer.score == pytest.approx(7, abs=1e-3)
    assert (answer.document, answer.is_found) == (0, True)


@pytest.mark.parametrize(
    "words", [("insulin",), ("heart", "of", "the", "failure")]
)
def test_an_answer_is_found_at_every_position_of_a_long_text(answerer, words):
    """Windows of 24 tokens, 14 of them the text's: each answer stands at every border."""
    texts, starts = [], []
    for place in range(120 - len(words)):
        filler = ["patient", "was", "x"] * 40
        filler[place : place + len(words)] = words
        texts.append(" ".join(filler))
        starts.append(len(" ".join(filler[:place])) + (place > 0))
    found = list(answerer.answer_many((QUESTION, text) for text in texts))
    wanted = " ".join(words)
    for text, start, (answer,) in zip(texts, starts, found, strict=True):
        assert (answer.start, answer.text) == (start, wanted)
        assert text[answer.start : answer.end] == wanted
        assert answer.score == pytest.approx(7, abs=1e-3)


def test_an_answer_longer_than_allowed_is_not_given(answerer):
    """Six tokens is the most: `heart` and `failure` are too far apart, each alone is weaker."""
    text = "heart a b c d e failure"
    (answer,) = answerer.answer(QUESTION, text, threshold=-np.inf)
    assert answer.text != text
    assert (
        answerer.answer(QUESTION, "heart a b c d failure")[0].text
        == "heart a b c d failure"
    )


def test_no_token_of_the_question_is_an_answer(answerer):
    """The question holds all the strongest words; the text has none of them."""
    question, text = (
        "insulin heart failure insulin ?",
        "patient was stable at home " * 10,
    )
    (none,) = answerer.answer(question, text)
    assert not none.is_found
    (forced,) = answerer.answer(question, text, threshold=-np.inf)
    assert text[forced.start : forced.end] == forced.text
    assert forced.score == pytest.approx(-5, abs=1e-3)


def test_none_beats_a_weak_answer(answerer):
    (none,) = answerer.answer(QUESTION, "patient with kidney at home", top_k=5)
    assert (none.text, none.start, none.end, none.is_found) == (
        "",
        0,
        0,
        False,
    )
    assert none.score == pytest.approx(
        -1.4, abs=1e-3
    )  # what the best candidate came to
    weak = answerer.answer(
        QUESTION, "patient with kidney at home", threshold=-1.5
    )
    assert [a.text for a in weak] == ["kidney"]
    strong = answerer.answer(QUESTION, "kidney and insulin and renal", top_k=5)
    assert [a.text for a in strong] == ["insulin", "renal"]


def test_windows_are_compared_on_logits_not_on_their_own_probabilities(
    answerer,
):
    """In the first windows `renal` has hardly a rival; in the last `insulin` has many."""
    text = "renal " + "patient was x " * 20 + "insulin " * 10
    (answer,) = answerer.answer(QUESTION, text)
    assert answer.text == "insulin"


def test_a_window_s_own_level_does_not_count(tokenizer, new_known):
    """All logits of some windows are higher by a constant: the answer stays the same."""
    network = new_known(tokenizer)
    answerer = QuestionAnswerer(
        network, tokenizer, settings=QuestionSettings(window=24)
    )
    text = "insulin " + "patient was x " * 20 + "renal"
    plain = answerer.answer(QUESTION, text, top_k=3)
    run = answerer.runner.run
    answerer.runner.run = lambda *a, **k: [
        row + 50 * number for number, row in enumerate(run(*a, **k))
    ]
    shifted = answerer.answer(QUESTION, text, top_k=3)
    assert spans(plain) == spans(shifted)
    assert [a.text for a in plain] == ["insulin", "renal"]
    assert [a.score for a in plain] == pytest.approx(
        [a.score for a in shifted], abs=1e-3
    )


def test_several_documents(answerer):
    documents = [
        "patient was stable " * 9,
        "on renal",
        "x " * 50 + "insulin",
        "insulin at home",
    ]
    found = answerer.answer(QUESTION, documents, top_k=9)
    assert [(a.document, a.text) for a in found] == [
        (2, "insulin"),
        (3, "insulin"),
        (1, "renal"),
    ]
    assert all(documents[a.document][a.start : a.end] == a.text for a in found)
    (none,) = answerer.answer(QUESTION, documents[:1])
    assert not none.is_found


def test_the_best_answers_do_not_overlap(answerer):
    text = "heart insulin failure and insulin kidney renal " * 5
    found = answerer.answer(QUESTION, text, top_k=50, threshold=-np.inf)
    assert len(found) > 9
    taken = sorted((a.start, a.end) for a in found)
    assert all(
        one[1] <= other[0]
        for one, other in zip(taken, taken[1:], strict=False)
    )
    scores = [a.score for a in found]
    assert scores == sorted(scores, reverse=True)
    assert answerer.answer(QUESTION, text, top_k=1) == answerer.answer(
        QUESTION, text
    )


def test_answers_are_whole_words(answerer):
    """`insulinx` is no word of the vocabulary: its pieces begin with a strong one."""
    assert answerer.answer(QUESTION, "insulin-dependent")[0].text == "insulin"
    (answer,) = answerer.answer(
        QUESTION, "patient xinsulin was", threshold=-np.inf
    )
    assert answer.text in "patient xinsulin was".split() or " " in answer.text


def test_an_answer_comes_with_its_sentence(answerer):
    text = "He was stable. He was on insulin (at home). Not renal.\n\nInsulin"
    found = answerer.answer(QUESTION, text, top_k=3)
    assert [a.sentence for a in found] == [
        "He was on insulin (at home).",
        "Insulin",
        "Not renal.",
    ]
    assert all(
        text[a.sentence_start : a.sentence_end] == a.sentence for a in found
    )
    (across,) = answerer.answer(QUESTION, "Was it heart. Failure was not.")
    assert (across.text, across.sentence) == ("heart", "Was it heart.")
    (none,) = answerer.answer(QUESTION, "at home")
    assert (none.sentence, none.sentence_start, none.sentence_end) == (
        "",
        0,
        0,
    )


@pytest.mark.parametrize("text", ["( . ) , - !", "\u2014 \U0001fac0 ?"])
def test_marks_alone_are_no_answer(undecided, text):
    (answer,) = undecided.answer(QUESTION, text, threshold=-np.inf)
    assert (answer.text, answer.score) == ("", -np.inf)


@pytest.mark.parametrize(
    ("question", "number", "word", "expected"),
    [
        ("how many?", "9", "kidney", "9"),
        ("how many?", "9", "renal", "renal"),
        ("how old was he?", "Twice", "kidney", "Twice"),
        ("was it?", "9", "kidney", "kidney"),
        ("at what dose?", "dose", "kidney", "kidney"),  # no number at all
        *(
            ("how many?", name, "kidney", "kidney")
            for name in ("x-19", "second", "Single", "2nd", "x9")
        ),
    ],
)
def test_a_question_for_a_number_prefers_one(
    answerer, question, number, word, expected
):
    """The kidney scores less than `NUMBER_MARGIN` above the number, renal more."""
    scores = {"kidney": -1.4, "renal": 3}
    text = f"{number} patient was at home with the {word}"
    (answer,) = answerer.answer(question, text, threshold=-np.inf)
    assert answer.text == expected
    assert answer.score == pytest.approx(scores.get(expected, -5), abs=1e-3)
    least = scores[word]
    assert (
        answerer.answer(question, text, threshold=least - 0.1)[0].text
        == expected
    )


def test_a_number_is_accepted_up_to_the_margin_below_the_threshold(answerer):
    """ "412 adults" was not found for "How many patients were enrolled?"."""
    text = "412 patient was at home"  # it scores -5
    assert not answerer.answer("how many?", text)[0].is_found
    assert answerer.answer("how many?", text, threshold=-8)[0].text == "412"
    assert not answerer.answer("was it?", text, threshold=-5)[0].is_found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("kidney 9, 7 failure", {"7 failure"}),
        ("kidney 9 of 7 failure", {"7 failure", "of 7 failure"}),
        ("kidney 9 to 7 failure", {"kidney 9 to 7 failure"}),
        ("kidney 9,7 failure", {"kidney 9,7 failure"}),
        ("kidney 9, kidney", {"kidney 9", "9, kidney"}),
    ],
)
def test_a_preferred_span_has_one_whole_number(answerer, text, expected):
    """From `kidney` to the last word is the best span of all."""
    found = answerer.answer("how many?", text, top_k=4, threshold=-np.inf)
    assert found[0].text in expected


@pytest.mark.parametrize(
    ("question", "asks"),
    [
        *(
            ("How many patients were there?", True),
            ("How  long did it take", True),
        ),
        *(
            ("What was the daily dose of it?", True),
            ("At which percentage?", True),
        ),
        *(("How was it given?", False), ("What is the longest name?", False)),
    ],
)
def test_questions_for_a_number(tokenizer, new_known, question, asks):
    pair_tokenizer = QuestionAnswerer(
        new_known(tokenizer), tokenizer
    ).pair_tokenizer
    assert pair_tokenizer.pair(question, "text").asks_number is asks


@given(
    st.lists(st.sampled_from(VOCABULARY), min_size=1, max_size=60),
    st.sampled_from(["", " "]),
)
@settings(max_examples=60)
def test_spans_are_exact_for_any_text(undecided, words, between):
    text = between.join(words)
    try:
        undecided.pair_tokenizer.pair(QUESTION, text)
    except UserError:
        return
    for answer in undecided.answer(QUESTION, text, top_k=4, threshold=-np.inf):
        assert text[answer.start : answer.end] == answer.text
        # A word of more tokens than an answer may have is none, and here it may be the only one.
        assert answer.text.strip() == answer.text
        assert any(map(str.isalnum, answer.text)) or not answer.is_found
        sentence = text[answer.sentence_start : answer.sentence_end]
        assert answer.text in answer.sentence == sentence
        assert answer.is_found or answer.score == -np.inf


@pytest.fixture(scope="module")
def undecided(tokenizer, new_random):
    settings = QuestionSettings(window=24, overlap=8)
    return QuestionAnswerer(
        new_random(tokenizer), tokenizer, settings=settings
    )


def test_many_come_back_in_order_whatever_their_company(tokenizer, new_random):
    answerer = QuestionAnswerer(
        new_random(tokenizer), tokenizer, batch_tokens=128
    )
    pairs = [
        (QUESTION + " x" * (n % 5), "heart kidney home " * (1 + n % 30))
        for n in range(60)
    ]
    together = list(
        answerer.answer_many(iter(pairs), top_k=2, threshold=-np.inf)
    )
    for (question, text), found in zip(pairs, together, strict=True):
        alone = answerer.answer(question, text, top_k=2, threshold=-np.inf)
        assert spans(alone) == spans(found)
        assert [a.score for a in alone] == pytest.approx(
            [a.score for a in found], abs=1e-4
        )


def test_pairs_are_taken_as_they_are_needed(answerer):
    taken = 0

    def pairs():
        nonlocal taken
        while True:
            taken += 1
            yield QUESTION, "insulin and " * 1000

    stream = answerer.answer_many(pairs())
    assert next(stream)[0].text == "insulin"
    assert taken < 60
    stream.close()
    assert list(answerer.answer_many([])) == []


@pytest.mark.parametrize(
    ("question", "context", "message"),
    [
        ("", "text", "pair 1: the question is empty"),
        (" \n", "text", "pair 1: the question is empty"),
        (None, "text", "pair 1: the question is NoneType, expected a string"),
        (
            "\x00",
            "text",
            "pair 1: the question has no character that the tokenizer reads",
        ),
        ("was it?", "", "pair 1: the context is empty"),
        ("was it?", [], "pair 1: the list of contexts is empty"),
        ("was it?", ["", " "], "pair 1: the context, document 0 is empty"),
        (
            "was it?",
            ["text", 3],
            "pair 1: the context, document 1 is int, expected a string",
        ),
        (
            "was it?",
            None,
            "pair 1: the context is NoneType, expected a string",
        ),
        (
            "was " * 40,
            "text",
            "pair 1: .* 40 tokens; with windows of 24 at most 14 are possible",
        ),
    ],
)
def test_what_cannot_be_asked(answerer, question, context, message):
    with pytest.raises(UserError, match=message):
        list(answerer.answer_many([("was it?", "text"), (question, context)]))


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ("asthma", r"pair 0: expected \(question, context\), got str"),
        (["asthma"], r"pair 0: expected \(question, context\), got str"),
        (
            [("was it?", "text"), ("was it?",)],
            r"pair 1: expected \(question, context\), got tuple",
        ),
        ([None], r"pair 0: expected \(question, context\), got NoneType"),
    ],
)
def test_a_string_is_no_list_of_pairs(answerer, pairs, message):
    with pytest.raises(UserError, match=message):
        list(answerer.answer_many(pairs))


def test_logits_that_are_no_numbers_are_told_from_no_answer(
    tokenizer, new_known
):
    """One broken window spoils its own question and no other."""
    network = new_known(tokenizer)
    forward = network.forward
    broken = tokenizer.convert_tokens_to_ids("kidney")

    def forward_with_nan(**inputs):
        output = forward(**inputs)
        bad = (inputs["input_ids"] == broken).any(dim=1)
        output.start_logits[bad] = float("nan")
        return output

    network.forward = forward_with_nan
    answerer = QuestionAnswerer(
        network, tokenizer, settings=QuestionSettings(window=24)
    )
    contexts = [
        "on insulin",
        "insulin " + "x " * 40 + "kidney",
        "insulin at home",
    ]
    found = [
        a
        for (a,) in answerer.answer_many((QUESTION, text) for text in contexts)
    ]
    assert [a.text for a in found] == ["insulin", "", "insulin"]
    assert np.isnan(found[1].score)


def test_threads_may_share_a_model(tokenizer, new_random):
    settings = QuestionSettings(window=24, overlap=8)
    answerer = QuestionAnswerer(
        new_random(tokenizer), tokenizer, settings=settings
    )
    pairs = [
        (f"was {n} it?", f"heart {n} kidney home " * (1 + n % 7))
        for n in range(40)
    ]
    expected = list(answerer.answer_many(pairs, threshold=-np.inf))

    def ask(number):
        turned = pairs[number:] + pairs[:number]
        found = list(answerer.answer_many(turned, threshold=-np.inf))
        return found[len(pairs) - number :] + found[: len(pairs) - number]

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(10) as pool:
            results = list(pool.map(ask, range(20)))
    finally:
        sys.setswitchinterval(interval)
    for found in results:
        assert [spans(a) for a in found] == [spans(a) for a in expected]
        assert [a[0].score for a in found] == pytest.approx(
            [a[0].score for a in expected], abs=1e-4
        )


def test_a_text_has_a_limit(answerer):
    with pytest.raises(
        UserError,
        match="pair 0: the context has 5,000,001 characters, expected at most",
    ):
        answerer.answer(QUESTION, "i" * (LONGEST_TEXT + 1))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"min_score": 0.5},
            "min_score: no such setting; expected one of threshold, top_k",
        ),
        ({"top_k": 0}, "top_k: expected a whole number above 0, got 0"),
        ({"top_k": "3"}, "top_k: expected a whole number above 0, got '3'"),
        ({"threshold": "high"}, "threshold: expected a number, got 'high'"),
    ],
)
def test_wrong_options_are_refused(answerer, options, message):
    with pytest.raises(UserError, match=message):
        answerer.answer(QUESTION, "text", **options)


def test_the_longest_question_still_reads_everything(answerer):
    longest = answerer.pair_tokenizer.longest_question
    text = "patient was x " * 10 + "insulin"
    assert answerer.answer("was " * longest, text)[0].text == "insulin"


def test_settings_that_cannot_be(tokenizer, new_known):
    network = new_known(tokenizer)
    cases = [
        (
            QuestionSettings(window=65),
            "window must be at most 64 for this encoder, got 65",
        ),
        (
            QuestionSettings(window=24, overlap=12),
            "overlap must be between 0 and 11",
        ),
        (
            QuestionSettings(window=24, max_answer=7),
            "max_answer must be between 1 and the overlap",
        ),
        (
            QuestionSettings(window=24, overlap=0),
            "max_answer must be between 1 and the overlap",
        ),
    ]
    for bad, message in cases:
        with pytest.raises(ValueError, match=message):
            QuestionAnswerer(network, tokenizer, settings=bad)


class TestWithHuggingFace:
    TEXT = "Patient with heart failure, kidney disease and renal failure, no pneumonia, insulin."

    def reference(self, folder, question, text, *, longest):
        """The best whole-word span by brute force over Hugging Face's own model and tokenizer."""
        from transformers import AutoModelForQuestionAnswering, AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(folder)
        model = AutoModelForQuestionAnswering.from_pretrained(folder).eval()
        encoded = tokenizer(
            question, text, return_offsets_mapping=True, return_tensors="pt"
        )
        offsets, words = (
            encoded.pop("offset_mapping")[0].tolist(),
            encoded.word_ids(0),
        )
        with torch.inference_mode():
            output = model(**encoded)
        start, end = (
            output.start_logits[0].numpy(),
            output.end_logits[0].numpy(),
        )
        context = [
            i for i, side in enumerate(encoded.sequence_ids(0)) if side == 1
        ]
        best = max(
            (start[i] + end[j], -i, -j)
            for i in context
            for j in context
            if i <= j < i + longest
            and (i == context[0] or words[i] != words[i - 1])
            and (j == context[-1] or words[j] != words[j + 1])
            and any(map(str.isalnum, text[offsets[i][0] : offsets[j][1]]))
        )
        score = best[0] - start[0] - end[0]
        return offsets[-best[1]][0], offsets[-best[2]][1], score

    def test_its_folder_loads_unchanged_and_gives_the_same(
        self, tokenizer, new_random, tmp_path
    ):
        new_random(tokenizer).save_pretrained(tmp_path)
        tokenizer.save_pretrained(tmp_path)
        answerer = QuestionAnswerer.from_pretrained(tmp_path)
        (answer,) = answerer.answer(QUESTION, self.TEXT, threshold=-np.inf)
        start, end, score = self.reference(
            tmp_path, QUESTION, self.TEXT, longest=16
        )
        assert (answer.start, answer.end) == (start, end)
        assert answer.score == pytest.approx(score, abs=1e-4)

    def test_ours_loads_there(self, tokenizer, new_random, tmp_path):
        settings = QuestionSettings(
            window=60, overlap=20, max_answer=5, threshold=-99.0
        )
        model = QuestionAnswerer(
            new_random(tokenizer, seed=2), tokenizer, settings=settings
        )
        model.save_pretrained(tmp_path / "ours")
        again = QuestionAnswerer.from_pretrained(tmp_path / "ours")
        assert again.settings == settings
        (answer,) = again.answer(QUESTION, self.TEXT)
        start, end, _ = self.reference(
            tmp_path / "ours", QUESTION, self.TEXT, longest=5
        )
        assert (answer.start, answer.end) == (start, end)
        document = json.loads((tmp_path / "ours" / "config.json").read_text())
        assert document["architectures"] == ["BertForQuestionAnswering"]

    def test_a_bare_encoder_is_refused(self, tiny_encoder):
        with pytest.raises(
            EncoderError,
            match=r"without a trained head.*biomed qa train QUESTION",
        ):
            QuestionAnswerer.from_pretrained(tiny_encoder)

    def test_another_task_is_refused(self, model, tmp_path):
        model.save_pretrained(tmp_path / "readmission")
        with pytest.raises(
            EncoderError, match="is a model for readmission, not for qa"
        ):
            QuestionAnswerer.from_pretrained(tmp_path / "readmission")


TWO_DRUGS = (
    "We enrolled 164 adults with sciatica. Of them, 80 took pregabalin 150 mg twice daily and 84 "
    "took duloxetine 60 mg daily. Pain was halved in 45% of the pregabalin group and in 31% of the "
    "duloxetine group. Dizziness was reported by 23 patients on pregabalin and 9 on duloxetine. "
    "Median sick leave was 12 days with pregabalin and 19 days with duloxetine."
)
TWO_LABELS = (
    "Group A had acupuncture and group B had physiotherapy. Systolic pressure fell by 7 mmHg in "
    "group A and by 11 mmHg in group B."
)
CONTRASTS = (
    (TWO_DRUGS, "What dose of {} was given?", "150", "60"),
    (TWO_DRUGS, "How many patients took {}?", "80", "84"),
    (
        TWO_DRUGS,
        "What percentage of the {} group had their pain halved?",
        "45",
        "31",
    ),
    (TWO_DRUGS, "How many patients on {} had dizziness?", "23", "9"),
    (TWO_DRUGS, "How long was sick leave with {}?", "12", "19"),
    (TWO_LABELS, "What was the fall in systolic pressure in {}?", "7", "11"),
)


@pytest.mark.encoder
def test_the_shipped_model_tells_two_groups_apart():
    """All twelve were right when this was written, and six before it learned from contrast."""
    pairs = []
    numbers = []
    for text, question, *golds in CONTRASTS:
        groups = ("pregabalin", "duloxetine")
        if text == TWO_LABELS:
            groups = ("group A", "group B")
        pairs += [(question.format(group), text) for group in groups]
        numbers += golds
    answers = QuestionAnswerer.from_pretrained("qa").answer_many(pairs)
    right = [
        answer.text.partition(" ")[0].rstrip("%") == number
        for (answer,), number in zip(answers, numbers, strict=True)
    ]
    assert sum(right) >= 10
