"""The service beside its engine: limits on texts, and an engine that cannot go on."""

import asyncio
import json
import multiprocessing
import os
import signal
import time

import pytest
from model_server import TIMEOUT
from tiny_models import reviews, save_tiny

from bertsmith.serving import service as service_module
from bertsmith.serving.characters import estimate_tokens
from bertsmith.serving.engine_main import EngineSettings
from bertsmith.serving.problems import Problem
from bertsmith.serving.service import Limits, Service

pytestmark = pytest.mark.same_on_all_computers
TEXTS = [example.text for example in reviews(12)]


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    folder = save_tiny(tmp_path_factory.mktemp("encoder"))
    return EngineSettings(models={"m": folder}, device="cpu", precision="fp32", threads=1)


async def until(is_true):
    async with asyncio.timeout(TIMEOUT):
        while not is_true():
            await asyncio.sleep(0.01)


def test_places_are_given_back_when_the_engine_has_forgotten_the_request(settings):
    async def run():
        service = Service(settings, Limits(max_queue=len(TEXTS)))
        await service.start()
        try:
            records = [{"text": text} for text in TEXTS]
            with pytest.raises(Problem) as caught:
                await service.compute(
                    service.model(), "vectors", records, wait_for_hang_up=lambda: asyncio.sleep(0)
                )
            assert caught.value.status == 499
            assert service.admission.num_texts == len(TEXTS)
            await until(lambda: service.admission.num_texts == 0)
            answers = await service.compute(service.model(), "vectors", records)
            assert len(answers.predictions) == len(TEXTS)
            assert (service.admission.num_texts, service.admission.num_characters) == (0, 0)
            assert service.admission.waiting_time.seconds == 0
        finally:
            service.kill()

    asyncio.run(run())


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="stops a process by a signal")
def test_requests_that_arrive_during_a_batch_count_in_the_waiting_time(settings):
    """A request that is accepted is answered, also where a batch takes long."""

    async def run():
        service = Service(settings)
        await service.start()
        try:
            waiting = service.admission.waiting_time
            await until(lambda: waiting.latest.seconds_per_token > 0)
            num_tokens = estimate_tokens(len(TEXTS[0]), service.max_batch_tokens)
            service.admission.max_seconds = 3 * num_tokens * waiting.latest.seconds_per_token
            (engine,) = multiprocessing.active_children()
            os.kill(engine.pid, signal.SIGSTOP)
            requests = [
                asyncio.ensure_future(
                    service.compute(service.model(), "vectors", [{"text": TEXTS[0]}])
                )
                for _ in range(10)
            ]
            await until(lambda: sum(request.done() for request in requests) == 6)
            os.kill(engine.pid, signal.SIGCONT)
            results = await asyncio.gather(*requests, return_exceptions=True)
            refused = [result for result in results if isinstance(result, Problem)]
            assert [problem.status for problem in refused] == [429] * 6
            await until(lambda: waiting.seconds == 0)
        finally:
            service.kill()

    asyncio.run(run())


def test_an_engine_that_ends_just_before_the_server_stops_is_not_started_again(settings):
    lines = []

    async def run():
        service = Service(settings, log=lines.append)
        await service.start()
        (engine,) = multiprocessing.active_children()
        engine.kill()
        engine.join(TIMEOUT)
        time.sleep(0.2)  # the loop is held, while the thread that receives notices the end
        await service.stop()
        await asyncio.sleep(0.1)
        assert not multiprocessing.active_children()
        assert "stopping" in service.why_not_ready

    asyncio.run(run())
    assert lines == []


class ChangingService(Service):
    """A service in whose folder a file changes just after each of the first loads."""

    num_changes = 0

    def _new_engine(self):
        engine = super()._new_engine()
        start = engine.start

        async def start_while_files_change():
            ready = await start()
            if self.num_changes:
                self.num_changes -= 1
                folder = self.settings.models["m"] / "1_Pooling"
                folder.mkdir(exist_ok=True)
                settings = {"word_embedding_dimension": 24, "pooling_mode_cls_token": True}
                text = json.dumps(settings) + self.num_changes * "\n"
                (folder / "config.json").write_text(text)
            return ready

        engine.start = start_while_files_change
        return engine


