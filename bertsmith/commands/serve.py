"""`bertsmith serve`: model folders → a server over HTTP."""

import socket
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial

from bertsmith.commands.output import print_json, print_note
from bertsmith.commands.settings.serve import Settings
from bertsmith.serving.bench import (
    TABLE_HEADING,
    complete_url,
    describe_bench,
    measure_server,
    read_bodies,
    table_row,
)
from bertsmith.serving.engine_main import EngineSettings
from bertsmith.serving.environment import parse_model_folders, read_api_key
from bertsmith.serving.load_generator import LoadResult
from bertsmith.serving.messages import ModelInfo
from bertsmith.serving.server import address_of, bind, run_server
from bertsmith.serving.service import Limits, Service
from bertsmith.system.cores import available_cores
from bertsmith.system.counts import count_noun
from bertsmith.system.stop_signal import exit_code, stopped_by


def main(settings: Settings, line: Sequence[str]) -> None:
    """Serve models until the process is stopped, or with --bench measure another server.

    `line`, the words of the command line, which every command gets, is not needed here.
    """
    api_key = read_api_key() if settings.api_key is None else settings.api_key
    if settings.bench is not None:
        _measure(complete_url(settings.bench), settings, api_key)
    else:
        _serve(settings, api_key)


def _measure(url: str, settings: Settings, api_key: str | None) -> None:
    """Measure the throughput and latency of a server that runs already, at several loads."""
    bodies = read_bodies(url, settings.texts)
    shown_loads: list[str] = []

    def show_load(name: str, load: LoadResult) -> None:
        if not shown_loads:  # the heading comes late, since the server may refuse the first text
            print_note(TABLE_HEADING)
        shown_loads.append(name)
        print_note(table_row(name, load))

    result = measure_server(
        url,
        bodies,
        settings.seconds,
        api_key=api_key,
        on_load=show_load,
    )
    if settings.json:
        print_json(asdict(result))
    else:
        print(*describe_bench(result), sep="\n")


def _serve(settings: Settings, api_key: str | None) -> None:
    """Serve models: this process speaks HTTP, and a second one, the engine, computes."""
    service = Service(
        EngineSettings(
            models=parse_model_folders(settings.models),
            device=settings.device,
            precision=settings.precision,
            threads=settings.threads,
            max_length=settings.max_length,
            pooling=settings.pooling,
            max_batch_tokens=settings.max_batch_tokens,
            max_text_tokens=settings.max_text_tokens,
        ),
        Limits(
            max_queue=settings.max_queue,
            max_texts=settings.max_texts,
            max_characters=settings.max_characters,
            max_body_bytes=settings.max_body_bytes,
            timeout_seconds=settings.timeout,
        ),
        log=print_note,
    )
    with bind(settings.host, settings.port) as listener:
        try:
            run_server(
                service,
                listener,
                api_key=api_key,
                timeout_seconds=settings.timeout,
                on_ready=partial(_print_address, service, listener, settings.precision),
            )
        except KeyboardInterrupt:
            # After a second Ctrl-C the server stops without finishing them.
            end = " It has finished the requests that ran." if service.is_stopping else ""
            print_note(f"The server was stopped by {stopped_by()}.{end}")
            raise SystemExit(exit_code()) from None


def _print_address(service: Service, listener: socket.socket, precision: str) -> None:
    models = "; ".join(
        f"{model.name}: {_describe_model(model, precision)}" for model in service.models.values()
    )
    print(f"{address_of(listener)} serves {models}", flush=True)


def _describe_model(model: ModelInfo, requested_precision: str) -> str:
    """Describe the task of a model, and its precision, device and threads."""
    precision = model.precision
    if requested_precision == "auto" and model.device_name == "cpu":
        reason = "bf16 is not clearly faster" if precision == "fp32" else "faster than fp32"
        precision += f" ({reason} here)"
    return f"{model.task}, {precision}, {_describe_threads(model)}"


def _describe_threads(model: ModelInfo) -> str:
    """Say how many threads compute a model on a CPU; for other devices, name the device."""
    if model.device_name != "cpu":
        return model.device_name
    threads = count_noun(model.num_threads, "thread")
    cores = available_cores()
    share = "one for each core" if model.num_threads == cores else f"of {count_noun(cores, 'core')}"
    return f"{threads} ({share})"
