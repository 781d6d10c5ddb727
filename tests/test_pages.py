"""The commands on the pages of the documentation: those in `bash` blocks run, all others exist."""

import importlib
import json
import re
import shlex
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HOMES = {
    "clinical": "clinical.cli",
    "biomed": "biomed.cli",
    "domainbert": "domainbert.__main__",
}
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PAGES += sorted((ROOT / "docs" / "explanation").glob("*.md"))
GUIDES = sorted((ROOT / "docs" / "howto").glob("*.md"))
ADDRESS = "http://127.0.0.1:8000"
CARD = "UUID OF THE CARD"  # what a reader replaces
BLOCK = re.compile(
    r"^```(\S+)[^\n]*\n(.*?)^```", flags=re.DOTALL | re.MULTILINE
)


def commands_of(text: str) -> list[str]:
    """The commands of ours on a page, in blocks and in lines of text, without comments."""
    blocks = "\n".join(body for _, body in BLOCK.findall(text))
    spans = re.findall(r"`((?:clinical|biomed|domainbert) [^`\n]+)`", text)
    lines = [line.split(" #")[0].strip() for line in blocks.splitlines()]
    return spans + [
        line
        for line in lines
        if re.match(r"(clinical|biomed|domainbert) [a-z]", line)
    ]


@pytest.mark.parametrize("page", PAGES + GUIDES, ids=lambda page: page.stem)
def test_the_commands_and_options_on_a_page_exist(page):
    import typer.main

    for line in commands_of(page.read_text("utf-8")):
        program, *words = line.split()
        command = typer.main.get_command(
            importlib.import_module(HOMES[program]).app
        )
        while (
            hasattr(command, "commands")
            and words
            and words[0] in command.commands
        ):
            command = command.commands[words.pop(0)]
        known = {
            option for parameter in command.params for option in parameter.opts
        } | {"--help"}
        named = {
            word.strip("[]().,")
            for word in words
            if word.strip("[(").startswith("--")
        }
        assert not hasattr(command, "commands") or not named, line
        assert named <= known, line


def test_a_page_with_a_wrong_option_is_found():
    assert commands_of("```bash\nclinical score x --outt y  # text\n```") == [
        "clinical score x --outt y"
    ]


class Machine:
    """Runs the commands of a guide in one process: ours, and `curl` to the service it started."""

    def run(self, line):
        program, *words = shlex.split(line, comments=True)
        if program == "curl":
            self.call(words)
        elif words[0] == "serve":
            self.serve(dict(zip(words[1::2], words[2::2], strict=True)))
        else:
            self.invoke(program, words)

    def invoke(self, program, words):
        from typer.testing import CliRunner

        app = importlib.import_module(HOMES[program]).app
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 0, f"{program} {words}\n{done.output[-2000:]}"
        self.output = done.output

    def serve(self, options):
        pytest.importorskip(
            "fastapi", reason="the service needs the extra: service"
        )
        from starlette.testclient import TestClient

        from clinical.bedside.served import READMISSION
        from domainbert.service.app import Service, ServiceSettings

        settings = ServiceSettings(
            model=[options["--model"]],
            ledger=options["--ledger"],
            address=ADDRESS,
        )
        service = Service(settings, work=Path(), announced_tasks=[READMISSION])
        self.client = TestClient(service.app, base_url="http://localhost")

    def call(self, words):
        body = Path(words[words.index("-d") + 1].removeprefix("@")).read_text(
            "utf-8"
        )
        if CARD in body:
            (card,) = json.loads(Path("card.json").read_text())["cards"]
            body = body.replace(CARD, card["uuid"])
        answer = self.client.post(
            words[-1].removeprefix(ADDRESS), json=json.loads(body)
        )
        assert answer.status_code == 200, answer.text
        if "-o" in words:
            Path(words[words.index("-o") + 1]).write_text(answer.text)


# The files that the Python of the pages reads.
MY_RECIPE = """
[corpus]
held_out = 0.3
[training]
steps = 2
batch_tokens = 512
length = 32
"""


def write_inputs(folder):
    import pandas as pd

    notes = [f"Admitted with fever {n}. He lives alone." for n in range(40)]
    (folder / "my.toml").write_text(MY_RECIPE)
    ids = [str(n) for n in range(len(notes))]
    table = pd.DataFrame({"patient_id": ids, "stay_id": ids, "text": notes})
    table["category"] = "Discharge summary"
    table.to_parquet(folder / "notes.parquet")
    patients = pd.DataFrame({"patient_id": ["1"], "split": ["test"]})
    patients.to_parquet(folder / "cohort.parquet")


def captioned(blocks):
    """The files of a page: name and content of each block with a caption."""
    for _, body in blocks:
        caption = re.match(r":caption: (\S+)\n", body)
        if caption:
            yield caption[1], body[caption.end() :]


@pytest.mark.slow
@pytest.mark.encoder
@pytest.mark.parametrize(
    "page",
    [page for page in PAGES[1:] if "```python" in page.read_text("utf-8")],
    ids=lambda page: page.stem,
)
def test_the_python_of_a_page_runs_in_order(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    write_inputs(tmp_path)
    blocks = BLOCK.findall(page.read_text("utf-8"))
    for name, content in captioned(blocks):
        (tmp_path / name).write_text(content, "utf-8")
    session: dict[str, object] = {}
    for language, body in blocks:
        # Clusters take long to start; the tests of the engines start them.
        is_for_a_cluster = re.search(
            r"^(?:import|from) (ray|pyspark)\b", body, re.M
        )
        if language == "python" and not is_for_a_cluster:
            exec(body, session)


@pytest.mark.slow
@pytest.mark.encoder
@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.stem)
def test_a_guide_runs_as_it_is_written(page, tmp_path, monkeypatch):
    """Files with a caption are written, `bash` blocks run in order; `console` blocks do not."""
    monkeypatch.chdir(tmp_path)
    machine = Machine()
    blocks = BLOCK.findall(page.read_text("utf-8"))
    for name, content in captioned(blocks):
        (tmp_path / name).write_text(content, "utf-8")
    for language, body in blocks:
        for line in body.splitlines() if language == "bash" else ():
            if line.strip() and not line.startswith("#"):
                machine.run(line)
    if page.stem == "from_export_to_card":
        assert "overridden: 1." in machine.output
        assert (tmp_path / "risks.fhir.ndjson").stat().st_size
