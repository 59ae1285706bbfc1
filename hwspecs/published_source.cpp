#include "hwspecs/published_source.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "hwspecs/proto/published_source.pb.h"
#include "hwspecs/textproto.hpp"
#include "sim/base/error.hpp"

namespace tracecast {
namespace {

using Message = proto::PublishedSource;

template <class List>
std::vector<std::string> strings(const List& list) {
  return {list.begin(), list.end()};
}

RowSelection read_rows(const Message::Rows& rows, std::string_view where) {
  RowSelection selection;
  selection.tables = strings(rows.table());
  for (const auto& c : rows.where()) {
    RowCondition condition{c.column(), strings(c.is()), strings(c.is_not()), strings(c.has()),
                           strings(c.begins())};
    const bool is_empty = condition.is.empty() && condition.is_not.empty() &&
                          condition.has.empty() && condition.begins.empty();
    if (condition.column.empty() || is_empty) {
      throw InputError(where, fmt::format("a condition on column \"{}\"", condition.column),
                       "a column, and is, is_not, has or begins");
    }
    selection.where.push_back(std::move(condition));
  }
  return selection;
}

PublishedProgram read_program(const Message::Program& p) {
  PublishedProgram program{.version = p.version(),
                           .data = p.data(),
                           .optimizer = p.optimizer(),
                           .cudnn_benchmark = {},
                           .gpu = p.gpu(),
                           .machine = p.machine(),
                           .link = p.link(),
                           .software = p.software(),
                           .precision = p.precision(),
                           .attention = p.attention(),
                           .recompute = p.recompute(),
                           .zero = {},
                           .always_zero = {},
                           .sequence_parallel = {},
                           .tensor_sequence_parallel = {}};
  if (p.has_cudnn_benchmark()) program.cudnn_benchmark = p.cudnn_benchmark();
  if (p.has_zero()) program.zero = p.zero();
  if (p.has_always_zero()) program.always_zero = p.always_zero();
  if (p.has_sequence_parallel()) program.sequence_parallel = p.sequence_parallel();
  if (p.has_tensor_sequence_parallel()) {
    program.tensor_sequence_parallel = p.tensor_sequence_parallel();
  }
  return program;
}

PublishedUse read_use(const Message::UsedFor& use, std::string_view where) {
  if (!use.has_use() || use.what().empty() || use.record().empty()) {
    throw InputError(where, "used_for without use, what or record",
                     "all three: what was fitted or chosen, and the commit or note that did");
  }
  return {.use = use.use() == Message::FIT ? RowUse::Fit : RowUse::Choice,
          .of_interval = use.of_interval(),
          .rows = read_rows(use.rows(), where),
          .what = use.what(),
          .record = use.record()};
}

/// What `later` states goes before what `program` has.
void take(PublishedProgram& program, const PublishedProgram& later) {
  for (std::string PublishedProgram::*word :
       {&PublishedProgram::version, &PublishedProgram::data, &PublishedProgram::optimizer,
        &PublishedProgram::gpu, &PublishedProgram::machine, &PublishedProgram::link,
        &PublishedProgram::software, &PublishedProgram::precision, &PublishedProgram::attention,
        &PublishedProgram::recompute}) {
    if (!(later.*word).empty()) program.*word = later.*word;
  }
  for (std::optional<int> PublishedProgram::*number :
       {&PublishedProgram::zero, &PublishedProgram::always_zero}) {
    if (later.*number) program.*number = later.*number;
  }
  for (std::optional<bool> PublishedProgram::*flag :
       {&PublishedProgram::cudnn_benchmark, &PublishedProgram::sequence_parallel,
        &PublishedProgram::tensor_sequence_parallel}) {
    if (later.*flag) program.*flag = later.*flag;
  }
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

bool RowSelection::may_select(std::string_view table) const {
  return tables.empty() || std::find(tables.begin(), tables.end(), table) != tables.end();
}

bool RowSelection::selects(const RowField& field) const {
  return std::all_of(where.begin(), where.end(), [&](const RowCondition& condition) {
    return condition.holds(field(condition.column));
  });
}

std::string_view to_string(RowUse use) {
  return use == RowUse::Fit ? "fit" : use == RowUse::Choice ? "choice" : "none";
}

PublishedSource parse_published_source(std::string_view text, std::string_view where) {
  Message message;
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
    source.programs.emplace_back(read_rows(program.rows(), where), read_program(program));
  }
  for (const auto& use : message.used_for()) source.uses.push_back(read_use(use, where));
  return source;
}

PublishedRecords::PublishedRecords(std::span<const PublishedSource> all, std::string_view table)
    : table_(table) {
  if (table_.ends_with(".gz")) table_.resize(table_.size() - 3);
  for (const PublishedSource& source : all) {
    if (source.rows.may_select(table_)) records_.push_back(&source);
  }
}

PublishedProgram PublishedRecords::program_of(const RowField& field) const {
  PublishedProgram program;
  for (const PublishedSource* source : records_) {
    if (source->programs.empty() || !source->rows.selects(field)) continue;
    for (const auto& [rows, stated] : source->programs) {
      if (rows.may_select(table_) && rows.selects(field)) take(program, stated);
    }
  }
  return program;
}

PublishedRecords::Used PublishedRecords::used_for(const RowField& field) const {
  Used used;
  for (const PublishedSource* source : records_) {
    if (source->uses.empty() || !source->rows.selects(field)) continue;
    for (const PublishedUse& use : source->uses) {
      RowUse& known = use.of_interval ? used.interval : used.value;
      if (use.use <= known || !use.rows.may_select(table_) || !use.rows.selects(field)) continue;
      known = use.use;
    }
  }
  return used;
}

}  // namespace tracecast