@pytest.mark.parametrize("num_changes", [0, 1, 2])
def test_files_that_change_while_they_are_loaded_are_loaded_again(
    tmp_path, monkeypatch, num_changes
):
    monkeypatch.setattr(service_module, "MAX_LOADS", 2)
    folder = save_tiny(tmp_path / "encoder")
    settings = EngineSettings(models={"m": folder}, device="cpu", precision="fp32", threads=1)
    lines = []

    async def run():
        service = ChangingService(settings, log=lines.append)
        service.num_changes = num_changes
        try:
            await service.start()
            model = service.model()
            assert model.pooling == ("first_token" if num_changes else "mean")
            assert service.has_changed(model) == (num_changes == 2)
            answers = await service.compute(model, "vectors", [{"text": TEXTS[0]}])
            assert len(answers.predictions) == 1
        finally:
            service.kill()

    asyncio.run(run())
    assert len(lines) == num_changes
    assert all(line.startswith(f"m: files of {folder} changed while") for line in lines)


class ThreadlessService(Service):
    """A service that has no further thread for a new engine, as on a computer that is full."""

    num_engines = 0

    def _new_engine(self):
        engine = super()._new_engine()
        self.num_engines += 1

        async def start():
            raise RuntimeError("can't start new thread")

        if self.num_engines > 1:
            engine.start = start
        return engine


def test_a_server_gives_up_whatever_keeps_its_engine_from_starting(settings, monkeypatch, capfd):
    monkeypatch.setattr(service_module, "RESTART_PAUSES", (0.0, 0.1))
    sentences = []

    async def run():
        service = ThreadlessService(settings, log=lambda line: None)
        service.on_give_up = sentences.append
        await service.start()
        try:
            (engine,) = multiprocessing.active_children()
            engine.kill()
            await until(lambda: sentences)
        finally:
            service.kill()

    asyncio.run(run())
    assert sentences[0].startswith(
        "the process that computes could not start (can't start new thread), as it did 2 times"
    )
    assert "Traceback" in capfd.readouterr().err


def test_too_many_characters_are_refused(settings):
    async def run():
        service = Service(settings, Limits(max_characters=100))
        await service.start()
        try:
            records = [{"text": "a" * 40, "pair": "bb"}] * 3
            with pytest.raises(Problem) as caught:
                await service.compute(service.model(), "vectors", records, field="labels")
            assert caught.value.status == 413
            assert "labels: the texts have 126 characters" in caught.value.message
            assert "at most 100 in one request" in caught.value.message
            await service.compute(service.model(), "vectors", records[:2])
        finally:
            service.kill()

    asyncio.run(run())


class Unreadable:
    """An object that can be sent, but not received."""

    def __reduce__(self):
        return int, ("no number",)


@pytest.mark.parametrize("value", [lambda: 0, Unreadable()], ids=["not sent", "not received"])
def test_a_message_that_gets_lost_is_the_end_of_the_engine(settings, capfd, value):
    lines = []

    async def run():
        service = Service(settings, log=lines.append)
        await service.start()
        try:
            answer = asyncio.ensure_future(
                service.compute(service.model(), "vectors", [{"text": "a", "never": value}])
            )
            with pytest.raises(Problem) as caught:
                await answer
            assert caught.value.status == 503
            assert service.admission.num_texts == 0
            await until(lambda: service.is_ready)
            await service.compute(service.model(), "vectors", [{"text": "a"}])
        finally:
            service.kill()

    asyncio.run(run())
    assert lines == ["the process that computes has ended; it is started again."]
    assert "Traceback" in capfd.readouterr().err
