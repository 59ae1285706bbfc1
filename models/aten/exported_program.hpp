#pragma once
#include <filesystem>
#include <string>
#include <string_view>

#include "models/aten/program.hpp"

namespace tracecast::aten {

/// The program of a file that torch.export.save wrote, as JSON: weights, which lie beside it in the
/// archive, are not read.
/// Throws InputError: no archive, no program in it, one that unpacks to more than 64 MiB.
[[nodiscard]] std::string read_program_text(const std::filesystem::path& path);

/// A program as torch/_export/serde/schema.py defines it, of schema versions 1 to 8. Sizes that the
/// program leaves open are those that it was exported with.
/// Throws InputError naming `where`: no JSON, a field that is missing or of another kind, more than
/// 4 million values, a tensor that is read before it is written.
[[nodiscard]] Program read_exported_program(std::string_view json, std::string_view where);

}  // namespace tracecast::aten
