"""Learning from a teacher, for every task: loss terms, texts without labels, and the cache."""

import pickle
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from refusals import refuses
from samples import SAMPLES, prepare
from tiny_models import NUM_POSITIONS, load_for_task, loss_of, tiny_tokenizer

from bertsmith.distillation import teacher_cache
from bertsmith.distillation.objective import UNLABELLED, Distillation, DistillationWeights
from bertsmith.distillation.run import join_texts, with_row_numbers
from bertsmith.distillation.teacher import LiveTeacher
from bertsmith.distillation.teacher_cache import stored_teacher
from bertsmith.errors import ConfigError
from bertsmith.tasks.example_objective import FineTuning, HeldOutExamples, training_examples

WEIGHTS = DistillationWeights(soft_weight=0.4, soft_temperature=2.0, hidden_weight=0.7)
FACTS = {"teacher": "one", "tokenizer": "its own", "max_length": NUM_POSITIONS}


class Case:
    """A task with examples, a random model and further examples without labels."""

    def __init__(self, name, folder):
        self.type, self.settings = prepare(name, folder, 23, 11)
        self.dataset = self.type.read(self.settings)
        self.task = self.dataset.task

    def model(self, seed):
        settings = replace(self.settings, seed=seed)
        model = load_for_task(settings, self.dataset)[0]
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for weight in model.parameters():
                weight.add_(0.1 * torch.randn(weight.shape, generator=generator))
        model.set_dropout(0.0)
        return model.train()

    def teacher(self, hidden=True, seed=5):
        model = self.model(seed)
        model.set_dropout(0.5)  # of which a teacher makes no use
        return LiveTeacher(self.task, model, hidden=hidden)

    def datasets(self, **settings):
        tokenizer, task = tiny_tokenizer(), self.task
        others = list(task.reader(self.settings.eval, self.settings.columns, labelled=False))
        train, held_out, texts = (
            task.encode(tokenizer, examples, NUM_POSITIONS, labelled=examples is not others)
            for examples in (self.dataset.train, self.dataset.held_out, others)
        )
        held_out = HeldOutExamples(held_out, Path("b"), self.dataset.held_out)
        labelled = training_examples(task, train, Path("a"), self.dataset.train)
        unlabelled = training_examples(task, texts, Path("c"), others, labelled=False)
        labelled = with_row_numbers(labelled, 0)
        unlabelled = with_row_numbers(unlabelled, len(train.rows))
        return [
            FineTuning(task, examples, held_out, batch_size=size, **settings)
            for examples, size in ((labelled, 5), (unlabelled, 3))
        ]

    def objective(self, teacher=None, weights=WEIGHTS, **settings):
        labelled, unlabelled = self.datasets(**settings)
        teacher = teacher or self.teacher()
        return Distillation(labelled, teacher, weights, unlabelled=unlabelled)


