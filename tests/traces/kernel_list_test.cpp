#include "traces/kernel_list/reader.hpp"

#include <doctest/doctest.h>

#include <string>

#include "sim/base/error.hpp"
#include "tests/traces/text_source.hpp"
#include "traces/summary.hpp"

using namespace tracecast;
using namespace tracecast::traces;

namespace {

Trace read_kernels(const std::string& text) {
  test::TextSource source(text, 9);
  return read_kernel_list(source, "list.csv");
}

}  // namespace

TEST_CASE("a kernel list is one stream of kernels, one after the other") {
  const Trace trace =
      read_kernels("Name,Profile,SM_usage,Duration\r\nConv,1,80,3000\n\"f, g\",-1,2,500\n\n");
  REQUIRE(trace.kernels.size() == 2);
  CHECK(trace.kernels.span[1] == Span{3000, 500});
  CHECK(trace[trace.kernels.name[1]] == "f, g");
  const Summary summary = summarize(trace, KernelNames::builtin());
  CHECK(summary.busy_ns == 3500);
  CHECK(summary.classes.front().kernel_class == KernelClass::Convolution);
}

TEST_CASE("rows without a usable duration count as damage, and another header is refused") {
  const Trace trace = read_kernels(
      "Name,Duration\na,x\nb,-1\nc\nd,99999999999999999999\ne,9223372036854775807\nf,1\n");
  CHECK(trace.kernels.size() == 1);
  CHECK(trace.left_out.at("row without a duration").count == 5);
  CHECK(is_kernel_list("Name,Duration\n"));
  CHECK_FALSE(is_kernel_list("Name,Time\n"));
  CHECK_THROWS_AS((void)read_kernels("Kernel,Duration\n"), InputError);
}
