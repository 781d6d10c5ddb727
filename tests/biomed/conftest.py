"""Tiny random checkpoints of several encoder families, as Hugging Face's classes write them."""

import pytest

SIZES = {
    "num_hidden_layers": 2,
    "hidden_size": 16,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 66,
}
DISTIL = {
    "n_layers": 2,
    "dim": 16,
    "n_heads": 2,
    "hidden_dim": 24,
    "max_position_embeddings": 66,
}
# Of each family its settings, and whether its tokenizer reads bytes.
FAMILIES = {
    "distilbert": (DISTIL, False),
    "electra": ({**SIZES, "embedding_size": 16}, False),
    "deberta-v2": (
        {**SIZES, "relative_attention": True, "pos_att_type": ["p2c", "c2p"]},
        False,
    ),
    "roberta": ({**SIZES, "type_vocab_size": 1}, True),
    "mpnet": (SIZES, True),
    "modernbert": (
        {**SIZES, "local_attention": 16, "global_attn_every_n_layers": 2},
        True,
    ),
}
WORDS = "Patient with heart failure, DM2. On (insulin) — no fever. What is the drug?"


@pytest.fixture(scope="session")
def byte_tokenizer():
    """A tokenizer of bytes with merges, as RoBERTa's and ModernBERT's."""
    from tokenizers import (
        Tokenizer,
        decoders,
        models,
        pre_tokenizers,
        processors,
        trainers,
    )
    from transformers import PreTrainedTokenizerFast

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=340, special_tokens=special, initial_alphabet=alphabet
    )
    made.train_from_iterator([WORDS] * 12, trainer)
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>",
        pair="<s> $A </s> </s> $B </s>",
        special_tokens=[("<s>", 0), ("</s>", 2)],
    )
    names = {
        "bos_token": "<s>",
        "cls_token": "<s>",
        "eos_token": "</s>",
        "sep_token": "</s>",
    }
    names |= {
        "pad_token": "<pad>",
        "unk_token": "<unk>",
        "mask_token": "<mask>",
    }
    return PreTrainedTokenizerFast(tokenizer_object=made, **names)


@pytest.fixture(params=FAMILIES)
def family(request):
    """The name of a family."""
    return request.param


@pytest.fixture
def write_family(tokenizer, byte_tokenizer):
    """Writes a random checkpoint of a family; returns its network and tokenizer."""

    def write(folder, family, auto, **names):
        import torch
        from transformers import AutoConfig

        settings, reads_bytes = FAMILIES[family]
        own = byte_tokenizer if reads_bytes else tokenizer
        kinds = ("pad", "bos", "eos", "cls", "sep")
        ids = {
            f"{kind}_token_id": getattr(own, f"{kind}_token_id")
            for kind in kinds
        }
        special = {
            name: number for name, number in ids.items() if number is not None
        }
        config = AutoConfig.for_model(
            family, vocab_size=len(own), **settings, **special, **names
        )
        torch.manual_seed(0)
        network = auto.from_config(config).eval()
        with torch.no_grad():
            for name, parameter in network.named_parameters():
                if name in ("classifier.weight", "qa_outputs.weight"):
                    parameter.normal_()
        network.save_pretrained(folder)
        own.save_pretrained(folder)
        return network, own

    return write
