"""Options of `bertsmith serve`: each field is one, and its docstring is the help.

Only --help-all shows options whose type is `Advanced`.
"""

from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Literal

import tyro

from bertsmith.commands.flags import parse_settings
from bertsmith.errors import ConfigError, SettingError, option
from bertsmith.serving.environment import check_sendable, parse_model_folders
from bertsmith.system.bounds import check_upper_limits
from bertsmith.system.compute import Advanced, InferenceCompute, is_installed

PACKAGES = ("starlette", "uvicorn", "msgspec", "orjson", "prometheus_client")
"""Packages that only this command needs."""
AT_LEAST_ONE = (
    "max_queue",
    "max_texts",
    "max_characters",
    "max_batch_tokens",
    "max_text_tokens",
    "max_body_bytes",
    "threads",
)
"""Settings that must be 1 or more, if they are given."""
OF_BENCH = ("texts", "seconds", "json")
"""Settings that have an effect only on a measurement by `--bench`, not on a server."""
OF_BOTH = ("models", "api_key", "bench")
"""Settings that `_check_use` leaves out: a server and a measurement both have a key, and models are
checked in `__post_init__`."""


@dataclass(frozen=True)
class Settings(InferenceCompute):
    """Serve models over HTTP, for any program that sends JSON.

    The routes are those of text-embeddings-inference, of huggingface_hub's InferenceClient, of
    OpenAI's embeddings and of Open Inference (v2). In a browser, the address shows a page.
    """

    models: tyro.conf.Positional[tuple[str, ...]] = ()
    """Model folders: DIR, or NAME=DIR to choose the name; a DIR alone is served under the folder's
    name."""
    host: str = "127.0.0.1"
    """Address to listen on; 0.0.0.0 lets other computers in."""
    port: int = 8080
    """Port to listen on; 0 takes a free one."""
    api_key: str | None = None
    """Key that a request has to send as `Authorization: Bearer KEY`, unless it asks for the page,
    its documentation, the state (/health) or /metrics. Default: the environment variable
    BERTSMITH_API_KEY."""
    pooling: Advanced[Literal["mean", "first_token", "pooler"] | None] = None
    """Serve vectors, also of models with a head, with this pooling: the mean over the tokens, the
    vector of [CLS] (first_token), or the pooler's output."""
    threads: int | None = None
    """Number of processor threads; by default one for each core that this process may use."""
    max_length: Advanced[int | None] = None
    """Maximum length of a text in tokens. Default: the model's."""
    max_queue: Advanced[int] = 2048
    """Number of texts, of all requests together, that may wait or be computed; more are refused
    (429)."""
    max_texts: Advanced[int] = 1024
    """Number of texts that one request may have; more are refused (413)."""
    max_characters: Advanced[int] = 2_000_000
    """Number of characters of the texts of one request, where a text counts once for each query,
    label or choice that it is read with; more are refused (413)."""
    max_batch_tokens: Advanced[int | None] = None
    """Number of tokens that the model computes together. Default: 1,536 for each thread."""
    max_text_tokens: Advanced[int] = 16_384
    """Number of tokens that a text may have where long texts are read in windows; more are refused
    (422)."""
    max_body_bytes: Advanced[int] = 2_000_000
    """Number of bytes that the body of a request may have; larger ones are refused (413)."""
    timeout: Advanced[float] = 60.0
    """Seconds after which a request that is not yet computed is refused (503)."""
    bench: str | None = None
    """Measure the server that runs at this URL, instead of serving: its throughput, its latency at
    50 % and 80 % of that rate, and what it does at 200 %. Give the URL of a route, such as
    http://127.0.0.1:8080/predict; without one it is /embed, for vectors."""
    texts: Advanced[Path | None] = None
    """Texts that --bench sends, one per line, or as .jsonl one body of a request per line.
    Default: sentences of 5 to 200 words that come with bertsmith."""
    seconds: Advanced[float] = 10.0
    """Seconds for which --bench sends requests at each rate; the whole takes six to nine times as
    long."""
    json: Advanced[bool] = False
    """Print the result of --bench as one JSON object."""

    def __post_init__(self) -> None:
        if missing := [name for name in PACKAGES if not is_installed(name)]:
            raise ConfigError(
                f"bertsmith serve needs {' and '.join(missing)}, which "
                f"{'is' if len(missing) == 1 else 'are'} not installed. Run: "
                "pip install 'bertsmith[serve]'."
            )
        if not self.host:  # the system would listen on all addresses
            allowed = "an address such as 127.0.0.1, or 0.0.0.0 to let other computers in"
            raise SettingError("host", self.host, allowed)
        if not 0 <= self.port <= 65_535:
            raise SettingError("port", self.port, "0 to 65535")
        check_upper_limits(self)
        for name in AT_LEAST_ONE:
            value = getattr(self, name)
            if value is not None and value < 1:
                raise SettingError(name, value, "1 or more")
        if not self.timeout > 0:
            raise SettingError("timeout", self.timeout, "a number of seconds above 0")
        if self.api_key == "":
            raise SettingError("api_key", self.api_key, "a key of one character or more")
        if self.bench is None and not self.models:
            raise ConfigError("Name a model folder to serve: bertsmith serve DIR.")
        if self.bench is not None and self.models:
            raise ConfigError(
                f"Give either model folders or {option('bench')}, not both: it measures a server "
                "that runs already."
            )
        self._check_use()
        if not self.seconds > 0:
            raise SettingError("seconds", self.seconds, "a number of seconds above 0")
        if self.api_key is not None:
            check_sendable(self.api_key, option("api_key"))
        parse_model_folders(self.models)

    def _check_use(self) -> None:
        """Check that each setting that is given has an effect.

        Raises:
            ConfigError: a setting of a server is given for a measurement, or the other way round.
        """
        is_bench = self.bench is not None
        for field in fields(self):
            if getattr(self, field.name) == field.default or field.name in OF_BOTH:
                continue
            if field.name in OF_BENCH and not is_bench:
                raise ConfigError(
                    f"{option(field.name)} has no effect without {option('bench')}, which measures "
                    "a server."
                )
            if field.name not in OF_BENCH and is_bench:
                raise ConfigError(
                    f"{option(field.name)} has no effect with {option('bench')}, which measures a "
                    f"server that runs already. Leave {option(field.name)} out."
                )


parse = partial(parse_settings, Settings)
