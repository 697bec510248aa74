#!/usr/bin/env python3
"""The page of results, RESULTS.md and plots/*.svg, from the document of one run of bench.py.

usage: report.py RESULTS.json FOLDER

The same document gives the same bytes. What people have to say of the figures is in NOTES.md beside this file, and goes
into the page as it is.
"""

import json
import os
import statistics
import sys

import plots
from harness import GB, MIB, said, wanted

HERE = os.path.dirname(os.path.abspath(__file__))
NOTES = os.path.join(HERE, "NOTES.md")
PLOT_BYTES_MAX = 200 << 10

# Every figure that the project has set itself, in its order: what a run lacks stands in the page as not measured.
LIMIT = [f"limit-{way}{kind}" for way in ("upload-files", "upload-memory", "download-memory") for kind in ("", "-cpu")]
PEERS = ["upload-large", "upload-large-cpu", "download-large", "download-large-cpu", "upload-small", "download-small"]
PEAKS = [f"memory-free-{what}-{mib}" for mib in (1024, 4096, 16384) for what in ("save", "load")]
PEAKS += [f"memory-minio-{what}-{mib}" for mib in (1024, 4096) for what in ("save", "load")]
LOSSES = [f"memory-{server}-{what}-loss" for server in ("minio", "free") for what in ("save", "load")]
WANTED = LIMIT + PEERS + ["https-save", "https-load", "crc-cost"
                          ] + PEAKS + LOSSES + ["tensors-save", "tensors-open", "list"]

COMPARED = {"upload-large": "Upload of one file", "download-large": "Download of one file",
            "upload-small": "Upload of small files", "download-small": "Download of small files"}


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in lines)


def spread(values, digits):
    middle = f"{statistics.median(values):.{digits}f}"
    return middle if len(values) == 1 else f"{middle} ({min(values):.{digits}f} – {max(values):.{digits}f})"


def flat(value):
    if isinstance(value, dict):
        return "; ".join(f"{key} {flat(item)}" for key, item in value.items())
    if isinstance(value, list):
        return ", ".join(str(item) for item in value)
    return {True: "yes", False: "no"}.get(value, str(value)) if isinstance(value, bool) else str(value)


def header(run):
    return table(["", ""], [[key, flat(value)] for key, value in run["header"].items()])


def verdict(reached):
    return {True: "yes", False: "**no**", None: "-"}[reached]


def figures(run):
    """Those that are wanted, in their order, and after them what else was measured."""
    measured = {figure["name"]: figure for figure in run["figures"]}
    rows = []
    for name in WANTED + [name for name in measured if name not in WANTED]:
        figure = measured.get(name)
        rows.append([figure["what"], wanted(figure), said(figure), verdict(figure["reached"]), figure["note"]]
                    if figure else [name, "", "not measured", "-", ""])
    return table(["figure", "limit", "measured: median (min – max; rounds)", "reached?", ""], rows)


def summary(run):
    if run["header"]["settings"]["smoke"]:
        return "A run with little data, to see whether all works: its figures mean nothing."
    judged = [figure for figure in run["figures"] if figure["reached"] is not None]
    missing = set(WANTED) - {figure["name"] for figure in run["figures"]}
    return (f"{sum(figure['reached'] for figure in judged)} of {len(judged)} figures are reached"
            + (f"; {len(missing)} are not measured." if missing else "."))


def tools(run):
    """What each tool took, one table for each comparison that was made."""
    text = []
    for name, title in COMPARED.items():
        experiment = run["experiments"].get(name)
        if experiment is None:
            continue
        size = experiment["bytes"]
        rows = [[
            subject,
            spread([size / MIB / one["wall_s"] for one in runs], 0),
            spread([one["cpu_s"] / (size / GB) for one in runs], 2), f"{max(one['peak_mib'] for one in runs):.0f}",
            len(runs)
        ] for subject, runs in experiment["subjects"].items()]
        text += [f"### {title}: {size / MIB:.0f} MiB", table(["tool", "MiB/s", "CPU-s/GB", "peak MiB", "rounds"], rows)]
    return "\n\n".join(text)


def others(run):
    return table(["", "measured", "limit", ""],
                 [[row["what"], row["value"], row["target"], "" if row["target"] == "-" else verdict(row["holds"])]
                  for row in run["rows"]])


def page(run, drawn):
    with open(NOTES, encoding="utf-8") as file:
        notes = file.read().strip()
    settings = run["header"]["settings"]
    arguments = f"--sizes {','.join(str(size) for size in settings['sizes'])} --rounds {settings['rounds']}"
    return "\n\n".join([
        "# Results",
        "Made by `make bench-report` from the document of one run of `make bench`: do not edit this page. The notes "
        "are in NOTES.md.",
        f"{summary(run)} A figure is judged by its median over the rounds. A ratio is taken within each round, in "
        "which the compared things follow one another; their order turns from round to round. GB is 10⁹ bytes; CPU-s "
        "is user and system time of the client alone; a rate counts from the start of a program to its end, where the "
        "program does not time itself.",
        "## Figures",
        figures(run),
        "## Notes",
        notes,
        "## Plots",
        *(f"![{title}](plots/{name}.svg)" for name, title in drawn),
        "## Each tool",
        "The tables and the bars of the plots show the median; the least and the most over the rounds are in brackets, "
        "and whiskers in the plots. Other tools make up to 16 requests at a time, of parts of 16 MiB, where they let "
        "one choose. One that took three times the time and three times the CPU of another, when it was tried at "
        "first, has that one round alone.",
        tools(run),
        "## Also measured",
        others(run),
        "## The run",
        header(run),
        "## To repeat",
        "    make bench           # measures; build/bench has the document, results.json, and a page beside it\n"
        "    make bench-report    # makes this page of that document\n\n"
        f"This run was `tests/bench/run.sh {arguments} {' '.join(settings['parts'])}`. Fewer parts, other sizes and "
        "more rounds are its arguments; build/bench/some then has the document.",
    ]) + "\n"


def check(folder, drawn):
    for name, _ in drawn:
        size = os.path.getsize(os.path.join(folder, "plots", name + ".svg"))
        if not 0 < size <= PLOT_BYTES_MAX:
            sys.exit(f"report: plots/{name}.svg has {size} bytes, at most {PLOT_BYTES_MAX} are allowed")


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: report.py RESULTS.json FOLDER")
    source, folder = sys.argv[1:]
    with open(source, encoding="utf-8") as file:
        run = json.load(file)
    os.makedirs(os.path.join(folder, "plots"), exist_ok=True)
    drawn = plots.draw_all(run["experiments"], os.path.join(folder, "plots"))
    with open(os.path.join(folder, "RESULTS.md"), "w", encoding="utf-8") as file:
        file.write(page(run, drawn))
    check(folder, drawn)
    print(f"{os.path.join(folder, 'RESULTS.md')}: {summary(run)}")


if __name__ == "__main__":
    main()
