"""tools/coverage adds up lines by folder. Run from the root of the source tree."""
import importlib.machinery
import importlib.util
import sys
import unittest

LOADER = importlib.machinery.SourceFileLoader("coverage_tool", "tools/coverage")
TOOL = importlib.util.module_from_spec(importlib.util.spec_from_loader("coverage_tool", LOADER))
sys.modules["coverage_tool"] = TOOL
LOADER.exec_module(TOOL)


def file(path, covered, count):
    return {"filename": str(TOOL.ROOT / path), "summary": {"lines": {"covered": covered, "count": count}}}


class Lines(unittest.TestCase):
    def test_boxes_of_sim_stand_apart_and_tests_do_not_count(self):
        outside = {"filename": "/usr/include/x.hpp", "summary": {"lines": {"covered": 9, "count": 9}}}
        report = {"data": [{"files": [file("sim/cost/a.cpp", 3, 4), file("sim/cost/b.hpp", 1, 4), file("models/zoo/c.cpp", 5, 10),
                                      file("tests/x_test.cpp", 7, 7), outside]}]}
        folders = TOOL.lines_by_folder(report)
        self.assertEqual(folders, {"models": [5, 10], "sim/cost": [4, 8]})
        self.assertIn("| `all` | 18 | 50.0 % |", TOOL.table(folders))


if __name__ == "__main__":
    unittest.main()
