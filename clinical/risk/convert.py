"""The 2019 ClinicalBERT release -> our model folder."""

import json
import shutil
import tempfile
from pathlib import Path

from clinical.risk.model import ReadmissionModel
from domainbert.encoders.configs import named_outputs
from domainbert.encoders.loading import EncoderError
from domainbert.files import write_json

CONFIG = "bert_config.json"
WEIGHTS = "pytorch_model.bin"
VOCABULARY = "vocab.txt"


def convert_release(release: str | Path) -> ReadmissionModel:
    """Read a folder of the 2019 release; `save_pretrained` writes it as a model folder.

    The network is Hugging Face's BERT for sequence classification with one label, whose reader
    knows the older parameter names. Windows and c are those of the release: 512 tokens and c = 2.

    Raises:
        EncoderError: a file is missing or unreadable, or weights are missing, unexpected or
            misshapen.
    """
    folder = Path(release)
    for name in (CONFIG, WEIGHTS, VOCABULARY):
        if not (folder / name).is_file():
            raise EncoderError(
                f"{folder} does not have the layout of the 2019 release: it has no {name}"
            )
    tokens = (folder / VOCABULARY).read_text("utf-8").splitlines()
    cased = any(
        token != token.lower() for token in tokens if not token.startswith("[")
    )
    config = json.loads((folder / CONFIG).read_text("utf-8"))
    config |= {"model_type": "bert", **named_outputs(ReadmissionModel.labels)}
    # The same files under the names that Hugging Face reads today.
    with tempfile.TemporaryDirectory() as private:
        today = Path(private) / folder.resolve().name
        today.mkdir()
        for name in (WEIGHTS, VOCABULARY):
            shutil.copyfile(folder / name, today / name)
        write_json(config, today / "config.json")
        tokenizer = {
            "tokenizer_class": "BertTokenizer",
            "do_lower_case": not cased,
        }
        write_json(tokenizer, today / "tokenizer_config.json")
        model = ReadmissionModel.from_pretrained(today)
    model.network.config.name_or_path = "ClinicalBERT 2019 release"
    return model
