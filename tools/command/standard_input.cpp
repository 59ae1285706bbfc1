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
void copy_standard_input(NewFile& to, std::uint64_t most_bytes) {
  std::vector<char> buffer(std::size_t{1} << 16);
  for (;;) {
    const ssize_t count = ::read(STDIN_FILENO, buffer.data(), buffer.size());
    if (count == 0) return;
    if (count > 0) {
      if (to.size() + static_cast<std::uint64_t>(count) > most_bytes)
        throw InputError("standard input", "more than " + std::to_string(most_bytes) + " bytes",
                         "at most so many");
      to.write({buffer.data(), static_cast<std::size_t>(count)});
    } else if (errno != EINTR) {
      throw InputError("standard input", std::strerror(errno), "what can be read");
    }
  }
}

}  // namespace

StandardInput::~StandardInput() {
  std::error_code error;
  if (!folder_.empty()) fs::remove_all(folder_, error);
}

void StandardInput::resolve(std::string& word, std::uint64_t most_bytes) {
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
  copy_standard_input(copy, most_bytes);
  copy.put_in_place();
}

}  // namespace tracecast
