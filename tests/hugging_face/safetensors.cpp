// Each rule of the safetensors format, each refusal, and headers that were damaged.
#include "gpt2/hugging_face/safetensors.hpp"

#include <limits>

#include "../support/catch.hpp"
#include "files.hpp"
#include "gpt2/input_error.hpp"
#include "gpt2/model/number_type.hpp"

using namespace gpt2_trainer;
using namespace llmc_test;

namespace {

std::string refusal(const std::string& bytes) {
  const temporary_folder folder;
  const auto path = write_text(folder / "m.safetensors", bytes);
  const std::string text = message_of([&] { safetensors_file file(path); });
  if (text.empty()) return "";
  CHECK(text.find(path.string() + ": ") == 0);
  CHECK(text.find('\n') == std::string::npos);
  return text.substr(path.string().size() + 2);
}

/// Of a header of this JSON and 8 bytes of data.
std::string refused_header(const std::string& header) {
  return refusal(safetensors_bytes(header, std::string(8, 'x')));
}

bool has(const std::string& text, const std::string& part) {
  INFO(text << " / " << part);
  CHECK(text.find(part) != std::string::npos);
  return true;
}

}  // namespace

TEST_CASE("safetensors: tensors in any order, without bytes, without extents, and metadata",
          "[safetensors]") {
  const temporary_folder folder;
  const std::string header =
      R"({"b":{"dtype":"BF16","shape":[2,1],"data_offsets":[4,8]},)"
      R"("__metadata__":{"format":"pt"},)"
      R"("empty":{"dtype":"F32","shape":[3,0,9223372036854775807],"data_offsets":[4,4]},)"
      R"("a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)"
      R"("last":{"dtype":"I64","shape":[0],"data_offsets":[8,8]}}   )";
  const auto path = write_text(folder / "m.safetensors",
                               safetensors_bytes(header, bytes_of_numbers<float>({1, 2})));
  const safetensors_file file(path);
  std::string names;
  for (const safetensor& each : file.tensors()) names += each.name + " ";
  CHECK(names == "a empty b last ");
  const auto data = static_cast<std::int64_t>(8 + header.size());
  CHECK(file.tensors()[2].begin == data + 4);
  CHECK(file.tensors()[2].end == data + 8);
  CHECK(file.tensors()[2].shape == std::vector<std::int64_t>{2, 1});
  CHECK(file.tensors()[2].numbers() == number_type::bf16);
  CHECK(!file.tensors()[3].numbers());
  CHECK(refusal(safetensors_bytes("{}")).empty());
}

