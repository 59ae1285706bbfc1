#include <zlib.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

namespace {

const std::string kTrace =
    R"({"distributedInfo":{"rank":0},"traceEvents":[{"ph":"X","cat":"kernel","name":"gemm","pid":0,)"
    R"("tid":7,"ts":1,"dur":1,"args":{"device":0,"stream":7,"correlation":3}},{"ph":"X","cat":)"
    R"("cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":2,"ts":0.5,"dur":0.2,"args":{)"
    R"("correlation":3}}]})";

std::string gzip(const std::string& text) {
  z_stream stream{};
  if (deflateInit2(&stream, 6, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY) != Z_OK) return {};
  std::string packed(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  (void)deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

std::string member(const std::string& name, const std::string& content, char type = '0') {
  std::string header(512, '\0');
  header.replace(0, name.size(), name);
  char octal[13];
  std::snprintf(octal, sizeof octal, "%011zo", content.size());
  header.replace(124, 11, octal);
  header.replace(148, 8, 8, ' ');
  header[156] = type;
  header.replace(257, 8, std::string("ustar\0", 6) + "00");
  unsigned sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  std::snprintf(octal, sizeof octal, "%06o", sum);
  header.replace(148, 7, octal, 7);
  std::string text = header + content;
  text.resize((text.size() + 511) / 512 * 512);
  return text;
}

std::string record(const std::string& text) {
  const std::size_t size = text.size() + 4;  // two digits, a blank, a line's end
  return std::to_string(size) + ' ' + text + '\n';
}

}  // namespace

/// archive_seeds FOLDER: archives and packed files of every kind that is read, and of some that are
/// not.
int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const std::filesystem::path folder = argv[1];
  const auto write = [&folder](const char* name, const std::string& content) {
    std::ofstream(folder / name, std::ios::binary) << content;
  };
  const std::string end(1024, '\0');
  const std::string pax = record("path=run/a/very/long/rank1.json.gz") +
                          record("size=" + std::to_string(gzip(kTrace).size()));
  write("plain.json", kTrace);
  write("packed.json.gz", gzip(kTrace));
  write("twice.gz", gzip(gzip(kTrace)));
  write("ranks.tar", member("./run/", "", '5') + member("./run/rank0.json.gz", gzip(kTrace)) +
                         member("./run/rank1.json", kTrace) + member("LICENSE", "free") + end);
  write("ranks.tar.gz",
        gzip(member("rank0.json.gz", gzip(kTrace)) + member("b.json", kTrace) + end));
  write("long.tar", member("././@LongLink", std::string(120, 'd') + "/rank0.json" + '\0', 'L') +
                        member("cut", kTrace) + end);
  write("pax.tar", member("PaxHeaders/r", pax, 'x') + member("r", gzip(kTrace)) +
                       member("link", "", '2') + member("hole", "", 'S') + end);
  write("nested.tar.gz",
        gzip(member("inner.tar", member("a.json", kTrace) + end) + member("a.json", kTrace) + end));
  write("database.tar", member("export.sqlite", std::string("SQLite format 3\0", 16)) +
                            member("a.json", kTrace) + end);
}
