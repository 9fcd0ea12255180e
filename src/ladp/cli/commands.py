"""Every command in its place; a new one is one file and one line here."""

import sys

import typer

from ladp.cli import attack, audit, data, demo, ledger, listing, noise, privacy, report, run, tables
from ladp.errors import Problem
from ladp.version import VERSION

Unreadable = typer.BadParameter.__base__  # any command line that cannot be read; typer has no public name for it

app = typer.Typer(
    name="ladp",
    help="Federated learning with local, layer-wise differential privacy: train, see what it cost, and what is really guaranteed.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("run")(run.run)
app.command("resume")(run.resume)
app.command("audit")(audit.audit)
app.command("report")(report.report)
app.command("demo")(demo.demo)
app.command("list")(listing.show)
app.add_typer(privacy.app, name="privacy")
app.add_typer(attack.app, name="attack")
app.add_typer(noise.app, name="noise")
app.add_typer(ledger.app, name="ledger")
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


def call(arguments: list[str]) -> None:
    """Carry out a command line; one that cannot be read is a Problem like any other."""
    try:
        sys.exit(app(arguments, prog_name="ladp", standalone_mode=False))
    except Unreadable as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # nothing was asked for, and the help has been shown
            sys.exit(2)
        said, program = " ".join(error.format_message().split()), error.ctx.command_path if error.ctx else "ladp"
        raise Problem(f"{said.removesuffix('.')}{_given(error, arguments, said)} (see `{program} --help`)") from error


def _given(error: Exception, arguments: list[str], said: str) -> str:
    """The value that an option was given, where the message does not name it."""
    words = [part for word in arguments for part in word.split("=", 1)]
    options = getattr(getattr(error, "param", None), "opts", ())
    value = next((after for word, after in zip(words, words[1:]) if word in options), None)
    return "" if value is None or repr(value) in said else f", got {value!r}"
