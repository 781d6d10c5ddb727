import dataclasses
import re

import numpy as np
import pytest
import torch

from biomed.corpora import (
    Corpus,
    CorpusError,
    Document,
    Gold,
    Span,
    TaggedText,
    gold_of,
)
from biomed.corpora.documents import spans_of
from biomed.ner.evaluation import evaluate_documents
from biomed.ner.manifest import EntitySettings
from biomed.ner.tagger import EntityTagger
from biomed.ner.training import EntityRecipe, EntityTable, fit
from domainbert.errors import UserError
from domainbert.training.recipes import read_recipe
from domainbert.training.settings import TrainingSettings

QUICK = TrainingSettings(
    epochs=12,
    learning_rate=1e-2,
    batch_tokens=192,
    dropout=0.0,
    evaluations=1,
    patience=9,
)
MENTIONS = {
    "Disease": (
        "heart failure",
        "kidney disease",
        "pneumonia",
        "edema",
        "chest pain",
    ),
    "Drug": ("insulin", "furosemide", "antibiotic medication"),
}
FILLER = "patient home stable clinic was not the of and with".split()


def sentences(count, *, seed, only=None):
    """Made-up sentences with the mentions of both types, perhaps only one of them annotated."""
    generator = np.random.default_rng(seed)
    texts = []
    for _ in range(count):
        words, tags = [], []
        for _ in range(generator.integers(1, 5)):
            for word in generator.choice(FILLER, generator.integers(1, 4)):
                words.append(str(word))
                tags.append("O")
            kind = str(generator.choice(list(MENTIONS)))
            mention = str(generator.choice(MENTIONS[kind])).split()
            words += mention
            known = only in (None, kind)
            tags += [
                f"{'BI'[n > 0]}-{kind}" if known else "O"
                for n in range(len(mention))
            ]
        texts.append(TaggedText(tuple(words), tuple(tags)))
    return tuple(texts)


def corpus(name="made-up", *, seed=0, only=None, test=True):
    sides = {
        "train": (150, seed),
        "devel": (30, seed + 1),
        "test": (30, seed + 2),
    }
    golds = {
        side: Gold(side, sentences(count, seed=number, only=only))
        for side, (count, number) in sides.items()
    }
    return Corpus(name, **{**golds, "test": golds["test"] if test else None})


def recipe(encoder, *, training=QUICK, **tables):
    """Short windows on a tiny encoder."""
    return EntityRecipe(
        model=EntityTable(encoder=str(encoder), window=32),
        training=training,
        **tables,
    )


def by_hand(texts):
    """The same texts as documents with spans of characters."""
    documents = []
    for number, text in enumerate(texts):
        ends = np.cumsum([len(word) + 1 for word in text.words]) - 1
        starts = ends - [len(word) for word in text.words]
        spans = [
            Span(int(starts[a]), int(ends[b - 1]), kind)
            for a, b, kind in spans_of(text.tags)
        ]
        documents.append(
            Document(str(number), " ".join(text.words) + ".", tuple(spans))
        )
    return gold_of(documents)


@pytest.fixture(scope="module")
def documents():
    """Train and devel sides made by hand, with both types."""
    return by_hand(sentences(150, seed=0)), by_hand(sentences(30, seed=1))


@pytest.fixture(scope="module")
def trained(tiny_encoder, documents):
    """An adapter trained on documents with both types."""
    made = Corpus("made-up", *documents, None)
    return EntityTagger.fit([made], recipe(tiny_encoder))


@pytest.fixture(scope="module")
def diseases(tiny_encoder):
    """An adapter trained a little on the diseases alone."""
    few = QUICK.replaced(epochs=3)
    return fit([corpus(only="Disease")], recipe(tiny_encoder, training=few))


def test_it_learns_and_says_how_well(trained):
    assert trained.manifest.scores.devel["made-up"]["all"]["f1"] > 0.95
    assert trained.types == ("Disease", "Drug")
    found = trained.tag("Patient with heart failure, was not with insulin")
    assert [(e.text, e.label) for e in found] == [
        ("heart failure", "Disease"),
        ("insulin", "Drug"),
    ]


