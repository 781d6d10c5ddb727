"""Token classifiers made in code: one that knows a few words, and random ones."""

from __future__ import annotations

import pytest

RULES = {
    "B-Disease": ("heart", "kidney", "renal", "pneumonia", "edema"),
    "I-Disease": ("failure", "disease", "pain"),
    "B-Drug": ("insulin", "furosemide", "antibiotic"),
    "I-Drug": ("medication",),
}


def make_rules(
    tokenizer, *, labels=("O", "B-Disease", "I-Disease"), positions=64
):
    """A network whose tags depend on the word alone: nothing it computes mixes tokens."""
    import torch
    from transformers import BertConfig, BertForTokenClassification

    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
        max_position_embeddings=positions,
        id2label=dict(enumerate(labels)),
        label2id={label: number for number, label in enumerate(labels)},
        attn_implementation="sdpa",
    )
    network = BertForTokenClassification(config).eval()
    with torch.no_grad():
        for parameter in network.bert.encoder.parameters():
            if parameter.dim() == 2:
                parameter.zero_()
        network.bert.embeddings.position_embeddings.weight.zero_()
        network.bert.embeddings.token_type_embeddings.weight.zero_()
        words = network.bert.embeddings.word_embeddings.weight
        words.zero_()
        words[:, labels.index("O")] = 1.0
        for number, label in enumerate(labels):
            for word in RULES.get(label, ()):
                words[tokenizer.convert_tokens_to_ids(word)] = torch.eye(8)[
                    number
                ]
        network.classifier.weight.copy_(3 * torch.eye(8)[: len(labels)])
        network.classifier.bias.zero_()
    return network


@pytest.fixture(scope="session")
def new_rules():
    """`make_rules`, for tests that need their own."""
    return make_rules


@pytest.fixture(scope="session")
def new_random(random_network):
    """Makes random token classifiers."""
    from domainbert.encoders.configs import named_outputs

    def make(tokenizer, *, labels=("O", "B-Disease", "I-Disease"), **settings):
        from transformers import BertForTokenClassification

        outputs = named_outputs(labels)
        return random_network(
            BertForTokenClassification,
            tokenizer,
            head="classifier",
            **outputs,
            **settings,
        )

    return make


@pytest.fixture(scope="session")
def disease(tokenizer):
    """Knows "heart failure" and the like; windows of 24 tokens."""
    from biomed.ner.tagger import EntitySettings, EntityTagger

    return EntityTagger(
        make_rules(tokenizer), tokenizer, settings=EntitySettings(window=24)
    )


@pytest.fixture(scope="session")
def drug(tokenizer):
    """Knows "insulin" and the like."""
    from biomed.ner.tagger import EntityTagger

    return EntityTagger(
        make_rules(tokenizer, labels=("I-Drug", "O", "B-Drug")), tokenizer
    )


@pytest.fixture(scope="session")
def both(tokenizer):
    """Knows both; windows of 24 tokens."""
    from biomed.ner.tagger import EntitySettings, EntityTagger

    labels = ("O", "B-Disease", "I-Disease", "B-Drug", "I-Drug")
    network = make_rules(tokenizer, labels=labels)
    return EntityTagger(network, tokenizer, settings=EntitySettings(window=24))


@pytest.fixture(scope="session")
def tagger(both):
    """Finds both."""
    return both
