"""The verb `train`. Its options are made from the fields of TrainingConfig; heavy modules are imported when it runs."""

from __future__ import annotations

import inspect
import json
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer
from typer.core import TyperCommand

from visual_dynamics.cli.options import chosen_device, progress_bar
from visual_dynamics.cli.results import Result
from visual_dynamics.data.names import check_data
from visual_dynamics.errors import UserError
from visual_dynamics.training.config import (
    AUGMENTATIONS,
    TrainingConfig,
    configure,
    parse_settings,
    read_config_file,
)
from visual_dynamics.training.recipes import RECIPES, find_recipe, read_stages, write_stages

if TYPE_CHECKING:
    import torch
    from rich.console import Console

    from visual_dynamics.training.loop import Moment

SETTINGS = [each for each in fields(TrainingConfig) if not each.metadata["flags"]]
FILLED_IN = ("start_digest", "recipe")  # by the program


def as_text(value: Any) -> str:
    """A value as it is written after --set NAME=."""
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    return " ".join(value) if isinstance(value, tuple) else str(value)


def settings_table() -> list[tuple[str, str]]:
    """What --set takes, and what it means."""
    shown = [each for each in SETTINGS if each.name not in FILLED_IN]
    return [(each.name, f"{each.metadata['help']}  [default: {as_text(each.default)}]") for each in shown]


def augmentations_table() -> list[tuple[str, str]]:
    """What --augment takes, and what it does."""
    return [
        (f"{name}={unit.upper()}" if unit else name, f"{text}.".capitalize())
        for name, (unit, text) in AUGMENTATIONS.items()
    ]


