"""What `deploy/` starts: every option exists, and systemd knows every line of the unit."""

import ast
import json
import re
import shlex
import shutil
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import click
import pytest
from typer.main import get_command

from domainbert.__main__ import app

DEPLOY = Path(__file__).parents[3] / "deploy"
UNIT, CONTAINER = DEPLOY / "domainbert.service", DEPLOY / "Containerfile"


def instruction(name):
    """The arguments of an instruction of the Containerfile."""
    (line,) = [
        line
        for line in CONTAINER.read_text().splitlines()
        if line.startswith(f"{name} ")
    ]
    return json.loads(line[line.index("[") :])


def started():
    (unit,) = [
        line
        for line in UNIT.read_text().splitlines()
        if line.startswith("ExecStart=")
    ]
    return [shlex.split(unit.removeprefix("ExecStart=")), instruction("CMD")]


@pytest.mark.parametrize("command", started(), ids=["systemd", "container"])
def test_the_command_has_options_that_exist(command):
    program, name, *words = command
    assert Path(program).name == "domainbert"
    serve = get_command(app).get_command(click.Context(get_command(app)), name)
    context = serve.make_context(
        name, list(words)
    )  # raises on an unknown option
    assert context.params["model"] == ["readmission-demo"]
    local = context.params["host"] in ("127.0.0.1", "localhost")
    # If others can reach it, there is a proxy, and the clients are named.
    assert local or (
        context.params["behind_proxy"] and context.params["trust"]
    )


def test_the_health_check_of_the_container_asks_the_service():
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(
                200 if healthy[0] and self.path == "/health" else 503
            )
            self.end_headers()

        def log_message(self, *_):
            pass

    command = instruction("HEALTHCHECK CMD")
    assert command[:2] == ["python", "-c"]
    ast.parse(command[2])
    healthy = [True]
    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    code = command[2].replace(":8000", f":{server.server_port}")
    assert (
        subprocess.run([sys.executable, "-c", code], check=False).returncode
        == 0
    )
    healthy[0] = False
    failed = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True
    )
    assert failed.returncode == 1
    server.shutdown()


def test_the_dashboard_asks_for_numbers_that_the_service_has(client):
    dashboard = json.loads((DEPLOY / "grafana.json").read_text())
    panels = dashboard["panels"]
    queries = [
        target["expr"] for panel in panels for target in panel["targets"]
    ]
    asked = set(re.findall(r"domainbert_\w+", " ".join(queries)))
    client.post("/v1/lengths", json={"records": [{"text": "abc"}]})
    lines = client.get("/metrics").text.splitlines()
    names = {line.split("{")[0].split()[0] for line in lines if line[0] != "#"}
    names |= {line.split()[2] for line in lines if line.startswith("# TYPE")}
    assert len(asked) == 7
    assert asked <= names


@pytest.mark.skipif(
    not shutil.which("systemd-analyze"), reason="systemd is not here"
)
def test_systemd_knows_every_line_of_the_unit(tmp_path):
    text = UNIT.read_text().replace(
        "/opt/domainbert/bin/domainbert", sys.executable
    )
    file = tmp_path / UNIT.name
    file.write_text(text.replace("User=domainbert", "User=root"))
    verify = ["systemd-analyze", "verify", "--man=no", str(file)]
    done = subprocess.run(verify, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
