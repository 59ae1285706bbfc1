#include "calibrate/cuda/compiler.hpp"

#include <fmt/format.h>
#include <nvrtc.h>

#include <utility>
#include <vector>

namespace tracecast::calibrate::cuda {

struct Compiler::State {
  Library library;
  decltype(&nvrtcVersion) version = nullptr;
  decltype(&nvrtcCreateProgram) create = nullptr;
  decltype(&nvrtcDestroyProgram) destroy = nullptr;
  decltype(&nvrtcCompileProgram) compile = nullptr;
  decltype(&nvrtcGetPTXSize) ptx_size = nullptr;
  decltype(&nvrtcGetPTX) ptx = nullptr;
  decltype(&nvrtcGetCUBINSize) cubin_size = nullptr;  ///< since CUDA 11.1
  decltype(&nvrtcGetCUBIN) cubin = nullptr;
  decltype(&nvrtcGetProgramLogSize) log_size = nullptr;
  decltype(&nvrtcGetProgramLog) log = nullptr;

  std::string compile_for(std::string_view source, const std::string& architecture,
                          std::string& why) const;
};

std::unique_ptr<Compiler> Compiler::open(Library library, std::string& why) {
  auto state = std::make_unique<State>(State{.library = std::move(library)});
  Symbols symbols(state->library);
  symbols.need(state->version, {"nvrtcVersion"});
  symbols.need(state->create, {"nvrtcCreateProgram"});
  symbols.need(state->destroy, {"nvrtcDestroyProgram"});
  symbols.need(state->compile, {"nvrtcCompileProgram"});
  symbols.need(state->ptx_size, {"nvrtcGetPTXSize"});
  symbols.need(state->ptx, {"nvrtcGetPTX"});
  symbols.want(state->cubin_size, {"nvrtcGetCUBINSize"});
  symbols.want(state->cubin, {"nvrtcGetCUBIN"});
  symbols.need(state->log_size, {"nvrtcGetProgramLogSize"});
  symbols.need(state->log, {"nvrtcGetProgramLog"});
  if (!symbols.missing().empty()) {
    why = "NVRTC lacks " + symbols.missing();
    return nullptr;
  }
  return std::unique_ptr<Compiler>(new Compiler(std::move(state)));
}

Compiler::Compiler(std::unique_ptr<State> state) : state_(std::move(state)) {}
Compiler::~Compiler() = default;

std::string Compiler::version() const {
  int major = 0, minor = 0;
  if (state_->version(&major, &minor) != NVRTC_SUCCESS) return "";
  return fmt::format("{}.{}", major, minor);
}

std::string Compiler::State::compile_for(std::string_view source, const std::string& architecture,
                                         std::string& why) const {
  nvrtcProgram program = nullptr;
  const std::string text(source);
  if (create(&program, text.c_str(), "tracecast.cu", 0, nullptr, nullptr) != NVRTC_SUCCESS) {
    why = "NVRTC takes no program";
    return "";
  }
  const std::string option = "--gpu-architecture=" + architecture;
  const char* options[] = {option.c_str()};
  const bool wants_code = architecture.starts_with("sm_");
  std::string image;
  if (compile(program, 1, options) == NVRTC_SUCCESS) {
    std::size_t bytes = 0;
    const auto size_of = wants_code ? cubin_size : ptx_size;
    if (size_of(program, &bytes) == NVRTC_SUCCESS && bytes > 0) {
      image.resize(bytes);
      if ((wants_code ? cubin : ptx)(program, image.data()) != NVRTC_SUCCESS) image.clear();
    }
    if (image.empty()) why = "NVRTC gives no image for " + architecture;
  } else {
    std::size_t bytes = 0;
    std::string message;
    if (log_size(program, &bytes) == NVRTC_SUCCESS && bytes > 1) {
      message.resize(bytes);
      if (log(program, message.data()) != NVRTC_SUCCESS) message.clear();
    }
    why = fmt::format("NVRTC does not compile for {}: {}", architecture,
                      message.substr(0, message.find('\n')));
  }
  destroy(&program);
  return image;
}

std::string Compiler::compile(std::string_view source, int compute_capability,
                              std::string& why) const {
  std::vector<std::string> architectures;
  if (state_->cubin != nullptr && state_->cubin_size != nullptr) {
    architectures.push_back(fmt::format("sm_{}", compute_capability));
  }
  // A GPU newer than this NVRTC runs the code of an older architecture.
  for (const int older : {compute_capability, 120, 100, 90, 80, 75, 70, 60, 52, 50, 35, 30}) {
    if (older <= compute_capability) architectures.push_back(fmt::format("compute_{}", older));
  }
  std::string first_reason;
  for (const std::string& architecture : architectures) {
    std::string image = state_->compile_for(source, architecture, why);
    if (!image.empty()) return image;
    if (first_reason.empty()) first_reason = why;
  }
  why = first_reason;
  return "";
}

}  // namespace tracecast::calibrate::cuda