class GroupedCommand(TyperCommand):
    """Help with the options in groups, and tables of what --augment and --set take."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        groups: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            if record := parameter.get_help_record(ctx):
                usual = "Arguments" if parameter.param_type_name == "argument" else "Options"
                groups.setdefault(getattr(parameter, "rich_help_panel", None) or usual, []).append(record)
        groups |= {"--augment takes": augmentations_table(), "--set takes": settings_table()}
        for group, records in groups.items():
            with formatter.section(group):
                formatter.write_dl(records)


def _with_config_options(function: Callable[..., Result | None]) -> Callable[..., Result | None]:
    """Give a function with **given an option for each field of TrainingConfig that has flags."""
    types = get_type_hints(TrainingConfig)
    signature = inspect.signature(function, eval_str=True)
    own = [parameter for parameter in signature.parameters.values() if parameter.kind is not parameter.VAR_KEYWORD]
    for each in fields(TrainingConfig):
        if not (flags := each.metadata["flags"]):
            continue
        kind = list[str] if each.name == "augment" else types[each.name]
        default = "" if each.default is None else f"  [default: {as_text(each.default)}]"
        text = typer.Option(
            *flags,
            metavar="NAME" if each.name == "augment" else None,
            help=each.metadata["help"] + default,
            rich_help_panel=each.metadata["group"],
            show_default=False,
        )
        annotation = Annotated[kind | None, text]  # type: ignore[valid-type]
        own.append(inspect.Parameter(each.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation))
    function.__signature__ = signature.replace(parameters=own)  # type: ignore[attr-defined]
    return function


@_with_config_options
def train(
    out: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of the run: a new one, or one to resume.")],
    *,
    recipe: Annotated[
        str | None, typer.Option(help=f"A model as it was made, or is to be made: {', '.join(RECIPES)}.")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="Options from the config.json of a run.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Any setting, see below; may be repeated."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in the folder.")] = False,
    **given: Any,
) -> Result | None:
    """Train a network, alone or in several processes under torchrun. Without options: the released Shapes model."""
    chosen = {name: value for name, value in given.items() if value not in (None, [])} | parse_settings(settings or [])
    if "augment" in chosen:
        chosen["augment"] = tuple(name for name in chosen["augment"] if name != "none")
    beside = [f"--{name}" for name, value in (("recipe", recipe), ("config", config), ("set", settings)) if value]
    beside += [each.metadata["flags"][0] for each in fields(TrainingConfig) if given.get(each.name) not in (None, [])]
    if resume and beside:
        raise UserError(f"--resume goes on with the options that the run has: leave out {', '.join(beside)}")
    if recipe and config:
        raise UserError("give --recipe or --config, not both")
    stages: list[TrainingConfig] | None = None
    if recipe:
        stages = list(find_recipe(recipe).with_options(chosen | {"recipe": recipe}).stages)
    elif not resume:
        stages = [configure(chosen | {"recipe": None}, read_config_file(config) if config else None)]
    for stage in stages or ():
        for data in filter(None, (stage.data, stage.also)):
            check_data(data)
            check_prepared(Path(data))
        if stage.poses:
            from visual_dynamics.data.poses import read_poses

            read_poses(Path(stage.poses))  # mistakes in it come before torch is imported
    path, finished = run_stages(out, stages, chosen_device())
    if not path:  # of several processes the first one goes on
        return None
    if finished.recipe:
        path = write_copy(out, path, finished)
    typer.echo(f"weights in {path}", err=True)
    return Result("", {"weights": path})


def check_prepared(data: Path) -> None:
    """Damaged files of prepared videos are an error before anything else begins. The first time takes as long as to
    read them."""
    from visual_dynamics.data.shards import check_digests, holds_footage, listed_shards

    if holds_footage(data):
        with progress_bar("files checked") as progress:
            check_digests(data, listed_shards(data), progress)


def run_stages(
    folder: Path, stages: list[TrainingConfig] | None, device: torch.device
) -> tuple[Path | None, TrainingConfig]:
    """Train one stage after the other, each from the weights of the one before it; with None, resume them.

    Returns the last weights (None but in the first process of a run) and their configuration.
    """
    import torch
    from rich.console import Console

    from visual_dynamics.training.distributed import Processes
    from visual_dynamics.training.loop import stage_folder, train

    resume = stages is None
    stages = read_stages(folder) if stages is None else stages
    processes = Processes.start(device.type)
    console = Console(stderr=True, quiet=not processes.is_first, soft_wrap=True, highlight=False)
    path = folder
    try:
        if device.type == "cuda":
            device = torch.device("cuda", processes.local_rank if device.index is None else device.index)
            torch.cuda.set_device(device)
            torch.set_float32_matmul_precision("high")
            torch.backends.cudnn.benchmark = True
        # Several processes would hear of a signal at different steps: there the last checkpoint has to do.
        with interruption(console) if processes.count == 1 else nullcontext(lambda: False) as interrupted:
            for number, config in enumerate(stages, 1):
                place = stage_folder(folder, number, len(stages))
                begun = resume and bool(processes.agree_on(place.joinpath("config.json").exists()))
                compiled = device.type == "cuda" if config.compile is None else config.compile
                config = config if number == 1 else replace(config, start=str(path))

                def save_stages() -> None:
                    if processes.is_first and len(stages) > 1:
                        write_stages(folder, stages)

                with TrainingBar(console, config, save_stages) as bar:
                    path = train(None if begun else config, place, device, processes, compiled, bar.show, interrupted)
                if interrupted():
                    console.print(f"stopped; go on with: visual-dynamics train {folder} --resume", markup=False)
                    raise KeyboardInterrupt
    finally:
        processes.stop()
    return path if processes.is_first else None, stages[-1]


def write_copy(folder: Path, weights: Path, config: TrainingConfig) -> Path:
    """The copy of a recipe's model as it is shipped, NAME.safetensors in the folder."""
    from visual_dynamics.api import Model, load

    recipe = find_recipe(config.recipe or "")
    if recipe.prior:
        from visual_dynamics.cli.prior import learn_prior

        learn_prior(weights, config.data)
    model = load(weights)
    if recipe.carry_over:
        from visual_dynamics.footage.carry_over import with_codes_that_carry_over

        with progress_bar("images tried") as progress:
            model = Model(with_codes_that_carry_over(model, Path(config.data), progress=progress))
    path = folder / f"{config.recipe}.safetensors"
    model.save_copy(path, recipe.eight_bits, recipe.motion_encoder)
    return path


