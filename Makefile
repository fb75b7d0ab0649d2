# Two commands do everything: `make figures` and `make test`. Each sets up .venv first, once.

PYTHON ?= python3
PROFILE ?= paper
ARGS ?=
VENV := .venv
RUN := $(VENV)/bin/python
READY := $(VENV)/.ready

.PHONY: figures map lint mutants test test-all lab site clean clean-results

# The runner ends with make, whose process it is told: it could be killed before the runner has looked for it.
figures map: export PFPNE_MAKE := $(shell echo $$PPID)

figures: $(READY)
	$(RUN) -m pfpne.paper figures --profile $(PROFILE) $(ARGS)

# The regime map and its guide: an hour or two. It can be stopped, and goes on from where it was.
map: $(READY)
	$(RUN) -m pfpne.paper figures --profile $(PROFILE) --only 8_regime_map $(ARGS)

# Tests read pages and paths that are UTF-8, whatever the locale; what the locale does to `make figures` is tested apart.
test test-all: export PYTHONUTF8 = 1

test: $(READY)
	$(RUN) -m pytest --numprocesses logical --maxprocesses 4 --dist loadfile $(ARGS)

# And the tests that kill a batch, count processes, fill a disk, install a wheel, or set up another machine: an hour or more.
test-all: $(READY)
	$(RUN) -m pytest -m "" $(ARGS)

# The rules that the code is written by, and its layout. `make lint ARGS=--fix` mends what can be mended.
lint: $(READY)
	$(RUN) -m ruff check $(ARGS)
	$(RUN) -m ruff format --check
# N small wrong changes, drawn at random, that the tests should notice: tests/mutants.py. Minutes; not part of CI.
# Cosmic Ray, whose operators make them, goes into a folder of its own: nothing else needs it.
N ?= 20
mutants: $(READY)
	@test -e .mutants/cosmic_ray || $(RUN) -m pip install --quiet --disable-pip-version-check --target .mutants cosmic-ray==8.7.0
	PYTHONPATH=.mutants PYTHONUTF8=1 $(RUN) tests/mutants.py $(N) $(ARGS)

# JupyterLab, on the page that shows the notebooks. ARGS goes to it, such as ARGS="--no-browser --port 9000".
lab: $(READY)
	$(RUN) -m jupyterlab --config=notebooks/lab_config.py $(if $(filter 0,$(shell id -u)),--allow-root) $(ARGS)

# The pages, the reference and the notebooks as executed last, as one static site: open site/index.html.
site: $(READY)
	$(RUN) -m sphinx -q -b html docs site $(ARGS)

# The stamp is removed first and made last, so an interrupted set-up does not count; without it we start afresh.
$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "pfpne needs Python 3.11 or newer, and $(PYTHON) is not. Say where one is: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' || \
	  { echo "$(PYTHON) lacks its venv module: install it (Debian, Ubuntu: apt install python3-venv)." >&2; exit 1; }
	@test -e $@ || $(PYTHON) -m venv --clear $(VENV)
	@rm -f $@
	$(RUN) -m pip install --quiet --disable-pip-version-check --no-deps -r requirements.lock
	$(RUN) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

# What is made again in a moment. Stored runs (hours, perhaps) and your own figures stay.
clean:
	rm -rf executed site jupyter_execute docs/executed docs/apidocs figures-smoke .pytest_cache .hypothesis
	find pfpne tests benchmarks data -name __pycache__ -type d -prune -exec rm -rf {} +

# The stored runs, too: everything is simulated again next time. figures-custom/ is yours, and stays.
clean-results: clean
	rm -rf results
