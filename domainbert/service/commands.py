"""The command `domainbert serve`."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import tempfile
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from domainbert.cli.console import one_line_errors, say
from domainbert.errors import UserError

_SETTINGS = "DOMAINBERT_SERVICE"  # how the workers learn what was asked for
_LINGER_SECONDS = 1.0  # for requests that are on their way at the end
_CONNECTIONS = 1000  # at a time; others get a 503


@one_line_errors
def serve(
    model: Annotated[list[str], typer.Option(help="Shipped name, folder or TASK=NAME; several.")],
    host: Annotated[str, typer.Option(help="Others than this machine need --trust.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535)] = 8000,
    address: Annotated[str, typer.Option(help="Where clients find it, behind a proxy.")] = "",
    trust: Annotated[Path | None, typer.Option(help="TOML file of clients with tokens.")] = None,
    cors: Annotated[list[str] | None, typer.Option(help="Origin of a page that may call.")] = None,
    fhir: Annotated[list[str] | None, typer.Option(help="FHIR host that may be asked.")] = None,
    ledger: Annotated[Path | None, typer.Option(help="SQLite file for risks, feedback.")] = None,
    report: Annotated[str, typer.Option(help="Where the model's report is, for cards.")] = "",
    max_characters: Annotated[int, typer.Option(min=1, help="Of a request.")] = 500_000,
    seconds: Annotated[float, typer.Option(help="Longest time for a request.")] = 60.0,
    workers: Annotated[int, typer.Option(min=1, help="Processes.")] = 1,
    certificate: Annotated[Path | None, typer.Option(help="For TLS, PEM.")] = None,
    key: Annotated[Path | None, typer.Option(help="Of the certificate, PEM.")] = None,
    log_level: Annotated[str, typer.Option(help="debug, info or warning.")] = "info",
) -> None:
    """Answer over HTTP: risks, entities and answers, CDS Hooks, and a page to try them."""
    try:
        import uvicorn

        from domainbert.service.app import ServiceSettings
        from domainbert.service.http import LOOPBACK
        from domainbert.service.served import announced, find_kind
    except ModuleNotFoundError as error:
        raise UserError(f"no {error.name}: pip install 'domainbert[service]'") from None
    if host not in LOOPBACK and trust is None:
        why = "others can reach it: name the clients with --trust, or leave --host out"
        raise UserError(f"--host {host}: {why}")
    for name in model:  # before anything is loaded
        find_kind(name, announced())
    with tempfile.TemporaryDirectory(prefix="domainbert-") as work:
        settings = ServiceSettings(
            models=tuple(model),
            address=address.rstrip("/") or f"http{'s' * bool(certificate)}://{host}:{port}",
            work=work,
            cors=tuple(cors or ()),
            fhir=tuple(fhir or ()),
            report=report,
            max_characters=max_characters,
            seconds=seconds,
            trust=str(trust.resolve()) if trust else None,
            ledger=str(ledger.resolve()) if ledger else None,
        )
        os.environ |= {_SETTINGS: settings.model_dump_json(), f"{_SETTINGS}_LOG": log_level}
        if workers > 1:
            os.environ["PROMETHEUS_MULTIPROC_DIR"] = work
        more: dict[str, Any] = {"ssl_certfile": certificate, "ssl_keyfile": key}
        more |= {"host": host, "port": port, "workers": workers, "limit_concurrency": _CONNECTIONS}
        more |= {"access_log": False, "log_config": None, "log_level": log_level, "factory": True}
        more["timeout_graceful_shutdown"] = int(seconds + 5)
        more["timeout_keep_alive"] = 75  # seconds; longer than proxies keep an idle connection
        say(f"loading {', '.join(model)}; then open {settings.address}")
        with suppress(KeyboardInterrupt):  # a stop that was asked for, after the last answer
            uvicorn.run("domainbert.service.commands:application", **more)


def application() -> Any:
    """The application of one process, as the environment says."""
    from domainbert.service.app import Service, ServiceSettings

    _stop_gently()
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.root.handlers[:] = [handler]
    logging.root.setLevel(os.environ[f"{_SETTINGS}_LOG"].upper())
    return Service(ServiceSettings.model_validate_json(os.environ[_SETTINGS])).app


class JsonLines(logging.Formatter):
    """Log records as JSON lines; of an exception only its type and place."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        from domainbert.service.http import where

        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {"time": moment, "level": record.levelname.lower(), "event": record.getMessage()}
        error = record.exc_info[1] if record.exc_info else None
        return json.dumps(line | getattr(record, "facts", {}) | (where(error) if error else {}))


def _stop_gently() -> None:
    """Make uvicorn answer, at its end, what it accepted and has not read yet."""
    import uvicorn

    from domainbert.service.http import STOPPING

    plain = uvicorn.Server.shutdown

    async def shutdown(server: uvicorn.Server, sockets: Any = None) -> None:
        STOPPING.set()
        for listening in server.servers:
            listening.close()
        await asyncio.sleep(_LINGER_SECONDS)
        await plain(server, sockets)

    uvicorn.Server.shutdown = shutdown  # type: ignore[assignment, method-assign]
