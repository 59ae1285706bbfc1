#include "sim/plan/purchase/remembered_cells.hpp"

#include <doctest/doctest.h>

#include "tests/support/temporary_folder.hpp"

namespace tracecast::plan {
namespace {

TEST_SUITE_BEGIN("sim/plan/remembered_cells");

TEST_CASE("a cell is found again for the question that it answered, and for no other") {
  const tracecast::test::TemporaryFolder folder;
  const auto file = folder.path() / "cells.sqlite";
  const Predictor predictor(Hardware::embedded());
  const CellQuestion first{.job = {.network = "alexnet", .batch = 2}, .place = {.gpu = "t4"}};
  std::vector<CellQuestion> questions(7, first);
  questions[1].job.batch = 3;
  questions[2].job.fan_out = {4};
  questions[3].job.software.cuda_graphs = true;
  questions[4].place.board.clock_mhz = 900;
  questions[5].global_batch = 8;
  questions[6].serving.emplace().requests_per_s = 1;
  const RememberedCells cells(predictor, "program", file, 1);
  (void)cells(questions);
  CHECK(cells.predicted() == questions.size());
  (void)cells(questions);
  CHECK(cells.predicted() == 0);
  // How long and how surely requests are answered decides about the use of a cell alone.
  questions[6].serving->time = Seconds(3600);
  questions[6].serving->certainty = 0.9;
  (void)RememberedCells(predictor, "program", file, 1)(questions);
  (void)cells(questions);
  CHECK(cells.predicted() == 0);
  // Another program asks anew.
  const RememberedCells others(predictor, "another program", file, 1);
  (void)others(questions);
  CHECK(others.predicted() == questions.size());
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast::plan
