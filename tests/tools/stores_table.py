#!/usr/bin/env python3
"""Prints the results of tests/integration/test_other_servers.py as a Markdown table with a row for each server.

usage: stores_table.py FILE
"""

import collections
import json
import sys


def main():
    rows, columns = collections.defaultdict(dict), []
    with open(sys.argv[1], encoding="utf-8") as file:
        for line in file:
            seen = json.loads(line)
            rows[seen["server"]][seen["column"]] = seen["text"]
            if seen["column"] not in columns:
                columns.append(seen["column"])
    print("| server | %s |" % " | ".join(columns))
    print("|---" * (len(columns) + 1) + "|")
    for server in sorted(rows):
        print("| %s | %s |" % (server, " | ".join(rows[server].get(column, "failed") for column in columns)))


if __name__ == "__main__":
    main()
