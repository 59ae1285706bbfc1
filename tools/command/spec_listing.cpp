#include "tools/command/spec_listing.hpp"
#include "tools/command/cell.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "hwspecs/loaders/gpu_base.hpp"
#include "sim/base/text.hpp"
#include "tools/command/csv.hpp"
#include "tools/command/json_text.hpp"
#include "tools/command/output.hpp"
#include "tools/command/version.hpp"

namespace tracecast {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kIdWidth = 20;
constexpr std::size_t kWidth = 80;

/// Counts as they are, other numbers in three digits, words as they are.
std::string short_form(const std::string& cell, std::size_t width) {
  const auto number = parse_double(cell);
  return number && !parse_integer(cell) ? low_precision(*number, width) : printable(cell);
}

std::string list_text(const SpecList& list) {
  std::size_t name_width = kWidth - kIdWidth - 1;
  for (const ListColumn& column : list.columns) name_width -= column.width + 1;
  std::string text = fit("id", kIdWidth) + ' ' + fit("name", name_width);
  for (const ListColumn& column : list.columns) {
    text += fmt::format(" {:>{}}", column.title, column.width);
  }
  text += '\n';
  for (const ListRow& row : list.rows) {
    text += fit(row.spec->id, kIdWidth) + ' ' + fit(row.spec->name, name_width, kIdWidth + 1);
    for (std::size_t i = 0; i < row.cells.size(); ++i) {
      text += fmt::format(" {:>{}}", short_form(row.cells[i], list.columns[i].width),
                          list.columns[i].width);
    }
    text += '\n';
  }
  return text + '\n' + wrap(list.legend, kWidth - 2, 0) + '\n';
}

/// A number where the text is one.
Json value_json(const std::string& text) {
  if (text == "true" || text == "false") return text == "true";
  if (const auto integer = parse_integer(text)) return *integer;
  if (const auto number = parse_double(text)) return *number;
  return text;
}

std::string finish(const Json& doc) { return json_text(doc) + '\n'; }

std::string list_json(const SpecList& list) {
  Json doc;
  doc["schema"] = "tracecast.hardware/" + std::to_string(kSchema);
  doc["version"] = kVersion;
  doc["kind"] = list.kind;
  doc[list.kind] = Json::array();
  for (const ListRow& row : list.rows) {
    Json entry{{"id", row.spec->id}, {"name", row.spec->name}, {"aliases", row.spec->aliases}};
    for (std::size_t i = 0; i < row.cells.size(); ++i) {
      entry[list.columns[i].key] = value_json(row.cells[i]);
    }
    doc[list.kind].push_back(std::move(entry));
  }
  return finish(doc);
}

std::string list_csv(const SpecList& list) {
  std::string text = "id,name";
  for (const ListColumn& column : list.columns) text += ',' + column.key;
  text += '\n';
  for (const ListRow& row : list.rows) {
    text += csv_field(row.spec->id) + ',' + csv_field(row.spec->name);
    for (const std::string& cell : row.cells) text += ',' + csv_field(cell);
    text += '\n';
  }
  return text;
}

std::string spec_text(const SpecIdentity& spec) {
  std::string text = fmt::format("{}: {}\n", spec.id, printable(spec.name));
  if (!spec.aliases.empty()) {
    text += "also called " + wrap(fmt::format("{}", fmt::join(spec.aliases, ", ")), 68, 12) + '\n';
  }
  std::size_t width = 0, value_width = 0;
  bool inherits = false;
  for (const SpecValue& value : spec.values) {
    width = std::max(width, value.field.size());
    value_width = std::max(value_width, value.value.size());
    inherits = inherits || !inherited_from(value).empty();
  }
  width = std::min<std::size_t>(width, 36);
  // "h200/whitepaper (inherited)" wants the room.
  value_width = inherits ? std::min<std::size_t>(value_width, 20) : 20;
  text += '\n';
  for (const SpecValue& value : spec.values) {
    const std::string source = value.source + (inherited_from(value).empty() ? "" : " (inherited)");
    const std::size_t source_at = width + 2 + value_width + 2;
    text += fmt::format("{}  {}  {}\n", fit(value.field, width),
                        fit(value.value, value_width, width + 2), last_cell(source, source_at));
  }
  text += "\nSources\n";
  for (const SpecSource& source : spec.sources) {
    text += "  " + wrap(fmt::format("{}: {}, {}", source.key, source.title, source.where), 76, 4) +
            '\n';
  }
  return text;
}

std::string spec_json(const SpecIdentity& spec, std::string_view kind) {
  Json doc;
  doc["schema"] = "tracecast.hardware/" + std::to_string(kSchema);
  doc["version"] = kVersion;
  doc["kind"] = kind;
  doc["id"] = spec.id;
  doc["name"] = spec.name;
  doc["aliases"] = spec.aliases;
  doc["values"] = Json::array();
  for (const SpecValue& value : spec.values) {
    Json entry{
        {"field", value.field}, {"value", value_json(value.value)}, {"source", value.source}};
    if (const auto owner = inherited_from(value); !owner.empty()) entry["inherited_from"] = owner;
    doc["values"].push_back(std::move(entry));
  }
  doc["sources"] = Json::array();
  for (const SpecSource& source : spec.sources) {
    doc["sources"].push_back(
        {{"key", source.key}, {"title", source.title}, {"where", source.where}});
  }
  return finish(doc);
}

std::string spec_csv(const SpecIdentity& spec) {
  std::string text = "field,value,source,title,where,inherited_from\n";
  for (const SpecValue& value : spec.values) {
    const auto source = std::find_if(spec.sources.begin(), spec.sources.end(),
                                     [&](const SpecSource& s) { return s.key == value.source; });
    text += csv_line(value.field, value.value, value.source, source->title, source->where,
                     inherited_from(value));
  }
  return text;
}

}  // namespace

std::string write_list(const SpecList& list, std::string_view format) {
  if (format == "json") return list_json(list);
  return format == "csv" ? list_csv(list) : list_text(list);
}

std::string write_spec(const SpecIdentity& spec, std::string_view kind, std::string_view format) {
  if (format == "json") return spec_json(spec, kind);
  return format == "csv" ? spec_csv(spec) : spec_text(spec);
}

}  // namespace tracecast
