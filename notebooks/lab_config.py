"""JupyterLab as `make lab` starts it: from the project's folder, on the page that shows the notebooks.

Saving keeps a notebook's metadata as they are committed: what JupyterLab adds of this machine's Python is left out,
so that git sees no change in a notebook that was only opened and saved.
"""

import warnings
from pathlib import Path

KEPT = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def before_saving(model, **_):
    if model["type"] == "notebook":
        model["content"]["metadata"] |= KEPT


# JupyterLab reads this file twice, as a server and as an application, and would warn of the hook that it has already.
warnings.filterwarnings("ignore", "Overriding existing pre_save_hook")

c.ServerApp.root_dir = str(Path(__file__).resolve().parent.parent)  # noqa: F821
c.LabApp.default_url = "/lab/tree/index.ipynb"  # noqa: F821
c.FileContentsManager.pre_save_hook = before_saving  # noqa: F821
