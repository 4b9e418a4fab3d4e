# Writes a .cpp that holds the files given, for text.cpp to read. Run at build time:
#   cmake -DOUTPUT=embedded_text.cpp -DFILES=a|b|c -P embed.cmake
#
# Arrays of bytes rather than string literals: those have a largest length and need escapes.
string(REPLACE "|" ";" files "${FILES}")

set(source "// Made by embed.cmake.\n#include \"gpt2/data/embedded_text.hpp\"\n\nnamespace gpt2_trainer {\n")
set(list "")
set(index 0)
foreach(file IN LISTS files)
  file(READ "${file}" hex HEX)
  string(LENGTH "${hex}" digits)
  math(EXPR bytes "${digits} / 2")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," body "${hex}")
  string(REGEX REPLACE "(................................................................................)"
    "\\1\n" body "${body}")
  string(APPEND source "\nstatic const unsigned char document_${index}[] = {\n${body}0};\n")
  string(APPEND list "      document(document_${index}, ${bytes}),\n")
  math(EXPR index "${index} + 1")
endforeach()

string(APPEND source "
static std::string_view document(const unsigned char* bytes, std::size_t count) {
  return {reinterpret_cast<const char*>(bytes), count};
}

std::vector<std::string_view> embedded_documents() {
  return {
${list}  };
}

}  // namespace gpt2_trainer
")
file(WRITE "${OUTPUT}" "${source}")
