"""The command `domainbert serve`, and its options as the settings of a service."""

import json
import os
import ssl
import tempfile
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated

from typer import Option

from domainbert.cli.console import one_line_errors, say
from domainbert.cli.options import PrecisionName, takes_options
from domainbert.errors import UserError, missing_extra
from domainbert.files import folder_beside

# The environment variable with the settings and the work folder, for worker processes.
SETTINGS = "DOMAINBERT_SERVICE"
# Named, not imported: it imports this module.
APPLICATION = "domainbert.service.app"
LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True, kw_only=True)
class ServiceSettings:
    """The options of a service, the same in every process."""

    model: Annotated[
        list[str],
        Option(
            help="A shipped model, a folder, or TASK=NAME; may be repeated. If two models have one "
            "task (--model now=A --model next=B), the second is scored in shadow."
        ),
    ]
    address: Annotated[
        str,
        Option(
            help="The public address of the service, if it is behind a proxy."
        ),
    ] = ""
    trust: Annotated[
        str | None, Option(help="TOML file of clients and their keys.")
    ] = None
    cors: Annotated[
        list[str] | None,
        Option(help="Origin of web pages that may call the service."),
    ] = None
    fhir: Annotated[
        list[str] | None,
        Option(
            help="FHIR server that may be read: HOST, or https://HOST:PORT."
        ),
    ] = None
    fhir_proxy: Annotated[
        str,
        Option(
            help="Proxy for FHIR servers; variables such as HTTPS_PROXY are ignored."
        ),
    ] = ""
    ledger: Annotated[
        str | None, Option(help="SQLite file of risks and feedback.")
    ] = None
    report: Annotated[
        str, Option(help="Address of the model's report, which cards link to.")
    ] = ""
    max_characters: Annotated[
        int,
        Option(min=1, help="Maximum characters of the texts of a request."),
    ] = 500_000
    seconds: Annotated[
        float, Option(min=0.1, max=86_400, help="Time limit of a request.")
    ] = 60.0
    log_level: Annotated[str, Option(help="debug, info or warning.")] = "info"
    precision: PrecisionName = "float32"


@one_line_errors
@takes_options
def serve(
    *,
    settings: ServiceSettings,
    host: Annotated[
        str,
        Option(
            help="Any address but localhost needs --trust, and --behind-proxy or --certificate."
        ),
    ] = "127.0.0.1",
    port: Annotated[int, Option(min=0, max=65535)] = 8000,
    workers: Annotated[int, Option(min=1, help="Number of processes.")] = 1,
    behind_proxy: Annotated[
        bool,
        Option(
            "--behind-proxy",
            help="Only a proxy can reach the service, and limits connections, times and sizes.",
        ),
    ] = False,
    certificate: Annotated[
        Path | None, Option(help="Certificate for TLS, PEM.")
    ] = None,
    key: Annotated[
        Path | None, Option(help="Private key of the certificate, PEM.")
    ] = None,
    check: Annotated[
        bool,
        Option("--check", help="Load and test everything, then exit."),
    ] = False,
) -> None:
    """Answer over HTTP: risks, entities and answers, CDS Hooks, and a page to try them."""
    try:
        import uvicorn

        from domainbert.service.served import announced, find_task
    except ModuleNotFoundError as error:
        raise missing_extra(error, "service") from None
    is_local = host in LOOPBACK and not behind_proxy
    if not (is_local or behind_proxy or certificate):
        raise UserError(
            f"--host {host}: others reach it through a proxy (--behind-proxy) or by TLS "
            "(--certificate, --key); leave --host out to answer this machine only"
        )
    if not is_local and settings.trust is None:
        raise UserError(
            "others can reach the service: name its clients with --trust"
        )
    # Wrong names are refused before anything is loaded.
    announced_tasks = announced()
    for name in settings.model:
        find_task(name, announced_tasks)
    scheme = "https" if certificate else "http"
    url_host = f"[{host}]" if ":" in host else host
    address = settings.address.rstrip("/") or f"{scheme}://{url_host}:{port}"
    settings = replace(settings, address=address)
    # The folder of a killed service is removed here.
    with folder_beside(
        Path(tempfile.gettempdir(), "domainbert"), private=True
    ) as work:
        _keep_folder(work)
        os.environ[SETTINGS] = json.dumps([asdict(settings), str(work)])
        # Compiled kernels of many shapes would be kept, and memory grow with the requests.
        os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "8")
        if workers > 1:
            os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(work)
        if check:
            _check(certificate, key)
            say(f"ready: {', '.join(settings.model)}")
            return
        reach = ""
        if is_local:
            reach = ", which only this machine can reach"
        say(f"loading {', '.join(settings.model)}; then open {address}{reach}")
        # After a request to stop, uvicorn raises it once the last response is sent.
        with suppress(KeyboardInterrupt):
            uvicorn.run(
                f"{APPLICATION}:application",
                factory=True,
                host=host,
                port=port,
                workers=workers,
                ssl_certfile=certificate,
                ssl_keyfile=key,
                log_level=settings.log_level,
                log_config=None,
                access_log=False,
                ws="none",  # a handshake would put its path in the log
                timeout_keep_alive=75,  # seconds; longer than proxies keep an idle connection
                forwarded_allow_ips="*" if behind_proxy else None,
                timeout_graceful_shutdown=int(settings.seconds + 5),
            )


def _check(certificate: Path | None, key: Path | None) -> None:
    """Do everything that a start does, and read the keys of all clients."""
    from uvicorn.importer import import_from_string

    if certificate:
        try:
            ssl.create_default_context(
                ssl.Purpose.CLIENT_AUTH
            ).load_cert_chain(
                certificate,
                key,
            )
        except OSError as error:  # of ssl, too
            raise UserError(f"{certificate}, {key}: {error}") from None
    faults = import_from_string(f"{APPLICATION}:faults")()
    if faults:
        raise UserError("; ".join(faults))


def _keep_folder(work: Path) -> None:
    """Lock the work folder: systemd's cleaner of old files leaves a locked folder alone."""
    with suppress(
        ImportError, OSError
    ):  # Windows; a file system without locks
        import fcntl

        fcntl.flock(os.open(work, os.O_RDONLY), fcntl.LOCK_SH)
