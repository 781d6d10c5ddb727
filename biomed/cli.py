"""The command `biomed`: entities, answers and embeddings from biomedical text."""

from biomed.ner import commands as ner
from biomed.qa import commands as qa
from biomed.sentences import commands as sentences
from biomed.terms import commands as terms
from domainbert.cli.console import command_line, one_line_errors, print_table

app = command_line(
    "biomed",
    "BioBERT: entities, answers and embeddings from biomedical text.",
)
app.add_typer(ner.app, name="ner")
app.add_typer(qa.app, name="qa")
app.add_typer(terms.app, name="terms")
app.add_typer(sentences.app, name="sentences")


@app.command()
@one_line_errors
def models() -> None:
    """List the shipped models and their measured scores."""
    from domainbert.models.manifest import Manifest
    from domainbert.models.storage import read_manifest, shipped_models

    for name, folder in shipped_models("biomed").items():
        manifest = read_manifest(folder, Manifest)
        head, *rows = manifest.scores.rows()
        print_table(rows, head, title=f"{name}: {manifest.card.title}")
