"""The plots of the page of results. The same samples give the same bytes."""

import os
import re
import statistics

import matplotlib

from harness import ALLOWANCE_MIB, GB, STAGING_MIB

matplotlib.use("svg")
# Text stays text, ids are not random.
matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "cleat", "font.size": 9, "axes.spines.top": False,
                            "axes.spines.right": False, "figure.facecolor": "white"})
import matplotlib.pyplot as plt  # noqa: E402 after the choice of its backend

OURS, THEIRS = "#0b6e99", "#b8bcc2"
COMPARED = {"upload-large": "upload, one file", "download-large": "download, one file",
            "upload-small": "upload, small files", "download-small": "download, small files"}


def rates(experiment):
    return {subject: [experiment["bytes"] / GB / run["wall_s"] for run in runs]
            for subject, runs in experiment["subjects"].items()}


def costs(experiment):
    return {subject: [run["cpu_s"] / (experiment["bytes"] / GB) for run in runs]
            for subject, runs in experiment["subjects"].items()}


def bars(axes, title, label, values, ours):
    """A bar for the median of each subject, and a whisker from the least to the most."""
    names = list(values)
    middles = [statistics.median(values[name]) for name in names]
    spread = [[middle - min(values[name]) for name, middle in zip(names, middles)],
              [max(values[name]) - middle for name, middle in zip(names, middles)]]
    axes.barh(names, middles, xerr=spread, color=[OURS if name in ours else THEIRS for name in names], ecolor="#333333",
              capsize=2, height=0.7)
    axes.invert_yaxis()
    axes.set_title(title, loc="left")
    axes.set_xlabel(label)
    axes.set_xlim(left=0)


def save(figure, folder, name):
    figure.tight_layout()
    figure.savefig(os.path.join(folder, name + ".svg"), metadata={"Date": None, "Creator": None})
    plt.close(figure)


def draw_bars(experiments, folder, name, kinds, what, label, ours):
    """One panel for each experiment of `kinds` that was made; False where none was."""
    shown = [kind for kind in kinds if kind in experiments]
    if not shown:
        return False
    columns = min(2, len(shown))
    lines = -(-len(shown) // columns)
    most = max(len(experiments[kind]["subjects"]) for kind in shown)
    figure, grid = plt.subplots(lines, columns, figsize=(9, lines * (1 + 0.3 * most)), squeeze=False)
    for axes, kind in zip(grid.flat, shown):
        bars(axes, kinds[kind], label, what(experiments[kind]), ours)
    for axes in list(grid.flat)[len(shown):]:
        axes.remove()
    save(figure, folder, name)
    return True


def peaks(experiments):
    """{(server, save or load): [(GiB, peak MiB)]}"""
    lines = {}
    for name, experiment in experiments.items():
        if match := re.fullmatch(r"memory-(free|minio)-(save|load)-(\d+)", name):
            runs = experiment["subjects"][f"{STAGING_MIB} MiB"]
            lines.setdefault(match.groups()[:2], []).append(
                (int(match[3]) / 1024, max(run["peak_mib"] for run in runs)))
    return {key: sorted(points) for key, points in lines.items()}


def draw_memory(experiments, folder):
    lines = peaks(experiments)
    if not lines:
        return False
    figure, axes = plt.subplots(figsize=(7, 3.6))
    servers, colours = {"free": ("a store at no cost", "-"), "minio": ("MinIO", ":")}, {"save": OURS, "load": "#d1642b"}
    for (server, what), points in lines.items():
        axes.plot(*zip(*points), servers[server][1], marker="o", color=colours[what],
                  label=f"{what}, {servers[server][0]}")
    axes.axhline(STAGING_MIB, color="#333333", linewidth=0.8, label=f"budget, {STAGING_MIB} MiB")
    axes.axhline(STAGING_MIB + ALLOWANCE_MIB, color="#333333", linewidth=0.8, linestyle="--",
                 label=f"limit, {ALLOWANCE_MIB} MiB more")
    sizes = sorted({size for points in lines.values() for size, _ in points})
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes, [f"{size:g}" for size in sizes])
    axes.minorticks_off()
    axes.set(xlabel="GiB of the checkpoint", ylabel="peak memory, MiB", ylim=(0, 1.6 * (STAGING_MIB + ALLOWANCE_MIB)))
    axes.legend(ncols=2, frameon=False, loc="upper left")
    save(figure, folder, "memory")
    return True


def draw_all(experiments, folder):
    """Draws what there are samples of; (name, title) of each."""
    limits = {"limit-upload": "upload to a store at no cost", "limit-download": "download from it"}
    large = {kind: COMPARED[kind] for kind in ("upload-large", "download-large")}
    ours = ("cleat", "files", "memory", "memory, unchecked")
    drawn = [("peers", "Rate of each tool on one MinIO",
              draw_bars(experiments, folder, "peers", COMPARED, rates, "GB/s", ours)),
             ("limit", "Rate against plain sockets", draw_bars(experiments, folder, "limit", limits, rates, "GB/s",
                                                               ours)),
             ("cpu", "CPU seconds per GB of each tool, on one MinIO",
              draw_bars(experiments, folder, "cpu", large, costs, "CPU-s/GB", ours)),
             ("memory", "Peak memory by size of the checkpoint", draw_memory(experiments, folder))]
    return [(name, title) for name, title, made in drawn if made]
