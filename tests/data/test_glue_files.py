"""GLUE's folders are found whatever is there, and every file is read as the benchmark has it."""

import pytest
from refusals import refuses

from bertsmith.data.examples import ExampleReader
from bertsmith.data.glue import GLUE_TASKS, find_tasks, iter_test_examples
from bertsmith.errors import ConfigError, InputError

# First rows as the benchmark's own files have them, with invented texts.
TRAIN = {
    "CoLA": ["gj04\t1\t\tShe \"ran.", "gj04\t0\t*\tRan she."],
    "SST-2": ["sentence\tlabel", "good \t1", "bad \t0"],
    "MRPC": ["Quality\t#1 ID\t#2 ID\t#1 String\t#2 String", '1\t7\t8\ta "b\tc', "0\t7\t8\td\te"],
    "STS-B": [
        "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore",
        "0\tg\tf\ty\t1\tnone\tnone\ta\tb\t5.000",
    ],
    "QQP": ["id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate", "1\t2\t3\ta?\tb?\t0"],
    "MNLI": [
        "index\tpromptID\tpairID\tgenre\tsentence1_binary_parse\tsentence2_binary_parse\t"
        "sentence1_parse\tsentence2_parse\tsentence1\tsentence2\tlabel1\tgold_label",
        "0\t1\t1n\tg\tp\tp\tp\tp\ta\tb\tneutral\tneutral",
    ],
    "QNLI": ["index\tquestion\tsentence\tlabel", "0\ta?\tb\tnot_entailment"],
    "RTE": ["index\tsentence1\tsentence2\tlabel", "0\ta\tb\tentailment"],
    "WNLI": ["index\tsentence1\tsentence2\tlabel", "0\ta\tb\t1"],
}  # fmt: skip


def write(folder, name, rows):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("\n".join(rows) + "\n", encoding="utf-8")
    return folder / name


@pytest.fixture
def root(tmp_path):
    for name, rows in TRAIN.items():
        write(tmp_path / name, "train.tsv", rows)
    for task in GLUE_TASKS:
        for file, _ in task.dev or (("dev.tsv", task.name),):
            write(tmp_path / task.name, file, TRAIN[task.name])
    return tmp_path


def test_every_task_is_found_and_read(root):
    found = find_tasks(root)
    assert [each.task for each in found] == list(GLUE_TASKS)
    for each in found:
        for path in (each.train, *(path for path, _ in each.dev_files())):
            reader = ExampleReader(path, each.task.columns)
            examples = reader.read()
            assert reader.num_skipped == 0
            assert len(examples) == len(TRAIN[each.task.name]) - (each.task.name != "CoLA")
            assert (examples[0].pair is None) == (each.task.name in ("CoLA", "SST-2"))
    by_name = {each.task.name: each for each in found}
    first = ExampleReader(by_name["CoLA"].train, by_name["CoLA"].task.columns).read()[0]
    assert (first.text, first.label) == ('She "ran.', "1")
    assert [name for _, name in by_name["MNLI"].dev_files()] == ["MNLI-m", "MNLI-mm"]


def test_only_what_is_complete_is_found(root):
    (root / "RTE" / "dev.tsv").unlink()
    (root / "SST-2").rename(root / "sst2")
    names = [each.task.name for each in find_tasks(root)]
    assert names == [task.name for task in GLUE_TASKS if task.name != "RTE"]
    assert [each.task.name for each in find_tasks(root, ["mrpc", "CoLA"])] == ["CoLA", "MRPC"]
    with refuses(InputError, f"{root}:", "RTE", "train.tsv and dev.tsv", "CoLA, SST-2"):
        find_tasks(root, ["RTE"])
    with refuses(ConfigError, "--tasks:", "'SNLI'", "CoLA, SST-2"):
        find_tasks(root, ["SNLI"])
    with refuses(InputError, "MRPC:", "train.tsv and dev.tsv"):
        find_tasks(root / "MRPC")


def test_test_files_are_found_and_read(root):
    write(root / "CoLA", "test.tsv", ["index\tsentence", "0\tShe ran.", "1\t"])
    write(root / "MNLI", "test_matched.tsv", ["index\tsentence1\tsentence2", "9\ta\tb"])
    write(root / "diagnostic", "diagnostic.tsv", ["index\tsentence1\tsentence2", "0\ta\tb"])
    found = {each.task.name: each for each in find_tasks(root)}
    assert [name for _, name in found["MNLI"].test_files()] == ["MNLI-m", "AX"]
    assert found["RTE"].test_files() == []
    ((path, _),) = found["CoLA"].test_files()
    rows = list(iter_test_examples(path, found["CoLA"].task.test_columns))
    assert [(e.label, e.text, e.pair) for e in rows] == [("0", "She ran.", None), ("1", "", None)]


@pytest.mark.parametrize("header", ["index\ttext", "index\tsentence\tsentence"])
def test_advice_on_a_test_file_names_no_option_as_there_is_none(tmp_path, header):
    path = write(tmp_path, "test.tsv", [header, header])
    with refuses(InputError, "'sentence'", "Rename") as caught:
        list(iter_test_examples(path, ("sentence",)))
    assert caught.value.to_json()["options"] == []


def test_the_real_files(data_dir):
    sizes = {"SST-2": 872, "CoLA": 1043, "MRPC": 408, "RTE": 277, "STS-B": 1500}
    found = find_tasks(data_dir / "glue")
    assert {each.task.name for each in found} == set(sizes)
    for each in found:
        ((path, name),) = each.dev_files()
        reader = ExampleReader(path, each.task.columns)
        assert len(list(reader)) == sizes[name]
        assert reader.num_skipped == 0