def test_what_is_saved_is_what_was_measured(trained, tmp_path):
    trained.save_pretrained(tmp_path / "model")
    assert (tmp_path / "model" / "adapter_model.safetensors").is_file()
    assert not (tmp_path / "model" / "model.safetensors").exists()
    again = EntityTagger.from_pretrained(tmp_path / "model")
    assert (again.window, again.settings, again.labels) == (
        *(32, EntitySettings(window=32)),
        ("O", "B-Disease", "I-Disease", "B-Drug", "I-Drug"),
    )
    texts = ["heart failure and insulin", "kidney disease " * 40]
    found = [list(model.tag_many(texts)) for model in (trained, again)]
    assert found[0] == found[1]
    card = (tmp_path / "model" / "README.md").read_text()
    assert "Disease" in card
    # Without a card in the recipe, it states what this run read and nothing else.
    assert "| made-up, texts for training | 1" in card
    assert not {"apache", "NCBI", "PubMed"} & set(
        re.findall(r"[A-Za-z]+", card)
    )


@pytest.mark.numeric
def test_merged_weights_load_in_hugging_face(trained, tmp_path):
    from transformers import AutoModelForTokenClassification

    trained.save_pretrained(tmp_path / "whole", merged=True)
    theirs = AutoModelForTokenClassification.from_pretrained(
        tmp_path / "whole"
    )
    assert theirs.config.id2label == dict(enumerate(trained.labels))
    ids = torch.tensor([[5, 6, 7, 8]])
    with torch.inference_mode():
        torch.testing.assert_close(
            theirs.eval()(ids).logits, trained.network(ids).logits
        )
    assert EntityTagger.from_pretrained(tmp_path / "whole").adapter is None
    assert trained.adapter is not None


def test_straight_from_spans_of_characters(trained, documents):
    """Documents made by hand: what is found are spans of characters again."""
    _, devel = documents
    assert evaluate_documents(trained, devel).overall.f1 > 0.95


def test_full_weights_train(tiny_encoder):
    full = QUICK.replaced(full=True, learning_rate=2e-3)
    model = fit([corpus()], recipe(tiny_encoder, training=full))
    assert model.adapter is None
    assert model.manifest.scores.devel["made-up"]["all"]["f1"] > 0.9


@pytest.mark.slow
def test_corpora_that_annotate_other_types_teach_each_their_own(tiny_encoder):
    """A corpus has O for the types that it does not annotate; that must not be learnt."""
    corpora = [corpus("a", only="Disease"), corpus("b", seed=7, only="Drug")]
    model = fit(corpora, recipe(tiny_encoder))
    both = corpus(seed=20).devel
    tagged = model.entities(
        model.word_tokenizer.tokenize(text.words) for text in both.texts
    )
    pairs = zip(both.texts, tagged, strict=True)
    right = sum(
        spans_of(text.tags) == [span[:3] for span in found]
        for text, found in pairs
    )
    assert right > 0.8 * len(both.texts)


def still(plan, folder, rank=QUICK.rank):
    """A recipe that starts from this model and changes next to nothing."""
    training = QUICK.replaced(epochs=1, learning_rate=1e-9, rank=rank)
    return plan.replaced(
        model=plan.model.replaced(start=str(folder)), training=training
    )


@pytest.mark.numeric
def test_training_starts_from_another_model(diseases, tiny_encoder, tmp_path):
    """Its adapter and its rows of the head; tags that it does not know keep random numbers."""
    diseases.save_pretrained(tmp_path / "diseases")
    both = fit([corpus()], still(recipe(tiny_encoder), tmp_path / "diseases"))
    assert both.types == ("Disease", "Drug")
    assert both.manifest.training.start == "diseases"
    for name, tensor in diseases.adapter.tensors.items():
        if "classifier" not in name:
            assert torch.equal(tensor, both.adapter.tensors[name]), name
    ours, theirs = (m.network.classifier.weight for m in (both, diseases))
    assert torch.allclose(ours[[0, 1, 2]], theirs, atol=1e-3)
    # It tells the tags that it knows apart as the other does.
    words = [text.words for text in corpus(seed=20).devel.texts]
    pieces = [both.word_tokenizer.tokenize(text) for text in words]
    own, other = (
        np.concatenate(m.log_probabilities(pieces)) for m in (both, diseases)
    )
    relative = own[:, 1:3] - own[:, :1], other[:, 1:3] - other[:, :1]
    np.testing.assert_allclose(*relative, atol=0.05)


