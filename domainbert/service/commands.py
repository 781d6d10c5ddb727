"""The command `domainbert serve`, and its options as the settings of a service."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from domainbert.cli.console import one_line_errors, say
from domainbert.cli.options import takes_options
from domainbert.errors import UserError

SETTINGS = (
    "DOMAINBERT_SERVICE"  # the environment of the workers: settings and work folder
)
LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True, kw_only=True)
class ServiceSettings:
    """The options of a service, the same in every worker."""

    model: Annotated[
        list[str], typer.Option(help="Shipped name, folder or TASK=NAME; several.")
    ]
    address: Annotated[
        str, typer.Option(help="Where clients find it, behind a proxy.")
    ] = ""
    trust: Annotated[
        str | None, typer.Option(help="TOML file of clients with tokens.")
    ] = None
    cors: Annotated[
        list[str] | None, typer.Option(help="Origin of a page that may call.")
    ] = None
    fhir: Annotated[
        list[str] | None, typer.Option(help="FHIR host that may be asked.")
    ] = None
    ledger: Annotated[
        str | None, typer.Option(help="SQLite file for risks, feedback.")
    ] = None
    report: Annotated[
        str, typer.Option(help="Where the model's report is, for cards.")
    ] = ""
    max_characters: Annotated[int, typer.Option(min=1, help="Of a request.")] = 500_000
    seconds: Annotated[
        float, typer.Option(min=0.1, max=86_400, help="For a request.")
    ] = 60.0
    log_level: Annotated[str, typer.Option(help="debug, info or warning.")] = "info"


@one_line_errors
@takes_options
def serve(
    *,
    settings: ServiceSettings,
    host: Annotated[
        str, typer.Option(help="Others than this machine need --trust.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535)] = 8000,
    workers: Annotated[int, typer.Option(min=1, help="Processes.")] = 1,
    certificate: Annotated[Path | None, typer.Option(help="For TLS, PEM.")] = None,
    key: Annotated[Path | None, typer.Option(help="Of the certificate, PEM.")] = None,
) -> None:
    """Answer over HTTP: risks, entities and answers, CDS Hooks, and a page to try them."""
    if (
        sys.platform == "linux"
        and "serve" in sys.argv
        and "MALLOC_ARENA_MAX" not in os.environ
    ):
        # Read when a process starts: with an arena for each thread, memory grows for hours.
        few = os.environ | {"MALLOC_ARENA_MAX": "2"}
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], few)  # noqa: S606
    try:
        import uvicorn

        from domainbert.service.served import announced, find_kind
    except ModuleNotFoundError as error:
        raise UserError(f"no {error.name}: pip install 'domainbert[service]'") from None
    if host not in LOOPBACK and settings.trust is None:
        raise UserError(
            f"--host {host}: name the clients with --trust, or leave --host out"
        )
    for name in settings.model:  # before anything is loaded
        find_kind(name, announced())
    address = (
        settings.address.rstrip("/") or f"http{'s' * bool(certificate)}://{host}:{port}"
    )
    with tempfile.TemporaryDirectory(prefix="domainbert-") as work:
        os.environ[SETTINGS] = json.dumps(
            [asdict(replace(settings, address=address)), work]
        )
        if workers > 1:
            os.environ["PROMETHEUS_MULTIPROC_DIR"] = work
        say(f"loading {', '.join(settings.model)}; then open {address}")
        with suppress(
            KeyboardInterrupt
        ):  # a stop that was asked for, after the last answer
            uvicorn.run(
                "domainbert.service.app:application",
                factory=True,
                host=host,
                port=port,
                workers=workers,
                ssl_certfile=certificate,
                ssl_keyfile=str(key) if key else None,
                log_level=settings.log_level,
                log_config=None,
                access_log=False,
                limit_concurrency=1000,  # others get a 503
                timeout_keep_alive=75,  # seconds; longer than proxies keep an idle connection
                timeout_graceful_shutdown=int(settings.seconds + 5),
            )
