"""tests/mutation/run finds each kind of fault of its list, and its verdicts are right. Run from the root of the tree."""
import importlib.machinery
import importlib.util
import pathlib
import sys
import tempfile
import unittest

LOADER = importlib.machinery.SourceFileLoader("mutation_run", "tests/mutation/run")
RUN = importlib.util.module_from_spec(importlib.util.spec_from_loader("mutation_run", LOADER))
sys.modules["mutation_run"] = RUN
LOADER.exec_module(RUN)

GOOD = """# remark
[one]
what: one is two
file: box/a.cpp
was: int one = 1;
is: int one = 2;
fails: box_test box/a
fails: box_test box/* : one is*
"""


class List(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.folder.name)
        (self.root / "box").mkdir()
        (self.root / "tests" / "box").mkdir(parents=True)
        (self.root / "box" / "a.cpp").write_text("int one = 1;\nint two = 2;\n")
        (self.root / "tests" / "box" / "CMakeLists.txt").write_text("tracecast_test(box\n  SOURCES a_test.cpp\n  DEPS box)\n")
        (self.root / "tests" / "box" / "a_test.cpp").write_text('TEST_SUITE_BEGIN("box/a");\n')
        self.data = self.root / "list.txt"

    def tearDown(self):
        self.folder.cleanup()

    def faults(self, text):
        self.data.write_text(text)
        return RUN.check(self.root, RUN.read_mutations(self.data))

    def refused(self, text):
        self.data.write_text(text)
        with self.assertRaises(RUN.Fault) as caught:
            RUN.read_mutations(self.data)
        return str(caught.exception)

    def test_a_good_list_has_no_fault(self):
        self.assertEqual(self.faults(GOOD), [])

    def test_a_pattern_is_there_once(self):
        self.assertIn("is there 2 times", self.faults(GOOD.replace("was: int one = 1;", "was: int"))[0])
        self.assertIn("is there 0 times", self.faults(GOOD.replace("was: int one", "was: int seven"))[0])
        self.assertIn("box/b.cpp is not there", self.faults(GOOD.replace("a.cpp", "b.cpp"))[0])

    def test_programs_and_suites_are_there(self):
        self.assertIn("no_test is no test program", self.faults(GOOD.replace("fails: box_test box/a", "fails: no_test box/a"))[0])
        self.assertIn("has no suite box/b", self.faults(GOOD.replace("box_test box/a", "box_test box/b"))[0])

    def test_a_mutation_is_whole(self):
        for line in ("what: one is two\n", "file: box/a.cpp\n", "was: int one = 1;\n"):
            self.assertIn("has no line", self.refused(GOOD.replace(line, "")))
        self.assertIn("changes nothing", self.refused(GOOD.replace("is: int one = 2;", "is: int one = 1;")))
        self.assertIn("is there twice", self.refused(GOOD + GOOD))
        self.assertIn("expected [name]", self.refused(GOOD + "why: because\n"))
        self.assertIn("expected a program and a suite", self.refused(GOOD.replace("fails: box_test box/a", "fails: box_test")))

    def test_results_count_for_what_was_judged(self):
        self.data.write_text(GOOD)
        before = RUN.read_mutations(self.data)[0]
        known = {"one": {"name": "one", "digest": before.digest(), "verdict": "killed"}}
        self.assertTrue(RUN.is_judged(before, known))
        self.data.write_text(GOOD.replace("int one = 2;", "int one = 3;"))
        self.assertFalse(RUN.is_judged(RUN.read_mutations(self.data)[0], known))


class FakeScratch(RUN.Scratch):
    """`make` looks at the file, `run` passes while it is as it was: no compiler."""

    def __init__(self, root, builds=True, notices=True, passes=True):
        super().__init__(root, root / "out")
        self.tree, self.builds, self.notices, self.passes = root, builds, notices, passes

    def changed(self):
        return "int one = 2;" in (self.tree / "box" / "a.cpp").read_text()

    def make(self, programs):
        return "a.cpp: error: no", 1 if self.changed() and not self.builds else 0

    def run(self, suite, cpu_seconds):
        return (1 if not self.passes or self.changed() and self.notices else 0), "one is one"


class Verdicts(List):
    def judge(self, **kinds):
        self.data.write_text(GOOD)
        verdict = FakeScratch(self.root, **kinds).judge(RUN.read_mutations(self.data)[0])
        self.assertEqual((self.root / "box" / "a.cpp").read_text(), "int one = 1;\nint two = 2;\n")
        return verdict

    def test_verdicts(self):
        self.assertEqual(self.judge(), ("killed", "one is one"))
        self.assertEqual(self.judge(notices=False), ("survived", ""))
        self.assertEqual(self.judge(builds=False), ("does not build", "a.cpp: error: no"))
        with self.assertRaises(RUN.Fault):  # no verdict of a suite that fails anyway
            self.judge(passes=False)

    def test_a_line_is_put_back_after_a_run_that_was_killed(self):
        self.data.write_text(GOOD)
        mutation, path = RUN.read_mutations(self.data)[0], self.root / "box" / "a.cpp"
        FakeScratch(self.root).change(mutation)
        self.assertEqual(path.read_text(), "int one = 2;\nint two = 2;\n")
        FakeScratch(self.root).restore()
        self.assertEqual(path.read_text(), "int one = 1;\nint two = 2;\n")
        FakeScratch(self.root).change(mutation)
        path.write_text("int three = 3;\n")  # edited meanwhile
        FakeScratch(self.root).restore()
        self.assertEqual(path.read_text(), "int three = 3;\n")

    def test_a_loop_is_cut_off_by_its_cpu_time(self):
        scratch = RUN.Scratch(self.root, self.root / "out", here=True)
        self.assertEqual(scratch.command(["sh", "-c", "while :; do :; done"], 60, 1), ("", None))
        self.assertEqual(scratch.command(["sh", "-c", "echo a; exit 3"], 60, 1), ("a\n", 3))

    def test_the_tree_itself_needs_a_build_folder(self):
        RUN.subprocess.run(["git", "init", "-q", self.root], check=True)
        scratch = RUN.Scratch(self.root, self.root / "out", here=True)
        self.assertEqual(scratch.tree, self.root)
        with self.assertRaises(RUN.Fault):
            scratch.refresh()
        (self.root / "build" / "release").mkdir(parents=True)
        (self.root / "build" / "release" / "build.ninja").write_text("")
        before = scratch.refresh()
        (self.root / "box" / "a.cpp").write_text("int one = 3;\n")
        self.assertNotEqual(scratch.refresh(), before)


if __name__ == "__main__":
    unittest.main()