TEST_CASE("safetensors: each number of 16 bits becomes the float that it is", "[safetensors]") {
  CHECK(widened_f16(0x3c00) == 1);
  CHECK(widened_f16(0xc500) == -5);
  CHECK(widened_f16(0x7bff) == 65504);
  CHECK(widened_f16(0x0400) == 0x1p-14f);
  CHECK(widened_f16(0x03ff) == 1023 * 0x1p-24f);
  CHECK(widened_f16(0x8001) == -0x1p-24f);
  CHECK(std::signbit(widened_f16(0x8000)));
  CHECK(widened_f16(0xfc00) == -std::numeric_limits<float>::infinity());
  CHECK(std::isnan(widened_f16(0x7c01)));
  CHECK(widened_bf16(0x3f80) == 1);
  CHECK(widened_bf16(0xc0a0) == -5);
  CHECK(widened_bf16(0x0001) == 0x1p-133f);
  CHECK(std::isnan(widened_bf16(0x7fc0)));

  // Across the part that is converted at once.
  const temporary_folder folder;
  std::vector<std::uint16_t> halves(100'000);
  for (std::size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<std::uint16_t>(i % 31744);
  const input_file file(write_numbers(folder / "halves", halves));
  std::vector<float> values(halves.size() - 1);
  file.read_floats(values.data(), static_cast<std::int64_t>(values.size()), number_type::f16, 2);
  bool same = true;
  for (std::size_t i = 0; i < values.size(); ++i) {
    same = same && values[i] == widened_f16(halves[i + 1]);
  }
  CHECK(same);
}

TEST_CASE("safetensors: a file's length and header are refused as the format says",
          "[safetensors]") {
  const std::string one = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  CHECK(refused_header(one).empty());
  CHECK(refusal("1234567") ==
        "a safetensors file must have at least 8 bytes, got 7 (HeaderTooSmall)");
  CHECK(refusal("") == "a safetensors file must have at least 8 bytes, got 0 (HeaderTooSmall)");
  CHECK(refusal(std::string(8, '\xff') + one) ==
        "the header of a safetensors file must have at most 100000000 bytes, got "
        "18446744073709551615 (HeaderTooLarge)");
  CHECK(refusal(std::string("\x65\0\0\0\0\0\0\0{}", 10)) ==
        "the header must end within the file, so have at most 2 bytes, got 101 "
        "(InvalidHeaderLength)");
  CHECK(refusal(std::string(8, '\0')) ==
        "the header must begin with {, got none "
        "(InvalidHeaderStart)");
  CHECK(refused_header(" " + one) ==
        "the header must begin with {, got \" \" (InvalidHeaderStart)");
  has(refused_header("{\"a\":"), "JSON is wanted");
  has(refused_header(one + "x"), "JSON is wanted");
  has(refused_header("{\"\xff\":1}"), "JSON is wanted");
  has(refusal(safetensors_bytes(one, std::string(7, 'x'))), "(InvalidOffset)");
  CHECK(refusal(safetensors_bytes(one, std::string(9, 'x'))) ==
        "the tensors must end with the file, after 9 bytes of data, got 8 "
        "(MetadataIncompleteBuffer)");
  has(refused_header(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                     R"("a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})"),
      "\"a\" twice");
  has(refused_header(R"({"a":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}})"),
      "\"dtype\" twice");
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "{\"a\":";
  has(refused_header(deep), "levels");
}

TEST_CASE("safetensors: what the header says of a tensor is refused by name", "[safetensors]") {
  const auto refused_tensor = [](const std::string& tensor) {
    return refused_header("{\"a\\n\":" + tensor + "}");
  };
  const std::string name = "tensor \"a\\n\"";
  const std::string bad = " (InvalidHeaderDeserialization)";
  CHECK(refused_tensor("3") == name + " must be an object, got 3" + bad);
  CHECK(refused_tensor(R"({"shape":[2],"data_offsets":[0,8]})") ==
        name + ": dtype must be one that safetensors has, got none" + bad);
  CHECK(refused_tensor(R"({"dtype":"F23","shape":[2],"data_offsets":[0,8]})") ==
        name + ": dtype must be one that safetensors has, got \"F23\"" + bad);
  CHECK(refused_tensor(R"({"dtype":4,"shape":[2],"data_offsets":[0,8]})") ==
        name + ": dtype must be one that safetensors has, got 4" + bad);
  CHECK(refused_tensor(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8],"more":1})") ==
        name + " must be one of dtype, shape and data_offsets, got \"more\"" + bad);
  const std::string numbers = " must be a list of whole numbers from 0 to 2^63 - 1, got ";
  for (const std::string shape : {"2", "[-2]", "[2.0]", "[\"2\"]", "[9223372036854775808]",
                                  "[18446744073709551617]", "[[2]]", "{}"}) {
    INFO(shape);
    has(refused_tensor(R"({"dtype":"F32","data_offsets":[0,8],"shape":)" + shape + "}"),
        name + ": shape" + numbers);
  }
  CHECK(refused_tensor(R"({"dtype":"F32","data_offsets":[0,8]})") ==
        name + ": shape" + numbers + "none" + bad);
  CHECK(refused_tensor(R"({"dtype":"F32","shape":[2]})") ==
        name + ": data_offsets" + numbers + "none" + bad);
  CHECK(refused_tensor(R"({"dtype":"F32","shape":[2],"data_offsets":[0]})") ==
        name + ": data_offsets must be two, got an array" + bad);
  for (const std::string offsets :
       {"[8,0]", "[0,9]", "[9,9]", "[9223372036854775800,9223372036854775807]"}) {
    CHECK(refused_tensor(R"({"dtype":"F32","shape":[2],"data_offsets":)" + offsets + "}") ==
          name + ": data_offsets must rise and end within the 8 bytes of data, got " + offsets +
              " (InvalidOffset)");
  }
  CHECK(refused_tensor(R"({"dtype":"F32","shape":[3],"data_offsets":[0,8]})") ==
        name +
            ": by dtype and shape it must have 12 bytes, got data_offsets of 8 "
            "(TensorInvalidInfo)");
  // 2^62 * 2 * 4 bytes are 8 modulo 2^64, and 2^63 by themselves.
  for (const std::string shape :
       {"[4611686018427387904,2]", "[4611686018427387906]", "[2147483648,2147483648,2]"}) {
    CHECK(refused_tensor(R"({"dtype":"F32","data_offsets":[0,8],"shape":)" + shape + "}") ==
          name + ": shape must have less than 2^63 bytes, got " + shape + " (ValidationOverflow)");
  }
}

