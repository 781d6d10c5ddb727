"""Abbreviations that a model is told of: their log-odds are raised when tags are decoded."""

import numpy as np
import pytest

from biomed.ner.pieces import LISTED
from biomed.ner.tagger import EntitySettings, EntityTagger
from domainbert.errors import UserError


@pytest.fixture(scope="module")
def told(new_rules, tokenizer):
    settings = EntitySettings(abbreviations={"Disease": ["was", "HTN"]})
    return EntityTagger(new_rules(tokenizer), tokenizer, settings=settings)


def test_log_odds_of_listed_words_are_raised_as_they_are_spelt(
    told, new_rules, tokenizer
):
    plain = EntityTagger(new_rules(tokenizer), tokenizer)
    words = ["HTN", "htn", "was", "patient"]
    odds = []
    for model in (plain, told):
        (scores,) = model.log_probabilities(
            [model.word_tokenizer.tokenize(words)]
        )
        assert np.exp(scores).sum(axis=1) == pytest.approx(1)
        begin = 1 + 2 * model.types.index("Disease")
        odds.append(scores[:, begin : begin + 2] - scores[:, :1])
    raised = np.array([LISTED, 0, LISTED, 0])
    for tag in (0, 1):
        assert (odds[1] - odds[0])[:, tag] == pytest.approx(raised, abs=1e-3)


def test_a_type_that_the_network_lacks_is_refused(new_rules, tokenizer):
    settings = EntitySettings(abbreviations={"Gene": ["BRCA1"]})
    with pytest.raises(UserError, match="abbreviations of 'Gene'; expected "):
        EntityTagger(new_rules(tokenizer), tokenizer, settings=settings)


def test_abbreviations_are_saved_with_the_model(told, tmp_path):
    told.save_pretrained(tmp_path / "model")
    again = EntityTagger.from_pretrained(tmp_path / "model")
    assert again.settings.abbreviations == {"Disease": ["was", "HTN"]}
    plain = EntityTagger.from_pretrained(tmp_path / "model", abbreviations={})
    assert plain.fingerprint() != again.fingerprint() == told.fingerprint()