@pytest.fixture(scope="module", params=sorted(SAMPLES))
def case(request, tmp_path_factory):
    return Case(request.param, tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    return Case("classify", tmp_path_factory.mktemp("data"))


def total(objective, model, batches):
    """The loss of a step, as training adds it up."""
    counts = {}
    for batch in batches:
        for name, count in objective.counts(batch).items():
            counts[name] = counts.get(name, 0) + count
    terms = [term for batch in batches for term in objective.losses(model, batch).items()]
    return sum(term.weight * (term.sum / counts[name]) for name, term in terms)


def test_terms_are_the_tasks_own_the_teachers_answers_and_its_vectors(case):
    objective, model = case.objective(), case.model(seed=1)
    kinds = set()
    for batch in objective.micro_batches(2):
        terms = objective.losses(model, batch)
        assert list(terms) == [case.task.name, "soft", "hidden"]
        assert {name: term.count for name, term in terms.items()} == objective.counts(batch)
        assert terms["soft"].sum > 0.001 < terms["hidden"].sum
        weights = [term.weight for term in terms.values()]
        assert weights == pytest.approx([0.6 * 5 / 8, 0.4, 0.7])
        kinds.add(UNLABELLED in batch.targets)
        own = terms[case.task.name]
        if UNLABELLED in batch.targets:
            assert (own.sum, own.correct, own.count) == (0, 0, 0)
        else:
            expected = loss_of(case.task, model, batch)
            torch.testing.assert_close(own.sum, expected.sum)
    assert kinds == {False, True}


def test_a_student_that_is_its_teacher_has_nothing_to_learn_from_it(case):
    teacher = case.teacher(seed=1)
    objective, model = case.objective(teacher), case.model(seed=1)
    for batch in objective.micro_batches(1):
        with case.task.as_saved(teacher.model):  # as a teacher is loaded: in the labels' unit
            terms = objective.losses(model, batch)
        for name in ("soft", "hidden"):
            assert terms[name].sum.item() == pytest.approx(0, abs=1e-3), name
        assert terms["hidden"].correct == terms["hidden"].count
        if case.task.name != "tag" or UNLABELLED not in batch.targets:
            assert terms["soft"].correct == terms["soft"].count


def test_a_divided_step_has_the_gradients_of_a_whole_one(case):
    found = []
    for settings in ({}, {"num_shares": 2, "micro_batch_tokens": 30}):
        objective, model = case.objective(**settings), case.model(seed=1)
        total(objective, model, objective.micro_batches(1)).backward()
        grads = [p.grad.flatten() for p in model.parameters() if p.grad is not None]
        found.append(torch.cat(grads))
    torch.testing.assert_close(*found, atol=1e-5, rtol=1e-4)


def test_a_stored_teacher_says_what_a_live_one_says(case, tmp_path):
    live = case.teacher()
    labelled, unlabelled = case.datasets()
    texts = join_texts([labelled.train.encoded.rows, unlabelled.train.encoded.rows])
    stored = stored_teacher(tmp_path / "cache", live, texts, FACTS)
    stored = pickle.loads(pickle.dumps(stored))  # as workers get it
    for step in (1, 3):
        for batch in case.objective(stored).micro_batches(step):
            found, expected = stored.outputs(batch), live.outputs(batch)
            torch.testing.assert_close(found.outputs, expected.outputs, atol=1e-5, rtol=1e-5)
            torch.testing.assert_close(found.hidden, expected.hidden, atol=2e-3, rtol=2e-3)


def test_a_cache_for_other_texts(one, tmp_path):
    teacher, cache = one.teacher(), tmp_path / "cache"
    texts, others = (dataset.train.encoded.rows for dataset in one.datasets())
    stored_teacher(cache, teacher, texts, FACTS)
    for asked, changes, part in (
        (texts, {"max_length": 9}, "--max-length"),
        (others, {}, "--cache"),
    ):
        with refuses(ConfigError, f"{cache}: ", part):
            stored_teacher(cache, teacher, asked, FACTS | changes)
    stored_teacher(cache, Stopped(one.teacher(hidden=False), 0), texts, FACTS)  # asks nothing


class Stopped(LiveTeacher):
    """Asked too often, it leaves."""

    def __init__(self, other, patience):
        super().__init__(other.task, other.model, hidden=other.hidden)
        self.patience = patience

    def outputs(self, batch):
        self.patience -= 1
        if self.patience < 0:
            raise RuntimeError("asked too often")
        return super().outputs(batch)


def test_a_stopped_computation_goes_on(one, tmp_path, monkeypatch):
    monkeypatch.setattr(teacher_cache, "PART_ROWS", 7)
    monkeypatch.setattr(teacher_cache, "MAX_OPEN", 2)
    texts, folder, said = one.datasets()[0].train.encoded.rows, tmp_path / "cache", []
    with pytest.raises(RuntimeError, match="too often"):
        stored_teacher(folder, Stopped(one.teacher(), 2), texts, FACTS)
    done = {path.name: path.read_bytes() for path in folder.glob("*.npy")}
    assert sorted(done) == ["hidden-00000.npy", "hidden-00001.npy",
                            "outputs-00000.npy", "outputs-00001.npy"]  # fmt: skip
    stored = stored_teacher(folder, one.teacher(), texts, FACTS, said.append)
    assert said[0] == f"computing the teacher's outputs for texts 15 to 21 of {len(texts)}"
    assert all((folder / name).read_bytes() == content for name, content in done.items())
    for batch in one.objective(stored).labelled.micro_batches(1):
        expected = one.teacher().outputs(batch)
        torch.testing.assert_close(stored.outputs(stored.prepare(batch)).outputs, expected.outputs)


def test_labels_in_the_teachers_order_keep_their_weights(one):
    weighted = replace(one.task, loss=replace(one.task.loss, weights=(3.0, 0.5)))
    teacher = replace(one.task, labels=("pos", "so", "neg"))
    student = weighted.with_teacher_labels(teacher)
    assert student.labels == ("pos", "so", "neg")
    assert student.loss.weights == (0.5, 1.0, 3.0)
    assert weighted.with_teacher_labels(one.task) == weighted
