"""The command `domainbert serve`."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from domainbert.cli.console import one_line_errors, say
from domainbert.errors import UserError

_SETTINGS = "DOMAINBERT_SERVICE"  # how the workers learn what was asked for
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_GRACE_SECONDS = 5.0  # beside the time that a request may take


@one_line_errors
def serve(
    model: Annotated[
        list[str],
        typer.Option(help="Shipped name, folder or TASK=NAME of a model; may be repeated."),
    ],
    host: Annotated[str, typer.Option(help="Address to bind; others need --trust.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535)] = 8000,
    address: Annotated[
        str | None, typer.Option(help="Where clients find the service; by default host and port.")
    ] = None,
    trust: Annotated[
        Path | None, typer.Option(help="TOML file of the clients whose signed tokens are taken.")
    ] = None,
    cors: Annotated[
        list[str] | None, typer.Option(help="Origin of a page that may call; may be repeated.")
    ] = None,
    fhir: Annotated[
        list[str] | None,
        typer.Option(help="Host of a FHIR server that may be asked for notes; may be repeated."),
    ] = None,
    ledger: Annotated[
        Path | None, typer.Option(help="Keep risks and feedback in this SQLite file, without text.")
    ] = None,
    cache: Annotated[
        Path | None, typer.Option(help="Keep window scores in this file over restarts.")
    ] = None,
    report: Annotated[str, typer.Option(help="Where the report on the model is, for cards.")] = "",
    max_characters: Annotated[int, typer.Option(min=1, help="Of a request.")] = 500_000,
    max_records: Annotated[int, typer.Option(min=1, help="Records or notes of a request.")] = 1000,
    seconds: Annotated[float, typer.Option(help="Longest time for a request.")] = 60.0,
    workers: Annotated[int, typer.Option(min=1, help="Processes; each loads the models.")] = 1,
    certificate: Annotated[Path | None, typer.Option(help="TLS certificate, PEM.")] = None,
    key: Annotated[Path | None, typer.Option(help="Its private key, PEM.")] = None,
    log_level: Annotated[Literal["debug", "info", "warning"], typer.Option()] = "info",
) -> None:
    """Answer over HTTP: risks, entities and answers, CDS Hooks, and a page to try them."""
    try:
        import uvicorn

        from domainbert.service.app import ServiceSettings
    except ModuleNotFoundError as error:
        message = f"{error.name} is missing: pip install 'domainbert[service]'"
        raise UserError(message) from None
    from domainbert.service.served import announced, find_kind

    if host not in _LOOPBACK and trust is None:
        raise UserError(
            f"--host {host} can be reached from other machines: name the clients with --trust, "
            "or leave --host out"
        )
    for name in model:
        find_kind(name, announced())  # before anything is loaded
    scheme = "https" if certificate else "http"
    with tempfile.TemporaryDirectory(prefix="domainbert-") as work:
        settings = ServiceSettings(
            models=tuple(model),
            address=(address or f"{scheme}://{host}:{port}").rstrip("/"),
            work=work,
            trust=_text(trust),
            cors=tuple(cors or ()),
            fhir=tuple(fhir or ()),
            ledger=_text(ledger),
            cache=_text(cache),
            report=report,
            max_characters=max_characters,
            max_records=max_records,
            seconds=seconds,
            workers=workers,
        )
        options: dict[str, Any] = {
            "host": host,
            "port": port,
            "workers": workers,
            "ssl_certfile": certificate,
            "ssl_keyfile": key,
            "access_log": False,
            "log_config": None,
            "log_level": log_level,
            "server_header": False,
            "timeout_graceful_shutdown": int(seconds + _GRACE_SECONDS),
        }
        os.environ[_SETTINGS] = settings.model_dump_json()
        os.environ[f"{_SETTINGS}_LOG"] = log_level
        if workers > 1:
            os.environ["PROMETHEUS_MULTIPROC_DIR"] = work
        say(f"loading {', '.join(model)}; then open {settings.address}")
        with suppress(KeyboardInterrupt):  # a stop that was asked for, after the last answer
            uvicorn.run("domainbert.service.commands:application", factory=True, **options)


def application() -> Any:
    """The application of one process, as the environment says."""
    from domainbert.service.app import Service, ServiceSettings
    from domainbert.service.http import log_as_json

    log_as_json(os.environ[f"{_SETTINGS}_LOG"])
    return Service(ServiceSettings.model_validate_json(os.environ[_SETTINGS])).app


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path.resolve())
