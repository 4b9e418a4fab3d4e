/// @file
/// The text in which a context's tuned plans are kept: a line that says what they hold for, a line
/// for each plan, and a line with their number. Plain C++.
///
/// A plan's line has the numbers of its plan_key, then `cublaslt` and an algorithm or `kernel` and
/// a name. The second format's keys say what the build had to choose from; files of the first,
/// which do not, are refused.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstring>
#include <istream>
#include <ostream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <llmc/detail/checks.hpp>
#include <llmc/detail/matmul/context/device_memory.hpp>
#include <llmc/detail/matmul/context/plan_key.hpp>
#include <llmc/detail/matmul/kernels.hpp>
#include <llmc/detail/namespace.hpp>
#include <llmc/version.hpp>

LLMC_TYPES_BEGIN

namespace products {

/// Who does a product.
struct chosen {
  kernel by = kernel::cublaslt;
  cublasLtMatmulAlgo_t algorithm{};  ///< where that is cuBLASLt
};

using saved_plan = std::pair<plan_key, chosen>;

/// Plans hold for this library, cuBLASLt and card.
inline std::string plan_file_header(const char* function, int device) {
  cudaDeviceProp properties;
  check_cuda(function, "cudaGetDeviceProperties", cudaGetDeviceProperties(&properties, device));
  std::ostringstream text;
  text << "llmc " << LLMC_VERSION_MAJOR << '.' << LLMC_VERSION_MINOR << '.' << LLMC_VERSION_PATCH
       << " product plans 2, cuBLASLt " << cublasLtGetVersion() << ", " << properties.name
       << ", sm_" << properties.major << properties.minor;
  return text.str();
}

inline std::string hex_of(const cublasLtMatmulAlgo_t& algorithm) {
  constexpr const char* digits = "0123456789abcdef";
  const auto* bytes = reinterpret_cast<const unsigned char*>(&algorithm);
  std::string text;
  for (std::size_t i = 0; i < sizeof algorithm; ++i) {
    text += digits[bytes[i] / 16];
    text += digits[bytes[i] % 16];
  }
  return text;
}

/// False if it is not as many hexadecimal digits as an algorithm has.
inline bool algorithm_from(const std::string& hex, cublasLtMatmulAlgo_t& algorithm) {
  constexpr const char* digits = "0123456789abcdef";
  if (hex.size() != 2 * sizeof algorithm || hex.find_first_not_of(digits) != std::string::npos) {
    return false;
  }
  const auto value = [&](std::size_t i) { return std::strchr(digits, hex[i]) - digits; };
  unsigned char bytes[sizeof algorithm];
  for (std::size_t i = 0; i < sizeof algorithm; ++i) {
    bytes[i] = static_cast<unsigned char>(16 * value(2 * i) + value(2 * i + 1));
  }
  std::memcpy(&algorithm, bytes, sizeof algorithm);
  return true;
}

/// False if none of llmc's own kernels has that name.
inline bool own_kernel_from(const std::string& name, kernel& result) {
  for (const kernel who : kernels) {
    if (who == kernel::cublaslt || name != to_string(who)) continue;
    result = who;
    return true;
  }
  return false;
}

inline void write_plans(std::ostream& to, const std::string& header,
                        const std::vector<saved_plan>& plans) {
  to << header << '\n';
  for (const auto& [key, plan] : plans) {
    for (const std::int64_t number : numbers_of(key)) to << number << ' ';
    to << (plan.by == kernel::cublaslt ? "cublaslt " + hex_of(plan.algorithm)
                                       : std::string("kernel ") + to_string(plan.by))
       << '\n';
  }
  to << "plans: " << plans.size() << '\n';
}

/// Reads what write_plans wrote, up to the line with their number; throws invalid_argument that
/// names `file`, the line, what was seen and what was wanted.
class plan_reader {
 public:
  plan_reader(const char* function, std::istream& from, std::string file)
      : function_(function), from_(from), file_(std::move(file)) {}

  std::vector<saved_plan> read(const std::string& header) {
    const std::string first = next_line("the line '" + header + "'");
    if (first != header) reject("the line '" + header + "'", first);
    std::vector<saved_plan> plans;
    for (;;) {
      const std::string line = next_line("a plan or the number of plans");
      if (line.compare(0, 7, "plans: ") == 0) {
        const std::string wanted = "plans: " + std::to_string(plans.size());
        if (line != wanted) reject("'" + wanted + "'", line);
        return plans;
      }
      plans.push_back(parse(line));
    }
  }

 private:
  std::string next_line(const std::string& wanted) {
    std::string line;
    ++line_;
    if (!std::getline(from_, line)) reject(wanted, "the end of the file");
    return line;
  }

  saved_plan parse(const std::string& line) const {
    std::istringstream text(line);
    saved_plan result;
    plan_numbers numbers{};
    for (std::int64_t& number : numbers) text >> number;
    result.first = key_of(numbers);
    std::string who, what;
    text >> who;
    text.ignore(1);
    std::getline(text, what);
    chosen& plan = result.second;
    const bool known = who == "cublaslt" ? algorithm_from(what, plan.algorithm)
                                         : who == "kernel" && own_kernel_from(what, plan.by);
    if (!known || (result.first.candidates & candidates::bit(plan.by)) == 0) {
      reject("numbers, then 'cublaslt' and an algorithm or 'kernel' and a name", line);
    }
    return result;
  }

  [[noreturn]] void reject(const std::string& wanted, const std::string& seen) const {
    checks::reject(function_, file_ + ", line " + std::to_string(line_) + ": wanted " + wanted +
                                  ", got '" + seen + "'");
  }

  const char* function_;
  std::istream& from_;
  std::string file_;
  int line_ = 0;
};

}  // namespace products

LLMC_TYPES_END
