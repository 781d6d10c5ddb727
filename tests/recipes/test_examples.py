"""The example of a shipped model, which the self-test of a service compares."""

from clinical import ReadmissionModel, ReadmissionSettings
from domainbert.models.storage import read_manifest
from domainbert.service.served import announced, find_task
from domainbert.service.worker import Worker
from recipes import examples
from tests.recipes.conftest import run


def test_the_example_goes_into_manifest_and_card(network, tokenizer, tmp_path):
    folder = tmp_path / "model"
    settings = ReadmissionSettings(window=32)
    ReadmissionModel(network, tokenizer, settings=settings).save_pretrained(
        folder
    )
    weights = (folder / "model.safetensors").read_bytes()
    run(examples.main, folder)
    assert (folder / "model.safetensors").read_bytes() == weights
    example = read_manifest(folder, ReadmissionModel.manifest_class).example
    assert example.record == {"text": [examples.TEXT]}
    assert examples.TEXT in (folder / "README.md").read_text()
    kind, name = find_task(str(folder), announced())
    served = kind.load(name, cache=tmp_path / "windows.sqlite")
    worker = Worker(served.tasks["readmission"], lambda _: None)
    problem = served.self_test(lambda records: worker.score(records, 60.0))
    assert problem == ""
