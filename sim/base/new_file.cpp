#include "sim/base/new_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <random>
#include <string>
#include <utility>

#include "sim/base/error.hpp"

namespace tracecast {
namespace {

namespace fs = std::filesystem;

/// Attempts to find a name that nobody has; more is no accident.
constexpr int kMostNames = 100;

/// What a link leads to, there yet or not; the path itself where it is none.
fs::path behind_links(const fs::path& path) {
  constexpr int kMostLinks = 40;  // as Linux has it
  std::error_code error;
  fs::path at = path;
  for (int i = 0; i < kMostLinks && fs::is_symlink(at, error); ++i) {
    const fs::path target = fs::read_symlink(at, error);
    if (error) return path;
    at = target.is_absolute() ? target : at.parent_path() / target;
  }
  return at;
}

/// "/dev/stdout", and what stdout was redirected to: it is open already.
bool is_standard_output(const struct stat& file) {
  struct stat out {};
  return ::fstat(STDOUT_FILENO, &out) == 0 && out.st_dev == file.st_dev &&
         out.st_ino == file.st_ino;
}

/// The name in /proc by which a file without a name can be linked.
std::string own_link(int descriptor) { return "/proc/self/fd/" + std::to_string(descriptor); }

}  // namespace

NewFile::NewFile(const fs::path& path) : path_(path), target_(behind_links(path)) {
  struct stat old {};
  // Through the link itself: the system may forbid to follow it (fs.protected_symlinks).
  const bool exists = ::stat(path.c_str(), &old) == 0;
  if (!exists && errno != ENOENT && path != "-") refuse(errno);
  if (path == "-" || (exists && is_standard_output(old))) {
    descriptor_ = ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    in_place_ = true;
  } else if (exists && !S_ISREG(old.st_mode)) {
    descriptor_ = ::open(target_.c_str(), O_WRONLY | O_CLOEXEC);
    in_place_ = true;
  } else if (!exists || ::access(target_.c_str(), W_OK) == 0) {
    open_beside();
  }
  if (descriptor_ < 0) refuse(errno);
  if (exists && !in_place_) ::fchmod(descriptor_, old.st_mode & 0777);
}

NewFile::~NewFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!beside_.empty()) ::unlink(beside_.c_str());
}

void NewFile::open_beside() {
  const fs::path folder = target_.has_parent_path() ? target_.parent_path() : ".";
  descriptor_ = ::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
  if (descriptor_ >= 0) {
    if (::access(own_link(descriptor_).c_str(), F_OK) == 0) return;
    ::close(std::exchange(descriptor_, -1));  // no /proc: it could not be given a name
  }
  for (int attempt = 0; attempt < kMostNames && descriptor_ < 0; ++attempt) {
    beside_ = unused_name();
    descriptor_ =
        ::open(beside_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (descriptor_ < 0 && errno != EEXIST) break;
  }
  if (descriptor_ < 0) beside_.clear();
}

fs::path NewFile::unused_name() const {
  std::random_device random;
  std::string name = ".tracecast-";
  for (int i = 0; i < 12; ++i) name += "0123456789abcdefghijklmnopqrstuv"[random() % 32];
  return target_.parent_path() / (name + ".partial");
}

void NewFile::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor_, bytes.data(), bytes.size());
    if (count >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(count));
      size_ += static_cast<std::uint64_t>(count);
    } else if (in_place_ && errno == EPIPE) {
      return;
    } else if (errno != EINTR) {
      refuse(errno);
    }
  }
}

void NewFile::put_in_place() {
  for (int attempt = 0; !in_place_ && beside_.empty(); ++attempt) {
    const fs::path name = unused_name();
    if (::linkat(AT_FDCWD, own_link(descriptor_).c_str(), AT_FDCWD, name.c_str(),
                 AT_SYMLINK_FOLLOW) == 0) {
      beside_ = name;
    } else if (errno != EEXIST || attempt == kMostNames) {
      refuse(errno);
    }
  }
  // Some file systems say only here that the disk is full.
  if (::close(std::exchange(descriptor_, -1)) != 0 && errno != EINTR) refuse(errno);
  if (in_place_) return;
  if (::rename(beside_.c_str(), target_.c_str()) != 0) refuse(errno);
  beside_.clear();
}

void NewFile::refuse(int error) const {
  throw InputError(path_ == "-" ? "standard output" : path_.string(),
                   std::string("cannot be written: ") + std::strerror(error),
                   "a writable place with room");
}

}  // namespace tracecast
