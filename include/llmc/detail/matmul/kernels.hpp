/// @file
/// Who may compute a product, by name. Plain C++: a name means the same in every file, whatever
/// architecture it is compiled for, and each file calls the kernels that it has (catalogue.cuh).
#pragma once

#include <array>
#include <cstdint>
#include <type_traits>

#include <llmc/detail/namespace.hpp>
#include <llmc/types.hpp>

LLMC_TYPES_BEGIN

namespace products {

/// Who may compute a product: what a layer's variant asks for.
enum class engines {
  any,
  library,  ///< cuBLASLt
  own       ///< llmc's kernels, and cuBLASLt only where there are none
};

/// The same as a type: a program compiles what it asks for, and not all kernels there are.
template <engines Allowed>
using engines_constant = std::integral_constant<engines, Allowed>;

/// cuBLASLt and llmc's own kernels. Their order is the order of the bits in plan files.
enum class kernel {
  cublaslt,
  mma,                    ///< mma.sync
  wgmma_split,            ///< tiles of 128 x 128, whole
  wgmma_split_cut,        ///< the last tiles cut among the blocks
  wgmma_split_large_cut,  ///< tiles of 256 x 128, the last ones cut
  wgmma_direct,           ///< tiles of 128 x 256
  late_epilogue           ///< another kernel without the epilogue, then a pass for that
};

inline constexpr std::array kernels{kernel::cublaslt,
                                    kernel::mma,
                                    kernel::wgmma_split,
                                    kernel::wgmma_split_cut,
                                    kernel::wgmma_split_large_cut,
                                    kernel::wgmma_direct,
                                    kernel::late_epilogue};

/// The name in plan files and in matmul_path.
constexpr const char* to_string(kernel value) {
  switch (value) {
    case kernel::cublaslt: return "cublaslt";
    case kernel::mma: return "mma";
    case kernel::wgmma_split: return "wgmma split 128x128";
    case kernel::wgmma_split_cut: return "wgmma split 128x128 cut";
    case kernel::wgmma_split_large_cut: return "wgmma split 256x128 cut";
    case kernel::wgmma_direct: return "wgmma direct 128x256";
    case kernel::late_epilogue: return "product, then epilogue";
  }
  return "unknown";
}

/// The kernels that can compute a product in this build on this device, and the one that does
/// unless tuning or a plan file says otherwise.
class candidates {
 public:
  explicit candidates(engines allowed) : allowed_(allowed) {}

  /// The first one that is added with `prefer` is preferred.
  void add(kernel who, bool prefer = true) {
    if (prefer && !has_preferred_) preferred_ = who;
    has_preferred_ = has_preferred_ || prefer;
    set_ |= bit(who);
  }
  /// Why the preferred one is not another; the first reason given counts.
  void explain(const char* reason) {
    if (reason_ == nullptr) reason_ = reason;
  }

  bool has(kernel who) const { return (set_ & bit(who)) != 0; }
  kernel preferred() const { return preferred_; }
  const char* reason() const { return reason_; }
  engines allowed() const { return allowed_; }

  /// All of them, a bit for each, as a key keeps them.
  std::int64_t set() const { return set_; }
  static constexpr std::int64_t bit(kernel who) { return std::int64_t{1} << static_cast<int>(who); }

 private:
  engines allowed_;
  std::int64_t set_ = 0;
  kernel preferred_ = kernel::cublaslt;
  bool has_preferred_ = false;
  const char* reason_ = nullptr;
};

}  // namespace products

LLMC_TYPES_END