@contextmanager
def interruption(console: Console) -> Iterator[Callable[[], bool]]:
    """Turns the first Ctrl-C or SIGTERM into a flag that the loop reads between steps; a second one stops at once."""
    heard: list[int] = []

    def listen(number: int, _: object) -> None:
        heard.append(number)
        console.print("stopping after this step, with a checkpoint")
        for each, handler in before.items():
            signal.signal(each, handler)

    before = {number: signal.signal(number, listen) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(heard)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class TrainingBar:
    """The configuration, what the budget will reach, a bar that moves at every step, and the result in words.

    Where stderr is no terminal there is a line for every record of the log in place of the bar.
    """

    def __init__(self, console: Console, config: TrainingConfig, begin: Callable[[], None]) -> None:
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

        self.console, self.config, self.begin = console, config, begin
        # A transient bar leaves nothing behind: an error is one line, and comes alone where training has not begun.
        self.bar = Progress(console=console, transient=True, disable=not console.is_terminal)
        step, rest = TextColumn("{task.description}"), TextColumn("{task.fields[rest]}")  # rest: time left, terms
        self.bar.columns = (step, BarColumn(), TaskProgressColumn(), rest)
        self.task = self.bar.add_task("preparing", total=1.0, rest="")
        self.first: tuple[float, float] | None = None  # share and time of the first step
        self.numbers, self.held_out = "", ""

    def __enter__(self) -> TrainingBar:
        self.bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.bar.stop()
        if kind is None and self.held_out:
            self.console.print(self.held_out, markup=False)

    def show(self, moment: Moment) -> None:
        if self.first is None:
            from visual_dynamics.data.sources import validation_words
            from visual_dynamics.training.trainer import data_spec

            self.first = (moment.share, time.monotonic())
            self.console.print_json(json.dumps(self.config.to_dict()))
            if words := validation_words(data_spec(self.config, self.config.network.size)):
                self.console.print(words, markup=False)
            self.begin()
        if moment.pairs_per_second:
            self.console.print(forecast(self.config, moment.step, moment.pairs_per_second), markup=False)
        if record := moment.record:
            self._record(moment.share, record)
        share, since = moment.share - self.first[0], time.monotonic() - self.first[1]
        left = f"{in_words(since * (1 - moment.share) / share)} left  " if share > 0 else ""
        self.bar.update(
            self.task, completed=moment.share, description=f"step {moment.step:,}", rest=left + self.numbers
        )

    def _record(self, share: float, record: dict[str, float]) -> None:
        if "loss" in record:
            self.numbers = f"loss {record['loss']:.1f}  kl {record['kl']:.1f}  error {record['squared_error']:.2f}"
            self.numbers += f"  {record['pairs_per_second']:.0f} pairs/s"
            if not self.console.is_terminal:
                self.console.print(f"step {record['step']:.0f}  {100 * share:.0f}%  {self.numbers}")
        else:
            ours, copying = record["held_out_error"], record["held_out_copy_error"]
            self.held_out = f"held-out {ours:.1f}, copying {copying:.1f} (squared error of a frame)"
            if ours >= copying:
                self.held_out += ": no better than copying the input, train longer or on more pairs"


def forecast(config: TrainingConfig, step: int, speed: float) -> str:
    """What the budget reaches on this machine; speed in pairs a second."""
    pace = f"{speed:.{0 if speed >= 10 else 1}f} pairs a second on this machine"
    if config.minutes:
        return f"{pace}: {config.minutes:g} minutes reach about {config.minutes * 60 * speed / config.batch:,.0f} steps"
    end = min(config.steps or 0, config.stop or config.steps or 0)
    return f"{pace}: {end - step:,} more steps take about {in_words((end - step) * config.batch / speed)}"


def in_words(seconds: float) -> str:
    """A time in its two largest units: "2 h 5 min"."""
    whole = round(seconds)
    for unit, below, names in ((86_400, 3_600, ("d", "h")), (3_600, 60, ("h", "min")), (60, 1, ("min", "s"))):
        if whole >= unit:
            return f"{whole // unit} {names[0]} {whole % unit // below} {names[1]}"
    return f"{whole} s"
