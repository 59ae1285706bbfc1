#include "tools/command/standard_input.hpp"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <vector>

#include "sim/base/error.hpp"
#include "sim/base/new_file.hpp"

namespace tracecast {
namespace {

namespace fs = std::filesystem;

/// The file that the shell opened for us, when it is one and nothing of it was read.
std::optional<fs::path> opened_file() {
  struct stat input {
  }, file{};
  if (::fstat(STDIN_FILENO, &input) != 0 || !S_ISREG(input.st_mode)) return std::nullopt;
  if (::lseek(STDIN_FILENO, 0, SEEK_CUR) != 0) return std::nullopt;
  std::error_code error;
  const fs::path path = fs::read_symlink("/proc/self/fd/0", error);
  if (error || ::stat(path.c_str(), &file) != 0) return std::nullopt;
  return file.st_dev == input.st_dev && file.st_ino == input.st_ino ? std::optional(path)
                                                                    : std::nullopt;
}

/// A new folder that only we may enter.
fs::path make_folder() {
  std::error_code error;
  std::string name = (fs::temp_directory_path(error) / "tracecast-XXXXXX").string();
  if (error || ::mkdtemp(name.data()) == nullptr)
    throw InputError("standard input", "no folder for temporary files", "a writable TMPDIR");
  return name;
}

/// Throws InputError as soon as there is more than the reader would take: what does not end fills
/// no disk.
void copy_standard_input(NewFile& to, std::uint64_t most_bytes, Opening opening) {
  std::vector<char> buffer(std::size_t{1} << 16);
  for (;;) {
    const ssize_t count = ::read(STDIN_FILENO, buffer.data(), buffer.size());
    if (count == 0) return;
    if (count > 0) {
      if (to.size() + static_cast<std::uint64_t>(count) > most_bytes)
        throw InputError("standard input", "more than " + std::to_string(most_bytes) + " bytes",
                         "at most so many");
      const std::string_view bytes(buffer.data(), static_cast<std::size_t>(count));
      if (to.size() == 0 && opening.is_one != nullptr && !opening.is_one(bytes))
        throw InputError("standard input, byte 0", "the beginning of something else",
                         opening.expected);
      to.write(bytes);
    } else if (errno != EINTR) {
      throw InputError("standard input", std::strerror(errno), "what can be read");
    }
  }
}

/// Number and wire type of a protobuf field, as its first byte has them up to number 15.
bool begins_model(std::string_view bytes) {
  if (bytes.starts_with("\x1f\x8b")) return true;  // gzip
  constexpr std::string_view kFirstFields(
      "\x08"  // ir_version
      "\x12"  // producer_name
      "\x1a"  // producer_version
      "\x22"  // domain
      "\x28"  // model_version
      "\x32"  // doc_string
      "\x3a"  // graph
      "\x42"  // opset_import
      "\x72"  // metadata_props
  );
  return kFirstFields.find(bytes.front()) != kFirstFields.npos;
}

}  // namespace

const Opening kOnnxOpening{begins_model, "an ONNX file (a protobuf message), plain or gzip"};

StandardInput::~StandardInput() {
  std::error_code error;
  if (!folder_.empty()) fs::remove_all(folder_, error);
}

void StandardInput::resolve(std::string& word, std::uint64_t most_bytes, Opening opening) {
  if (word != "-") return;
  if (is_taken_) throw InputError("-", "standard input a second time", "\"-\" once");
  is_taken_ = true;
  if (const auto file = opened_file()) {
    word = file->string();
    return;
  }
  folder_ = make_folder();
  word = (folder_ / "standard input").string();
  NewFile copy(word);
  copy_standard_input(copy, most_bytes, opening);
  copy.put_in_place();
}

}  // namespace tracecast