TEST_CASE("safetensors: tensors tile the data", "[safetensors]") {
  const auto two = [](const std::string& a, const std::string& b) {
    return refused_header(R"({"a":{"dtype":"U8",)" + a + R"(},"b":{"dtype":"U8",)" + b + "}}");
  };
  const std::string first = R"("shape":[4],"data_offsets":[0,4])";
  CHECK(two(first, R"("shape":[4],"data_offsets":[4,8])").empty());
  CHECK(two(first, R"("shape":[3],"data_offsets":[5,8])") ==
        "tensor \"b\": its data must begin at 4, where those before it end, got 5 "
        "(InvalidOffset)");
  has(two(first, R"("shape":[5],"data_offsets":[3,8])"), "got 3 (InvalidOffset)");
  has(two(R"("shape":[8],"data_offsets":[0,8])", R"("shape":[8],"data_offsets":[0,8])"),
      "got 0 (InvalidOffset)");
  // A tensor without bytes inside another one means nothing, but it is no tiling.
  has(two(R"("shape":[8],"data_offsets":[0,8])", R"("shape":[0],"data_offsets":[4,4])"),
      "got 4 (InvalidOffset)");
  has(two(R"("shape":[0],"data_offsets":[0,0])", R"("shape":[4],"data_offsets":[0,4])"),
      "(MetadataIncompleteBuffer)");
  has(refused_header("{}"), "(MetadataIncompleteBuffer)");
  has(refused_header(R"({"__metadata__":[]})"), "__metadata__ must be an object, got []");
  has(refused_header(R"({"__metadata__":{"format":1}})"),
      "__metadata__: \"format\" must be a string, got 1");
}

TEST_CASE("safetensors: a header with any byte changed is read or refused", "[safetensors]") {
  const temporary_folder folder;
  const auto path = folder / "m.safetensors";
  const std::string bytes = safetensors_bytes(
      R"({"__metadata__":{"f":"pt"},"a":{"dtype":"F16","shape":[2,1],"data_offsets":[0,4]},)"
      R"("b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
      "12345678");
  int read = 0;
  int refused = 0;
  const auto look = [&](const std::string& changed) {
    write_text(path, changed);
    try {
      const safetensors_file file(path);
      std::vector<float> values(2);
      for (const safetensor& each : file.tensors()) {
        if (!each.numbers()) continue;
        const std::int64_t count =
            (each.end - each.begin) / gpt2_trainer::bytes_of(*each.numbers());
        values.resize(static_cast<std::size_t>(count));
        file.file().read_floats(values.data(), count, *each.numbers(), each.begin);
      }
      ++read;
    } catch (const input_error&) {
      ++refused;
    }
  };
  const std::size_t header = bytes.size() - 8;
  for (std::size_t at = 0; at < header; ++at) {
    for (const int other : {0x00, 0x01, 0x20, 0x22, 0x2c, 0x2d, 0x30, 0x39, 0x5b, 0x5c, 0x65, 0x7b,
                            0x7d, 0x7f, 0x80, 0xff}) {
      std::string changed = bytes;
      changed[at] = static_cast<char>(other);
      look(changed);
    }
    look(bytes.substr(0, at));
    look(std::string(bytes).erase(at, 1));
  }
  CHECK(read > 0);  // of a name, say
  CHECK(refused > 10 * read);
}

TEST_CASE("safetensors: a header is written that is read back", "[safetensors]") {
  const temporary_folder folder;
  const std::string header = safetensors_header({{"b", {2, 3}}, {"a", {}}, {"none", {0, 4}}});
  CHECK(header.size() % 8 == 0);
  has(header, R"("__metadata__":{"format":"pt"})");
  const auto path = write_text(folder / "m.safetensors", header + std::string(7 * 4, '\0'));
  const safetensors_file file(path);
  std::string names;
  for (const safetensor& each : file.tensors()) {
    names += each.name + " " + each.type + shape_text(each.shape) + " ";
  }
  CHECK(names == "b F32(2, 3) a F32() none F32(0, 4) ");
}
