#include "hwspecs/loaders/known_names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "hwspecs/loaders/textproto.hpp"
#include "hwspecs/proto/known_names.pb.h"
#include "sim/base/embedded.hpp"
#include "sim/base/error.hpp"
#include "sim/base/text.hpp"

namespace tracecast {
namespace embedded {
std::span<const EmbeddedFile> known_name_files();
}  // namespace embedded
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Letters and digits, lower case.
std::string bare(std::string_view word) {
  std::string text = to_lower(word);
  std::erase_if(text, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; });
  return text;
}

bool matches(std::string_view word, std::string_view pattern) {
  const bool is_open = pattern.ends_with('*');
  if (is_open) pattern.remove_suffix(1);
  if (is_open ? word.size() < pattern.size() : word.size() != pattern.size()) return false;
  return std::equal(pattern.begin(), pattern.end(), word.begin(),
                    [](char p, char c) { return p == '#' ? is_digit(c) : p == c; });
}

class Reader {
 public:
  Reader(std::string_view where, KnownNames& into) : where_(where), into_(into) {}

  void read(std::string_view text) {
    proto::KnownNames file;
    parse_textproto(text, where_, file);
    for (const auto& row : file.network()) {
      check(row, row.id(), "network", row.called_size());
      if (row.has_image_size() && row.image_size() < 1)
        throw InputError(where_, fmt::format("image_size {}", row.image_size()), "1 or more");
      for (const std::string& called : row.called()) {
        into_.networks.push_back({.network = row.id(), .called = called});
        if (row.has_image_size()) into_.networks.back().image_size = row.image_size();
      }
    }
    for (const auto& row : file.publishers()) {
      check(row, "publishers", "publishers", row.called_size());
      for (const std::string& called : row.called()) into_.publishers.push_back(to_lower(called));
    }
    for (const auto& row : file.endings()) {
      check(row, "endings", "endings", row.text_size());
      for (const std::string& text_of : row.text())
        into_.endings.push_back({to_lower(text_of), row.stored()});
    }
    for (const auto& row : file.accelerators()) {
      check(row, row.name(), "accelerators", row.called_size());
      into_.accelerators.push_back({row.name(), {row.called().begin(), row.called().end()}});
    }
    for (const auto& row : file.files()) {
      check(row, row.what(), "files", row.ending_size());
      if (row.instead().empty()) throw InputError(where_, "files without instead", "what to give");
      into_.files.push_back(
          {{row.ending().begin(), row.ending().end()}, row.what(), row.instead()});
    }
  }

 private:
  template <class Row>
  void check(const Row& row, std::string_view name, std::string_view kind, int spellings) const {
    if (name.empty() || spellings == 0 || row.source().empty())
      throw InputError(where_, fmt::format("{} \"{}\"", kind, name),
                       "its name, at least one spelling, and a source");
  }

  std::string where_;
  KnownNames& into_;
};

}  // namespace

KnownNames parse_known_names(std::span<const NamesText> files) {
  KnownNames names;
  for (const NamesText& file : files) Reader(file.where, names).read(file.content);
  return names;
}

const KnownNames& known_names() {
  static const KnownNames names = [] {
    std::vector<NamesText> files;
    for (const EmbeddedFile& file : embedded::known_name_files())
      files.push_back({file.content, file.path});
    return parse_known_names(files);
  }();
  return names;
}

void refuse_other_names(std::string_view file_name, std::string_view content,
                        std::string_view where) {
  for (const EmbeddedFile& file : embedded::known_name_files()) {
    const std::string_view path = file.path;
    if (path.substr(path.rfind('/') + 1) == file_name && file.content == content) return;
  }
  throw InputError(std::string(where), "names",
                   "specs: names are the program's own, none is read from a folder");
}

std::string find_unknown_accelerator(std::string_view word) {
  const std::string wanted = bare(word);
  for (const KnownNames::Accelerators& kind : known_names().accelerators) {
    if (std::any_of(kind.called.begin(), kind.called.end(),
                    [&](const std::string& pattern) { return matches(wanted, pattern); }))
      return kind.name;
  }
  return {};
}

void refuse_other_file(std::string_view network) {
  const std::string name = to_lower(network);
  for (const KnownNames::Files& kind : known_names().files) {
    for (const std::string& ending : kind.endings) {
      if (name.size() > ending.size() && name.ends_with(ending))
        throw InputError("network", fmt::format("'{}', {}", network, kind.what), kind.instead);
    }
  }
}

}  // namespace tracecast
