from __future__ import annotations
import argparse, sys
from pathlib import Path
from experiments import data, protocol, store

HERE = Path(__file__).parent
def main(arguments=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--store", type=Path, default=HERE / "cells")
    o = parser.parse_args(arguments)
    folder = data.folder_of_data()
    names = o.names or data.present(folder)
    tasks = store.plan(names, lambda name: data.PAPER[name].repetitions, 0, protocol.FULL)
    store.run(tasks, store.Store(o.store), folder, o.jobs)
    return 0

if __name__ == "__main__":
    sys.exit(main())