def test_a_start_of_another_shape_is_refused(tiny_encoder, trained, tmp_path):
    trained.save_pretrained(tmp_path / "adapter")
    trained.save_pretrained(tmp_path / "merged", merged=True)
    for folder, rank, named in (
        ("adapter", 3, QUICK.rank),
        ("merged", QUICK.rank, 0),
    ):
        plan = still(recipe(tiny_encoder), tmp_path / folder, rank=rank)
        with pytest.raises(
            UserError, match=rf"of rank {rank} on .*got rank {named}"
        ):
            fit([corpus()], plan)


def test_held_out_texts_are_no_training_texts(tiny_encoder, caplog):
    whole = corpus()
    leaking = dataclasses.replace(
        whole,
        train=Gold(
            "train",
            whole.train.texts + whole.test.texts[:3] + whole.devel.texts[:1],
        ),
    )
    one = QUICK.replaced(epochs=1)
    models = [
        fit([c], recipe(tiny_encoder, training=one)) for c in (whole, leaking)
    ]
    weights = [model.network.classifier.weight for model in models]
    assert torch.equal(*weights)
    assert "4 training texts are also in another side or corpus" in caplog.text
    assert models[0].manifest.data.counts == models[1].manifest.data.counts


def test_a_run_resumes_with_the_same_corpora_and_settings_only(
    tiny_encoder, tmp_path
):
    one = recipe(
        tiny_encoder, training=QUICK.replaced(epochs=1, evaluations=1)
    )
    first = fit([corpus()], one, checkpoints=tmp_path)
    again = fit([corpus()], one, checkpoints=tmp_path, resume=True)
    assert torch.equal(
        first.network.classifier.weight, again.network.classifier.weight
    )
    others = [
        ([corpus(seed=1)], one, "corpora.made-up.train"),
        (
            [corpus()],
            one.replaced(
                model=EntityTable(encoder=str(tiny_encoder), window=24)
            ),
            "wind",
        ),
    ]
    for corpora, changed, name in others:
        with pytest.raises(
            UserError, match=f"were made with another .*{name}"
        ):
            fit(corpora, changed, checkpoints=tmp_path, resume=True)


def test_what_cannot_be_trained_on(tiny_encoder):
    whole = corpus()
    empty = Gold("train", (TaggedText(("was",), ("O",)),))
    cases = [
        (
            dataclasses.replace(whole, train=None),
            CorpusError,
            "no corpus has a train side",
        ),
        (
            dataclasses.replace(whole, devel=None),
            CorpusError,
            "no corpus has a devel side",
        ),
        (
            dataclasses.replace(whole, train=empty),
            CorpusError,
            "needs entities in train and in",
        ),
        (
            dataclasses.replace(whole, train=corpus(only="Drug").train),
            ValueError,
            "devel has entities of type Disease; the model finds Drug",
        ),
    ]
    for bad, kind, message in cases:
        with pytest.raises(kind, match=message):
            fit([bad], recipe(tiny_encoder))


def test_a_silver_corpus_only_trains(tiny_encoder):
    """It has no devel side, and none of its texts may be in the corpora that have one."""
    gold = corpus()
    few = dataclasses.replace(gold, train=Gold("train", gold.train.texts[:5]))
    silver = Corpus(
        "silver",
        Gold("train", sentences(150, seed=9) + gold.devel.texts),
        None,
        None,
    )
    alone, helped = (
        fit(corpora, recipe(tiny_encoder))
        for corpora in ([few], [few, silver])
    )
    assert list(helped.manifest.scores.devel) == ["made-up"]
    assert 0 < helped.manifest.data.counts["silver, texts for training"] <= 150
    f1 = [
        model.manifest.scores.devel["made-up"]["all"]["f1"]
        for model in (alone, helped)
    ]
    assert f1[1] > 0.9 > f1[0]
    same = Corpus("same", Gold("train", few.train.texts[:3]), None, None)
    with pytest.raises(
        CorpusError,
        match="same: every training text is also in a devel or test",
    ):
        fit([few, same], recipe(tiny_encoder))


def test_the_manifest_quotes_nothing(trained):
    document = trained.manifest.model_dump_json()
    assert "pneumonia" not in document


def test_the_recipe_for_small_corpora_starts_from_the_shipped_model():
    plan = read_recipe(EntityRecipe, "small")
    model = EntityTagger.from_pretrained(plan.model.start)
    assert plan.training.rank == model.adapter.rank
