"""The command line: every refusal is one line on stderr and exit code 2."""

import os
import sys

import typer

from ladp.cli import data, demo, listing, noise, privacy, report, run, tables
from ladp.errors import Problem
from ladp.version import VERSION

app = typer.Typer(
    name="ladp",
    help="Federated learning with local, layer-wise differential privacy: train, see what it cost, and what is really guaranteed.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("run")(run.run)
app.command("resume")(run.resume)
app.command("report")(report.report)
app.command("demo")(demo.demo)
app.command("list")(listing.show)
app.add_typer(privacy.app, name="privacy")
app.add_typer(noise.app, name="noise")
app.add_typer(data.app, name="data")
app.add_typer(tables.app, name="tables")


@app.callback(invoke_without_command=True)
def options(
    version: bool = typer.Option(False, "--version", help="Print the version and stop."),
    debug: bool = typer.Option(False, "--debug", help="Show the traceback of an error."),
) -> None:
    """Federated learning with local, layer-wise differential privacy: train, see what it cost, and what is really guaranteed."""
    if version:
        print(f"ladp {VERSION}")
        raise typer.Exit


def main() -> None:
    """Run the command line; `--debug` may stand anywhere and shows tracebacks."""
    arguments = [a for a in sys.argv[1:] if a != "--debug"]
    debug = len(arguments) < len(sys.argv) - 1
    try:
        app(arguments, prog_name="ladp")
    except Problem as problem:
        _stop(f"error: {problem}", 2, debug)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except KeyboardInterrupt:
        _stop("interrupted", 130, debug)
    except MemoryError:
        _stop("error: out of memory: take fewer active clients, a smaller batch or fewer --workers", 2, debug)
    except OSError as error:
        _stop(f"error: {error.filename or 'a file'}: {error.strerror or error}", 2, debug)


def _stop(line: str, code: int, debug: bool) -> None:
    if debug:
        raise  # noqa: PLE0704 - called from an except clause
    print(line, file=sys.stderr)
    sys.exit(code)
