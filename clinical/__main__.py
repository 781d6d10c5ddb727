"""`python -m clinical`, the same as the command `clinical`."""

from clinical.cli import app

app(prog_name="clinical")
