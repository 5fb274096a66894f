# make quickstart   train a small translator, evaluate it, and draw its attention (about five minutes)
# make test         lint and the fast tier: TensorFlow in float32, and a smoke test on JAX
# make test-full    adds XLA, half precision, JAX, exports, training, process kills, hosts, notebooks
# make test-zoo     re-evaluate the zoo entries that ship weights
# make mutants      mutation testing: how many seeded bugs the tests catch
# make bench        soak tests and comparisons with other libraries
# make docs         build the documentation site in docs/_build/site
# make index        write the index of the zoo, which `attention-zoo list` prints
# make wheel        build the wheels of the package and of the trained models
# make lint         style, types and import contracts
# make clean        remove what the others made, but no run

PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do \
	$$p -c 'import sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
NAME := rnnsearch_small.dates_en_fr
RECIPE := training/translation/$(NAME).yaml
RUN := runs/$(NAME)
PACKAGING := setup.cfg setup.py pyproject.toml attention_zoo/version.py
BACKEND_FREE := $(wildcard tests/ops tests/layers tests/losses tests/decoding tests/models)

export TF_CPP_MIN_LOG_LEVEL ?= 3
export MPLBACKEND ?= Agg

.PHONY: quickstart test test-full test-zoo mutants docs index wheel lint bench bench-peers clean

quickstart: .venv/user
	$(BIN)/attention-zoo train $(RECIPE) run=$(RUN)
	$(BIN)/attention-zoo evaluate $(RUN)
	echo "they arrive on Monday, March 3, 2031; dinner is at 5:04 PM." | \
		$(BIN)/attention-zoo predict $(RUN) --attention $(RUN)/attention.png

lint: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

PYTEST := $(BIN)/pytest -q -n auto --dist loadfile
# JAX compiles every operation on its first use: without optimizations, and cached for later runs.
ON_JAX := KERAS_BACKEND=jax JAX_DISABLE_MOST_OPTIMIZATIONS=1 \
	JAX_COMPILATION_CACHE_DIR=$(CURDIR)/.pytest_cache/jax JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS=0

test: lint
	$(PYTEST)
	$(ON_JAX) $(BIN)/pytest -q @tests/jax_smoke.txt

OTHERS := tests/export tests/training tests/cli tests/data tests/tasks

# TensorFlow frees what it compiled for XLA only when the process ends: hence several runs.
FULL := $(PYTEST) --full --timeout 600

test-full: lint
	.ci/install_browser
	$(PYTEST) --fail-slow
	$(FULL) tests/ops tests/layers tests/losses
	$(FULL) tests/models/translation tests/models/summarization
	$(FULL) tests/models --ignore tests/models/translation --ignore tests/models/summarization
	$(FULL) tests/decoding
	$(FULL) tests/export
	$(FULL) tests/training
	$(FULL) tests/cli tests/data tests/tasks
	$(FULL) $(BACKEND_FREE:%=--ignore=%) $(OTHERS:%=--ignore=%)
	$(ON_JAX) $(PYTEST) --full -m "not slow and not soak and not zoo" $(BACKEND_FREE)

# A tier without tests is no failure: pytest exits with 5.
test-zoo: .venv/dev
	$(BIN)/pytest -q -m zoo --timeout 0 || test $$? -eq 5

mutants: .venv/dev
	$(BIN)/python -m tests.mutation.run --full-tier

docs: .venv/dev
	$(BIN)/python docs/make_gallery.py
	$(BIN)/python docs/make_reference.py
	$(BIN)/sphinx-build -W --keep-going -q -c docs -d docs/_build/cache . docs/_build/site

index: .venv/dev
	$(BIN)/python benchmarks/make_index.py

wheel: .venv/dev
	rm -rf build models/build
	$(BIN)/pip wheel --quiet --no-deps --wheel-dir dist . ./models

