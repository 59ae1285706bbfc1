#include "hwspecs/software/published_source.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "hwspecs/loaders/textproto.hpp"
#include "hwspecs/proto/published_source.pb.h"
#include "sim/base/error.hpp"

namespace tracecast {
namespace {

using SourceMessage = proto::PublishedSource;

template <class List>
std::vector<std::string> strings(const List& list) {
  return {list.begin(), list.end()};
}

RowSelection read_rows(const SourceMessage::Rows& rows, std::string_view where) {
  RowSelection selection;
  selection.tables = strings(rows.table());
  for (const auto& c : rows.where()) {
    RowCondition condition{strings(c.column()), strings(c.is()), strings(c.is_not()),
                           strings(c.has()), strings(c.begins())};
    const bool is_empty = condition.is.empty() && condition.is_not.empty() &&
                          condition.has.empty() && condition.begins.empty();
    if (condition.columns.empty() || is_empty) {
      throw InputError(
          where, fmt::format("a condition on column \"{}\"", fmt::join(condition.columns, ", ")),
          "a column, and is, is_not, has or begins");
    }
    selection.where.push_back(std::move(condition));
  }
  return selection;
}

/// Every fact of a program with that of another: `each(fact of a, fact of b)`.
template <class A, class B, class Each>
void for_each_fact(A& a, B& b, const Each& each) {
  each(a.framework, b.framework);
  each(a.version, b.version);
  each(a.date, b.date);
  each(a.data, b.data);
  each(a.optimizer, b.optimizer);
  each(a.cudnn_benchmark, b.cudnn_benchmark);
  each(a.channels_last, b.channels_last);
  each(a.attention, b.attention);
  each(a.pipeline, b.pipeline);
  each(a.precision, b.precision);
  each(a.mps, b.mps);
  each(a.gpu, b.gpu);
  each(a.machine, b.machine);
  each(a.box, b.box);
  each(a.link, b.link);
  each(a.network, b.network);
  each(a.strategy, b.strategy);
  each(a.phase, b.phase);
  each(a.batch, b.batch);
  each(a.seq_len, b.seq_len);
  each(a.cuda_graphs, b.cuda_graphs);
  each(a.power_limit_w, b.power_limit_w);
  each(a.host, b.host);
  each(a.unpredicted, b.unpredicted);
  each(a.layout.heads, b.layout.heads);
  each(a.layout.vocabulary, b.layout.vocabulary);
  each(a.layout.feed_forward_thirds, b.layout.feed_forward_thirds);
  each(a.layout.feed_forward_multiple, b.layout.feed_forward_multiple);
  each(a.layout.biases, b.layout.biases);
  each(a.layout.dropout, b.layout.dropout);
  each(a.layout.causal, b.layout.causal);
  each(a.layout.rms_norm, b.layout.rms_norm);
  each(a.layout.rotary, b.layout.rotary);
  each(a.layout.gated, b.layout.gated);
  each(a.layout.tied, b.layout.tied);
  each(a.parallel_layout.software, b.parallel_layout.software);
  each(a.parallel_layout.precision, b.parallel_layout.precision);
  each(a.parallel_layout.attention, b.parallel_layout.attention);
  each(a.parallel_layout.recompute, b.parallel_layout.recompute);
  each(a.parallel_layout.chunks, b.parallel_layout.chunks);
  each(a.parallel_layout.batch_by_stages, b.parallel_layout.batch_by_stages);
  each(a.parallel_layout.zero, b.parallel_layout.zero);
  each(a.parallel_layout.always_zero, b.parallel_layout.always_zero);
  each(a.parallel_layout.sequence_parallel, b.parallel_layout.sequence_parallel);
  each(a.parallel_layout.tensor_sequence_parallel, b.parallel_layout.tensor_sequence_parallel);
  each(a.calls.image_layout, b.calls.image_layout);
  each(a.calls.ecc, b.calls.ecc);
  each(a.calls.cublas_lt, b.calls.cublas_lt);
  each(a.calls.unrolled, b.calls.unrolled);
  each(a.calls.multiple, b.calls.multiple);
  each(a.calls.algorithm, b.calls.algorithm);
}

#define TRACECAST_WORD(to, from, field) to.field = from.field()
#define TRACECAST_FACT(to, from, field) \
  if (from.has_##field()) to.field = from.field()

LayoutFacts read_layout(const SourceMessage::Layout& l) {
  LayoutFacts facts;
  TRACECAST_FACT(facts, l, heads);
  TRACECAST_FACT(facts, l, vocabulary);
  TRACECAST_FACT(facts, l, feed_forward_thirds);
  TRACECAST_FACT(facts, l, feed_forward_multiple);
  TRACECAST_FACT(facts, l, biases);
  TRACECAST_FACT(facts, l, dropout);
  TRACECAST_FACT(facts, l, causal);
  TRACECAST_FACT(facts, l, rms_norm);
  TRACECAST_FACT(facts, l, rotary);
  TRACECAST_FACT(facts, l, gated);
  TRACECAST_FACT(facts, l, tied);
  return facts;
}

ParallelFacts read_layout(const SourceMessage::ParallelLayout& d) {
  ParallelFacts facts;
  TRACECAST_WORD(facts, d, software);
  TRACECAST_WORD(facts, d, precision);
  TRACECAST_WORD(facts, d, attention);
  TRACECAST_WORD(facts, d, recompute);
  TRACECAST_FACT(facts, d, chunks);
  TRACECAST_FACT(facts, d, batch_by_stages);
  TRACECAST_FACT(facts, d, zero);
  TRACECAST_FACT(facts, d, always_zero);
  TRACECAST_FACT(facts, d, sequence_parallel);
  TRACECAST_FACT(facts, d, tensor_sequence_parallel);
  return facts;
}

CallFacts read_calls(const SourceMessage::Calls& c) {
  CallFacts facts;
  TRACECAST_WORD(facts, c, image_layout);
  TRACECAST_FACT(facts, c, ecc);
  TRACECAST_FACT(facts, c, cublas_lt);
  TRACECAST_FACT(facts, c, unrolled);
  TRACECAST_FACT(facts, c, multiple);
  TRACECAST_WORD(facts, c, algorithm);
  return facts;
}

PublishedProgram read_program(const SourceMessage::Program& p, std::string_view where) {
  PublishedProgram program;
  TRACECAST_WORD(program, p, framework);
  TRACECAST_WORD(program, p, version);
  TRACECAST_WORD(program, p, date);
  TRACECAST_WORD(program, p, data);
  TRACECAST_WORD(program, p, optimizer);
  TRACECAST_FACT(program, p, cudnn_benchmark);
  TRACECAST_FACT(program, p, channels_last);
  TRACECAST_WORD(program, p, attention);
  TRACECAST_WORD(program, p, pipeline);
  TRACECAST_WORD(program, p, precision);
  TRACECAST_FACT(program, p, mps);
  TRACECAST_WORD(program, p, gpu);
  TRACECAST_WORD(program, p, machine);
  TRACECAST_WORD(program, p, box);
  TRACECAST_WORD(program, p, link);
  TRACECAST_WORD(program, p, network);
  TRACECAST_WORD(program, p, strategy);
  TRACECAST_WORD(program, p, phase);
  TRACECAST_FACT(program, p, batch);
  TRACECAST_FACT(program, p, seq_len);
  TRACECAST_FACT(program, p, cuda_graphs);
  TRACECAST_FACT(program, p, power_limit_w);
  TRACECAST_WORD(program, p, host);
  TRACECAST_WORD(program, p, unpredicted);
  program.layout = read_layout(p.layout());
  program.parallel_layout = read_layout(p.parallel_layout());
  program.calls = read_calls(p.calls());
  for (const auto& count :
       {program.parallel_layout.chunks, program.layout.heads, program.layout.vocabulary,
        program.layout.feed_forward_thirds, program.layout.feed_forward_multiple}) {
    if (count && *count < 1) {
      throw InputError(where, fmt::format("program: {}", *count), "counts from 1");
    }
  }
  return program;
}

#undef TRACECAST_WORD
#undef TRACECAST_FACT

PublishedUse read_use(const SourceMessage::UsedFor& use, std::string_view where) {
  if (!use.has_use() || use.what().empty() || use.record().empty()) {
    throw InputError(where, "used_for without use, what or record",
                     "all three: what was fitted or chosen, and the commit or note that did");
  }
  return {.use = use.use() == SourceMessage::FIT ? RowUse::Fit : RowUse::Choice,
          .of_interval = use.of_interval(),
          .rows = read_rows(use.rows(), where),
          .what = use.what(),
          .record = use.record()};
}

/// Whether a fact is stated.
bool is_stated(const std::string& word) { return !word.empty(); }
template <class Value>
bool is_stated(const std::optional<Value>& value) {
  return value.has_value();
}

/// What `later` states goes before what `program` has.
void take(PublishedProgram& program, const PublishedProgram& later) {
  for_each_fact(program, later, [](auto& fact, const auto& stated) {
    if (is_stated(stated)) fact = stated;
  });
}

}  // namespace

bool RowCondition::holds(std::string_view text) const {
  const auto any = [](const std::vector<std::string>& words, const auto& is_so) {
    return words.empty() || std::any_of(words.begin(), words.end(), is_so);
  };
  return any(is, [&](const std::string& word) { return text == word; }) &&
         std::find(is_not.begin(), is_not.end(), text) == is_not.end() &&
         any(has, [&](const std::string& word) { return text.find(word) != text.npos; }) &&
         any(begins, [&](const std::string& word) { return text.starts_with(word); });
}

bool RowSelection::may_select(std::string_view table, std::span<const std::string> columns) const {
  const bool is_named =
      tables.empty() || std::find(tables.begin(), tables.end(), table) != tables.end();
  const auto is_there = [&](const std::string& column) {
    return std::find(columns.begin(), columns.end(), column) != columns.end();
  };
  return is_named && std::all_of(where.begin(), where.end(), [&](const RowCondition& condition) {
           return std::any_of(condition.columns.begin(), condition.columns.end(), is_there) ||
                  condition.holds("");
         });
}

bool RowSelection::selects(const RowField& field) const {
  return std::all_of(where.begin(), where.end(), [&](const RowCondition& condition) {
    std::string_view text;
    for (const std::string& column : condition.columns) {
      if (text.empty()) text = field(column);
    }
    return condition.holds(text);
  });
}

std::string_view to_string(RowUse use) {
  return use == RowUse::Fit ? "fit" : use == RowUse::Choice ? "choice" : "none";
}

PublishedSource parse_published_source(std::string_view text, std::string_view where) {
  SourceMessage message;
  parse_textproto(text, where, message);
  PublishedSource source;
  source.id = message.id();
  source.name = message.name();
  if (source.id.empty()) throw InputError(where, "no id", "an id such as \"horovod_readme\"");
  for (const auto& s : message.sources()) source.sources.push_back({s.key(), s.title(), s.where()});
  source.rows = read_rows(message.rows(), where);
  for (const auto& program : message.program()) {
    const auto is_its_source = [&](const SpecSource& s) { return s.key == program.source(); };
    if (std::none_of(source.sources.begin(), source.sources.end(), is_its_source)) {
      throw InputError(where, fmt::format("program: source \"{}\"", program.source()),
                       "the key of a source in the same file");
    }
    source.programs.emplace_back(read_rows(program.rows(), where), read_program(program, where));
  }
  for (const auto& use : message.used_for()) source.uses.push_back(read_use(use, where));
  return source;
}

PublishedRecords::PublishedRecords(std::span<const PublishedSource> all, std::string_view table,
                                   std::span<const std::string> columns) {
  if (table.ends_with(".gz")) table.remove_suffix(3);
  for (const PublishedSource& source : all) {
    if (!source.rows.may_select(table, columns)) continue;
    Record record{.source = &source, .programs = {}, .uses = {}};
    for (const auto& program : source.programs) {
      if (program.first.may_select(table, columns)) record.programs.push_back(&program);
    }
    for (const PublishedUse& use : source.uses) {
      if (use.rows.may_select(table, columns)) record.uses.push_back(&use);
    }
    if (!record.programs.empty() || !record.uses.empty()) records_.push_back(std::move(record));
  }
}

PublishedProgram PublishedRecords::program_of(const RowField& field) const {
  PublishedProgram program;
  for (const Record& record : records_) {
    if (record.programs.empty() || !record.source->rows.selects(field)) continue;
    for (const auto* stated : record.programs) {
      if (stated->first.selects(field)) take(program, stated->second);
    }
  }
  return program;
}

PublishedRecords::Used PublishedRecords::used_for(const RowField& field) const {
  Used used;
  for (const Record& record : records_) {
    if (record.uses.empty() || !record.source->rows.selects(field)) continue;
    for (const PublishedUse* use : record.uses) {
      RowUse& known = use->of_interval ? used.interval : used.value;
      if (use->use > known && use->rows.selects(field)) known = use->use;
    }
  }
  return used;
}

}  // namespace tracecast
