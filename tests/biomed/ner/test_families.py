"""Token classifiers of other encoder families and label schemes, tiny and random."""

import json

import numpy as np
import pytest

from biomed.ner.decoding import Outputs, find_entities
from biomed.ner.tagger import EntityTagger
from domainbert.errors import UserError

IOB = ("O", "B-Disease", "I-Disease")
TEXT = "Patient with heart failure, DM2.\nOn (insulin) — no fever.\n" * 12


@pytest.fixture
def write(write_family, tmp_path):
    """Writes a checkpoint with these labels."""
    from transformers import AutoModelForTokenClassification

    def make(family, labels=IOB):
        names = {"id2label": dict(enumerate(labels))}
        names["label2id"] = {
            label: number for number, label in enumerate(labels)
        }
        return write_family(
            tmp_path / "model",
            family,
            AutoModelForTokenClassification,
            **names,
        )

    return make


@pytest.mark.numeric
def test_a_family_gets_our_windows_and_offsets(write, tmp_path, family):
    network, own = write(family)
    tagger = EntityTagger.from_pretrained(tmp_path / "model", device="cpu")
    found = tagger.tag(TEXT)
    assert found
    assert all(TEXT[e.start : e.end] == e.text for e in found)
    # A short text has the network's own probabilities.
    short = TEXT[:32]
    words = [short[e[0] : e[1]] for e in _words(short)]
    spaced = [
        start > 0 and short[start - 1] == " " for start, _ in _words(short)
    ]
    pieces = tagger.word_tokenizer.tokenize(words, spaced=spaced)
    encoded = own(short, return_tensors="pt", return_offsets_mapping=True)
    assert encoded["input_ids"][0, 1:-1].tolist() == pieces.ids.tolist()
    logits = (
        network(input_ids=encoded["input_ids"])
        .logits[0]
        .log_softmax(-1)
        .detach()
        .numpy()
    )
    assert np.allclose(
        tagger.log_probabilities([pieces])[0],
        logits[1 + pieces.first],
        atol=1e-4,
    )
    # Saved as ours, it is the same.
    tagger.save_pretrained(tmp_path / "again")
    assert (
        EntityTagger.from_pretrained(tmp_path / "again", device="cpu").tag(
            TEXT
        )
        == found
    )


def _words(text):
    from biomed.corpora.words import split_words

    return split_words(text).tolist()


def test_outputs_without_names_are_named_in_the_configuration(write, tmp_path):
    write("electra", ("LABEL_0", "LABEL_1", "LABEL_2"))
    with pytest.raises(
        UserError, match=r"expected O and labels.*in its config\.json"
    ):
        EntityTagger.from_pretrained(tmp_path / "model")
    path = tmp_path / "model" / "config.json"
    config = json.loads(path.read_text())
    config["id2label"] = {"0": "O", "1": "B-Drug", "2": "I-Drug"}
    path.write_text(json.dumps(config))
    named = EntityTagger.from_pretrained(tmp_path / "model")
    assert named.types == ("Drug",)
    named.save_pretrained(tmp_path / "named")
    config = json.loads((tmp_path / "named" / "config.json").read_text())
    assert config["domainbert"]["labels"] == ["O", "B-Drug", "I-Drug"]
    assert EntityTagger.from_pretrained(tmp_path / "named").types == ("Drug",)


def spans(outputs, tags):
    """Entities of words whose most likely outputs are these."""
    rows = np.full((len(tags), len(outputs.names)), 0.01)
    for row, tag in zip(rows, tags, strict=True):
        row[outputs.names.index(tag)] = 1
    scores = np.log(rows / rows.sum(axis=1, keepdims=True))
    found = list(find_entities(outputs.tags(scores), starts=np.array([0])))
    assert all(0.5 < score <= 1.001 for *_, score in found)
    return [
        (first, end - 1, outputs.types[kind]) for first, end, kind, _ in found
    ]


@pytest.mark.parametrize(
    ("names", "tags"),
    [
        (["O", "B_x", "I_x"], ["O", "B_x", "I_x", "B_x"]),
        (["O", "B-x", "B-y", "I-x"], ["B-y", "B-x", "I-x", "B-x"]),
        (
            ["[PAD]", "O", "B-x", "I-x", "X", "[CLS]"],
            ["X", "B-x", "I-x", "B-x"],
        ),
    ],
)
def test_iob2_with_other_marks_without_inside_or_with_special_outputs(
    names, tags
):
    outputs = Outputs(names)
    found = [span for span in spans(outputs, tags) if span[2] == "x"]
    assert found == [(1, 2, "x"), (3, 3, "x")]


def test_iobes_and_bilou():
    both = {
        "iobes": "O B-x I-x E-x S-x S-y".split(),
        "bilou": "O B-x I-x L-x U-x U-y".split(),
    }
    tags = {"iobes": "S-x B-x I-x E-x S-y O", "bilou": "U-x B-x I-x L-x U-y O"}
    for name, labels in both.items():
        found = spans(Outputs(labels), tags[name].split())
        assert found == [(0, 0, "x"), (1, 3, "x"), (4, 4, "y")]


def test_iob1_starts_with_i_and_b_separates():
    outputs = Outputs(["O", "I-x", "B-x", "I-y"])
    assert outputs.starts_inside
    found = spans(outputs, "I-x I-x B-x I-x O I-y I-x".split())
    assert found == [(0, 1, "x"), (2, 3, "x"), (5, 5, "y"), (6, 6, "x")]


def test_plain_types_join_neighbours():
    found = spans(Outputs(["x", "O", "y-z"]), "x x y-z O y-z".split())
    assert found == [(0, 1, "x"), (2, 2, "y-z"), (4, 4, "y-z")]


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        ("O B I", "Entity"),
        ("O x-B x-I", "x"),
        ("o b-x i-x", "x"),
        ("O B_x I_x", "x"),
    ],
)
def test_other_spellings_are_one_type(names, kind):
    outputs = Outputs(names.split())
    outside, begin, inside = outputs.names
    found = spans(outputs, [begin, inside, outside, begin])
    assert found == [(0, 1, kind), (3, 3, kind)]


def test_missing_names_of_outputs_are_said(write, tmp_path):
    write("electra")
    path = tmp_path / "model" / "config.json"
    config = json.loads(path.read_text())
    del config["id2label"], config["label2id"]
    path.write_text(json.dumps(config))
    with pytest.raises(
        UserError, match=r'3 outputs, but 2 were expected.*"id2label"'
    ):
        EntityTagger.from_pretrained(tmp_path / "model")


def test_iob2_is_read_as_it_is():
    outputs = Outputs(IOB)
    scores = np.log(np.full((2, 3), 1 / 3))
    assert np.array_equal(outputs.tags(scores), scores)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a", "b"], "expected O and labels"),
        (["LABEL_0", "LABEL_1"], "LABEL_0, LABEL_1; expected O and labels"),
        (["0", "B-x", "I-x"], "expected O and labels"),
    ],
)
def test_labels_that_cannot_be_read(names, message):
    with pytest.raises(UserError, match=message):
        Outputs(names)
