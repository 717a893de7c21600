"""What cells show in a real Jupyter kernel: one block while a model learns, and then tables."""

import os
from dataclasses import dataclass, field

import pytest
from html_tables import read_html
from tiny_models import reviews, save_tiny

pytest.importorskip("ipykernel", reason="no Jupyter kernel here: pip install ipykernel")
from jupyter_client import KernelManager
from jupyter_client.kernelspec import KernelSpecManager

pytestmark = pytest.mark.same_on_all_computers
START_SECONDS = 600
CELL_SECONDS = 600
STEPS = 12


@dataclass
class Cell:
    """The outputs of a cell as a notebook has them in the end, and all texts of its blocks."""

    streams: dict[str, str] = field(default_factory=dict)
    displays: dict[str, list[dict[str, str]]] = field(default_factory=dict)
    """Contents of each display, by its name, the one that is seen in the end last."""
    result: dict[str, str] | None = None
    error: str | None = None

    def receive(self, message):
        """Take what a kernel sends."""
        kind, content = message["msg_type"], message["content"]
        if kind == "stream":
            self.streams[content["name"]] = self.streams.get(content["name"], "") + content["text"]
        elif kind == "display_data":
            name = content["transient"].get("display_id", f"display {len(self.displays)}")
            assert name not in self.displays
            self.displays[name] = [content["data"]]
        elif kind == "update_display_data":
            self.displays[content["transient"]["display_id"]].append(content["data"])
        elif kind == "execute_result":
            self.result = content["data"]
        elif kind == "error":
            self.error = "\n".join(content["traceback"])


@pytest.fixture(scope="module")
def run_cell(tmp_path_factory):
    """Run cells in one kernel, which this Python starts."""
    folder = tmp_path_factory.mktemp("kernel")
    environment = {**os.environ, "IPYTHONDIR": str(folder / "ipython")}
    environment.pop("BERTSMITH_VERBOSE", None)
    manager = KernelManager(
        kernel_spec_manager=KernelSpecManager(kernel_dirs=[]),  # else that of another Python
        connection_file=str(folder / "kernel.json"),
    )
    with (folder / "log").open("w") as log:
        manager.start_kernel(cwd=folder, env=environment, stdout=log, stderr=log)
    client = manager.client()
    client.start_channels()

    def run(code):
        cell = Cell()
        client.execute_interactive(code, timeout=CELL_SECONDS, output_hook=cell.receive)
        assert cell.error is None, cell.error
        return cell

    try:
        client.wait_for_ready(timeout=START_SECONDS)
        yield run
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


@pytest.fixture(scope="module")
def fitting(run_cell, tmp_path_factory):
    """The cell in which a classifier learns; the kernel then has it, and its texts and labels."""
    model = save_tiny(tmp_path_factory.mktemp("model") / "m", "masked_lm")
    examples = reviews(24)
    settings = {"steps": STEPS, "threads": 1, "device": "cpu", "precision": "fp32", "verbose": 1}
    return run_cell(
        "import bertsmith\n"
        f"texts = {[example.text for example in examples]}\n"
        f"labels = {[example.label for example in examples]}\n"
        f"classifier = bertsmith.TextClassifier({str(model)!r}, **{settings})\n"
        "classifier.fit(texts, labels);"
    )


def test_a_run_is_one_block_that_ends_as_its_report(fitting):
    assert fitting.streams == {}
    (contents,) = fitting.displays.values()
    texts = [data["text/plain"] for data in contents]
    # Reading may be shown before the run begins, if it takes its time.
    begin = next(place for place, text in enumerate(texts) if text.startswith("Training on 1 CPU"))
    head = texts[begin].split("\n")[0]
    *running, report = texts[begin:]
    assert all(text.startswith(head) for text in running)
    assert any(f"step {STEPS} · classification loss " in text for text in running)
    assert any(f"step {STEPS} · eval: classification loss " in text for text in running)
    assert not any("trained on " in text for text in running)
    lines = report.split("\n")
    assert lines[0] == head
    assert lines[1].startswith("trained on 22 texts with 2 labels: ")
    assert any(line.startswith("accuracy  ") for line in lines)
    assert lines[-1].startswith("baseline  ")


def test_values_at_the_end_of_a_cell_are_tables(run_cell, fitting):
    assert fitting.error is None
    for code, figure, text in (
        ("classifier.evaluate(texts, labels)", "value.accuracy", "value"),
        ("classifier.predictor_(texts[0])", "value.probability", "repr(value)"),
        ("classifier.predictor_([texts[0]])", "value[0].probability", "repr(value)"),
        ("classifier.result_", "value.evaluation.accuracy", "value"),
    ):
        shown = run_cell(f"value = {code}\nvalue")
        assert shown.streams == {} and shown.displays == {}
        html = read_html(shown.result["text/html"])
        cells = [cell for table in html.tables for row in table for cell in row]
        assert shown.result["text/plain"] == run_cell(f"print({text})").streams["stdout"].rstrip()
        assert run_cell(f"print(f'{{{figure}:.4f}}')").streams["stdout"].strip() in cells
