#pragma once
#include <string>

namespace tracecast {

/// A JSON document as text, valid whatever bytes its names hold: what is no UTF-8 becomes U+FFFD.
/// `indent` -1: one line.
template <class Document>
[[nodiscard]] std::string json_text(const Document& document, int indent = 2) {
  return document.dump(indent, ' ', false, Document::error_handler_t::replace);
}

}  // namespace tracecast
