"""`python -m biomed`, the same as the command `biomed`."""

from biomed.cli import app

app(prog_name="biomed")