bench: .venv/dev bench-peers
	$(BIN)/pytest -q --full -m soak --timeout 0
	KERAS_BACKEND=jax $(BIN)/pytest -q -n auto --full --whole $(BACKEND_FREE)
	$(BIN)/python benchmarks/recurrent_training.py \
		--tfa-python .venv-tfa/bin/python --joeynmt-python .venv-joeynmt/bin/python
	$(BIN)/python benchmarks/transformer_training.py \
		--kerashub-python .venv-kerashub/bin/python --joeynmt-python .venv-joeynmt/bin/python
	$(BIN)/python benchmarks/recurrent_decoding.py --tfa-python .venv-tfa/bin/python
	$(BIN)/python benchmarks/decoding.py \
		--kerashub-python .venv-kerashub/bin/python --ctranslate2-python .venv-ctranslate2/bin/python
	$(BIN)/python benchmarks/precision.py --ctranslate2-python .venv-ctranslate2/bin/python \
		--transformers-python .venv-transformers/bin/python
	$(BIN)/python benchmarks/crf.py \
		--tfa-python .venv-tfa/bin/python --pytorch-crf-python .venv-pytorch_crf/bin/python
	$(BIN)/python benchmarks/han_training.py --pytorch-han-python .venv-pytorch_han/bin/python
	$(BIN)/python benchmarks/copy_training.py
	$(BIN)/python benchmarks/search_cost.py
	$(BIN)/python benchmarks/layers.py
	$(BIN)/python benchmarks/local_attention.py
	$(BIN)/python benchmarks/training_loop.py
	$(BIN)/python benchmarks/long_attention.py
	$(BIN)/python benchmarks/scale.py
	$(BIN)/python benchmarks/checkpoints.py
	$(BIN)/python benchmarks/serving_shapes.py
	$(BIN)/python benchmarks/serving.py --serving-python .venv-serving/bin/python
	$(BIN)/python benchmarks/xla.py
	$(BIN)/python benchmarks/graph_tokenizers.py
	$(BIN)/python benchmarks/public_export.py
	$(BIN)/python benchmarks/recording.py
	$(BIN)/python benchmarks/word_alignment.py --eflomal-python .venv-eflomal/bin/python \
		$(patsubst %,models/translation/%.dates_en_fr,rnnsearch_small luong_small transformer_tiny)
	$(BIN)/python benchmarks/guided_alignment.py --eflomal-python .venv-eflomal/bin/python
	$(BIN)/python benchmarks/public_loading.py --transformers-python .venv-transformers/bin/python

bench-peers: .venv-tfa/ready .venv-joeynmt/ready .venv-kerashub/ready .venv-ctranslate2/ready \
	.venv-transformers/ready .venv-pytorch_crf/ready .venv-pytorch_han/ready \
	.venv-scikit_learn/ready .venv-eflomal/ready .venv-ray/ready .venv-serving/ready

clean:
	rm -rf .venv .venv-* build dist *.egg-info models/build models/*.egg-info docs/_build docs/api

.venv/user: $(PACKAGING)
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --editable '.[dates,metrics,plots,tensorboard]'
	touch $@

.venv/dev: $(PACKAGING)
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --editable '.[dev]'
	touch $@

# TensorFlow Addons has no release for a Python later than 3.11.
.venv-tfa/ready: benchmarks/peers/tfa.txt
	python3.11 -m venv .venv-tfa
	.venv-tfa/bin/pip install --quiet --requirement $<
	touch $@

.venv-ray/ready: examples/bulk_inference/requirements.txt
	$(PYTHON) -m venv .venv-ray
	.venv-ray/bin/pip install --quiet --requirement $<
	touch $@

.venv-%/ready: benchmarks/peers/%.txt
	$(PYTHON) -m venv .venv-$*
	.venv-$*/bin/pip install --quiet --requirement $<
	touch $@

# Joey NMT asks for older packages than it needs, so they are named here and it comes alone.
.venv-joeynmt/ready: benchmarks/peers/joeynmt.txt
	$(PYTHON) -m venv .venv-joeynmt
	.venv-joeynmt/bin/pip install --quiet --requirement $<
	.venv-joeynmt/bin/pip install --quiet --no-deps joeynmt==2.3.0
	touch $@
