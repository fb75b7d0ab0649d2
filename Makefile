# `make figures` and `make test` do all the set-up on a new machine; `make help` lists the rest.

PYTHON ?= python3
PROFILE ?= paper
ARGS ?=
LOCK_ARGS ?=
VENV := .venv
RUN := $(VENV)/bin/python
READY := $(VENV)/.ready

.PHONY: figures evidence map all help lint lock mutants test test-all lab site clean clean-results

# The runner ends with make, whose process it is told: it could be killed before the runner has looked for it.
figures evidence map all: export PFPNE_MAKE := $(shell echo $$PPID)

help:
	@echo "make figures   the paper's figures and Table 1, into figures/ (20 minutes on two cores)"
	@echo "make evidence  the same under the paper's reward model, the claims, the deviations, and all beyond the paper (2 hours)"
	@echo "make map       the map of when federation pays (an hour or two)"
	@echo "make all       everything"
	@echo "make test      the tests (2 to 5 minutes); make test-all: the slow ones, too (over an hour)"
	@echo "make lint      the rules that the code is written by, and its types (half a minute)"
	@echo "make mutants   N=20 small wrong changes that the tests should notice (minutes)"
	@echo "make lab       JupyterLab, on the page that shows the notebooks"
	@echo "make site      the pages and the executed notebooks as one static site (a minute)"
	@echo "make clean     removes what is made again in a moment; make clean-results: the stored runs, too"
	@echo "PROFILE=smoke makes a small version into figures-smoke/, for a first look. Each can be stopped, and goes on."

# What is in the paper.
figures: $(READY)
	$(RUN) -m pfpne.paper figures --profile $(PROFILE) --group paper $(ARGS)

# What goes beyond its figures: the same under its reward model, the claims, the deviations, the readings, PF-PNE+.
evidence: $(READY)
	$(RUN) -m pfpne.paper figures --profile $(PROFILE) --group evidence $(ARGS)

# The regime map and its guide: an hour or two.
map: $(READY)
	$(RUN) -m pfpne.paper figures --profile $(PROFILE) --group map $(ARGS)

all: $(READY)
	$(RUN) -m pfpne.paper figures --profile $(PROFILE) --group all $(ARGS)

# Tests read pages and paths that are UTF-8, whatever the locale; what the locale does to `make figures` is tested apart.
test test-all: export PYTHONUTF8 = 1
# And they start many processes, each of which would compile the package's modules again where bytecode is not kept.
test test-all: export PYTHONDONTWRITEBYTECODE =

test: $(READY)
	$(RUN) -m pytest --numprocesses auto --dist loadfile --no-loadscope-reorder $(ARGS)

# And the tests that kill a batch, count processes, fill a disk, install a wheel, or set up another machine: an hour or more.
test-all: $(READY)
	$(RUN) -m pytest -m "" $(ARGS)

# The rules that the code is written by, its layout, and its types. `make lint ARGS=--fix` mends what can be mended.
# Pyright, with the Node.js that it runs on, goes into a folder of its own: 250 MB that nothing else needs.
PYRIGHT := .pyright/1.1.414
lint: $(READY)
	$(RUN) -m ruff check $(ARGS)
	$(RUN) -m ruff format --check
	@test -e $(PYRIGHT) || $(RUN) -m pip install --quiet --disable-pip-version-check --target $(PYRIGHT) "pyright[nodejs]==$(notdir $(PYRIGHT))"
	PYTHONPATH=$(PYRIGHT) $(RUN) -m pyright

# N small wrong changes, drawn at random, that the tests should notice: tests/mutants.py. Minutes; not part of CI.
# Cosmic Ray, whose operators make them, goes into a folder of its own: nothing else needs it.
N ?= 20
mutants: $(READY)
	@test -e .mutants/coverage || $(RUN) -m pip install --quiet --disable-pip-version-check --target .mutants cosmic-ray==8.7.0 coverage==7.17.5
	PYTHONPATH=.mutants PYTHONUTF8=1 $(RUN) tests/mutants.py $(N) $(ARGS)

# JupyterLab, on the page that shows the notebooks. ARGS goes to it, such as ARGS="--no-browser --port 9000".
lab: $(READY)
	$(RUN) -m jupyterlab --config=notebooks/lab_config.py $(if $(filter 0,$(shell id -u)),--allow-root) $(ARGS)

# The pages, the reference and the notebooks as executed last, as one static site: open site/index.html.
site: $(READY)
	$(RUN) -m sphinx -q -b html docs site $(ARGS)

# requirements.lock anew from pyproject.toml: what is pinned stays as it is, what is new is added, and each has the hashes
# of all its files, for every system. Needs uv (pip install uv). To move a pin: LOCK_ARGS="--upgrade-package numpy".
lock:
	uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
	  --extra paper --extra test --extra docs --extra lint $(LOCK_ARGS) --quiet --output-file requirements.lock

# The stamp is removed first and made last, so an interrupted set-up does not count; without it we start afresh.
$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "pfpne needs Python 3.11 or newer, and $(PYTHON) is not. Say where one is: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' || \
	  { echo "$(PYTHON) lacks its venv module: install it (Debian, Ubuntu: apt install python3-venv)." >&2; exit 1; }
	@echo "setting up $(VENV), once: about 2 minutes and 1 GB of disk"
	@test -e $@ || $(PYTHON) -m venv --clear $(VENV)
	@rm -f $@
	$(RUN) -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements.lock
	$(RUN) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

# What is made again in a moment. Stored runs (hours, perhaps) and your own figures stay.
clean:
	rm -rf executed site jupyter_execute docs/executed docs/apidocs figures-smoke .pytest_cache .hypothesis
	find pfpne tests benchmarks data -name __pycache__ -type d -prune -exec rm -rf {} +

# The stored runs, too: everything is simulated again next time. figures-custom/ is yours, and stays.
clean-results: clean
	rm -rf results
