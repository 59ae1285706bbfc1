#include "hwspecs/slots.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>

#include "hwspecs/loaders/gpu_base.hpp"
#include "sim/base/error.hpp"
#include "sim/base/text.hpp"

namespace tracecast {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// "V100-SXM2 16GB" as v100, sxm2, 16gb.
std::vector<std::string> parts_of(std::string_view word) {
  std::vector<std::string> parts(1);
  for (const char c : to_lower(word)) {
    const bool between = c == '-' || c == ' ' || c == '.' || c == '_' || c == '(' || c == ')';
    if (!between) {
      parts.back() += c;
    } else if (!parts.back().empty()) {
      parts.emplace_back();
    }
  }
  if (parts.back().empty()) parts.pop_back();
  return parts;
}

/// "sxm" is any of sxm2 to sxm6, "a10" not a100.
bool means(const std::string& asked, const std::string& part) {
  if (asked == part) return true;
  return part.starts_with(asked) && std::none_of(asked.begin(), asked.end(), is_digit) &&
         std::all_of(part.begin() + static_cast<std::ptrdiff_t>(asked.size()), part.end(),
                     is_digit);
}

/// Whether `id` begins with the word's first part and has the others after it, in order.
bool may_mean(std::span<const std::string> word, const std::string& id) {
  const std::vector<std::string> parts = parts_of(id);
  if (word.empty() || parts.empty() || !means(word.front(), parts.front())) return false;
  std::size_t found = 0;
  for (const std::string& part : parts) {
    if (found < word.size() && means(word[found], part)) ++found;
  }
  return found == word.size();
}

/// "SXM4".
std::string name_of(FormFactor form) {
  std::string name(to_string(form));
  for (char& c : name) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return name;
}

std::string describe(const GpuSpec& gpu) {
  return gpu.form_factor == FormFactor::Pcie ? "a PCIe card"
         : gpu.form_factor == FormFactor::Superchip
             ? "part of a superchip"
             : fmt::format("an {} module", name_of(gpu.form_factor));
}

/// Whether the word is the id of a board, not another spelling or several boards' beginning.
bool is_id(std::string_view word, const GpuCatalog& gpus) {
  try {
    return parts_of(gpus.find(word).id) == parts_of(word);
  } catch (const InputError&) {
    return false;
  }
}

}  // namespace

bool comes_with(const MachineSpec& machine, const GpuSpec& gpu) {
  const auto has = [&](const std::string& id) {
    return std::find(machine.gpus.begin(), machine.gpus.end(), id) != machine.gpus.end();
  };
  const std::vector<SpecBase> bases = bases_of(gpu);
  return has(gpu.id) ||
         std::any_of(bases.begin(), bases.end(), [&](const SpecBase& b) { return has(b.id); });
}

std::vector<FormFactor> slot_forms(const MachineSpec& machine, const GpuCatalog& gpus) {
  if (machine.slot) return {*machine.slot};
  std::vector<FormFactor> forms;
  for (const std::string& id : machine.gpus) {
    const FormFactor form = gpus.find(id).form_factor;
    if (std::find(forms.begin(), forms.end(), form) == forms.end()) forms.push_back(form);
  }
  return forms;
}

void check_fits(const GpuSpec& gpu, const MachineSpec& machine, const GpuCatalog& gpus,
                std::string_view where) {
  if (comes_with(machine, gpu)) return;
  const std::vector<FormFactor> forms = slot_forms(machine, gpus);
  const bool has_form = std::find(forms.begin(), forms.end(), gpu.form_factor) != forms.end();
  if (forms.empty() || (has_form && gpu.form_factor != FormFactor::Superchip)) return;
  std::vector<std::string> names;
  for (const FormFactor form : forms) names.push_back(name_of(form));
  const std::string expected =
      machine.gpus.empty() ? fmt::format("a board of its {} slots", fmt::join(names, " and "))
                           : fmt::format("a board of its {} slots, such as {}",
                                         fmt::join(names, " and "), fmt::join(machine.gpus, ", "));
  throw InputError(where, fmt::format("{}, {}, in {}", gpu.id, describe(gpu), machine.id),
                   expected);
}

TakenBoard take_board(std::string_view word, const MachineSpec& machine, const GpuCatalog& gpus,
                      std::string_view where) {
  TakenBoard taken;
  const std::vector<std::string> parts = parts_of(word);
  const auto own = std::find_if(machine.gpus.begin(), machine.gpus.end(),
                                [&](const std::string& id) { return may_mean(parts, id); });
  if (own == machine.gpus.end() || is_id(word, gpus)) {
    taken.gpu = &gpus.find(word);
  } else {
    taken.gpu = &gpus.find(*own);
    taken.note = fmt::format("{}: the \"{}\" that {} comes with", *own, word, machine.id);
  }
  check_fits(*taken.gpu, machine, gpus, where);
  return taken;
}

}  // namespace tracecast
