"""Every fault at every step of the protocol, passing and lasting; see fault_matrix.py.

The cases run in parallel, because they mostly wait. Each one is then a test of its own. The table of outcomes is
written to faults.txt beside the program.
"""

import collections
import concurrent.futures
import time
from pathlib import Path

import pytest

from fault_matrix import AT_ONCE, IDLE_S, LIMIT_S, SILENT, STEPS, WHERE, Matrix, cases
from helpers import CLEAT

@pytest.fixture(scope="module")
def outcomes(request, minio, tmp_path_factory):
    """The outcomes of the cases that were chosen."""
    chosen = [item.callspec.params["case"] for item in request.session.items
              if getattr(item, "callspec", None) and item.function is test_fault]
    matrix = Matrix(tmp_path_factory.mktemp("faults"))
    began = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        found = dict(zip(chosen, pool.map(matrix.run, chosen)))
    seconds = time.monotonic() - began
    visited = matrix.trap.visited()
    matrix.close()
    assert not visited, "a request went to another host"
    (Path(CLEAT).parent / "faults.txt").write_text(table(found) + summary(found, seconds))
    return found


@pytest.mark.parametrize("case", cases(), ids=str)
def test_fault(outcomes, case):
    outcome = outcomes[case]
    said = "%s after %.1f s: %s" % (outcome.cell, outcome.seconds, outcome.said)
    assert outcome.problems == [], said
    assert (outcome.code == 0) == case.ends_well, said


# ---- The table ------------------------------------------------------------------------------------------------------

def table(found):
    """A row for each fault, a column for each step: "ok", or exit status and error; then how often it struck."""
    text = ""
    for place, lasts in (("memory", False), ("minio", False), ("memory", True)):
        rows = [["%s fault, on %s" % ("lasting" if lasts else "passing", place), *STEPS]]
        for fault in WHERE:
            cells = {case.step: outcome.cell for case, outcome in found.items()
                     if (case.place, case.fault, case.lasts) == (place, fault, lasts)}
            if cells:
                rows.append([fault, *(cells.get(step, "-") for step in STEPS)])
        widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
        text += "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip()
                          for row in rows) + "\n\n"
    return text


def summary(found, seconds):
    slowest = {lasts: max((outcome for outcome in found.values() if outcome.case.lasts == lasts),
                          key=lambda outcome: outcome.seconds, default=None) for lasts in (False, True)}
    codes = collections.Counter(outcome.code for outcome in found.values())
    lines = ["%d cases in %.0f s, %d at once; exit statuses: %s" % (
        len(found), seconds, AT_ONCE, ", ".join("%d: %d" % pair for pair in sorted(codes.items())))]
    if slowest[False]:
        silent = slowest[False].case.fault in SILENT
        what = "%d s of silence end each try" % IDLE_S if silent else "pauses between tries"
        lines.append("slowest of those that pass: %s, %.1f s; bounded by %d s: %s" % (
            slowest[False].case, slowest[False].seconds, slowest[False].case.bound_s, what))
    if slowest[True]:
        lines.append("slowest of those that last: %s, %.1f s; bounded by %d s: --time-limit %d for the request, "
                     "what settles its doubt, and cleaning up" % (
                         slowest[True].case, slowest[True].seconds, slowest[True].case.bound_s, LIMIT_S))
    return "\n".join(lines) + "\n"
