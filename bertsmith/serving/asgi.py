"""The application for other ASGI servers, such as granian, which call a function to build it."""

import os
import shlex

from starlette.types import ASGIApp

from bertsmith.errors import ConfigError
from bertsmith.serving.app import create_app
from bertsmith.serving.engine_main import EngineSettings
from bertsmith.serving.environment import parse_model_folders, read_api_key
from bertsmith.serving.service import Service

MODELS = "BERTSMITH_SERVE"


def create_app_from_environment() -> ASGIApp:
    """Build the application for the models of `BERTSMITH_SERVE`, such as `films=runs/sentiment`.

    The models are loaded when the server starts the application. Each worker of the server has an
    engine of its own.

    Raises:
        ConfigError: no model is named, or a quote is not closed.
    """
    try:
        words = shlex.split(os.environ.get(MODELS, ""))
    except ValueError:
        raise ConfigError(
            f"The environment variable {MODELS} has a quote that is not closed. Quote a name as in "
            "a shell, such as 'films=my runs/sentiment'."
        ) from None
    if not words:
        raise ConfigError(
            f"The environment variable {MODELS} names no model. Give folders, such as "
            f"{MODELS}='films=runs/sentiment search=runs/encoder'."
        )
    service = Service(EngineSettings(models=parse_model_folders(words)))
    return create_app(service, api_key=read_api_key())
