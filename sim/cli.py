"""The command line: reads what is asked, calls what answers it, prints. No logic of its own."""

import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from sim import options
from sim.errors import LimitError, ScenarioError
from sim.outcome import guarded, nowhere, print_json, say, telling_of_output, terminate

if TYPE_CHECKING:
    from sim.experiment import Plan
    from sim.record.result import Result

app = typer.Typer(
    name="headway",
    help="A laboratory for one question about an LLM server: when requests come in together, who goes first, "
    "and what does that cost everybody else?",
    epilog="Exit codes: 0 done, 1 a bug (verify: the record is wrong), 2 bad input, 3 could not finish, "
    "4 output could not be written, 130/143 interrupted.",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


# Options are lists of texts, so that one given twice, empty or ill-formed is refused here and not taken silently.
Many = list[str] | None
ScenarioName = Annotated[str, typer.Argument(metavar="SCENARIO", help="A TOML file, or the name of a ready scenario.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]


@telling_of_output()
def _load_plugins(context: typer.Context, given: list[str] | None) -> list[str] | None:
    """Plug-ins are there, and watched, until the command ends; then they are gone."""
    from sim import plugins
    from sim.guard import MAX_SECONDS

    for problem in plugins.load_installed():
        say(f"note: {problem}")
    seconds = options.decimal("--plugin-seconds", context.params.get("plugin_seconds"))
    if seconds is not None and not 0 < seconds <= MAX_PLUGIN_SECONDS:
        raise ScenarioError(f"--plugin-seconds {seconds}: out of range; above 0, at most {MAX_PLUGIN_SECONDS}")
    paths = options.several("--plugin", given)
    if paths or plugins.installed():
        context.with_resource(plugins.loaded(paths, MAX_SECONDS if seconds is None else float(seconds)))
    return given


MAX_PLUGIN_SECONDS = 10**6
PluginSeconds = Annotated[
    Many, typer.Option("--plugin-seconds", metavar="X", is_eager=True, help="Most for one call of a plug-in; 10.")
]
Plugins = Annotated[
    Many, typer.Option("--plugin", metavar="FILE", callback=_load_plugins, help="A file of your own; may be repeated.")
]


@app.command()
@telling_of_output()
def run(
    scenario: ScenarioName,
    policy: Annotated[Many, typer.Option(metavar="P[,P…]|both|all", help="Policies to compare.")] = None,
    chunk: Annotated[Many, typer.Option(metavar="N", help="scheduler.chunk_tokens.")] = None,
    overhead_ms: Annotated[Many, typer.Option(metavar="X", help="device.job_ms.")] = None,
    seed: Annotated[Many, typer.Option(metavar="N", help="run.seed.")] = None,
    max_jobs: Annotated[Many, typer.Option(metavar="N", help="run.max_jobs: stop after so many.")] = None,
    max_seconds: Annotated[Many, typer.Option(metavar="X", help="run.max_seconds: of computing.")] = None,
    set_: Annotated[Many, typer.Option("--set", metavar="TABLE.KEY=VALUE", help="Any key; may be repeated.")] = None,
    variant: Annotated[Many, typer.Option(metavar="NAME", help="Only this variant; may be repeated.")] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse input of which any request can't be served.")
    ] = False,
    check: Annotated[bool, typer.Option("--check", help="Count all blocks at every decision.")] = False,
    output: Annotated[Many, typer.Option(metavar="FILE.json|DIR", help="Where to write the result.")] = None,
    save_workload: Annotated[
        Many, typer.Option(metavar="FILE", help="Write the workload that the run met: a trace of format headway.")
    ] = None,
    allow_empty: Annotated[bool, typer.Option("--allow-empty", help="A trace without requests is no error.")] = False,
    lang: Annotated[Many, typer.Option(metavar="en|zh", help="Language; default from the locale.")] = None,
    plugin_seconds: PluginSeconds = None,
    plugin: Plugins = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Simulate a scenario and compare its policies."""
    from sim import experiment, footprint, load
    from sim.analysis import overload
    from sim.record import write

    language = options.language(lang)
    target, saved = options.once("--output", output), options.once("--save-workload", save_workload)
    overrides = options.overrides(set_, {
        "workload.trace.allow_empty": allow_empty or None,
        "scheduler.chunk_tokens": options.integer("--chunk", chunk),
        "device.job_ms": options.decimal("--overhead-ms", overhead_ms),
        "run.seed": options.integer("--seed", seed),
        "run.max_jobs": options.integer("--max-jobs", max_jobs),
        "run.max_seconds": options.decimal("--max-seconds", max_seconds),
    })  # fmt: skip
    with options.by_their_names(set_):
        base = load(scenario, overrides=overrides)
    policies = options.once("--policy", policy)
    plans = experiment.plan(base, policies, options.several("--variant", variant))
    for note in [*(experiment.skipped(base) if policies == "all" else ()), *experiment.notes(plans)]:
        say(f"note: {note}")
    if strict and (rejections := [line for plan in plans for line in plan.rejections()]):
        raise ScenarioError(*rejections)
    if target is not None:
        write.check_writable(target)
    keep = _keeping(saved)
    footprint.check(base.workload.stated)
    results = _simulated(plans, language, target, check=check)
    keep(results)
    _show(results, as_json, language)
    for note in [*experiment.loads(plans, results), *experiment.remarks(results), *overload.warnings(results)]:
        say(f"note: {note}")
    for place in filter(None, (target, saved)):
        say(f"written: {place}")


@app.command()
@telling_of_output()
def verify(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A result: a JSON file or a folder.")],
    inject: Annotated[Many, typer.Option(metavar="NAME|all", help="First damage a copy in memory.")] = None,
    decisions: Annotated[bool, typer.Option("--decisions", help="Make all decisions again, however many.")] = False,
    plugin_seconds: PluginSeconds = None,
    plugin: Plugins = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Check a result from its own record: exit 0 consistent, 1 wrong, 2 not a result."""
    from sim.analysis import verify as analysis

    fault = options.once("--inject", inject)
    report = analysis.verify(path, decisions=decisions) if fault is None else analysis.verify_injected(path, fault)
    print_json(report.to_dict()) if as_json else print("\n".join(report.lines()))
    raise typer.Exit(0 if report.ok else 1)


@app.command()
@telling_of_output()
def trace(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A trace; plain, gzip or zstd.")],
    format_: Annotated[Many, typer.Option("--format", metavar="F", help="Its format; default by its content.")] = None,
    unit: Annotated[Many, typer.Option(metavar="s|ms|us|ns|iso", help="Of its times.")] = None,
    limit: Annotated[Many, typer.Option(metavar="N", help="Take at most so many rows.")] = None,
    skip: Annotated[Many, typer.Option(metavar="N", help="Leave out so many rows at the start.")] = None,
    thin: Annotated[Many, typer.Option(metavar="X", help="Share of the rows that is kept, at random.")] = None,
    loop: Annotated[Many, typer.Option(metavar="N", help="Passes, one after the other.")] = None,
    speedup: Annotated[Many, typer.Option(metavar="X", help="Divides the times between arrivals.")] = None,
    seed: Annotated[Many, typer.Option(metavar="N", help="run.seed, for --thin.")] = None,
    set_: Annotated[
        Many, typer.Option("--set", metavar="KEY=VALUE", help="Any key workload.trace.KEY; may be repeated.")
    ] = None,
    allow_empty: Annotated[bool, typer.Option("--allow-empty", help="A trace without requests is no error.")] = False,
    to: Annotated[Many, typer.Option("--to", metavar="FORMAT", help="Write another format to --output.")] = None,
    output: Annotated[Many, typer.Option(metavar="FILE", help="Where to write it; must not exist.")] = None,
    lang: Annotated[Many, typer.Option(metavar="en|zh", help="Language; default from the locale.")] = None,
    plugin_seconds: PluginSeconds = None,
    plugin: Plugins = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Show what is in a trace, and what a reader might get wrong; --to writes it in another format."""
    from sim import load
    from sim.analysis import traced

    language = options.language(lang)
    target, wanted = options.once("--output", output), options.once("--to", to)
    if (target is None) != (wanted is None):
        raise ScenarioError("--to and --output: only together; --to FORMAT --output FILE")
    if wanted is not None:
        traced.check_format(wanted)
    overrides = options.overrides(set_, {
        "workload.trace.format": options.once("--format", format_),
        "workload.trace.unit": options.once("--unit", unit),
        "workload.trace.limit": options.integer("--limit", limit),
        "workload.trace.skip": options.integer("--skip", skip),
        "workload.trace.thin": options.decimal("--thin", thin),
        "workload.trace.loop": options.integer("--loop", loop),
        "workload.trace.speedup": options.decimal("--speedup", speedup),
        "run.seed": options.integer("--seed", seed),
    })  # fmt: skip
    table = {"path": str(file.absolute()), **({"allow_empty": True} if allow_empty else {})}
    with options.by_their_names(set_):
        scenario = load({"schema": 1, "name": "trace", "workload": {"trace": table}}, overrides=overrides)
    report = traced.report(scenario)
    lost: list[str] = []
    if wanted is not None and target is not None:
        lost = traced.convert(report.workload, wanted, Path(target), file)
    if as_json:
        print_json(report.to_dict() | {"written": None if target is None else {"path": target, "lost": lost}})
    else:
        from sim.report.trace import lines

        print("\n".join(lines(report, lang=language, encoding=sys.stdout.encoding)))
    for loss in lost:
        say(f"note: --to {wanted}: {loss}")
    if target is not None:
        say(f"written: {target}")


@app.command()
@telling_of_output()
def theory(
    scenario: ScenarioName,
    replications: Annotated[Many, typer.Option(metavar="N", help="Independent runs; default 8.")] = None,
    requests: Annotated[Many, typer.Option(metavar="N", help="workload.count: requests of each run.")] = None,
    policy: Annotated[Many, typer.Option(metavar="P", help="scheduler.policy.")] = None,
    seed: Annotated[Many, typer.Option(metavar="N", help="run.seed: of the first run; the others follow.")] = None,
    set_: Annotated[Many, typer.Option("--set", metavar="TABLE.KEY=VALUE", help="Any key; may be repeated.")] = None,
    lang: Annotated[Many, typer.Option(metavar="en|zh", help="Language; default from the locale.")] = None,
    plugin_seconds: PluginSeconds = None,
    plugin: Plugins = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Which exact results apply to a scenario, and whether its simulation agrees with them."""
    from sim import footprint, load
    from sim.analysis.theory import examine
    from sim.report import theory as report

    language = options.language(lang)
    runs = options.integer("--replications", replications)
    overrides = options.overrides(set_, {
        "workload.count": options.integer("--requests", requests),
        "scheduler.policy": options.once("--policy", policy),
        "run.seed": options.integer("--seed", seed),
    })  # fmt: skip
    with options.by_their_names(set_):
        base = load(scenario, overrides=overrides)
    footprint.check(base.workload.stated)
    runs = examine.checked(examine.DEFAULT_REPLICATIONS if runs is None else runs, base.workload.stated)
    say(examine.estimate(base, runs))
    found = examine.examine(base, runs)
    print_json(found.to_dict()) if as_json else report.show(found, lang=language)


@app.command("list")
@telling_of_output()
def list_(
    plugin_seconds: PluginSeconds = None, plugin: Plugins = None, as_json: AsJson = False, debug: Debug = False
) -> None:
    """List the ready scenarios with their claims, and what plug-ins bring."""
    from sim import gallery, plugins, scenario

    ready = [{"name": name, "claim": scenario.load(gallery.path(name)).claim} for name in gallery.names()]
    brought = plugins.registered() if plugin or plugins.installed() else []
    own = [{"kind": kind, "name": name, "file": source.file, "line": source.line} for kind, name, source in brought]
    if as_json:
        print_json({"scenarios": ready, **({"plugins": own} if own else {})})
        return
    width = max(len(entry["name"]) for entry in ready)
    for entry in ready:
        print(f"{entry['name']:{width}}  {entry['claim']}")
    for each in brought:
        print(f"{each.kind} {each.name}: {each.source.at()}")


@app.command()
@telling_of_output()
def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its name; NAME.toml is written here.")],
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Write a commented scenario to start from."""
    from sim import template

    path = template.write(name)
    print_json({"path": str(path)}) if as_json else print(f"{path}: run it with `headway run {path}`")


@app.command()
@telling_of_output()
def schema(plugin_seconds: PluginSeconds = None, plugin: Plugins = None, debug: Debug = False) -> None:
    """Print the JSON Schema of a scenario, for editors."""
    from sim.scenario import schema_json

    print_json(schema_json())


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """The command: never raises but ``SystemExit``, with the exit code of the help's last lines."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    sys.stdout, sys.stderr = sys.stdout or nowhere(), sys.stderr or nowhere()  # None: closed by who started us
    signal.signal(signal.SIGTERM, terminate)
    sys.exit(guarded(lambda: app(given, prog_name="headway", standalone_mode=False), "--debug" in given))


def _keeping(target: str | None) -> "Callable[[Sequence[Result]], None]":
    """What saves the workload that the runs met; nothing without a place for it, which is looked at now."""
    if target is None:
        return lambda _: None
    from sim.analysis import traced

    traced.check_saving(Path(target))

    def keep(results: "Sequence[Result]") -> None:
        for note in traced.save_workload([result.record.workload for result in results], Path(target)):
            say(f"note: {note}")

    return keep


def _simulated(plans: "Sequence[Plan]", language: str, target: str | None, *, check: bool) -> "list[Result]":
    """The results, saved where they are to be; when a limit stops one, up to there."""
    from sim.record import write

    results: list[Result] = []
    try:
        for plan in plans:
            results.append(_with_progress(plan, language, check))  # noqa: PERF401  # what is done stays when one stops
    except LimitError as error:
        if target is not None and error.result is not None:
            write.save_all([*results, error.result], target)
            say(f"written: {target}, up to where it was stopped and marked as incomplete")
        raise
    if target is not None:
        write.save_all(results, target)
    return results


def _with_progress(plan: "Plan", language: str, check: bool) -> "Result":
    from sim.report.progress import progress

    with progress(plan.name, language) as monitor:
        return plan.run([monitor], check=check)


def _show(results: "Sequence[Result]", as_json: bool, language: str) -> None:
    if as_json:
        from sim.record import json_form

        sys.stdout.writelines(json_form.text(json_form.document(results)))
        print()
        return
    from sim.report import table

    table.show(results, lang=language)
