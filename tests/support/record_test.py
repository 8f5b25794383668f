"""Runs commands by `record`: it must pass on how they end, and record what it promises.

usage: record_test.py RECORD
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

RECORD = sys.argv.pop()


class Record(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.log = self.folder / "failures"

    def words(self, script: str, limit: float = 100) -> list[str]:
        options = ["--name", "a/test", "--timeout", str(limit), "--log-dir", str(self.log)]
        return [RECORD, *options, "--", "bash", "-c", script, "bash", str(self.folder / "pids")]

    def run_record(self, script: str, limit: float = 100) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.words(script, limit),
            input="given",
            env=os.environ | {"TENON_TEST_SEED": "7"},
            capture_output=True,
            text=True,
            check=False,
        )

    def running(self) -> list[int]:
        """The processes that a script wrote to its file and that have not ended."""
        pids = map(int, (self.folder / "pids").read_text().split())
        found = []
        for pid in pids:
            try:
                state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue
            if state != "Z":
                found.append(pid)
        return found

    def test_a_test_that_passes_or_skips_is_left_alone(self) -> None:
        for status in (0, 77):
            done = self.run_record(f"cat; echo wrong >&2; exit {status}")
            self.assertEqual(
                (done.returncode, done.stdout, done.stderr), (status, "given", "wrong\n")
            )
        self.assertFalse(self.log.exists())

    def test_a_test_has_no_more_than_without_record(self) -> None:
        script = "ls /proc/self/fd; grep -E '^(Sig(Blk|Ign)|Threads|CapEff)' /proc/self/status"
        alone = subprocess.run(
            ["bash", "-c", script], input="", capture_output=True, text=True, check=True
        )
        self.assertEqual(self.run_record(script).stdout, alone.stdout)

    def test_a_status_that_fails(self) -> None:
        done = self.run_record("echo $$ >$1; sleep 1000 & echo $! >>$1; exit 3")
        self.assertEqual(done.returncode, 3, done.stdout)
        self.assertIn("a/test failed with exit status 3", done.stdout)
        self.assertIn("1 processes of the test were still there", done.stdout)
        self.assertIn("sleep 1000", done.stdout)
        self.assertIn("=== /dev/shm", (self.log / "a_test.txt").read_text())
        self.assertEqual(self.running(), [])

    def test_a_signal(self) -> None:
        done = self.run_record("kill -SEGV $$")
        self.assertEqual(done.returncode, -signal.SIGSEGV)
        self.assertIn("was ended by Segmentation fault", done.stdout)

    def test_a_command_that_is_not_there(self) -> None:
        done = subprocess.run(
            [*self.words("")[:7], "--", "/no/such/program"],
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(done.returncode, 127)
        self.assertIn("cannot run /no/such/program", done.stderr)

    def test_the_limit(self) -> None:
        # Each of three processes has only one of the marks: the group, the environment, the parent.
        script = """
            echo $$ >$1
            (env -i sleep 1001 & echo $! >>$1)
            (setsid sleep 1002 & echo $! >>$1)
            env -i setsid bash -c 'echo $$ >>$1; sleep 1003 & echo $! >>$1; wait' bash $1 &
            wait
        """
        done = self.run_record(script, 3)
        self.assertEqual(done.returncode, 124, done.stdout)
        self.assertIn("did not end within its limit", done.stdout)
        for number in (1001, 1002, 1003):
            self.assertIn(f"sleep {number}", done.stdout)
        self.assertEqual(self.running(), [])
        self.assertLessEqual(len(done.stdout.splitlines()), 60)
        text = (self.log / "a_test.txt").read_text()
        for words in ("threads\n", "fds\n", "mappings\n", "TENON_TEST_SEED=7\n", "stacks\n"):
            self.assertTrue(words in text, words)

    def test_what_a_passing_test_leaves_is_named_and_left(self) -> None:
        # A process shows no environment during its exec, and the environment is what identifies it
        # here.
        script = """
            sleep 1000 >/dev/null 2>&1 & echo $! >$1
            until grep -q sleep /proc/$!/cmdline; do sleep 0.01; done
        """
        done = self.run_record(script)
        self.assertEqual(done.returncode, 0)
        self.assertIn("a/test left", done.stdout)
        self.assertIn("sleep 1000", (self.log / "left.txt").read_text())
        self.assertEqual(len(self.running()), 1)
        os.kill(self.running()[0], signal.SIGKILL)

    def test_a_signal_reaches_the_command(self) -> None:
        script = "trap 'exit 9' TERM; echo ready; while true; do sleep 0.05; done"
        with subprocess.Popen(self.words(script), stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            self.assertEqual(process.stdout.readline(), "ready\n")
            begin = time.monotonic()
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(), 9)
            self.assertLess(time.monotonic() - begin, 50)


if __name__ == "__main__":
    unittest.main()
