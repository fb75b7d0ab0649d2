"""`python -m pfpne.paper figures --profile paper`: execute every notebook; then write their results into the pages."""

import argparse
import os
import sys

from pfpne.paper.run import batch
from pfpne.paper.run.notebooks import NOTEBOOK_GROUPS, NOTEBOOKS
from pfpne.paper.run.profiles import PROFILES
from pfpne.paper.run.workers import end_with_parent
from pfpne.paths import OUTPUT_ROOT


def main(arguments: list[str] | None = None) -> int:
    """Run the command, and return its exit code. arguments: by default, the command line's."""
    parser = argparse.ArgumentParser("python -m pfpne.paper", description="Make the figures, the tables, the README.")
    commands = parser.add_subparsers(dest="command", required=True)
    figures = commands.add_parser("figures", help="execute every notebook: all figures and tables")
    figures.add_argument("--profile", choices=PROFILES, default="paper")
    workers = figures.add_mutually_exclusive_group()
    workers.add_argument("--n-jobs", type=int, help="simulations at a time; one per processor if not given")
    workers.add_argument("--scheduler", help="the address of a Dask scheduler whose workers simulate")
    selection = figures.add_mutually_exclusive_group()
    selection.add_argument("--only", choices=NOTEBOOKS, help="this notebook alone")
    selection.add_argument("--group", choices=NOTEBOOK_GROUPS, default="all", help="the notebooks of one purpose")
    commands.add_parser("readme", help="write what the files in figures/ say into the README and the pages of docs/")
    args = parser.parse_args(arguments)
    make_pid = os.environ.pop("PFPNE_MAKE", None)  # its process, which may have been killed by now
    if make_pid is not None:
        end_with_parent(int(make_pid))  # without make nobody waits for this
    code = 0
    if args.command == "figures":
        code = batch.run_batch(
            args.profile, {"n_jobs": args.n_jobs, "scheduler": args.scheduler}, args.only, args.group
        )
    # A folder of one's own, with an installed wheel, has no pages.
    has_pages = (OUTPUT_ROOT / "docs" / "claims.md").exists()
    if code == 0 and (args.command == "readme" or (args.profile == "paper" and has_pages)):
        from pfpne.paper.exhibits.pages import update_pages  # slow, with all that draws, so not before it is needed

        try:
            update_pages()
        except (OSError, ValueError, KeyError) as error:
            print(f"not all pages could be written: {error}", file=sys.stderr)
            code = 1
    return code


if __name__ == "__main__":
    sys.exit(main())
