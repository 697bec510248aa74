"""The verifying proxy (tools/signing_proxy.py) in front of a server that a test starts for itself."""

import os
import subprocess
import sys
from pathlib import Path

from helpers import ROOT

PROGRAM = ROOT / "tests" / "tools" / "signing_proxy.py"


class SigningProxy:
    """Counts towards the whole run when there is one, else, after a `pytest` by hand, judges when it is stopped."""

    def __init__(self, url, secret, folder, tls=()):
        """tls: certificate, key and CA, when the server speaks it."""
        shared = os.environ.get("CLEAT_TEST_SIGNATURES")
        self.folder = Path(shared or folder)
        self.is_own = not shared
        lines = subprocess.run([sys.executable, PROGRAM, "start", url, self.folder, *(["--tls", *tls] if tls else [])],
                               env=dict(os.environ, AWS_SECRET_ACCESS_KEY=secret), stdout=subprocess.PIPE, check=True,
                               text=True).stdout
        self.endpoint = lines.strip().partition("=")[2]
        self.port = int(self.endpoint.rpartition(":")[2])

    def report(self):
        """Ends it; what it found, as (exit status, text)."""
        subprocess.run([PROGRAM, "stop", self.folder], check=True)
        done = subprocess.run([PROGRAM, "report", self.folder], stdout=subprocess.PIPE, text=True)
        return done.returncode, done.stdout

    def stop(self):
        if self.is_own:
            status, text = self.report()
            assert status == 0, text
