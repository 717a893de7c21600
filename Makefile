# Set-up and checks. `make demo` and `make test` are all that a newcomer needs.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-slow bench bench-quick bench-quality check format lock clean

demo: .venv/demo.stamp  ## the whole road, on the documentation on this computer
	$(BIN)/bertsmith demo --out runs/demo

test: .venv/test.stamp  ## the tests, without the long comparisons
	$(BIN)/python -m pytest -n auto --maxprocesses 4 -m "not slow"

test-slow: .venv/test.stamp  ## the long comparisons over large data
	$(BIN)/python -m pytest -n auto --maxprocesses 4 -m slow

bench: .venv/bench.stamp  ## against the peers, half an hour; writes benchmarks/results/speed-DATE.md
	$(BIN)/python -m benchmarks.speed

bench-quick: .venv/bench.stamp  ## the same with less, five minutes; writes runs/speed-DATE-quick.md
	$(BIN)/python -m benchmarks.speed --quick

bench-quality: .venv/bench.stamp  ## what ten minutes of pre-training are worth on either side
	$(BIN)/python -m benchmarks.speed time_to_quality --minutes 10

check: .venv/test.stamp  ## format, lint, types, import directions
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: .venv/test.stamp
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

.venv/demo.stamp: requirements.lock pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --editable .
	touch $@

.venv/test.stamp: .venv/demo.stamp requirements-test.lock
	$(BIN)/python -m pip install --quiet --requirement requirements-test.lock
	touch $@

.venv/bench.stamp: .venv/test.stamp requirements-bench.lock
	$(BIN)/python -m pip install --quiet --requirement requirements-bench.lock
	touch $@

lock:  ## resolve the dependencies anew and write the lock files
	$(PYTHON) tools/lock.py

clean:
	rm -rf .venv build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache
