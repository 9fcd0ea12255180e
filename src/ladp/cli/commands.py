"""Every command in its place; a new one is one file and one line here."""

import typer

from ladp.cli import attack, audit, data, demo, ledger, listing, noise, privacy, report, run, tables
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
