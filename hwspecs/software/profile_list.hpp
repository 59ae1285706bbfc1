#pragma once
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tracecast {

/// Every file of one kind that is looked up by id. A value: a copy costs little. Safe from several
/// threads. Profile is one of those of SpecLibrary (hwspecs/library.hpp).
template <class Profile>
class ProfileList {
 public:
  /// The files in the binary, each parsed when it is first asked for.
  [[nodiscard]] static ProfileList embedded();

  /// And every *.textproto of `folder`; one whose id is known replaces it. A file may build on any
  /// other of the result; those of the binary build on the binary's. Throws InputError: no such
  /// folder, a file that is refused, an id twice in the folder, an id or alias that names another
  /// file already.
  [[nodiscard]] ProfileList with_folder(const std::filesystem::path& folder) const;

  /// Sorted by id. They live as long as any copy of the list.
  [[nodiscard]] std::span<const Profile> all() const;
  [[nodiscard]] std::vector<std::string> ids() const;
  /// The one of exactly that id; nullptr: none.
  [[nodiscard]] const Profile* find(std::string_view id) const;
  /// Those that can speak of another file by the word `id`: of the binary's, those where it stands
  /// between quotation marks in the file or in one that it builds on; where `stating` is a field,
  /// those that state it themselves. Sorted by id.
  [[nodiscard]] std::vector<const Profile*> naming(std::string_view id,
                                                   std::string_view stating = {}) const;

 private:
  struct State;
  explicit ProfileList(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

}  // namespace tracecast
