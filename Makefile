# Set-up and checks. `make demo` and `make test` are all that a newcomer needs.
PYTHON ?= python3
BIN := .venv/bin
# Minutes that `make demo` takes.
MINUTES ?= 5
# Kinds of computers that the tests compute as; tests/support/computing.py says what each is.
OTHER_COMPUTERS := bf16-fused-2 fp32-fused-unpacked
# The marks of the tests that `make test` runs; nothing stands for all tests.
MARKS ?= not slow
# `auto` is one worker more than cores (tests/conftest.py). Workers begin with neighbouring tests, which
# share what is made once for a file, such as a model.
PYTEST := $(BIN)/python -m pytest -n auto --maxprocesses 4 --dist worksteal

.PHONY: demo test test-computing test-slow bench bench-quick bench-quality docs notebooks check format lock clean

demo: .venv/demo.stamp  ## the whole road, on the documentation on this computer
	$(BIN)/bertsmith demo --minutes $(MINUTES) --out runs/demo

test: .venv/test.stamp  ## the tests, without the long comparisons
	$(PYTEST) -m "$(MARKS)"

# What bertsmith chooses by measuring (precision, path of attention, number of processes, packed
# weights) differs between computers. `make test` computes as one kind; this runs the tests that such
# choices reach as the others, whatever this computer is. Which tests these are, `make test` notes.
# Which kernels torch takes depends on the processor, too. So the last kind has no newer instructions
# than AVX2: ONEDNN_MAX_CPU_ISA hides them from oneDNN, which then has no bf16 products and adds 8-bit
# products in 16 bits; ATEN_CPU_CAPABILITY hides them from torch's own kernels; MKL keeps what it
# finds.
test-computing: .venv/test.stamp  ## after `make test`: its tests as other kinds of computers
	for computer in $(OTHER_COMPUTERS); do \
	  $(PYTEST) -m "not slow" --only-computing --computing $$computer || exit 1; \
	done
	if grep -qsE 'avx512|avx_vnni|amx' /proc/cpuinfo; then \
	  export ONEDNN_MAX_CPU_ISA=AVX2 ATEN_CPU_CAPABILITY=avx2; \
	fi; $(PYTEST) -m "not slow" --only-computing --computing fp32-fused

test-slow: .venv/test.stamp  ## the long comparisons over large data
	$(PYTEST) -m slow

bench: .venv/bench.stamp  ## against the peers, half an hour; writes benchmarks/results/speed-DATE.md
	$(BIN)/python -m benchmarks.speed

bench-quick: .venv/bench.stamp  ## the same with less, five minutes (20 without bf16); writes runs/speed-DATE-quick.md
	$(BIN)/python -m benchmarks.speed --quick

bench-quality: .venv/bench.stamp  ## what ten minutes of pre-training are worth on either side
	$(BIN)/python -m benchmarks.speed time_to_quality --minutes 10

docs: .venv/test.stamp  ## the documentation as a site without a network, build/site/index.html
	$(BIN)/python tools/build_site.py build
	! grep -rlE --include='*.html' '<(script|link|img)[^>]* (src|href)="https?:' build/site

notebooks: .venv/test.stamp  ## run docs/notebooks and store their outputs, a quarter of an hour
	$(BIN)/python tools/run_notebooks.py

check: .venv/test.stamp  ## format, lint, types, import directions, what misleads readers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/house.py

format: .venv/test.stamp
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# pip would compile thousands of modules that nobody imports, which is nearly half of its time;
# others are compiled when they are first imported, once, as long as Python may keep the result.
# What the demo imports has to be there before the packages of the tests are, which would hide that
# one is missing from requirements.lock.
unexport PYTHONDONTWRITEBYTECODE

.venv/demo.stamp: requirements.lock pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --no-compile --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --no-compile --no-deps --editable .
	$(BIN)/python -c "import bertsmith.commands.demo"
	touch $@

.venv/test.stamp: .venv/demo.stamp requirements-test.lock
	$(BIN)/python -m pip install --quiet --no-compile --requirement requirements-test.lock
	touch $@

.venv/bench.stamp: .venv/test.stamp requirements-bench.lock
	$(BIN)/python -m pip install --quiet --no-compile --requirement requirements-bench.lock
	touch $@

lock:  ## resolve the dependencies anew and write the lock files
	$(PYTHON) tools/lock.py

clean:
	rm -rf .venv build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache
