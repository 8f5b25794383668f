"""Runs a command by unchanged.py in a repository of its own, and checks when it is skipped.

usage: unchanged_test.py
"""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).with_name("unchanged.py")


class Unchanged(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        support = self.root / "tests" / "support"
        support.mkdir(parents=True)
        shutil.copy(SCRIPT, support)
        self.build = self.root / "build"
        self.build.mkdir()
        (self.root / ".gitignore").write_text("/build/\n")
        for name in ("read", "unread"):
            (self.root / name).mkdir()
            (self.root / name / "file").write_text("1")
        subprocess.run(["git", "init", "-q", str(self.root)], check=True)

    def run_once(self, script: str = "echo ran", skip: bool = True, **more: str) -> str:
        """The output of the command; "skipped" or "failed" if it does not pass."""
        command = [sys.executable, "-B", str(self.root / "tests" / "support" / "unchanged.py")]
        command += ["--name", "slow", "--build-dir", str(self.build), "--inputs", "read", "--"]
        environment = {
            key: value for key, value in os.environ.items() if key != "TENON_TEST_UNCHANGED"
        }
        if skip:
            environment["TENON_TEST_UNCHANGED"] = "skip"
        done = subprocess.run(
            [*command, "bash", "-c", script],
            cwd=self.root,
            env=environment | more,
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(done.stderr, "")
        self.assertIn(done.returncode, (0, 1, 77))
        return {0: done.stdout.strip(), 1: "failed", 77: "skipped"}[done.returncode]

    def test_what_passed_is_skipped_until_an_input_changes(self) -> None:
        self.assertEqual(self.run_once(), "ran")
        self.assertEqual(self.run_once(), "skipped")
        self.assertRegex(
            (self.build / "unchanged.txt").read_text(),
            r"^slow: unchanged since PASS on \d{4}-\d\d-\d\d, inputs [0-9a-f]{12}\n$",
        )
        (self.root / "unread" / "file").write_text("2")
        self.assertEqual(self.run_once(), "skipped")
        (self.root / "read" / "file").write_text("2")
        self.assertEqual(self.run_once(), "ran")
        self.assertEqual(self.run_once(), "skipped")
        # This file is not added to the repository yet.
        (self.root / "read" / "new").write_text("")
        self.assertEqual(self.run_once(), "ran")
        (self.root / "read" / "new").unlink()
        self.assertEqual(self.run_once(), "ran")
        self.assertEqual(self.run_once(TENON_PYTHON="another"), "ran")
        self.assertEqual(self.run_once(TENON_PYTHON="another"), "skipped")
        self.assertEqual(self.run_once("echo another"), "another")

    def test_it_runs_unless_it_may_be_skipped(self) -> None:
        self.assertEqual(self.run_once(), "ran")
        self.assertEqual(self.run_once(skip=False), "ran")

    def test_a_failure_is_remembered_by_nobody(self) -> None:
        once = "test ! -e build/fail && echo ran"
        self.assertEqual(self.run_once(once), "ran")
        (self.build / "fail").touch()
        self.assertEqual(self.run_once(once, skip=False), "failed")
        (self.build / "fail").unlink()
        self.assertEqual(self.run_once(once), "ran")

    def test_an_input_that_changes_meanwhile_is_not_passed(self) -> None:
        script = "echo x >>read/file; echo ran"
        self.assertEqual(self.run_once(script), "ran")
        self.assertEqual(self.run_once(script), "ran")

    def test_without_git_there_is_no_memory(self) -> None:
        shutil.rmtree(self.root / ".git")
        self.assertEqual(self.run_once(), "ran")
        self.assertEqual(self.run_once(), "ran")


if __name__ == "__main__":
    unittest.main()
