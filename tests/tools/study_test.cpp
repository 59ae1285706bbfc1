#include "tools/study/study.hpp"

#include <doctest/doctest.h>

#include <string>

#include "sim/base/error.hpp"

using namespace tracecast;

namespace {

std::string study_with(const std::string& row) {
  return "id: \"s\" title: \"T\" question: \"Q\" row { " + row + " }";
}

StudyRow row_with(std::optional<double> published) {
  StudyRow row;
  row.published = published;
  return row;
}

}  // namespace

TEST_SUITE("tools/study/study") {
  TEST_CASE("a row agrees when every test that is given passes") {
    StudyRow factor = row_with(2.0);
    factor.factor = 1.5;
    factor.neutral = 1;
    CHECK(agrees(factor, 3.0));   // 1.5 times
    CHECK(agrees(factor, 1.34));  // 2 / 1.34 = 1.49
    CHECK_FALSE(agrees(factor, 3.01));
    CHECK_FALSE(agrees(factor, 1.32));
    CHECK_FALSE(agrees(factor, std::nullopt));
    CHECK_FALSE(agrees(factor, -2.0));

    StudyRow direction = row_with(1.2);
    direction.neutral = 1;
    CHECK(agrees(direction, 40.0));
    CHECK_FALSE(agrees(direction, 0.99));

    StudyRow points = row_with(-60.0);
    points.points = 10;
    CHECK(agrees(points, -70.0));
    CHECK_FALSE(agrees(points, -49.9));

    StudyRow bound = row_with(std::nullopt);
    bound.at_most = 1;
    CHECK(agrees(bound, 1.0));
    CHECK_FALSE(agrees(bound, 1.01));
    CHECK_FALSE(agrees(bound, std::nullopt));
  }

  TEST_CASE("a study's file that is wrong is refused") {
    const std::string good = R"(id: "r" experiment: "e" published: 1 factor: 2)";
    CHECK(parse_study(study_with(good), "f").rows.size() == 1);
    const std::string bad[] = {
        R"(experiment: "e" published: 1 factor: 2)",            // no id
        R"(id: "r" published: 1 factor: 2)",                    // no experiment
        R"(id: "r" experiment: "e" published: 1)",              // no test
        R"(id: "r" experiment: "e" factor: 2)",                 // nothing to compare with
        R"(id: "r" experiment: "e" published: 1 factor: 0.5)",  // nothing passes
        R"(id: "r" experiment: "e" published: 1 points: -1)",
        R"(id: "r" experiment: "e" published: 1 factr: 2)",
        good + " } row { " + good,  // the id twice
    };
    for (const std::string& row : bad) {
      CAPTURE(row);
      CHECK_THROWS_AS((void)parse_study(study_with(row), "f"), InputError);
    }
    CHECK_THROWS_AS((void)parse_study("id: \"s\"", "f"), InputError);
  }

  TEST_CASE("arguments are asked for by key and type, and none is overlooked") {
    const StudyArguments args("run a=7 b=1.5 list=8,16", "r");
    CHECK(args.experiment() == "run");
    CHECK(args.integer("a") == 7);
    CHECK(args.number("b") == 1.5);
    CHECK(args.text("c", "other") == "other");
    CHECK_THROWS_AS((void)args.integer("b"), InputError);
    CHECK_THROWS_AS((void)args.text("c"), InputError);
    CHECK_THROWS_AS(args.check_all_used(), InputError);
    CHECK(args.integers("list") == std::vector<std::int64_t>{8, 16});
    CHECK_NOTHROW(args.check_all_used());
    CHECK_THROWS_AS(StudyArguments("run a", "r"), InputError);
    CHECK_THROWS_AS(StudyArguments("run a=1 a=2", "r"), InputError);
    CHECK_THROWS_AS((void)StudyArguments("run a=8,x", "r").integers("a"), InputError);
  }

  TEST_CASE("studies are found by id, and an experiment that nobody knows is refused") {
    CHECK(find_study("S-OSU").id == "s_osu");
    CHECK_THROWS_AS((void)find_study("s_moon"), InputError);
    const Hardware hardware = load_hardware({});
    const Study study =
        parse_study(study_with(R"(id: "r" experiment: "levitate" published: 1 factor: 2)"), "f");
    CHECK_THROWS_AS((void)run_study(study, hardware), InputError);
  }

  TEST_CASE("every study in the binary names a test for each row") {
    for (const Study& study : studies()) {
      CHECK_FALSE(study.question.empty());
      for (const StudyRow& row : study.rows) {
        CAPTURE(row.id);
        CHECK_FALSE(row.finding.empty());
        CHECK_FALSE(row.printed.empty());
      }
    }
  }
}
