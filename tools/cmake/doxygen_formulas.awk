# Doxygen's filter of our headers: lines of a comment that are indented by three blanks and more are formulas, to be shown as they
# stand. The continuation of a list item ("/// - item") is none. Lines keep their numbers. Of a specialization of std::hash Doxygen
# finds no namespace, and warns.
function flush(end) {
  if (has_line) print line (is_open && end ? " @endcode" : "")
  if (end) is_open = 0
}
{
  is_item = $0 ~ /^[ \t]*\/\/\/ - /
  is_indented = $0 ~ /^[ \t]*\/\/\/   /
  in_list = is_item || (in_list && is_indented)
  is_formula = is_indented && !in_list
  flush(!is_formula)
  line = $0
  sub(/^struct std::hash</, "struct hash<", line)
  has_line = 1
  if (is_formula && !is_open) {
    sub(/\/\/\/ /, "/// @code{.unparsed} ", line)
    is_open = 1
  }
}
END { flush(1) }
